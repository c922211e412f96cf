"""The examples of docs/query-sets.md, and files with random content: read, or a QueryFileError."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scholarbase.errors import QueryFileError
from scholarbase.evaluation.formats import read_queries
from tests.evaluation.formats.test_query_sets_page import PAGE, VALUES


def examples(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("example", examples("json") + examples("csv"))
def test_the_examples_of_the_page_are_read(tmp_path: Path, example: str) -> None:
    path = tmp_path / "example"
    path.write_text(example)
    if "topic_seed" in example:
        with pytest.raises(QueryFileError, match="metadata"):
            read_queries(path)
        return
    queries = read_queries(path)
    before = PAGE[: PAGE.index(example)]
    section = re.findall(r"^## (.*)$", before, re.MULTILINE)[-1]
    assert section.replace("Plain ", "").startswith(queries.format)
    assert not [note for note in queries.notes if "metadata" not in note]


FORMS = (
    ("qid", "question", "answer", "answer_arxiv_id", "source_meta"),
    ("query", "corpusids", "specificity", "query_set"),
    ("query", "cited_paper", "gt_label", "valid", "qid", "source"),
    ("question", "evidence", "version", "paper", "title"),
    ("question", "evidence", "options", "paper_title"),
    ("question", "evidence", "pmcid"),
    ("uuid", "question", "evaluator", "anchor_pdf", "tags"),
)


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
@pytest.mark.slow
def test_values_of_any_type_are_read_or_an_error(tmp_path: Path, data: st.DataObject) -> None:
    names = data.draw(st.sampled_from(FORMS))
    rows = data.draw(st.lists(st.fixed_dictionaries(dict.fromkeys(names, VALUES)), min_size=1, max_size=2))
    path = tmp_path / "any"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    with suppress(QueryFileError):
        assert read_queries(path, skip_broken=True).queries

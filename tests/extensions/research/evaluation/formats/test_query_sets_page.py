"""The examples of docs/query-sets.md, and files with random content: read, or a QueryFileError."""

import re
from pathlib import Path

import pytest

from scholarbase.errors import QueryFileError
from scholarbase_research.evaluation.formats import read_queries
from tests.extensions.research.evaluation.formats.test_random_queries import PAGE


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

"""The columns of docs/query-sets.md, and files with random content: read, or a QueryFileError."""

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scholarbase.errors import QueryFileError
from scholarbase_research.evaluation.formats import read_queries
from scholarbase_research.evaluation.formats.columns import NAMES
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "query-sets.md").read_text()


def test_the_page_names_every_column() -> None:
    rows = "".join(line for line in PAGE.splitlines(keepends=True) if line.startswith("| `"))
    assert [name for name in NAMES if f"`{name}`" not in rows] == []


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=5,
)
FORMS = (
    ("query_id", "query", "answers", "titles", "grades", "pool", "date", "intent"),
    ("query_id", "final_query", "answer_arxiv_ids", "final_answer_count", "date"),
    ("query_id", "query", "evidence", "paper", "title", "date"),
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


@settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    start=st.sampled_from([b"", b"{", b"[", b"<top>", b"\x1f\x8b", b"PAR1", b"query,answers\n", b"1\tx\n"]),
    rest=st.binary(max_size=60),
)
def test_bytes_of_any_kind_are_an_error(tmp_path: Path, start: bytes, rest: bytes) -> None:
    path = tmp_path / "any"
    path.write_bytes(start + rest)
    with pytest.raises(QueryFileError):
        read_queries(path)

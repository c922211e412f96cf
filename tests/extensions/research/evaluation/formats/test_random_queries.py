"""The columns of docs/query-sets.md, and files with random content: read, or a QueryFileError."""

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

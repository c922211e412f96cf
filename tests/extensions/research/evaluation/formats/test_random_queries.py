"""The columns and examples of docs/query-sets.md, and files with random content: read, or a QueryFileError."""

import re
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

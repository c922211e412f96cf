"""The sources of candidates that a library has."""

from pathlib import Path

import pytest

from scholarbase.errors import InvalidRequest, UnsupportedMode
from scholarbase.search.library import Library
from scholarbase_research.construction.sources import open_sources
from tests.extensions.research.construction.toy import toy_library


@pytest.mark.slow
def test_the_modes_of_a_library_are_sources(toy: Library, tmp_path: Path) -> None:
    assert [one.name for one in open_sources(toy, "library")] == ["library:sparse"]
    with Library.open(toy_library(tmp_path, encoder=True)) as dense:
        names = {one.name for one in open_sources(dense, "library")}
    assert names == {"library:sparse", "library:dense", "library:hybrid"}
    assert [one.name for one in open_sources(toy, "library:sparse:fts5")] == ["library:sparse:fts5"]
    with pytest.raises(UnsupportedMode):
        open_sources(toy, "library:dense")
    for unknown in ("library:best", "bing:https://example.org"):
        with pytest.raises(InvalidRequest, match=f"--source {unknown}: use library"):
            open_sources(toy, unknown)

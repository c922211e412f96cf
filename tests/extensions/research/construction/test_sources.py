"""Sources of candidates: recorded files, and how results are matched to the library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scholarbase.errors import ConstructionError, InvalidRequest, UnsupportedMode
from scholarbase.search.library import Library
from scholarbase_research.construction.job import construct_answers
from scholarbase_research.construction.process import Setup
from scholarbase_research.construction.sources import (
    RecordedSource,
    Returned,
    matched,
    open_library_sources,
    open_sources,
)
from tests.extensions.research.construction.toy import QUESTION, toy_id, toy_library, toy_queries, toy_setup


def recorded(path: Path, *rows: Any) -> RecordedSource:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return RecordedSource(path)


def test_results_are_matched_by_id_then_by_title(toy: Library) -> None:
    results = [
        Returned("https://arxiv.org/abs/2401.00001v2", "Another title"),
        Returned(None, "Alpha Beta Gamma: Partial"),
        Returned("2401.99999", "alpha citing number7"),
        Returned("https://example.org/a-page", "No such paper at all"),
        Returned("2401.99998", None),
    ]
    assert matched(toy, results) == [
        (toy_id("S1"), "id"),
        (toy_id("P1"), "title"),
        (toy_id("C07"), "title"),
        (None, "none"),
        (None, "none"),
    ]
    # All papers are of 2020.
    assert matched(toy, results[:1], "2019-06") == [(None, "later")]
    assert matched(toy, results[:1], "2020") == [(toy_id("S1"), "id")]


def test_a_recorded_file_that_changed_gave_the_old_results(toy: Library, tmp_path: Path) -> None:
    def construct(paper: str) -> None:
        source = recorded(tmp_path / "rec.jsonl", {"query": QUESTION, "results": [{"id": toy_id(paper)}]})
        setup = toy_setup(toy, hops=0)
        both = Setup([source], setup.rewriter, setup.panel, setup.limits)
        construct_answers(toy, toy_queries(), tmp_path / "out", both)

    construct("S1")
    construct("S1")
    with pytest.raises(ConstructionError, match="of another construction: its recorded is"):
        construct("H1")


def test_recorded_results_in_a_construction(toy: Library, tmp_path: Path) -> None:
    source = recorded(
        tmp_path / "google.jsonl",
        {"query": QUESTION.upper(), "results": [{"title": "gamma behind strict"}, {"id": "1234.56789"}]},
    )
    setup = toy_setup(toy, rewrites=1, hops=0)
    both = Setup([*setup.sources, source], setup.rewriter, setup.panel, setup.limits)
    pool = construct_answers(toy, toy_queries(), tmp_path / "out", both)["pool"]
    assert pool["searches_missing"] == 1  # the rewrite was not recorded
    assert pool["results"] == {"count": 6, "by_id": 4, "by_title": 1, "not_held": 1, "later": 0}
    by_source = {row["name"]: (row["found"], row["only"]) for row in pool["by_source"]}
    assert by_source["recorded:google"] == (1, 1)  # X, which no search for the question finds among two


@pytest.mark.slow
def test_the_modes_of_a_library_are_sources(toy: Library, tmp_path: Path) -> None:
    assert [one.name for one in open_library_sources(toy, "library")] == ["library:sparse"]
    with Library.open(toy_library(tmp_path, encoder=True)) as dense:
        names = {one.name for one in open_library_sources(dense, "library")}
    assert names == {"library:sparse", "library:dense", "library:hybrid"}
    assert [one.name for one in open_library_sources(toy, "library:sparse:fts5")] == ["library:sparse:fts5"]
    with pytest.raises(UnsupportedMode):
        open_library_sources(toy, "library:dense")
    with pytest.raises(InvalidRequest, match="--source library:best: use library"):
        open_library_sources(toy, "library:best")
    with pytest.raises(InvalidRequest, match="Unknown source 'bing:https"):
        open_sources(toy, ["bing:https://example.org"])

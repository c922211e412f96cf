"""Named sets: the papers of a source file, in every place that takes ``within``."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from scholarbase.errors import InvalidRequest, LibraryExists, SourceError
from scholarbase.ingest.job import ingest
from scholarbase.search import lookup
from scholarbase.search.library import Library
from tests.conftest import SAMPLE, run_cli

OWN = SAMPLE / "own"
BIB = (
    "@misc{a, title={Strings on my shelf}}\n"
    "@misc{b, title={Two Dimensional QCD is a String Theory}, eprint={hep-th/9301068}}\n"
)
STRINGS = "arXiv:hep-th/9301068"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample's arXiv papers, a collection of 50 papers, most of them the same, and one of two."""
    folder = tmp_path_factory.mktemp("sets")
    (folder / "my.bib").write_text(BIB)
    sets = {"zotero": [OWN / "zotero.json"], "shelf": [folder / "my.bib"]}
    ingest([SAMPLE / "arxiv"], folder / "library", sets=sets)
    return folder / "library"


@pytest.fixture(scope="module", params=["listed", "large"])
def library(path: Path, request: pytest.FixtureRequest) -> Iterator[Library]:
    """The library, with its sets as lists of ids, and as indexes find the papers of large sets."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "large":
            patch.setattr(lookup, "MAX_LISTED_SET", 0)
        with Library.open(path) as opened:
            yield opened


def members(library: Library) -> list[str]:
    """The papers of the collection, looked up by what its file says."""
    items = orjson.loads((OWN / "zotero.json").read_bytes())
    named = [f"DOI:{item['DOI']}" for item in items if "DOI" in item]
    others = [library.match_title(item["title"]).results[0].paper.id for item in items if "DOI" not in item]
    return [paper.id for paper in library.papers(named) if paper is not None] + others


def test_the_manifest_lists_the_sets(library: Library, path: Path) -> None:
    assert library.snapshot()["manifest"]["sets"] == {
        "shelf": {"sources": ["my.bib"], "papers": 2},
        "zotero": {"sources": ["zotero.json"], "papers": 50},
    }
    assert "50 papers of zotero.json" in run_cli("info", "--library", path).stdout


FILTERS: list[dict[str, Any]] = [{}, {"category": "hep-th", "author": "C. Vafa"}, {"as_of": "1995-06"}]


@pytest.mark.parametrize("filters", FILTERS, ids=repr)
@pytest.mark.parametrize("engine", ["bm25", "fts5"])
def test_a_set_is_the_list_of_its_papers(library: Library, engine: Any, filters: dict[str, Any]) -> None:
    listed = members(library)
    assert len(set(listed)) == 50
    if "as_of" in filters:  # ids of later papers would be an error
        day = filters["as_of"]
        held = library.papers(listed, as_of=day)
        listed = [paper.id for paper in held if paper is not None]
    options = {"mode": "sparse", "engine": engine, "limit": 100, "exact": True} | filters
    for within, same in (
        (["set:zotero"], listed),
        (["set:zotero", "set:shelf"], [*listed, STRINGS, *_shelf(library, filters)]),
        ([" SET:zotero ", STRINGS], [*listed, STRINGS]),
    ):
        found = library.search("string theory of learning", within=within, **options)
        expected = library.search("string theory of learning", within=same, **options)
        assert found.results == expected.results
        assert found.total == expected.total


def _shelf(library: Library, filters: dict[str, Any]) -> list[str]:
    return [] if "as_of" in filters else [library.match_title("Strings on my shelf").results[0].paper.id]


def test_similar_papers_and_neighbours_within_a_set(library: Library) -> None:
    assert library.expand([STRINGS], within=["set:zotero"]).total == 0
    with pytest.raises(
        InvalidRequest, match=r"within names the set 'books', which .* Its sets: shelf, zotero"
    ):
        library.expand([STRINGS], within=["set:books"])


def test_a_set_of_another_list_of_ids_is_not_an_id(library: Library) -> None:
    with pytest.raises(InvalidRequest, match="'set:zotero' is not a valid paper id"):
        library.search("strings", exclude_ids=["set:zotero"])


def test_other_sets_are_another_library(tmp_path: Path) -> None:
    (tmp_path / "my.bib").write_text(BIB)
    ingest([], tmp_path / "library", sets={"mine": [tmp_path / "my.bib"]})
    with pytest.raises(LibraryExists, match="from other sets"):
        ingest([], tmp_path / "library", sets={"ours": [tmp_path / "my.bib"]})
    (tmp_path / "arxiv.json").write_text('{"id": "2309.06180", "title": "T", "categories": "cs.CL"}\n')
    with pytest.raises(SourceError, match="The set 'arxiv' has no paper"):
        ingest([tmp_path / "my.bib"], tmp_path / "other", sets={"arxiv": [tmp_path / "arxiv.json"]})

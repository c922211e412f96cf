"""Authors of a small library, whose papers and counts are known, in Python, over HTTP and in commands."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from scholarbase.errors import AuthorNotFound, InvalidRequest, NothingLeft, VerificationFailed
from scholarbase.ingest.job import ingest
from scholarbase.search import lookup
from scholarbase.search.library import Library
from scholarbase.search.verification import verify
from tests.conftest import run_cli, snapshot_of
from tests.libraries import copied, relist

DETAILS = {
    "authorid": "11",
    "name": "Ana María Müller",
    "aliases": ["A. Müller", "Ana Mueller"],
    "affiliations": ["University of Bonn"],
    "homepage": "https://example.org/ana",
    "papercount": 40,
    "citationcount": 900,
    "hindex": 12,
}


def paper(
    number: int, date: str | None, cited: int | None, *authors: tuple[str, str | None]
) -> dict[str, Any]:
    return {
        "corpusid": number,
        "title": f"Quantum gravity, part {number}",
        "abstract": "Gravity is quantized.",
        "externalids": {"ArXiv": f"2401.{number:05d}"},
        "publicationdate": date,
        "citationcount": cited,
        "authors": [{"name": name, "authorId": author_id} for name, author_id in authors],
    }


ROWS = [
    paper(1, "2001-02-03", 10, ("John Smith", None), ("Ana Muller", "11")),
    paper(2, "2005-01-01", 5, ("J. Smith", None), ("John S. Doe", None)),
    paper(3, "2010-01-01", None, ("JOHN  smith", None), ("John Smith", None)),
    paper(4, "2012-01-01", 7, ("Ana Müller", "11"), ("John Smith", "22")),
    paper(5, None, 1, ("Ana Müller", "11"), ("Anna Smith", None), ("???", None)),
]
SMITH = "name:john smith"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("authors")
    snapshot = snapshot_of(folder / "snapshot", ROWS, [(2, 1), (3, 1), (4, 1)])
    (snapshot / "authors").mkdir()
    (snapshot / "authors" / "00000.jsonl").write_text(json.dumps(DETAILS))
    ingest([snapshot], folder / "library")
    return folder / "library"


def papers_by(library: Library, author_id: str, **options: Any) -> list[int | None]:
    return [paper.corpus_id for paper in library.author_papers(author_id, **options).results]


def named(library: Library, q: str, **options: Any) -> list[str]:
    return [author.id for author in library.search_authors(q, **options).results]


def test_an_author_without_an_id_is_a_normalized_name(library: Library) -> None:
    smith = library.author("name:John   SMITH")
    assert (smith.id, smith.name, smith.paper_count, smith.citation_count) == (SMITH, "John Smith", 2, 10)
    assert (smith.aliases, smith.affiliations, smith.homepage, smith.h_index) == ((), (), None, None)
    assert (smith.source_paper_count, smith.source_citation_count) == (None, None)
    assert papers_by(library, SMITH) == [1, 3]
    assert library.author("22").name == "John Smith"  # another person, for all that the source says


def test_an_author_with_an_id_has_the_details_of_the_source(library: Library) -> None:
    ana = library.author("11")
    assert (ana.id, ana.name, ana.paper_count, ana.citation_count) == ("11", "Ana María Müller", 3, 18)
    assert (ana.source_paper_count, ana.source_citation_count, ana.h_index) == (40, 900, 12)
    assert ana.aliases == ("A. Müller", "Ana Mueller")
    assert (ana.affiliations, ana.homepage) == (("University of Bonn",), "https://example.org/ana")
    for name in ("Muller, A.", "Ana Mueller", "ana maria muller", "A. M. Müller"):
        assert "11" in named(library, name), name


def test_names_are_found_with_the_same_name_first_then_by_papers(library: Library) -> None:
    assert named(library, "Smith, John") == [SMITH, "22", "name:j. smith"]
    assert named(library, "J. Smith") == ["name:j. smith", SMITH, "22"]
    assert named(library, "Smith") == [SMITH, "22", "name:anna smith", "name:j. smith"]
    assert named(library, "Nobody Known") == []
    first = library.search_authors("Smith", limit=3)
    assert (first.total, first.next_offset) == (4, 3)
    rest = library.search_authors("Smith", limit=3, offset=3)
    assert (rest.total, rest.next_offset, [one.id for one in rest.results]) == (4, None, ["name:j. smith"])


def test_the_papers_of_an_author(library: Library) -> None:
    assert papers_by(library, "11") == [1, 4, 5]  # most cited first
    assert papers_by(library, "11", sort="-date") == [4, 1, 5]
    assert papers_by(library, "11", sort="citation_count") == [5, 4, 1]
    assert papers_by(library, "11", sort="date") == [1, 4, 5]
    assert papers_by(library, "11", from_="2002") == [4]
    assert papers_by(library, "11", to="2001") == [1]
    assert papers_by(library, SMITH, sort="citation_count") == [1, 3]  # an unknown count comes last
    page = library.author_papers("11", limit=2, fields=["title"])
    assert (page.total, page.next_offset, page.results[0].corpus_id) == (3, 2, None)
    assert page.to_dict()["results"][0] == {"id": "arXiv:2401.00001", "title": "Quantum gravity, part 1"}
    assert [one.corpus_id for one in library.iter_author_papers("11", limit=3)] == [1, 4, 5]


def test_at_a_point_in_time_later_papers_are_not_there(library: Library) -> None:
    ana = library.author("11", as_of="2005-01")
    assert (ana.paper_count, ana.citation_count, ana.h_index) == (1, None, None)
    assert (ana.source_paper_count, ana.source_citation_count) == (None, None)
    assert papers_by(library, "11", as_of="2012-01-01") == [4, 1]  # the newest first, without the undated
    assert named(library, "Smith", as_of="2009-12") == [SMITH, "name:j. smith"]
    assert library.authors(["22", SMITH], as_of="2009-12") == [None, library.author(SMITH, as_of="2009-12")]
    with pytest.raises(AuthorNotFound, match=r"'22' in this library .* as of 2009-12"):
        library.author("22", as_of="2009-12")
    with pytest.raises(AuthorNotFound):
        library.author_papers("22", as_of="2009-12")
    with pytest.raises(NothingLeft):
        library.search_authors("Smith", as_of="1999-01")
    with pytest.raises(InvalidRequest, match="cannot be combined with as_of"):
        library.author_papers("11", as_of="2012-01", sort="citation_count")


def test_many_authors(library: Library) -> None:
    ids = ["22", "name:nobody", "11", "22"]
    assert library.authors(ids) == [library.author("22"), None, library.author("11"), library.author("22")]
    assert library.authors([]) == []


def found(library: Library, **options: Any) -> set[int | None]:
    return {hit.paper.corpus_id for hit in library.search("gravity", **options).results}


@pytest.mark.parametrize("engine", ["bm25", "fts5"])
def test_a_search_for_papers_by_an_author(library: Library, engine: str) -> None:
    assert found(library, engine=engine, author="11") == {1, 4, 5}
    assert found(library, engine=engine, author=SMITH) == {1, 3}
    assert found(library, engine=engine, author=["22", "name:j. smith"]) == {2, 4}
    assert found(library, engine=engine, author="Smith, John") == {1, 2, 3, 4}
    assert found(library, engine=engine, author="11", within=["CorpusId:4", "CorpusId:2"]) == {4}
    assert found(library, engine=engine, author="11", from_="2002") == {4}
    assert found(library, engine=engine, author="11", as_of="2001-12") == {1}


def test_an_author_who_is_not_there_matches_nothing_and_is_named(library: Library) -> None:
    response = library.search("gravity", author=["Nobody Known", "99"])
    assert (response.total, response.results) == (0, ())
    assert response.warnings[-1].endswith("has the name or id 'Nobody Known', '99'.")
    both = library.search("gravity", author=["Nobody Known", "22"])
    assert [hit.paper.corpus_id for hit in both.results] == [4]
    assert "'Nobody Known'" in both.warnings[-1]
    assert library.search("gravity", author="22").warnings == ()


def test_citations_expansions_and_similar_papers_by_an_author(library: Library) -> None:
    citing = library.citations("CorpusId:1", author="John Smith")
    assert (citing.total, {one.paper.corpus_id for one in citing.results}) == (3, {2, 3, 4})
    assert [one.paper.corpus_id for one in library.citations("CorpusId:1", author="22").results] == [4]
    assert library.citations("CorpusId:1", author="Xy").warnings
    assert library.references("CorpusId:4", author="22").total == 0
    expanded = library.expand(["CorpusId:1"], author=["22"])
    assert [one.paper.corpus_id for one in expanded.results] == [4]
    assert library.expand(["CorpusId:1"], author=["Xy"]).warnings


def test_an_author_filter_has_a_limit(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "MAX_AUTHOR_PAPERS", 3)
    assert found(library, author="11") == {1, 4, 5}
    with pytest.raises(InvalidRequest, match="author 'Smith' stands for more than 3 authors or papers"):
        library.search("gravity", author="Smith")
    with pytest.raises(InvalidRequest, match="more than 3 authors or papers"):
        library.search("gravity", author=["11", "Doe"])  # of two authors with four papers


# -- commands ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_commands(path: Path) -> None:
    listed = run_cli("authors", "Smith, J.", "--library", path, "--limit", "1")
    assert "3 authors" in listed.stdout
    assert "name:j. smith · 1 paper\n" in listed.stdout
    papers = run_cli("author", "11", "--library", path, "--sort", "date", "--json")
    assert [one["corpus_id"] for one in json.loads(papers.stdout)["results"]] == [1, 4, 5]
    assert "3 papers" in run_cli("author", "11", "--library", path).stdout
    searched = run_cli("search", "gravity", "--author", "22", "--library", path, "--json")
    assert [hit["paper"]["corpus_id"] for hit in json.loads(searched.stdout)["results"]] == [4]
    missing = run_cli("author", "99", "--library", path)
    assert (missing.returncode, "No author '99'" in missing.stderr) == (22, True)


# -- the index -----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE author_names SET paper_count = 9 WHERE author = 1",
        "DELETE FROM author_names WHERE author = 3",
        "DELETE FROM author_papers WHERE author = 2 AND paper = (SELECT min(id) FROM papers)",
        "INSERT INTO author_words (rowid, terms) VALUES (1, 'stranger')",
    ],
)
def test_verify_finds_a_changed_index(path: Path, tmp_path: Path, change: str) -> None:
    copy = copied(path, tmp_path / "copy")
    assert any(line.startswith("authors: 7 are") for line in verify(copy))
    with closing(sqlite3.connect(copy / "catalog.sqlite")) as db, db:
        db.execute(change)
    relist(copy)
    with pytest.raises(VerificationFailed, match="and the papers give"):
        list(verify(copy))

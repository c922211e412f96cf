"""OpenAlex's works over HTTP."""

import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from scholarbase.search.library import Library
from tests.conftest import serving_in_thread
from tests.extensions.dialects.conftest import count
from tests.libraries import opened_library

HOLOMORPHIC = "arXiv:hep-th/9302103"


def get(server: str, path: str = "", **parameters: Any) -> dict[str, Any]:
    names = {name.replace("__", "-"): value for name, value in parameters.items()}
    response = httpx.get(f"{server}/openalex/works{path}", params=names)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def every(server: str, **parameters: Any) -> list[dict[str, Any]]:
    """The results of all pages by cursor; each page has the count of all."""
    results: list[dict[str, Any]] = []
    cursor, count = "*", None
    while cursor is not None:
        page = get(server, cursor=cursor, per__page=200, **parameters)
        assert page["meta"]["page"] is None
        assert count in (None, page["meta"]["count"])
        count, cursor = page["meta"]["count"], page["meta"]["next_cursor"]
        results += page["results"]
    assert len({one["id"] for one in results}) == len(results) == count
    return results


def test_a_work_has_the_fields_of_the_original(server: str, sample: Library) -> None:
    work = get(server, "/arXiv:hep-th/9301068")
    paper = sample.paper("arXiv:hep-th/9301068")
    assert work["title"] == work["display_name"] == "Two Dimensional QCD is a String Theory"
    assert work["publication_date"] == "1993-01-17"
    assert work["publication_year"] == 1993
    assert work["ids"]["openalex"] == work["id"]
    assert work["doi"].startswith("https://doi.org/10.")
    assert work["cited_by_count"] == paper.citation_count
    assert work["open_access"]["oa_url"] == "https://arxiv.org/pdf/hep-th/9301068"
    assert work["best_oa_location"]["landing_page_url"] == "https://arxiv.org/abs/hep-th/9301068"
    assert [one["author"]["display_name"] for one in work["authorships"]] == [a.name for a in paper.authors]
    assert work["authorships"][0]["author_position"] == "first"
    assert work["authorships"][-1]["author_position"] == "last"
    assert work["authorships"][0]["author"]["id"] is None
    assert work["language"] is None
    assert "relevance_score" not in work
    words = {place: word for word, places in work["abstract_inverted_index"].items() for place in places}
    assert [words[place] for place in sorted(words)] == (paper.abstract or "").split()


READ_BY_CLIENTS = {
    **dict.fromkeys(("id", "title", "type", "publication_date"), str),
    **dict.fromkeys(("publication_year", "institutions_distinct_count"), int),
    **dict.fromkeys(("authorships", "locations", "topics", "keywords", "concepts", "referenced_works"), list),
    **dict.fromkeys(("ids", "open_access", "biblio", "primary_location", "best_oa_location"), dict),
    **dict.fromkeys(("primary_topic", "abstract_inverted_index"), dict),
    **dict.fromkeys(("is_retracted", "is_paratext", "is_xpac", "has_fulltext"), bool),
}
"""Fields that SPAR, PaSa, paper-qa, GPT Researcher and pyalex read, and flags, with their types in the original."""


def test_fields_that_clients_read_have_their_types(server: str) -> None:
    for work in every(server, filter="has_abstract:true,open_access.is_oa:true"):
        assert {name for name, kind in READ_BY_CLIENTS.items() if type(work[name]) is not kind} == set(), (
            work["id"]
        )
        assert type(work["open_access"]["is_oa"]) is bool
        assert type(work["open_access"]["oa_url"]) is str
        for authorship in work["authorships"]:
            assert type(authorship["raw_author_name"]) is type(authorship["author"]["display_name"]) is str
            assert type(authorship["is_corresponding"]) is bool


def test_the_referenced_works_are_works(server: str, sample: Library) -> None:
    # Of the papers that cite one paper, the most cited.
    paper = sample.citations(HOLOMORPHIC, limit=1).results[0].paper
    work = get(server, f"/{paper.id}")
    cited = {edge.paper.id for edge in sample.references(paper.id, limit=1000).results}
    assert len(cited) == len(work["referenced_works"]) == work["referenced_works_count"] > 0
    titles = {
        get(server, f"/{quote(link, safe='')}", select="title")["title"] for link in work["referenced_works"]
    }
    assert titles == {paper.title for paper in sample.papers(sorted(cited)) if paper is not None}
    citing = every(server, filter=f"cites:{work['id']}", select="id,title,cited_by_count")
    native = sample.citations(paper.id, limit=1000)
    assert len(citing) == native.total > 0
    assert {one["title"] for one in citing} == {edge.paper.title for edge in native.results}
    counts = [one["cited_by_count"] for one in citing]
    assert counts == sorted(counts, reverse=True)
    by = every(server, filter=f"cited_by:{work['id']}", select="id")
    assert {one["id"] for one in by} == set(work["referenced_works"])
    assert httpx.get(work["cited_by_api_url"]).json()["meta"]["count"] == len(citing)


def test_every_form_of_an_id_is_the_same_work(server: str, sample: Library) -> None:
    paper = next(
        h.paper for h in sample.search("string theory", limit=100).results if "DOI" in h.paper.external_ids
    )
    doi, corpus = paper.external_ids["DOI"], paper.corpus_id
    work = get(server, f"/{paper.id}")
    assert work["doi"] == f"https://doi.org/{doi}"
    for form in (
        work["id"],
        work["id"].rpartition("/")[2],
        work["id"].rpartition("/")[2].lower(),
        f"https://api.openalex.org/works/{work['id'].rpartition('/')[2]}",
        f"doi:{doi}",
        f"https://doi.org/{doi}",
        doi.upper(),
        f"CorpusId:{corpus}",
        f"https://arxiv.org/abs/{paper.external_ids['arXiv']}",
    ):
        assert get(server, f"/{quote(form, safe='')}") == work, form
        assert get(server, f"/{form}") == work, form
    found = get(server, filter=f"doi:https://doi.org/{doi}|10.1000/none")
    assert [one["id"] for one in found["results"]] == [work["id"]]


def test_a_search_counts_the_papers_with_all_words(server: str, tables: sqlite3.Connection) -> None:
    expected = tables.execute(
        """SELECT papers.title FROM fulltext JOIN papers ON papers.id = fulltext.rowid
        WHERE fulltext MATCH '"black" AND "hole" AND "entropy"'"""
    ).fetchall()
    found = get(server, search="the black holes entropy", per__page=200)
    assert found["meta"]["count"] == len(expected) > 5
    assert {one["title"] for one in found["results"]} == {row[0] for row in expected}
    scores = [one["relevance_score"] for one in found["results"]]
    assert scores == sorted(scores, reverse=True)
    assert scores[-1] > 0
    phrase = get(server, search='"black hole entropy" NOT string')["meta"]["count"]
    [only] = tables.execute(
        """SELECT count(*) FROM fulltext WHERE fulltext MATCH '"black hole entropy" NOT "string"'"""
    ).fetchone()
    assert phrase == only > 0


def test_searches_of_fields(server: str, tables: sqlite3.Connection) -> None:
    [titled] = tables.execute("SELECT count(*) FROM title_words WHERE title_words MATCH 'string'").fetchone()
    [anywhere] = tables.execute("SELECT count(*) FROM fulltext WHERE fulltext MATCH 'string'").fetchone()
    [abstract] = tables.execute(
        "SELECT count(*) FROM fulltext WHERE fulltext MATCH 'abstract : string'"
    ).fetchone()
    assert 0 < titled < abstract < anywhere
    assert get(server, filter="title.search:strings")["meta"]["count"] == titled
    assert get(server, filter="display_name.search:strings")["meta"]["count"] == titled
    assert get(server, filter="abstract.search:strings")["meta"]["count"] == abstract
    for name in ("title_and_abstract.search", "default.search"):
        assert get(server, filter=f"{name}:strings")["meta"]["count"] == anywhere
    both = get(server, search="strings", filter="title.search:strings")["meta"]["count"]
    assert both == titled
    without = get(server, filter="default.search:strings,title.search:!strings")["meta"]["count"]
    assert without == anywhere - titled
    assert get(server, filter="title.search:!strings")["meta"]["count"] == count(tables, "1") - titled
    [either] = tables.execute(
        "SELECT count(*) FROM title_words WHERE title_words MATCH 'string OR membrane'"
    ).fetchone()
    assert get(server, filter="title.search:strings|membrane")["meta"]["count"] == either


def test_a_question_without_a_paper_of_all_its_words_finds_the_nearest(server: str) -> None:
    found = get(
        server, search="Which zebra papers relate two-dimensional QCD to a string theory of surfaces?"
    )
    assert found["meta"]["count"] > 100
    assert "QCD" in found["results"][0]["title"]
    # A title is looked up: another paper would be taken for it.
    assert get(server, filter="title.search:zebra two-dimensional QCD")["meta"]["count"] == 0


def test_a_title_with_commas(server: str, sample: Library) -> None:
    title = next(
        hit.paper.title
        for hit in sample.search("theory of strings, branes", limit=1000).results
        if "," in (hit.paper.title or "")
    )
    assert title is not None
    found = get(server, filter=f"title.search:{title},from_publication_date:1980-01-01", per__page=1)
    assert [one["title"] for one in found["results"]] == [title]


def test_filters(server: str, tables: sqlite3.Connection) -> None:
    for filters, where in (
        ("publication_year:1993", "year = 1993"),
        ("publication_year:1993-1995", "year BETWEEN 1993 AND 1995"),
        ("publication_year:>1994", "year > 1994"),
        ("publication_year:<1994", "year < 1994"),
        ("publication_year:1995-", "year >= 1995"),
        ("publication_year:-1993", "year <= 1993"),
        ("publication_year:1992|1994", "year IN (1992, 1994)"),
        ("publication_year:!1992|1994", "year IS NULL OR year NOT IN (1992, 1994)"),
        ("from_publication_date:1994-03-15", "first_day >= 19940315"),
        ("to_publication_date:1994-03-15", "last_day <= 19940315"),
        ("publication_date:>1994-03-15,publication_date:<1995-01-01", "first_day > 19940315 AND last_day < 19950101"),
        ("cited_by_count:>20", "citation_count > 20"),
        ("cited_by_count:5-10", "citation_count BETWEEN 5 AND 10"),
        ("is_oa:true", "arxiv_id IS NOT NULL"),
        ("open_access.is_oa:true,publication_year:1994", "arxiv_id IS NOT NULL AND year = 1994"),
        ("has_abstract:false", "id NOT IN (SELECT paper_id FROM abstracts WHERE abstract <> '')"),
        ("type:preprint", "arxiv_id IS NOT NULL AND external_ids NOT LIKE '%\"DOI\"%' OR external_ids IS NULL"),
        ("type:article|preprint", "1"),
        ("type:book", "0"),
        ("has_references:true", "id IN (SELECT citing FROM edges)"),
        ("publication-year:1994", "year = 1994"),
    ):  # fmt: skip
        assert get(server, filter=filters)["meta"]["count"] == count(tables, where)


def test_orders(server: str) -> None:
    newest = [
        one["publication_date"]
        for one in every(server, sort="publication_date:desc", select="id,publication_date")
    ]
    known = [day for day in newest if day is not None]
    assert newest[: len(known)] == sorted(known, reverse=True)
    oldest = get(server, sort="publication_date", per__page=1)["results"][0]["publication_date"]
    assert oldest == min(known)
    cited = [
        one["cited_by_count"] for one in get(server, sort="cited_by_count:desc", per__page=200)["results"]
    ]
    assert cited == sorted(cited, reverse=True)
    assert cited == [one["cited_by_count"] for one in get(server, per__page=200)["results"]]


def test_groups(server: str, tables: sqlite3.Connection) -> None:
    years = Counter(row[0] for row in tables.execute("SELECT year FROM papers WHERE year IS NOT NULL"))
    for name in ("group_by", "group-by"):
        found = get(server, **{name: "publication_year"})
        assert {one["key"]: one["count"] for one in found["group_by"]} == {
            str(y): n for y, n in years.items()
        }
        assert found["results"] == []
    some = get(server, group_by="publication_year", search="string", filter="publication_year:1993-1994")
    assert {one["key"] for one in some["group_by"]} == {"1993", "1994"}


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ({"filter": "nonsense:1"}, "Invalid query parameters error."),
        ({"filter": "from_publication_date:1994-02-30"}, "Invalid query parameters error."),
        ({"sort": "cited_by_count:down"}, "Invalid query parameters error."),
        ({"page": "two"}, "Invalid query parameters error."),
        ({"cursor": "*", "page": "2"}, "Pagination error."),
    ],
)
def test_invalid_requests_have_the_error_of_the_original(
    server: str, parameters: dict[str, str], name: str
) -> None:
    response = httpx.get(f"{server}/openalex/works", params=parameters)
    assert response.status_code == 400, response.text
    assert response.json()["error"] == name
    assert response.json()["message"]


@pytest.mark.slow
def test_access_and_journals(tmp_path: Path) -> None:
    rows = [
        {"isopenaccess": True, "journal": {"name": "Nature", "volume": "7", "pages": "12-20"}},
        {"isopenaccess": False, "venue": "Science"},
        {},
        {"externalids": {"ArXiv": "2301.00004"}, "isopenaccess": False},
    ]
    papers = [
        {
            "corpusid": n,
            "externalids": {"DOI": f"10.1000/{n}"},
            "title": f"Paper {n}",
            "authors": [],
            "year": 2020,
            **row,
        }
        for n, row in enumerate(rows, 1)
    ]
    with opened_library(tmp_path, papers, keep="title") as library, serving_in_thread(library) as url:
        assert [get(url, filter=f"is_oa:{value}")["meta"]["count"] for value in ("true", "false")] == [2, 1]
        first, second, third, fourth = (get(url, f"/CorpusId:{n}") for n in range(1, 5))
        assert [w["open_access"]["is_oa"] for w in (first, second, third, fourth)] == [
            True,
            False,
            None,
            True,
        ]
        assert first["biblio"] == {"volume": "7", "issue": None, "first_page": "12", "last_page": "20"}
        assert first["primary_location"]["source"]["display_name"] == "Nature"
        assert second["primary_location"]["source"]["display_name"] == "Science"
        assert third["authorships"] == []
        work = httpx.get(f"{url}/crossref/works/10.1000/1").json()["message"]
        assert (work["container-title"], work["volume"], work["page"]) == (["Nature"], "7", "12-20")
        entry = httpx.get(f"{url}/crossref/works/10.1000/1/transform/application/x-bibtex").text
        assert entry.startswith("@article{")
        assert " journal = {Nature},\n volume = {7},\n pages = {12-20},\n" in entry

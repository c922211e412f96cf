"""What Semantic Scholar's releases know of papers and arXiv does not: its ids, authors, types and journals."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from scholarbase.ingest.job import ingest
from scholarbase.ingest.plans import IngestRules
from scholarbase.markup import plain
from scholarbase.search.library import Library
from tests.conftest import serving_in_thread, snapshot_of

SHA = {number: f"{number:040x}" for number in (1, 2, 3, 4)}
STORED = json.loads((Path(__file__).parent / "records.json").read_text("utf-8"))
"""Rows of a release, a citation, and the first paper as the graph shows it."""
ROWS: list[dict[str, Any]] = STORED["papers"]
CITATION = STORED["citation"]


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("records")
    snapshot = snapshot_of(folder / "release", ROWS, [(2, 1), (3, 2)])
    with gzip.open(snapshot / "citations" / "00000.gz", "at") as out:
        out.write(json.dumps(CITATION) + "\n")
    ingest([snapshot], folder / "library", rules=IngestRules(keep="title"))
    with (
        Library.open(folder / "library") as library,
        serving_in_thread(library) as url,
        httpx.Client(base_url=url, timeout=120) as client,
    ):
        yield client


@pytest.mark.slow
def test_a_paper(http: httpx.Client) -> None:
    fields = (
        "corpusId,externalIds,url,venue,publicationVenue,journal,publicationTypes,isOpenAccess,openAccessPdf,"
        "fieldsOfStudy,s2FieldsOfStudy,authors.url,authors.hIndex,citationStyles.bibtex,textAvailability"
    )
    paper = http.get(f"/graph/v1/paper/{SHA[1]}", params={"fields": fields}).json()
    assert paper == STORED["paper"]


def test_what_is_not_known(http: httpx.Client) -> None:
    fields = (
        "authors,venue,publicationVenue,journal,fieldsOfStudy,isOpenAccess,publicationDate,textAvailability"
    )
    paper = http.get(
        f"/graph/v1/paper/CorpusId:3?fields={fields},citationStyles,abstract,tldr,citationCount"
    ).json()
    assert paper == {
        "paperId": SHA[3],
        "authors": [{"authorId": "71", "name": "Ana Núñez"}],
        "venue": "",
        "publicationVenue": None,
        "journal": None,
        "fieldsOfStudy": None,
        "isOpenAccess": None,
        "publicationDate": None,
        "textAvailability": "none",
        "citationStyles": {"bibtex": "@misc{Nunez2021LampreyL,\n author = {Ana Núñez},\n title = {Lamprey ladders},\n"
                           f" year = {{2021}},\n url = {{https://www.semanticscholar.org/paper/{SHA[3]}}}\n}}\n"},
        "abstract": None,
        "tldr": None,
        "citationCount": None,
    }  # fmt: skip
    authors = http.get(f"/graph/v1/paper/{SHA[2]}?fields=authors,openAccessPdf").json()
    assert authors["authors"] == []
    assert authors["openAccessPdf"]["url"] == "https://arxiv.org/pdf/1905.00001"


@pytest.mark.parametrize("route", ["search", "search/bulk"])
@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, {1, 2, 3}),
        ({"publicationTypes": "Review,Book"}, {1}),
        ({"publicationTypes": "Journal Article,Conference"}, {1, 2}),
        ({"fieldsOfStudy": "biology"}, {1}),
        ({"fieldsOfStudy": "Art"}, set()),
        ({"openAccessPdf": ""}, {2}),
        ({"venue": "Nature,Journal of Fish"}, {1}),
        ({"minCitationCount": "1"}, {1, 2}),
        ({"year": "2020-"}, {3}),
        ({"publicationDateOrYear": "2019-05:2019-06"}, {1}),
        ({"publicationDateOrYear": "2019:2021"}, {1, 2, 3}),
        ({"publicationTypes": "JournalArticle", "openAccessPdf": ""}, set()),
    ],
)
def test_filters(http: httpx.Client, route: str, filters: dict[str, str], expected: set[int]) -> None:
    found = http.get(f"/graph/v1/paper/{route}", params={"query": "lamprey", **filters}).json()
    assert {paper["paperId"] for paper in found["data"]} == {SHA[number] for number in expected}
    assert found["total"] == len(expected)


def test_authors(http: httpx.Client) -> None:
    fields = "fields=url,paperCount,citationCount,hIndex,affiliations,externalIds,papers.year"
    author = http.get(f"/graph/v1/author/71?{fields}").json()
    assert author == {
        "authorId": "71",
        "url": "https://www.semanticscholar.org/author/71",
        "paperCount": 2,
        "citationCount": 5,
        "hIndex": None,
        "affiliations": [],
        "externalIds": {},
        "papers": [{"paperId": SHA[1], "year": 2019}, {"paperId": SHA[3], "year": 2021}],
    }
    of_paper = http.get(f"/graph/v1/paper/{SHA[1]}/authors").json()
    assert of_paper == {
        "offset": 0,
        "data": [{"authorId": "71", "name": "Ana Núñez"}, {"authorId": "name:b. lee", "name": "B. Lee"}],
    }
    lee = http.get("/graph/v1/author/name:b. lee/papers?fields=title").json()
    assert lee == {"offset": 0, "data": [{"paperId": SHA[1], "title": plain(ROWS[0]["title"])}]}
    later = http.get("/graph/v1/author/71/papers?publicationDateOrYear=2020:").json()
    assert [paper["paperId"] for paper in later["data"]] == [SHA[3]]
    assert http.get("/graph/v1/author/71/papers?year=2021-2020").json() == {"offset": 0, "data": []}
    with_counts = http.get(f"/graph/v1/paper/{SHA[1]}?fields=authors.paperCount").json()["authors"]
    assert [(one["authorId"], one["paperCount"]) for one in with_counts] == [("71", 2), ("name:b. lee", 1)]
    batch = http.post(
        "/graph/v1/author/batch?fields=name", json={"ids": ["0", "71", "!", "name:B.  LEE"]}
    ).json()
    assert batch[1] == {"authorId": "71", "name": "Ana Núñez"}
    assert (batch[0], batch[2]) == (None, None)
    assert batch[3]["authorId"] == "name:b. lee"


def test_what_a_citation_says(http: httpx.Client) -> None:
    fields = "fields=contexts,intents,contextsWithIntent,isInfluential,citedPaper.year"
    first, second = http.get(f"/graph/v1/paper/{SHA[3]}/references?{fields}").json()["data"]
    assert first == {
        "contexts": CITATION["contexts"],
        "intents": ["background", "methodology"],
        "contextsWithIntent": [{"context": text, "intents": []} for text in CITATION["contexts"]],
        "isInfluential": True,
        "citedPaper": {"paperId": SHA[1], "year": 2019},
    }
    assert (second["contexts"], second["intents"], second["isInfluential"]) == ([], [], None)
    bare = http.get(f"/graph/v1/paper/{SHA[3]}/references?fields=isInfluential&limit=1").json()
    assert bare == {
        "offset": 0,
        "next": 1,
        "data": [{"isInfluential": True, "citedPaper": {"paperId": SHA[1]}}],
    }


def test_the_interface_before_the_graph(http: httpx.Client) -> None:
    paper = http.get("/s2-legacy/v1/paper/CorpusId:3?include_unknown_references=true").json()
    assert (paper["paperId"], paper["title"], paper["year"]) == (SHA[3], "Lamprey ladders", 2021)
    assert paper["authors"] == [
        {"authorId": "71", "name": "Ana Núñez", "url": "https://www.semanticscholar.org/author/71"}
    ]
    assert [(one["arxivId"], one["title"]) for one in paper["references"]] == [
        (None, plain(ROWS[0]["title"])),
        ("1905.00001", ROWS[1]["title"]),
    ]
    assert (paper["citations"], paper["numCitedBy"], paper["numCiting"]) == ([], 0, 2)
    cited = http.get("/s2-legacy/v1/paper/arXiv:1905.00001").json()
    assert (cited["arxivId"], cited["numCitedBy"]) == ("1905.00001", 1)
    assert [one["paperId"] for one in cited["citations"]] == [SHA[3]]
    assert cited["url"] == f"https://www.semanticscholar.org/paper/{SHA[2]}"
    missing = http.get("/s2-legacy/v1/paper/arXiv:1905.99999")
    assert (missing.status_code, missing.json()["error"]) == (404, "Paper with id arXiv:1905.99999 not found")

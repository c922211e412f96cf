"""Withdrawn and retracted papers: marked in every response, and a filter of every list."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from scholarbase import Client, Library
from scholarbase.errors import InvalidRequest
from scholarbase.ingest.job import ingest
from scholarbase.ingest.plans import IngestRules
from scholarbase.responses.text import as_text
from scholarbase.tools import Tools
from tests.conftest import json_lines, run_cli

WITHDRAWN, BY_ABSTRACT, RETRACTED, BOTH, ACTIVE = (
    "0704.0001",
    "0704.0002",
    "0704.0003",
    "0704.0004",
    "0704.0005",
)
NOTE = "This paper has been withdrawn by the author"
OPENALEX = {RETRACTED: 3, BOTH: 4}
PAPERS: dict[str, dict[str, Any]] = {
    WITHDRAWN: {"comments": NOTE},
    BY_ABSTRACT: {"abstract": f"{NOTE}. Lattice photon entropy."},
    RETRACTED: {},
    BOTH: {"comments": NOTE},
    ACTIVE: {"comments": "Submissions were withdrawn from the pool of data"},
}
STATUS = {
    WITHDRAWN: "withdrawn",
    BY_ABSTRACT: "withdrawn",
    RETRACTED: "retracted",
    BOTH: "retracted",
    ACTIVE: None,
}


def make_library(folder: Path) -> Path:
    """A library of papers with every status."""
    lines = [
        {"id": key, "title": f"Lattice photon {key}", "categories": "hep-lat", "abstract": "Lattice photon entropy.",
         "authors": "Ann Lee", "versions": [{"version": "v1", "created": "2007-04-02"}]} | changes
        for key, changes in PAPERS.items()
    ]  # fmt: skip
    json_lines(folder / "arxiv.jsonl", lines)
    works = [
        {"id": f"https://openalex.org/W{n}", "title": f"Lattice photon {key}", "is_retracted": True, "authorships": [],
         "locations": [{"landing_page_url": f"https://arxiv.org/abs/{key}"}]}
        for key, n in OPENALEX.items()
    ]  # fmt: skip
    json_lines(folder / "works.jsonl", works)
    numbers = {key: n for n, key in enumerate(PAPERS, 1)}
    papers = [
        {"corpusid": n, "externalids": {"ArXiv": key}, "title": f"Lattice photon {key}", "citationcount": n}
        for key, n in numbers.items()
    ]
    papers.append(
        {
            "corpusid": 9,
            "externalids": {},
            "title": "From PubMed",
            "publicationtypes": ["Retracted Publication"],
        }
    )
    json_lines(folder / "papers.jsonl", papers)
    edges = [
        {"citationid": 10 * one + other, "citingcorpusid": one, "citedcorpusid": other}
        for one in numbers.values()
        for other in numbers.values()
    ]
    json_lines(folder / "citations.jsonl", edges)
    ingest(sorted(folder.glob("*.jsonl")), folder / "library", rules=IngestRules(keep="title"))
    return folder / "library"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_library(tmp_path_factory.mktemp("status"))


def test_the_status_of_papers(library: Library) -> None:
    """From the comment, the abstract, OpenAlex, or PubMed's publication type; ``retracted`` before ``withdrawn``."""
    found = library.papers(list(STATUS), fields=["status"])
    assert [paper and paper.status for paper in found] == list(STATUS.values())
    assert library.paper("CorpusId:9").status == "retracted"
    assert library.paper(WITHDRAWN).to_dict()["status"] == "withdrawn"


@pytest.mark.parametrize(
    "wanted", [["active"], ["withdrawn"], ["retracted"], ["active", "withdrawn"], ["retracted", "active"]]
)
def test_every_list_is_filtered_before_its_limit(library: Library, url: str, wanted: list[str]) -> None:
    expected = {f"arXiv:{key}" for key, status in STATUS.items() if (status or "active") in wanted}

    def among(response: Any) -> None:
        assert {hit.paper.id for hit in response.results} == expected
        assert response.total == len(expected)

    with Client(url) as client:
        for source in (library, client):
            for engine in ("bm25", "fts5", "feedback"):
                among(source.search("lattice photon", engine=engine, status=wanted, exact=True))  # type: ignore[arg-type]
            [batched] = source.search_batch([{"q": "lattice", "status": wanted, "exact": True}])
            among(batched)
            assert len(source.search("lattice", status=wanted, limit=1).results) == 1
            for call in (source.citations, source.references):
                assert {one.paper.id for one in call(ACTIVE, status=wanted).results} == expected - {
                    f"arXiv:{ACTIVE}"
                }
                assert call(ACTIVE, status=wanted).total == len(expected - {f"arXiv:{ACTIVE}"})
            neighbours = source.expand([ACTIVE], status=wanted).results
            assert {one.paper.id for one in neighbours} == expected - {f"arXiv:{ACTIVE}"}
            similar = source.similar(ACTIVE, status=wanted).results
            assert {one.paper.id for one in similar} == expected - {f"arXiv:{ACTIVE}"}
            by = source.author_papers("name:ann lee", status=wanted).results
            assert {paper.id for paper in by} == expected
    tools = Tools(library).call("search_papers", {"q": "lattice photon", "status": ",".join(wanted)})
    assert {hit["paper"]["id"] for hit in tools["results"]} == expected


def test_a_url_takes_values_between_commas(url: str) -> None:
    found = httpx.get(
        f"{url}/v1/search", params={"q": "lattice", "status": "withdrawn,retracted", "fields": "status"}
    )
    assert [hit["paper"]["status"] for hit in found.json()["results"]].count("retracted") == 2
    assert found.json()["total"] == 4
    wrong = httpx.get(f"{url}/v1/search", params={"q": "lattice", "status": "gone"})
    assert (wrong.status_code, wrong.json()["detail"]) == (
        400,
        "status is 'gone': use active, withdrawn, retracted, correction, expression_of_concern, reinstatement.",
    )


def test_a_status_is_shown_in_every_response(library: Library, path: Path, url: str) -> None:
    """In texts, in sized responses, in those of tools, and on the command line."""
    response = library.search("lattice photon", exact=True).to_dict()
    assert as_text(response).count("RETRACTED") == 2
    assert as_text(response).count("WITHDRAWN") == 2
    tools = Tools(library)
    listed = tools.call("search_papers", {"q": "lattice photon", "limit": 5})
    assert {hit["paper"]["id"]: hit["paper"].get("status") for hit in listed["results"]} == {
        f"arXiv:{key}": status for key, status in STATUS.items()
    }
    sized = httpx.get(f"{url}/v1/papers/{BOTH}/references", params={"max_tokens": 2000}).json()
    assert sorted(one["paper"]["status"] or "" for one in sized["results"]) == [
        "",
        "retracted",
        "withdrawn",
        "withdrawn",
    ]
    text = httpx.get(f"{url}/v1/papers/{BOTH}", params={"format": "text"}).text
    assert "RETRACTED" in text
    printed = run_cli("search", "lattice photon", "--status", "retracted", "--library", path)
    assert printed.stdout.count("RETRACTED") == 2
    checked = library.check_references(f"arXiv:{RETRACTED}\narXiv:{WITHDRAWN}\narXiv:{ACTIVE}")
    assert [one.status for one in checked.results] == ["retracted", "withdrawn", "held"]


def test_nobody_knew_a_status_at_a_point_in_time(library: Library) -> None:
    assert library.paper(WITHDRAWN, as_of="2008-01").status is None
    with pytest.raises(InvalidRequest, match="status active cannot be combined with as_of '2008-01'"):
        library.search("lattice", status=["active"], as_of="2008-01")
    with pytest.raises(InvalidRequest, match="status retracted cannot be combined with as_of"):
        library.citations(ACTIVE, status="retracted", as_of="2008-01")

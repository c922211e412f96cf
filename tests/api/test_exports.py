"""Searches and papers as bibliographies, over HTTP, in sessions and in commands."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import msgspec
import pytest
import rispy

from scholarbase import Client, write_papers
from scholarbase.bibliographies.bibtex import read_bibtex
from scholarbase.models.papers import Paper
from scholarbase.search.library import Library
from tests.conftest import run_cli, serving_in_thread

STRINGS = "arXiv:hep-th/9301068"
SEARCH = {"q": "two dimensional QCD", "limit": 3}


@pytest.fixture(scope="module")
def url(sample: Library, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving_in_thread(sample, sessions=str(tmp_path_factory.mktemp("sessions"))) as address:
        yield address


def with_formulas(library: Library, papers: list[Paper]) -> list[Paper]:
    """The papers with their formulas as they were written, as BibTeX has them."""
    written = library.papers([paper.id for paper in papers], fields=["as_written"])
    return [
        msgspec.structs.replace(paper, as_written=one.as_written)
        for paper, one in zip(papers, written, strict=True)
        if one is not None
    ]


def test_a_search_as_a_bibliography(sample: Library, url: str) -> None:
    papers = [hit.paper for hit in sample.search(**SEARCH).results]
    forms: dict[Any, str] = {
        "bibtex": "application/x-bibtex; charset=utf-8",
        "ris": "application/x-research-info-systems; charset=utf-8",
        "csl": "application/vnd.citationstyles.csl+json",
        "csv": "text/csv; charset=utf-8",
    }
    for form, media_type in forms.items():
        response = httpx.get(f"{url}/v1/search", params={**SEARCH, "format": form})
        assert response.headers["content-type"] == media_type
        assert response.text == write_papers(with_formulas(sample, papers), form)
        assert "ETag" in response.headers
        assert httpx.post(f"{url}/v1/search", json={**SEARCH, "format": form}).text == response.text


def test_every_list_of_papers_as_a_bibliography(sample: Library, url: str) -> None:
    author = "name:washington taylor"
    for path, papers in (
        (f"papers/{STRINGS}", [sample.paper(STRINGS)]),
        (f"papers/{STRINGS}/citations", [edge.paper for edge in sample.citations(STRINGS).results]),
        (f"papers/{STRINGS}/references", [edge.paper for edge in sample.references(STRINGS).results]),
        (f"papers/{STRINGS}/similar", [hit.paper for hit in sample.similar(STRINGS).results]),
        (f"authors/{author}/papers", sample.author_papers(author).results),
    ):
        assert httpx.get(f"{url}/v1/{path}", params={"format": "ris"}).text == write_papers(papers, "ris")


def test_entries_have_the_requested_fields(url: str) -> None:
    options = {**SEARCH, "format": "bibtex", "fields": "title,year"}
    [*entries] = read_bibtex(httpx.get(f"{url}/v1/search", params=options).text)[0]
    assert [(one.title is not None, one.authors, one.abstract) for one in entries] == [(True, (), None)] * 3
    assert {len(one.ids) for one in entries} == {1}  # the id is a note


def test_an_unknown_paper_is_an_error_of_a_bibliography(url: str) -> None:
    known = httpx.post(f"{url}/v1/papers/batch", json={"ids": [STRINGS], "format": "ris"})
    assert [one["type_of_reference"] for one in rispy.loads(known.text)] == [
        "JOUR"
    ] or known.status_code == 200
    unknown = httpx.post(f"{url}/v1/papers/batch", json={"ids": [STRINGS, "2001.00001"], "format": "ris"})
    assert unknown.status_code == 404
    assert "2001.00001" in unknown.json()["detail"]


def test_what_a_bibliography_cannot_show_is_refused(url: str) -> None:
    for path, parameters, message in (
        ("search?q=x", {"format": "endnote"}, "format is 'endnote'"),
        ("search?q=x", {"format": "bibtex", "max_tokens": "500"}, "500 cannot be combined with format 'bibtex'"),
        ("search?q=x", {"format": "csv", "explain": "true"}, "explain true cannot be combined with format 'csv'"),
        ("search?q=x", {"format": "ris", "partial": "true"}, "partial true cannot be combined with format 'ris'"),
        ("title-match?title=x", {"format": "bibtex"}, "format is 'bibtex'"),
    ):  # fmt: skip
        response = httpx.get(f"{url}/v1/{path}&{urlencode(parameters)}")
        assert response.status_code == 400
        assert message in response.json()["detail"]


def test_a_session_records_what_was_exported(sample: Library, url: str) -> None:
    with Client(url) as client:
        client.open_session("exported", limits={"calls": 2})
        for form in ("bibtex", "csv"):
            response = httpx.get(
                f"{url}/v1/search",
                params={**SEARCH, "format": form},
                headers={"X-ScholarBase-Session": "exported"},
            )
            assert response.status_code == 200, response.text
        assert response.headers["X-ScholarBase-Budget"].startswith("calls=0")
        assert len(list(csv.reader(io.StringIO(response.text)))) == 4
        ids = [hit.paper.id for hit in sample.search(**SEARCH).results]
        assert [call["ids"] for call in client.trajectory("exported")] == [ids, ids]


def test_a_tool_call_keeps_the_authors_apart(url: str) -> None:
    body = {**SEARCH, "format": "csl", "fields": ["title", "authors"]}
    items = httpx.post(f"{url}/v1/tools/search_papers", json=body).json()
    assert items[0]["author"][0] == {"family": "Gross", "given": "David J."}


@pytest.mark.slow
def test_commands_print_bibliographies(sample: Library, tmp_path: Path) -> None:
    library = ["--library", str(sample.path)]
    papers = [hit.paper for hit in sample.search(**SEARCH).results]
    done = run_cli("search", SEARCH["q"], "--limit", "3", "--mode", "sparse", "--format", "bibtex", *library)
    assert done.stdout == write_papers(with_formulas(sample, papers))
    assert run_cli("paper", STRINGS, "--format", "csv", *library).stdout == write_papers(
        [sample.paper(STRINGS)], "csv"
    ).replace("\r\n", "\n")
    cited = json.loads(run_cli("citations", STRINGS, "--format", "csl", "--limit", "2", *library).stdout)
    assert len(cited) == 2
    assert run_cli("paper", STRINGS, "--format", "csv", "--json", *library).returncode == 2
    for command, option in (("search", "--explain"), ("search", "--partial"), ("similar", "--explain")):
        refused = run_cli(command, STRINGS, option, "--format", "bibtex", *library)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert f"Give {option} or --format bibtex, not both" in refused.stderr

"""pyalex, unmodified. Its URLs have the host of OpenAlex, so that its requests are sent to the server here."""

from typing import Any

import pyalex
import pytest
import requests
from pyalex import Works
from requests.adapters import HTTPAdapter

from scholarbase.search.library import Library

HOLOMORPHIC = "arXiv:hep-th/9302103"


class _Here(HTTPAdapter):
    """Sends the requests to OpenAlex to another server."""

    def __init__(self, server: str) -> None:
        super().__init__()
        self._server = server

    def send(self, request: requests.PreparedRequest, *args: Any, **options: Any) -> requests.Response:
        assert request.url is not None
        request.url = request.url.replace("https://api.openalex.org", f"{self._server}/openalex", 1)
        return super().send(request, *args, **options)


@pytest.fixture(autouse=True)
def _redirected(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def session() -> requests.Session:
        found = requests.Session()
        found.mount("https://api.openalex.org", _Here(server))
        return found

    monkeypatch.setattr(pyalex.api, "_get_requests_session", session)


def test_search_and_abstract(sample: Library) -> None:
    works = Works().search("black hole entropy").get(per_page=5)
    assert len(works) == 5
    assert works.meta["count"] >= 5
    [paper] = sample.papers([f"DOI:{works[0]['doi'].removeprefix('https://doi.org/')}"])
    assert paper is not None
    assert works[0]["title"] == paper.title
    assert works[0]["abstract"] == " ".join((paper.abstract or "").split())


def test_single_works_and_lists_of_ids() -> None:
    [first, second] = Works().search("string theory").get(per_page=2)
    assert Works()[first["id"]]["title"] == first["title"]
    assert Works()[first["id"].split("/")[-1]] == Works()[f"https://doi.org/{first['doi'][16:]}"]
    both = Works()[[first["id"], second["id"]]]
    assert {work["id"] for work in both} == {first["id"], second["id"]}


def test_filters_and_the_paginators(sample: Library) -> None:
    citing = sample.citations(HOLOMORPHIC, limit=1000)
    work = Works()[HOLOMORPHIC]
    query = (
        Works()
        .filter(cites=work["id"].split("/")[-1], publication_year=">1992")
        .sort(publication_date="desc")
    )
    found = [one for page in query.paginate(per_page=10) for one in page]
    late = [edge.paper for edge in citing.results if (edge.paper.year or 0) > 1992]
    assert len(found) == query.count() == len(late) > 10  # pages
    assert {one["title"] for one in found} == {paper.title for paper in late}
    by_page = Works().search_filter(title="string").paginate(method="page", per_page=50)
    titles = [one["title"] for page in by_page for one in page]
    assert len(titles) == Works().search_filter(title="string").count()

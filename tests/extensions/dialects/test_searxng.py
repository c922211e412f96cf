"""SearXNG's JSON search, as its clients call it."""

from datetime import date, timedelta
from typing import Any

import httpx
import pytest

from scholarbase.search.library import Library


def search(server: str, **parameters: Any) -> dict[str, Any]:
    response = httpx.get(f"{server}/searxng/search", params={"format": "json", **parameters})
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def test_results_have_the_fields_of_the_original(server: str) -> None:
    title = "Two Dimensional QCD is a String Theory"
    found = search(server, q=title)
    assert found["query"] == title
    assert found["number_of_results"] >= 10
    assert [found[name] for name in ("answers", "corrections", "infoboxes", "suggestions")] == [[]] * 4
    assert found["unresponsive_engines"] == []
    first = found["results"][0]
    assert first["title"] == title
    assert first["url"] == "https://arxiv.org/abs/hep-th/9301068"
    assert first["parsed_url"] == ["https", "arxiv.org", "/abs/hep-th/9301068", "", "", ""]
    assert first["content"].startswith("The partition function of two dimensional QCD")
    assert first["publishedDate"] == "1993-01-17T00:00:00"
    assert "Washington Taylor" in " ".join(first["authors"])
    assert first["engines"] == [first["engine"]]
    assert first["positions"] == [1]


def test_pages_continue(server: str, sample: Library) -> None:
    native = [hit.paper.title for hit in sample.search("string theory", limit=30).results]
    pages = [search(server, q="string theory", pageno=page)["results"] for page in (1, 2, 3)]
    assert [len(page) for page in pages] == [10, 10, 10]
    assert [one["title"] for page in pages for one in page] == native
    assert search(server, q="string theory", pageno=101)["results"] == []
    assert search(server, q="string theory", pageno="9" * 20)["results"] == []


def test_the_start_page_redirects_to_the_search(server: str) -> None:
    # STORM sends its requests to the URL as it is configured.
    found = httpx.get(
        f"{server}/searxng", params={"q": "string theory", "format": "json"}, follow_redirects=True
    )
    assert found.json() == search(server, q="string theory")
    assert httpx.get(f"{server}/searxng/").status_code == 403


@pytest.mark.parametrize(("name", "days"), [("day", 1), ("week", 7), ("month", 30), ("year", 365)])
def test_a_time_range_ends_at_the_date_of_the_request(
    server: str, sample: Library, name: str, days: int
) -> None:
    end = date(1994, 6, 30)
    response = httpx.get(
        f"{server}/searxng/search",
        params={"q": "string theory model", "format": "json", "time_range": name},
        headers={"X-ScholarBase-As-Of": end.isoformat()},
    )
    dates = [one["publishedDate"][:10] for one in response.json()["results"]]
    first = (end - timedelta(days=days)).isoformat()
    native = sample.search("string theory model", from_=first, as_of=end.isoformat(), limit=10)
    assert dates == [hit.paper.publication_date for hit in native.results]
    assert all(first <= day <= end.isoformat() for day in dates)

"""Serper's interface: https://serper.dev."""

from datetime import date, timedelta
from typing import Any

import httpx
import pytest

from scholarbase.search.library import Library
from tests import tables


def search(server: str, **body: Any) -> dict[str, Any]:
    response = httpx.post(f"{server}/serper/search", json=body)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def test_results_have_the_fields_of_the_original(server: str) -> None:
    found = search(server, q="Two Dimensional QCD is a String Theory")
    assert found["searchParameters"]["q"] == "Two Dimensional QCD is a String Theory"
    assert len(found["organic"]) == 10
    first = found["organic"][0]
    assert first["title"] == "Two Dimensional QCD is a String Theory"
    assert first["link"] == "https://arxiv.org/abs/hep-th/9301068"
    assert first["date"] == "Jan 17, 1993"
    assert first["position"] == 1
    assert first["snippet"].startswith("The partition function of two dimensional QCD")
    assert len(first["snippet"]) <= 304


def test_dates_are_obeyed(server: str, sample: Library) -> None:
    operators = [
        ({"q": f"string theory {text}"}, first, last) for text, first, last in tables.rows("serper-dates")
    ]
    ranges = [
        ({"tbs": "cdr:1,cd_min:1/17/1993,cd_max:3/1/1993"}, "1993-01-17", "1993-03-01"),
        ({"tbs": "cdr:1,cd_min:,cd_max:12/31/1992"}, "", "1992-12-31"),
        ({"tbs": "cdr:1,cd_min:2001"}, "2001-01-01", "9999"),
    ]
    for limits, first, last in operators + ranges:
        found = search(server, **{"q": "string theory", "num": 100, **limits})["organic"]
        papers = sample.papers([one["link"] for one in found])
        assert papers
        assert all(paper and first <= (paper.publication_date or "") <= last for paper in papers)


@pytest.mark.parametrize(
    ("tbs", "first"),
    [("qdr:d", "1996-06-29"), ("qdr:w", "1996-06-23"), ("qdr:m", "1996-05-31"), ("qdr:y2", "1994-07-01")],
)
def test_ranges_are_counted_back_from_the_date_of_the_request(server: str, tbs: str, first: str) -> None:
    headers = {"X-ScholarBase-As-Of": "1996-06-30"}
    found = [
        httpx.post(
            f"{server}/serper/search", json={"q": f"string theory {q}", "num": 100, **more}, headers=headers
        )
        for q, more in (("", {"tbs": tbs}), (f"after:{date.fromisoformat(first) - timedelta(days=1)}", {}))
    ]
    assert found[0].json()["organic"] == found[1].json()["organic"]
    everything = httpx.post(
        f"{server}/serper/search", json={"q": "string theory", "num": 100}, headers=headers
    )
    assert found[0].json()["organic"] != everything.json()["organic"]


def test_sites(server: str) -> None:
    everywhere = search(server, q="string theory", num=50)["organic"]
    at_arxiv = search(server, q="string theory site:arxiv.org", num=50)["organic"]
    assert at_arxiv == everywhere  # the sample has only arXiv papers
    assert search(server, q="site:example.org string theory")["organic"] == []

"""habanero, unmodified, with the URL of the server."""

import pytest
from habanero import Crossref

from scholarbase.search.library import Library


@pytest.fixture
def crossref(server: str) -> Crossref:
    return Crossref(base_url=f"{server}/crossref", mailto="someone@example.org", timeout=60)


def test_a_query(crossref: Crossref) -> None:
    found = crossref.works(query="two dimensional QCD string theory", limit=3, select=["DOI", "title"])
    assert found["message-type"] == "work-list"
    assert len(found["message"]["items"]) == 3
    assert found["message"]["items"][0]["title"] == ["Two Dimensional QCD is a String Theory"]
    assert set(found["message"]["items"][0]) == {"DOI", "title"}


def test_ids(crossref: Crossref) -> None:
    items = crossref.works(query_bibliographic="string theory", limit=2)["message"]["items"]
    ids = [item["DOI"] for item in items]
    one = crossref.works(ids=ids[0])
    assert (one["message-type"], one["message"]["title"]) == ("work", items[0]["title"])
    both = crossref.works(ids=ids)
    assert [work["message"]["DOI"] for work in both] == ids
    [agency] = [crossref.registration_agency(ids[0])]
    assert agency in (["Crossref"], ["DataCite"], "Crossref", "DataCite")


def test_a_cursor_reaches_the_end(crossref: Crossref, sample: Library) -> None:
    pages = crossref.works(query="string", cursor="*", limit=100, cursor_max=100_000)
    dois = [f"{item['URL']} {item['title']}" for page in pages for item in page["message"]["items"]]
    total = sample.search("string", engine="fts5", limit=1).total
    assert len(dois) == len(set(dois)) == total > 200

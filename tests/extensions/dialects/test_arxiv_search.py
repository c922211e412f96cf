"""The search page of arXiv, read as PaSa reads it: https://github.com/bytedance/pasa/blob/HEAD/utils.py"""

from html.parser import HTMLParser
from typing import Any

import httpx

from scholarbase.search.library import Library
from tests.conftest import arxiv_rows

TITLE = "Two Dimensional QCD is a String Theory"
SAME_TITLE = {"hep-th/9301068", "hep-th/9408140"}


class Page(HTMLParser):
    """The texts of the elements with the classes that programs look for."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.results: list[dict[str, str]] = []
        self.warning = ""
        self.has_charset = False
        self._classes: list[str] = []
        self.feed(content)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        if tag == "meta":
            self.has_charset = self.has_charset or "charset" in known
            return
        if tag == "li" and known["class"] == "arxiv-result":
            self.results.append({})
        self._classes.append(known.get("class") or "")

    def handle_endtag(self, tag: str) -> None:
        if tag != "meta":
            self._classes.pop()

    def handle_data(self, data: str) -> None:
        for name in self._classes:
            if name == "is-size-4 has-text-warning":
                self.warning += data
            elif self.results and name:
                self.results[-1][name] = self.results[-1].get(name, "") + data

    @property
    def titles(self) -> dict[str, str]:
        """The titles by arXiv ids."""
        return {
            one["list-title is-inline-block"].split()[0].strip("arXiv:"): one["title is-5 mathjax"].strip()
            for one in self.results
        }


def get(server: str, status: int = 200, **parameters: Any) -> Page:
    asked = {"searchtype": "title", "abstracts": "hide", "size": 200} | parameters
    response = httpx.get(f"{server}/arxiv-search/", params=asked)
    assert response.status_code == status
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    return Page(response.text)


def test_pasa_finds_the_id_of_a_cited_title(server: str) -> None:
    page = get(server, query=TITLE)
    assert page.has_charset
    assert not page.warning
    same = {one for one, title in page.titles.items() if title.lower() == TITLE.lower()}
    assert same == SAME_TITLE


def test_all_words_are_in_the_title_and_none_is_similar(server: str) -> None:
    """PaSa takes any result for the paper, so a page has no papers with only a similar title."""
    words = ("monopole", "theory")
    expected = {row["id"] for row in arxiv_rows() if all(one in row["title"].lower() for one in words)}
    found = get(server, query="monopole theory").titles
    assert expected
    assert expected <= set(found)
    assert all("monopole" in one.lower() and "theor" in one.lower() for one in found.values())
    assert not get(server, query="Two Dimensionl QCD is a Strng Theory").results


def test_a_title_in_quotation_marks_is_a_phrase(server: str) -> None:
    assert set(get(server, query=f'"{TITLE}"').titles) == SAME_TITLE
    assert not get(server, query='"string a is QCD"').results


def test_pages_do_not_overlap_and_follow_the_order(server: str, sample: Library) -> None:
    orders = {"submitted_date": 1, "-announced_date_first": -1}
    for order, step in orders.items():
        pages = [
            get(server, query="string", size=25, start=start, order=order).titles
            for start in range(0, 250, 25)
        ]
        ids = [one for page in pages for one in page]
        assert len(ids) == len(set(ids)) > 100
        dates = [
            paper.publication_date or ""
            for paper in sample.papers([f"arXiv:{one}" for one in ids])
            if paper is not None
        ]
        assert len(dates) == len(ids)
        assert dates == sorted(dates)[::step]

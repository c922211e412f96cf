"""The search page of arXiv, read as PaSa reads it: https://github.com/bytedance/pasa/blob/HEAD/utils.py"""

from typing import Any

import httpx
from lxml import html

from scholarbase.search.library import Library
from tests.conftest import arxiv_rows

TITLE = "Two Dimensional QCD is a String Theory"
SAME_TITLE = {"hep-th/9301068", "hep-th/9408140"}


class Page:
    """What programs look for on a page, by the classes of its elements."""

    def __init__(self, content: str) -> None:
        tree = html.fromstring(content)
        self.has_charset = bool(tree.xpath("//meta[@charset]"))
        self.warning = "".join(tree.xpath("//*[@class='is-size-4 has-text-warning']//text()"))
        self.titles: dict[str, str] = {}
        for result in tree.xpath("//li[@class='arxiv-result']"):
            [names] = result.xpath(".//*[@class='list-title is-inline-block']")
            [title] = result.xpath(".//*[@class='title is-5 mathjax']")
            arxiv_id = names.text_content().split()[0].removeprefix("arXiv:")
            self.titles[arxiv_id] = title.text_content().strip()


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
    assert not get(server, query="Two Dimensionl QCD is a Strng Theory").titles


def test_a_title_in_quotation_marks_is_a_phrase(server: str) -> None:
    assert set(get(server, query=f'"{TITLE}"').titles) == SAME_TITLE
    assert not get(server, query='"string a is QCD"').titles


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

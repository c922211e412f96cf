"""PaperScout's server of papers, as the ``ArXivClient`` of its trainer calls and reads it."""

import re
from collections.abc import Callable
from itertools import product
from typing import Any

import httpx
from pydantic import BaseModel

from scholarbase.search.library import Library


class Record(BaseModel):
    """The fields of a paper in the client, which rejects null."""

    arxiv_id: str
    title: str
    abstract: str
    categories: str
    authors: str
    update_date: str
    score: float


class Queue(BaseModel):
    """The fields that the client requires of ``/queue``."""

    queue_size: int
    max_queue_size: int
    batch_size: int
    batch_timeout: float
    running: bool
    task_done: bool
    last_exception: str | None
    submitted_total: int
    dequeued_total: int
    processed_total: int
    batches_total: int
    last_batch_size: int
    last_process_age_sec: float | None


def get(server: str, path: str, **parameters: Any) -> httpx.Response:
    return httpx.get(f"{server}/paperscout{path}", params=parameters)


def records(server: str, path: str, **parameters: Any) -> list[Record]:
    response = get(server, path, **parameters)
    assert response.status_code == 200, response.text
    assert response.headers.get("x-scholarbase-ignored") is None
    return [Record.model_validate(one, strict=True) for one in response.json()]


def test_search_has_the_native_ranking(server: str, sample: Library) -> None:
    found = records(server, "/search", q="string theory", top_k=20)
    native = sample.search("string theory", limit=20, syntax="plain").results
    assert [(f"arXiv:{one.arxiv_id}", one.score) for one in found] == [
        (hit.paper.id, hit.score) for hit in native
    ]
    assert len(records(server, "/search", q="string theory")) == 10
    assert all(one.categories and one.update_date for one in found)


FILTERS: dict[str, Callable[[str], object]] = {
    'id <= "0404"': lambda one: one <= "0404",
    'id like "hep-th/93%"': lambda one: one.startswith("hep-th/93"),
    'id >= "hep-th/93" and not (id > "hep-th/95" or id in ["hep-th/9301068"])': lambda one: (
        "hep-th/93" <= one <= "hep-th/95" and one != "hep-th/9301068"
    ),
    'id == "hep-th/9301068"': lambda one: one == "hep-th/9301068",
    'id like "hep-th/9301___"': lambda one: re.fullmatch(r"hep-th/9301...", one),
    'id like "hep%93_10%8"': lambda one: re.fullmatch(r"hep.*93.10.*8", one),
    'id == "none"': lambda one: False,
}


def test_a_filter_holds_for_the_whole_ranking(server: str, sample: Library) -> None:
    query = "theory field model"
    pages = [sample.search(query, limit=1000, offset=at, syntax="plain").results for at in (0, 1000, 2000)]
    ranked = [hit.paper.id.removeprefix("arXiv:") for page in pages for hit in page]
    assert len(ranked) > 1000
    for (expression, is_met), top_k in product(FILTERS.items(), (5, 300)):
        found = records(server, "/search", q=query, top_k=top_k, filter=expression)
        expected = [one for one in ranked if is_met(one)][:top_k]
        assert [one.arxiv_id for one in found] == expected, expression


def test_a_filter_alone_lists_papers(server: str) -> None:
    found = records(server, "/query", filter='id like "hep-th/93%" and title like "%QCD%"', top_k=100)
    assert "hep-th/9301068" in [one.arxiv_id for one in found]
    assert [one.arxiv_id for one in found] == sorted(one.arxiv_id for one in found)
    assert all("QCD" in one.title for one in found)
    assert len(records(server, "/query", filter="", top_k=7)) == 7
    [one] = records(
        server, "/query", filter='authors like "%Washington Taylor%" and update_date == "1993-01-17"'
    )
    assert one.authors == "David J. Gross, Washington Taylor"


def test_a_paper(server: str) -> None:
    for paper_id in ("hep-th/9301068", "hep-th/9301068v2", "arXiv:hep-th/9301068"):
        one = Record.model_validate(get(server, f"/paper/{paper_id}").json())
        assert one.title == "Two Dimensional QCD is a String Theory"
    missing = get(server, "/paper/2404.00001")
    assert missing.status_code == 404
    assert "2404.00001" in missing.json()["detail"]
    assert get(server, "/paper/nothing at all").status_code == 404


def test_full_text_has_the_references(server: str, sample: Library) -> None:
    paper_id = "hep-ph/0108236"
    cited = sample.references(f"arXiv:{paper_id}", limit=1000).results
    assert cited
    content = get(server, f"/paper/{paper_id}/fulltext", download="false").json()
    assert [one["title"] for one in content["references"].values()] == [one.paper.title for one in cited]
    assert next(iter(content["references"])) == "bib.bib1"
    for one, edge in zip(content["references"].values(), cited, strict=True):
        assert edge.paper.title.rstrip(".") in one["meta_string"]
        assert f"arXiv:{edge.paper.external_ids['arXiv']}." in one["meta_string"]
    assert get(server, "/paper/2404.00001/fulltext").status_code == 404
    assert get(server, "/paper/foo/fulltext").status_code == 404


def test_health_and_the_queue(server: str) -> None:
    assert get(server, "/health").json() == {"status": "ok"}
    before = Queue.model_validate(get(server, "/queue").json())
    records(server, "/query", filter="")
    after = Queue.model_validate(get(server, "/queue").json())
    assert after.processed_total == before.processed_total + 1
    assert (after.queue_size, after.task_done) == (0, True)
    assert after.max_queue_size > 0

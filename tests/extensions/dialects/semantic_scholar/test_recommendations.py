"""Semantic Scholar's recommendations, and each of its interfaces served alone."""

from typing import Any

import httpx

from scholarbase.search.library import Library


def ids_in(response: httpx.Response) -> list[str]:
    assert response.status_code == 200, response.text
    return [paper["paperId"] for paper in response.json()["recommendedPapers"]]


def from_lists(server: str, body: Any, **parameters: Any) -> httpx.Response:
    return httpx.post(f"{server}/recommendations/v1/papers/", json=body, params=parameters)


def test_they_are_the_similar_papers(dense_server: str, dense: Library) -> None:
    [seed, *_] = dense.search("string theory", limit=1).results
    native = [hit.paper.id for hit in dense.similar(seed.paper.id, limit=100).results]
    url = f"{dense_server}/recommendations/v1/papers/forpaper/{seed.paper.id}"
    assert ids_in(httpx.get(url)) == native
    response = httpx.get(f"{url}?limit=7&from=recent&fields=title,year")
    assert ids_in(response) == native[:7]
    assert set(response.json()["recommendedPapers"][0]) == {"paperId", "title", "year"}
    assert response.headers["x-scholarbase-ignored"] == "from"
    assert ids_in(from_lists(dense_server, {"positivePaperIds": [seed.paper.id]}, limit=30)) == native[:30]


def test_negative_papers_count_against(dense_server: str, dense: Library) -> None:
    liked, other, *_ = [hit.paper.id for hit in dense.search("string theory", limit=2).results]
    both = ids_in(from_lists(dense_server, {"positivePaperIds": [liked, other]}, limit=500))
    assert not {liked, other} & set(both)
    body = {"positivePaperIds": [liked], "negativePaperIds": [other]}
    without = ids_in(from_lists(dense_server, body, limit=500))
    near_other = [hit.paper.id for hit in dense.similar(other, limit=10).results if hit.paper.id != liked]
    ranks = [(both.index(one), without.index(one)) for one in near_other if one in without]
    assert ranks
    assert sum(before for before, _ in ranks) < sum(after for _, after in ranks)

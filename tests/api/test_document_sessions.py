"""Sessions of the routes of full texts: what they record, and their dates and budgets."""

import httpx

from tests.api.test_documents import detail, ids, url
from tests.fulltexts import GRAPHS, MERGING, SORTING

__all__ = ["url"]


def test_native_calls_are_recorded_under_the_tools_of_their_kinds(url: str) -> None:
    headers = {"X-ScholarBase-Session": "native-texts"}
    paper = f"{url}/v1/papers/{SORTING}"
    sent = [
        httpx.post(
            f"{url}/v1/passages/search",
            json={"q": "zebra", "mode": "sparse", "limit": 5},
            headers=headers,
        ),
        httpx.get(f"{paper}/text", params={"section": "1"}, headers=headers),
        httpx.get(f"{paper}/find", params={"q": "zebra keys", "syntax": "words"}, headers=headers),
        httpx.get(f"{paper}/passages", params={"q": "zebra", "max_tokens": 900}, headers=headers),
        httpx.get(f"{paper}/citation-contexts", headers=headers),
    ]
    assert [response.status_code for response in sent] == [200] * 5
    lines = [
        httpx.Response(200, content=line).json()
        for line in httpx.get(f"{url}/v1/sessions/native-texts").text.splitlines()
    ]
    assert [(line["tool"], line["kind"], line["arguments"], set(line["ids"])) for line in lines] == [
        ("search_passages", "search", {"q": "zebra", "mode": "sparse", "limit": 5}, {SORTING, MERGING}),
        ("paper_text", "inspect", {"paper_id": SORTING, "section": "1"}, {SORTING}),
        (
            *("find_in_paper", "inspect"),
            {"paper_id": SORTING, "q": "zebra keys", "syntax": "words"},
            {SORTING},
        ),
        ("paper_passages", "inspect", {"paper_id": SORTING, "q": "zebra", "max_tokens": 900}, {SORTING}),
        ("citation_contexts", "expand", {"paper_id": SORTING}, {MERGING}),
    ]
    assert all(len(line["ids"]) == len(set(line["ids"])) for line in lines)


def test_the_date_of_a_session_limits_passages(url: str) -> None:
    httpx.post(f"{url}/v1/sessions", json={"session": "early", "as_of": "2023-01-15"}).raise_for_status()
    headers = {"X-ScholarBase-Session": "early"}
    content = httpx.post(f"{url}/v1/passages/search", json={"q": "zebra"}, headers=headers).json()
    assert set(ids(content)) <= {SORTING, GRAPHS}
    response = httpx.get(f"{url}/v1/papers/{MERGING}/text", headers=headers)
    assert "does not exist as of 2023-01-15" in detail(response, 404)


def test_the_date_of_a_session_hides_pages_and_other_calls_that_it_does_not_record(url: str) -> None:
    opened = {"session": "early-pages", "as_of": "2023-01-15"}
    httpx.post(f"{url}/v1/sessions", json=opened).raise_for_status()
    headers = {"X-ScholarBase-Session": "early-pages"}
    page = f"{url}/v1/papers/{MERGING}/pages/1"
    assert httpx.get(page).status_code == 200
    assert "does not exist as of 2023-01-15" in detail(httpx.get(page, headers=headers), 404)
    later = httpx.get(page, params={"as_of": "2023-05-01"}, headers=headers)
    assert "later than '2023-01-15'" in detail(later, 400)
    for facets in (
        httpx.get(f"{url}/v1/facets", headers=headers),
        httpx.post(f"{url}/v1/facets", json={}, headers=headers),
    ):
        assert facets.json()["total"] == 3, "not the paper of February 2023"
    assert httpx.get(f"{url}/v1/sessions/early-pages/report").json()["calls"] == 0


def test_exclude_seen_leaves_out_papers_with_all_their_passages(url: str) -> None:
    headers = {"X-ScholarBase-Session": "unseen"}
    body = {"q": "graph vertices zebra", "mode": "sparse", "limit": 1, "exclude_seen": True}
    seen = []
    for _ in range(3):
        content = httpx.post(f"{url}/v1/passages/search", json=body, headers=headers).json()
        seen += ids(content)
        assert content["next_offset"] in (0, None)
    assert sorted(seen) == sorted([GRAPHS, SORTING, MERGING])
    content = httpx.post(f"{url}/v1/passages/search", json=body, headers=headers).json()
    assert content["results"] == []


def test_budgets_count_calls_and_tokens(url: str) -> None:
    opened = {"session": "limited-texts", "limits": {"calls": 2, "candidates": 10}}
    httpx.post(f"{url}/v1/sessions", json=opened).raise_for_status()
    headers = {"X-ScholarBase-Session": "limited-texts"}
    content = httpx.post(f"{url}/v1/passages/search", json={"q": "zebra"}, headers=headers).json()
    assert content["budget"]["calls"] == 1
    assert content["budget"]["candidates"] == 10 - len(set(ids(content)))
    content = httpx.get(f"{url}/v1/papers/{SORTING}/text", headers=headers).json()
    assert content["budget"]["calls"] == 0
    response = httpx.get(f"{url}/v1/papers/{SORTING}/find", params={"q": "zebra"}, headers=headers)
    assert response.status_code == 403

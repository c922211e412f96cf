"""Entity tags: 304 for what the snapshot and the settings have not changed, and what caches may store."""

from pathlib import Path

import httpx
import pytest

from scholarbase.api.access.keys import create_key
from scholarbase.search.library import Library
from scholarbase.settings import load_settings
from tests.conftest import serving_in_thread

CACHEABLE = (
    "search?q=string+theory&limit=2",
    "search?q=string+theory&limit=50",  # compressed
    "search?q=string+theory&limit=2&format=text",
    "papers/hep-th/9302103",
    "papers/hep-th/9302103/citations",
    "title-match?title=Two+Dimensional+QCD",
    "authors?q=Taylor",
    "tools",
    "snapshot",
)


@pytest.mark.parametrize("path", CACHEABLE)
def test_a_client_with_the_current_response_gets_304(server: str, path: str) -> None:
    url = f"{server}/v1/{path}"
    first = httpx.get(url)
    tag = first.headers["etag"]
    assert tag.startswith('W/"')
    assert first.headers["cache-control"] == "no-cache"
    for sent in (tag, f'"other", {tag}', tag.removeprefix("W/")):
        again = httpx.get(url, headers={"If-None-Match": sent})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == tag
        assert again.headers["cache-control"] == "no-cache"
        assert again.headers["x-scholarbase-snapshot"] == first.headers["x-scholarbase-snapshot"]
    assert httpx.head(url, headers={"If-None-Match": tag}).status_code == 304
    for sent in ('"other"', "*", tag[:-2] + '"'):
        assert httpx.get(url, headers={"If-None-Match": sent}).content == first.content


def test_a_tag_belongs_to_one_url(server: str) -> None:
    """One of another URL would turn an error into 304."""
    tag = httpx.get(f"{server}/v1/papers/hep-th/9302103").headers["etag"]
    missing = httpx.get(f"{server}/v1/papers/CorpusId:999", headers={"If-None-Match": tag})
    assert missing.status_code == 404
    assert "etag" not in missing.headers
    assert missing.headers["cache-control"] == "no-store"


def test_a_304_runs_no_search(server: str) -> None:
    url = f"{server}/v1/search?q=a+question+that+takes+a+search"
    first = httpx.get(url)
    stages = httpx.get(url, headers={"If-None-Match": first.headers["etag"]}).headers["server-timing"]
    assert "bm25" in first.headers["server-timing"]
    assert "bm25" not in stages


def test_a_tag_changes_with_the_snapshot_and_the_settings(sample: Library, dense: Library) -> None:
    def tag(library: Library, **settings: str) -> str:
        with serving_in_thread(library, **settings) as url:
            found: str = httpx.get(f"{url}/v1/search?q=string+theory").headers["etag"]
            return found

    assert tag(sample) == tag(sample)
    assert tag(sample) != tag(dense)
    with Library.open(sample.path, settings=load_settings(fusion_depth=500)) as other:
        assert tag(other) != tag(sample)


def test_what_must_not_be_stored_says_so(server: str) -> None:
    session = {"X-ScholarBase-Session": "not-stored"}
    url = f"{server}/v1/search?q=string+theory&limit=1"
    tag = httpx.get(url).headers["etag"]
    for response in (
        httpx.get(url, headers=session),
        httpx.get(url, headers={**session, "If-None-Match": tag}),  # which is recorded
        httpx.get(f"{server}/v1/sessions"),
        httpx.get(f"{server}/v1/sessions/not-stored"),
        httpx.get(f"{url}&partial=true"),
        httpx.get(f"{url}&year=1993"),
        httpx.post(f"{server}/v1/search", json={"q": "string theory", "limit": 1}),
        httpx.get(f"{server}/healthz"),
        httpx.get(f"{server}/readyz"),
        httpx.get(f"{server}/metrics"),
    ):
        assert response.headers["cache-control"] == "no-store", response.url
        assert "etag" not in response.headers
        assert response.status_code in (200, 400)
    assert len(httpx.get(f"{server}/v1/sessions/not-stored").text.splitlines()) == 2


def test_caches_of_a_server_with_keys_are_private(sample: Library, tmp_path: Path) -> None:
    key, _ = create_key(tmp_path / "keys.json", "ana")
    with serving_in_thread(sample, keys=str(tmp_path / "keys.json")) as url:
        asked = {"Authorization": f"Bearer {key}"}
        first = httpx.get(f"{url}/v1/snapshot", headers=asked)
        assert first.headers["cache-control"] == "private, no-cache"
        tag = {"If-None-Match": first.headers["etag"]}
        assert httpx.get(f"{url}/v1/snapshot", headers=tag).status_code == 401, "the key is checked first"
        assert httpx.get(f"{url}/v1/snapshot", headers={**asked, **tag}).status_code == 304

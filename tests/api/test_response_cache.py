"""Equal requests: one runs, and the others have its response, whose bytes are those of a server without a cache."""

import asyncio
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry

from scholarbase.api.response_cache import MAX_BYTES, ResponseCache, key_of
from scholarbase.api.response_sharing import sharing_responses
from scholarbase.api.runtime import Runtime
from scholarbase.errors import Busy, InvalidRequest
from scholarbase.search.library import Library
from scholarbase.settings import load_settings
from scholarbase.tools.responding import CallResponse
from tests.conftest import serving_in_thread

SEED = "arXiv:hep-th/9301068"
REQUESTS: tuple[tuple[str, str, Any], ...] = (
    ("GET", "/v1/search?q=string+theory", None),
    ("GET", "/v1/search?q=string+theory&format=text", None),
    ("GET", "/v1/search?q=string+theory&format=bibtex", None),
    ("POST", "/v1/search", {"q": "string theory", "limit": 300}),
    ("POST", "/v1/search", {"q": "string theory", "max_tokens": 700}),
    ("POST", "/v1/search/batch", {"searches": [{"q": "strings"}, {"q": "branes"}]}),
    ("GET", f"/v1/papers/{SEED}", None),
    ("GET", f"/v1/papers/{SEED}/citations", None),
    ("POST", "/v1/tools/search_papers", {"q": "string theory", "limit": 300}),
    ("POST", "/v1/tools/search_papers", {"q": "string theory", "format": "text"}),
    ("POST", "/v1/tools/get_papers", {"ids": SEED}),
    ("POST", "/v1/tools/expand_papers", {"seeds": [SEED]}),
)


def counts(url: str) -> dict[str, int]:
    text = httpx.get(f"{url}/metrics").text
    found = re.findall(r'scholarbase_response_cache_total{result="(\w+)"} (\d+)', text)
    return {name: int(number) for name, number in found}


def test_kept_responses_have_the_bytes_of_others(sample: Library) -> None:
    check_bytes(sample, REQUESTS)


def check_bytes(sample: Library, requests: Sequence[tuple[str, str, Any]]) -> None:
    """Each request, alone and in two sessions, has the response of a server without a cache."""
    with (
        serving_in_thread(sample) as plain,
        serving_in_thread(sample, response_cache_mb=64) as caching,
        httpx.Client() as client,
    ):
        for method, path, body in requests:
            for session in ("", "a", "b"):
                headers = {"X-ScholarBase-Session": session} if session else {}
                expected, *others = (
                    client.request(method, url + path, json=body, headers=headers)
                    for url in (plain, caching, caching)
                )
                assert expected.status_code == 200, expected.text
                for one in others:
                    assert one.content == expected.content, path
                    for name in ("etag", "content-type", "x-scholarbase-ignored"):
                        assert one.headers.get(name) == expected.headers.get(name)
        assert counts(plain)["hit"] == 0
        assert counts(caching)["hit"] > 2 * len(requests)
        calls = [client.get(f"{url}/v1/sessions/a/trajectory").text for url in (plain, caching)]
        ids = [re.findall(r'"ids":\[.*?\]', text) for text in calls]
        assert ids[0] == ids[1][::2]
        assert ids[0] == ids[1][1::2]


def test_what_a_session_has_seen_is_not_kept(sample: Library) -> None:
    with (
        serving_in_thread(sample, response_cache_mb=64) as url,
        httpx.Client(headers={"X-ScholarBase-Session": "seen"}) as client,
    ):
        pages = [
            client.post(f"{url}/v1/search", json={"q": "string theory", "exclude_seen": True}).json()[
                "results"
            ]
            for _ in range(2)
        ]
    first, second = ({hit["paper"]["id"] for hit in page} for page in pages)
    assert first
    assert not first & second


def response(body: bytes) -> CallResponse:
    return CallResponse({}, body, "json", ())


async def test_equal_requests_run_once_and_failures_are_shared_but_not_kept() -> None:
    cache = ResponseCache(load_settings(), CollectorRegistry())
    runs: list[str] = []

    async def run(outcome: CallResponse | Exception) -> CallResponse:
        runs.append("run")
        await asyncio.sleep(0.01)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def all_of(key: str, *outcomes: CallResponse | Exception) -> list[Any]:
        runs.clear()
        calls = [cache.get(key.encode(), lambda one=one: run(one)) for one in outcomes]  # type: ignore[misc]
        return await asyncio.gather(*calls, return_exceptions=True)

    same = response(b"same")
    assert await all_of("a", same, same, same) == [same] * 3
    assert runs == ["run"]
    assert await all_of("a", response(b"other")) == [same]
    assert runs == []
    invalid = InvalidRequest("no")
    assert await all_of("b", invalid, same, same) == [invalid] * 3
    assert await all_of("b", same) == [same]
    # One that is refused says nothing about those of other clients.
    full = Busy("full")
    assert await all_of("c", full, same, same) == [full, same, same]
    assert runs == ["run"] * 2
    task = asyncio.create_task(cache.get(b"d", lambda: run(same)))
    other = asyncio.create_task(cache.get(b"d", lambda: run(same)))
    await asyncio.sleep(0)
    task.cancel()
    assert await other == same


async def test_the_size_is_bounded() -> None:
    cache = ResponseCache(load_settings(response_cache_mb=1), CollectorRegistry())

    async def run(size: int) -> CallResponse:
        return response(b"x" * size)

    keys = [b"%d" % number for number in range(100)]
    for key in keys:
        await cache.get(key, lambda: run(2**16))
    assert [key for key in keys if key in cache] == keys[85:]
    await cache.get(keys[85], lambda: run(2**16))  # now the last that was used
    await cache.get(keys[0], lambda: run(2**16))
    assert (keys[85] in cache, keys[86] in cache) == (True, False)
    await cache.get(b"large", lambda: run(2**21))
    assert b"large" not in cache


def test_workers_share_what_one_of_them_makes(tmp_path: Path) -> None:
    settings = load_settings(workers=2, response_cache_mb=1)
    runtime = Runtime(tmp_path)

    async def main() -> None:
        workers = [ResponseCache(settings, CollectorRegistry()) for _ in range(3)]
        for worker in workers:
            worker.share(runtime.response_socket)
        first, second, third = workers
        runs: list[str] = []

        async def run(name: str, outcome: bytes | Exception = b"made") -> CallResponse:
            runs.append(name)
            await asyncio.sleep(0.02)
            if isinstance(outcome, Exception):
                raise outcome
            return response(outcome)

        async def all_of(key: bytes, outcome: bytes | Exception = b"made") -> list[Any]:
            """Each worker asks twice, the first one before the others; its first request has ``outcome``."""
            runs.clear()
            outcomes = {"0": outcome}
            calls: list[asyncio.Task[CallResponse]] = []
            for number, worker in enumerate(workers):
                for _ in range(2):
                    make = partial(run, str(number), outcomes.pop(str(number), b"made"))
                    calls.append(asyncio.create_task(worker.get(key, make)))
                while not runs:
                    await asyncio.sleep(0.001)
            return await asyncio.gather(*calls, return_exceptions=True)

        made, invalid = response(b"made"), InvalidRequest("no")
        assert await all_of(b"a") == [made] * 6
        assert runs == ["0"]
        # Of a worker that fails, only those that wait in it have the error. The next worker makes the response.
        assert await all_of(b"b", invalid) == [invalid] * 2 + [made] * 4
        assert runs == ["0", "1"]
        # Without asking, each worker makes its own.
        runs.clear()
        alone = [each.get(b"alone", partial(run, str(at)), alone=True) for at, each in enumerate(workers)]
        assert await asyncio.gather(*alone) == [made] * 3
        assert runs == ["0", "1", "2"]
        # A large response is not shared, nor kept.
        large = response(b"x" * (MAX_BYTES + 1))
        assert await all_of(b"c", large.body) == [large] * 2 + [made] * 4
        # The client for which it is made goes, or the worker that makes it ends.
        for key, end in ((b"d", lambda task: task.cancel()), (b"e", lambda _: first.close())):
            runs.clear()
            making = asyncio.create_task(first.get(key, lambda: run("lost", b"lost")))
            await asyncio.sleep(0.01)
            others = [asyncio.create_task(each.get(key, lambda: run("next"))) for each in (second, third)]
            await asyncio.sleep(0)
            end(making)
            assert [await other for other in others] == [made] * 2
            assert runs == ["lost", "next"]
        await asyncio.wait((making,))
        for worker in workers:
            worker.close()

    async def stopped() -> None:
        """A worker that never ends a request does not stop those of others."""
        stuck, other = (ResponseCache(load_settings(timeout=0.1), CollectorRegistry()) for _ in range(2))
        for worker in (stuck, other):
            worker.share(runtime.response_socket)
        begun, never = asyncio.Event(), asyncio.Event()

        async def run(*, ends: bool) -> CallResponse:
            begun.set()
            if not ends:
                await never.wait()
            return response(b"made")

        first = asyncio.create_task(stuck.get(b"f", lambda: run(ends=False)))
        await begun.wait()
        assert await other.get(b"f", lambda: run(ends=True)) == response(b"made")
        never.set()
        await first
        for worker in (stuck, other):
            worker.close()

    async def alone() -> None:
        cache = ResponseCache(settings, CollectorRegistry())
        cache.share(runtime.response_socket)  # nobody listens any more

        async def run() -> CallResponse:
            return response(b"alone")

        assert (await cache.get(b"e", run)).body == b"alone"

    with sharing_responses(settings, runtime):
        asyncio.run(main())
        asyncio.run(stopped())
    asyncio.run(alone())


@pytest.mark.parametrize("other", [{"limit": 1.0}, {"limit": True}, {"limit": "1"}, {"limit": 2}, {"l": 1}])
def test_different_requests_have_different_keys(other: dict[str, Any]) -> None:
    key = key_of(b"seed", "search", request={"limit": 1})
    assert key == key_of(b"seed", "search", request={"limit": 1})
    assert key != key_of(b"seed", "search", request=other)
    assert key != key_of(b"seed", "other", request={"limit": 1})

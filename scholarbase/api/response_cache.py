"""Responses that a process keeps for equal requests, and requests that share the response of one that is running."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from hashlib import blake2b
from typing import Any, Final, Protocol, TypeVar, cast

from prometheus_client import CollectorRegistry, Counter

from scholarbase.errors import Busy, Cancelled
from scholarbase.search.cache import Cache
from scholarbase.settings import Settings

MAX_BYTES: Final = 2**18
"""Bytes of a response that is kept: a hundred papers with their abstracts. A larger one takes the room of many, and is
seldom asked for again."""
ENTRY_BYTES: Final = 1024
"""Bytes that a kept response takes besides its body, roughly."""
_KEY_BYTES: Final = 16


class Kept(Protocol):
    """A response that is not changed."""

    @property
    def body(self) -> bytes: ...


K = TypeVar("K", bound=Kept)


class ResponseCache:
    """Responses by snapshot, route and request, the least recently used removed first. For one event loop."""

    def __init__(self, settings: Settings, registry: CollectorRegistry) -> None:
        size = settings.response_cache_mb * 2**20
        self._cache: Cache[Kept] = Cache(size, lambda response: len(response.body) + ENTRY_BYTES)
        self._running: dict[Hashable, asyncio.Future[Any]] = {}
        requests = Counter(
            "scholarbase_response_cache",
            "Requests that may be answered from the response cache: hit, shared (the response of an equal request that "
            "was running) or miss.",
            ("result",),
            registry=registry,
        )
        self._hits, self._shared, self._misses = map(requests.labels, ("hit", "shared", "miss"))

    def __contains__(self, key: Hashable) -> bool:
        return key in self._cache

    async def get(self, key: Hashable, run: Callable[[], Awaitable[K]]) -> K:
        """The kept response; else that of an equal request, if one is running; else that of ``run``.

        Raises what ``run`` raises, here or for the equal request. Where that was refused or cancelled, this one runs.
        """
        while (kept := self._cache.find(key)) is None:
            running = self._running.get(key)
            if running is None:
                self._misses.inc()
                return await self._run(key, run)
            try:
                value: K = await asyncio.shield(running)
            except (Busy, Cancelled):
                continue
            self._shared.inc()
            return value
        self._hits.inc()
        return cast(K, kept)

    async def _run(self, key: Hashable, run: Callable[[], Awaitable[K]]) -> K:
        running = self._running[key] = asyncio.get_running_loop().create_future()
        try:
            value = await run()
        except BaseException as error:
            # A future cannot raise CancelledError without being cancelled.
            running.set_exception(error if isinstance(error, Exception) else Cancelled("The request ended."))
            running.exception()  # retrieved, although perhaps nothing waits for it
            raise
        else:
            if len(value.body) <= MAX_BYTES:
                self._cache.put(key, value)
            running.set_result(value)
            return value
        finally:
            del self._running[key]


def key_of(seed: bytes, *parts: Hashable, request: object) -> Hashable:
    """The key of a response: ``seed`` is :attr:`.Held.seed`, and ``parts`` are what runs the request."""
    text = repr(request).encode("utf-8", "backslashreplace")
    return seed, *parts, blake2b(text, digest_size=_KEY_BYTES).digest()

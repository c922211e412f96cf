"""Responses that a process keeps for equal requests, and requests that share the response of one that is running."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from hashlib import blake2b
from typing import Any, Final, Protocol, TypeVar

from prometheus_client import CollectorRegistry, Counter

from scholarbase.errors import Busy, Cancelled
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
        self._size = settings.response_cache_mb * 2**20
        self._bytes = 0
        self._responses: OrderedDict[Hashable, asyncio.Future[Any]] = OrderedDict()
        """Those that are kept, and those of running requests; the least recently used first."""
        requests = Counter(
            "scholarbase_response_cache",
            "Requests that may be answered from the response cache: hit, shared (the response of an equal request that "
            "was running) or miss.",
            ("result",),
            registry=registry,
        )
        self._hits, self._shared, self._misses = map(requests.labels, ("hit", "shared", "miss"))

    def __contains__(self, key: Hashable) -> bool:
        return key in self._responses and self._responses[key].done()

    async def get(self, key: Hashable, run: Callable[[], Awaitable[K]]) -> K:
        """The kept response; else that of an equal request, if one is running; else that of ``run``.

        Raises what ``run`` raises, here or for the equal request. Where that was refused or cancelled, this one runs.
        """
        response: K
        while (future := self._responses.get(key)) is not None:
            result = self._hits if future.done() else self._shared
            self._responses.move_to_end(key)
            with suppress(Busy, Cancelled):
                response = await asyncio.shield(future)
                result.inc()
                return response
        self._misses.inc()
        future = self._responses[key] = asyncio.get_running_loop().create_future()
        try:
            response = await run()
        except BaseException as error:
            del self._responses[key]
            # A future cannot raise CancelledError without being cancelled.
            future.set_exception(error if isinstance(error, Exception) else Cancelled("The request ended."))
            future.exception()  # retrieved, although perhaps nothing waits for it
            raise
        future.set_result(response)
        self._bytes += _size(response)
        if len(response.body) > MAX_BYTES or _size(response) > self._size:
            self._remove(key)
        while self._bytes > self._size:
            self._remove(next(key for key, kept in self._responses.items() if kept.done()))
        return response

    def _remove(self, key: Hashable) -> None:
        self._bytes -= _size(self._responses.pop(key).result())


def _size(response: Kept) -> int:
    return len(response.body) + ENTRY_BYTES


def key_of(seed: bytes, *parts: Hashable, request: object) -> Hashable:
    """The key of a response: ``seed`` is :attr:`.Library.seed`, and ``parts`` are what runs the request."""
    text = repr(request).encode("utf-8", "backslashreplace")
    return seed, *parts, blake2b(text, digest_size=_KEY_BYTES).digest()

"""Responses that a process keeps for equal requests, and requests that share the response of one that is running."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from prometheus_client import CollectorRegistry, Counter

from scholarbase.api.response_sharing import ENTRY_BYTES, KEY_BYTES, SharedResponses
from scholarbase.errors import Busy, Cancelled
from scholarbase.settings import Settings

MAX_BYTES: Final = 2**18
"""Bytes of a response that is kept: a hundred papers with their abstracts. A larger one takes the room of many, and is
seldom asked for again."""

WAIT: Final = 0.8
"""The part of its time limit that a request waits for an equal one in another worker."""


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
        self._kept: OrderedDict[bytes, Any] = OrderedDict()
        """The least recently used first."""
        self._running: dict[bytes, asyncio.Future[Any]] = {}
        self._wait = WAIT * settings.timeout
        self._shared: SharedResponses | None = None
        requests = Counter(
            "scholarbase_response_cache",
            "Requests that may be answered from the response cache: hit (also in another process), shared (the "
            "response of an equal request that was running in this one) or miss.",
            ("result",),
            registry=registry,
        )
        self._hits, self._joined, self._misses = map(requests.labels, ("hit", "shared", "miss"))

    def share(self, path: Path) -> None:
        """Share responses with the other workers of a server, through its first process, which listens at ``path``."""
        self._shared = SharedResponses(path, self._wait)

    async def start(self) -> None:
        """Meet the other workers."""
        if self._shared is not None:
            await self._shared.connect()

    def close(self) -> None:
        """Leave the other workers."""
        if self._shared is not None and self._shared.transport is not None:
            self._shared.transport.close()

    def __contains__(self, key: bytes) -> bool:
        return key in self._kept

    async def get(self, key: bytes, run: Callable[[], Awaitable[K]], *, alone: bool = False) -> K:
        """The kept response; else that of an equal request, if one is running; else that of ``run``.

        With ``alone`` the other workers are not asked: asking takes 0.2 ms of processor time.

        Raises what ``run`` raises, here or for the equal request. Where that was refused or cancelled, this one runs.
        """
        response: K
        while (future := self._running.get(key)) is not None:
            with suppress(Busy, Cancelled):
                response = await asyncio.shield(future)
                self._joined.inc()
                return response
        if key in self._kept:
            self._hits.inc()
            self._kept.move_to_end(key)
            response = self._kept[key]
            return response
        future = self._running[key] = asyncio.get_running_loop().create_future()
        is_hit = False
        try:
            if self._shared is None or alone:
                response = await run()
            else:
                response, is_hit = await self._shared.get(key, run, _is_kept)
        except BaseException as error:
            # A future cannot raise CancelledError without being cancelled.
            future.set_exception(error if isinstance(error, Exception) else Cancelled("The request ended."))
            future.exception()  # retrieved, although perhaps nothing waits for it
            raise
        finally:
            del self._running[key]
            (self._hits if is_hit else self._misses).inc()
        future.set_result(response)
        if _is_kept(response):
            self._keep(key, response)
        return response

    def _keep(self, key: bytes, response: Kept) -> None:
        self._kept[key] = response
        self._bytes += _size(response)
        while self._bytes > self._size:
            self._bytes -= _size(self._kept.popitem(last=False)[1])


def _size(response: Kept) -> int:
    return len(response.body) + ENTRY_BYTES


def _is_kept(response: Kept) -> bool:
    return len(response.body) <= MAX_BYTES


def key_of(seed: bytes, *parts: Hashable, request: object) -> bytes:
    """The key of a response, the same in all workers of a server.

    Args:
        seed: :attr:`.Library.response_fingerprint`.
        parts: what runs the request, in values that say the same in every worker, such as its path.
        request: its content, whose ``repr`` says all that the response depends on.
    """
    text = repr((parts, request)).encode("utf-8", "backslashreplace")
    return blake2b(text, key=seed, digest_size=KEY_BYTES).digest()

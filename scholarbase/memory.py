"""Checks of the address space where a limit is set (``ulimit -v``), and the pace of the garbage collector.

Native libraries do not return an error for every failed allocation: most abort the process. Qdrant Edge waits forever
if the allocation fails while it formats the backtrace of an error: it holds the lock that Rust's handler of failed
allocations takes (https://doc.rust-lang.org/src/std/alloc.rs.html, ``default_alloc_error_hook``). Neither can be
caught, so the space is checked before.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from scholarbase.errors import OutOfMemory

INGEST_BYTES: Final = 2048 << 20
"""Address space of an ingest, besides that of each core. Measured with two cores: 2,170 MB for the sample."""
SERVER_BYTES: Final = 1536 << 20
"""Address space of a server process, besides that of each core. Measured with two cores: 1,750 MB for the sample."""
CORE_BYTES: Final = 128 << 20
"""Address space for each core: the stacks and heaps of the threads that run there."""
RARE_COLLECTIONS: Final = (20_000, 20, 20)
"""Thresholds of Python's garbage collector for processes that make many tuples and records without cycles. With the
defaults, all objects of a server's process were searched for cycles every few seconds, which took 80 ms."""
SERVER_COLLECTIONS: Final = (2_000, 10, 200)
"""The same for a server, whose objects all live while thousands of requests wait: each collection looks at few of them,
and a full one, which took a third of a second, is rare."""


def check_address_space(needed: int, action: str) -> None:
    """Check that the limit of this process leaves ``needed`` bytes. Without a limit it does nothing.

    Raises:
        OutOfMemory: it leaves less.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return
    free = max(0, limit - _used())
    if free < needed:
        raise OutOfMemory(
            f"{action} needs about {_megabytes(needed)} MB of address space, but the limit of {_megabytes(limit)} MB "
            f"leaves {_megabytes(free)} MB: raise the limit with ulimit -v, or remove it."
        )


def limit_process(size: int) -> None:
    """Limit this process to ``size`` bytes of address space, or less if it has such a limit, and write no core dump."""
    for kind, value in ((resource.RLIMIT_AS, size), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(kind)[1]
        least = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (least, least))


@contextmanager
def rare_collections() -> Iterator[None]:
    """Run the garbage collector less often in the block."""
    thresholds = gc.get_threshold()
    gc.set_threshold(*RARE_COLLECTIONS)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


def with_cores(size: int) -> int:
    """``size`` bytes, and those of all cores."""
    return size + CORE_BYTES * cores()


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def memory_errors(advice: str) -> Iterator[None]:
    """Turn a failed allocation or start of a thread inside the block into an OutOfMemory that ends with ``advice``."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and str(error) != "can't start new thread":
            raise
        raise OutOfMemory(
            f"There is not enough memory ({error or 'an allocation failed'}): {advice}."
        ) from error


def _used() -> int:
    """Bytes of address space in use; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except OSError:
        return 0
    return pages * resource.getpagesize()


def _megabytes(size: int) -> str:
    return f"{size / (1 << 20):,.0f}"


_libc: Final = ctypes.CDLL(None)
_M_ARENA_MAX: Final = -8
"""``malloc.h`` of glibc."""
ARENAS: Final = 1
"""Heaps that the threads of a server's process share. With one each, glibc's default, memory that some threads freed is
not used by others: after floods of large requests a process kept 380 MB, 90 MB with two heaps and 60 MB with one."""


def limit_arenas() -> None:
    """Let all threads that start from now on share one heap (mallopt(3)). Without glibc it does nothing."""
    mallopt = getattr(_libc, "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, ARENAS)


_malloc_trim: Final = getattr(_libc, "malloc_trim", None)


def return_free_memory() -> None:
    """Return the free memory of this process to the system, which glibc otherwise keeps."""
    gc.collect()
    if _malloc_trim is not None:
        _malloc_trim(0)


class FreeMemory:
    """Returns free memory to the system, which glibc otherwise keeps, some seconds after it was used."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None

    def soon(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._return)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _return(self) -> None:
        self._timer = None
        asyncio.get_running_loop().run_in_executor(None, return_free_memory)

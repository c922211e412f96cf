"""Rate limits: requests per minute and key, counted over all workers.

The generic cell rate algorithm (ITU-T I.371, annex A, virtual scheduling; https://brandur.org/rate-limiting explains
it) stores one time per key, at which its next request is due if requests are evenly spaced. A request that is earlier
than the burst allows is rejected and not counted; any other adds ``60 / rate`` seconds to the time.

Bursts of up to one minute's requests are allowed: ``rate`` per minute in the long run, and less than twice that in any
one minute.
"""

from __future__ import annotations

import fcntl
import math
import mmap
import struct
import time
import zlib
from pathlib import Path
from typing import Final, NamedTuple

FILE_NAME: Final = "rates"
"""The name of the file of times in the folder that workers share."""
WINDOW: Final = 60.0
"""Seconds in which a limit is counted."""
SLOTS: Final = 16_384
PROBES: Final = 32
"""The number of slots in which a key may store its time. If all are in use, it replaces the key with the fewest recent
requests."""
_SLOT: Final = struct.Struct("=8sd")
"""A key's id, and its time in seconds of the monotonic clock, which is the same in all processes."""
_EMPTY: Final = bytes(8)


class Verdict(NamedTuple):
    """The decision on a request.

    ``wait`` is 0 if the request is accepted, else the seconds until it would be. ``remaining`` is the number of further
    requests that would be accepted now, ``full`` the seconds until the whole limit is available again.
    """

    wait: float
    remaining: int
    full: float


def _decide(due: float, rate: int, now: float) -> tuple[Verdict, float]:
    """The decision on a request of a key with this time and limit, and the key's new time."""
    interval = WINDOW / rate
    due = max(due, now)
    # The last request of a burst is exactly at the limit, apart from rounding errors.
    wait = due + interval - WINDOW - now
    if wait > 1e-6:
        return Verdict(wait, 0, due - now), due
    due += interval
    return Verdict(0.0, math.floor((WINDOW - (due - now)) / interval + 1e-6), due - now), due


def make_file(path: Path) -> None:
    """Create a file in which several processes can count together."""
    with path.open("xb") as out:
        out.truncate(SLOTS * _SLOT.size)


class Rates:
    """The request counts of all keys. Not thread-safe. ``shared`` is a file of :func:`make_file`, or None."""

    def __init__(self, shared: Path | None = None) -> None:
        self._file = None if shared is None else shared.open("r+b")
        self._times = mmap.mmap(-1 if self._file is None else self._file.fileno(), SLOTS * _SLOT.size)

    def close(self) -> None:
        """Close the file, which keeps its contents."""
        self._times.close()
        if self._file is not None:
            self._file.close()

    def count(self, key_id: str, rate: int, now: float | None = None) -> Verdict:
        """Count a request of a key with this limit, unless it is rejected."""
        if self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            now = time.monotonic() if now is None else now
            key = key_id.encode()
            at, due = self._find(key, now)
            verdict, due = _decide(due, rate, now)
            _SLOT.pack_into(self._times, at, key, due)
        finally:
            if self._file is not None:
                fcntl.flock(self._file, fcntl.LOCK_UN)
        return verdict

    def _find(self, key: bytes, now: float) -> tuple[int, float]:
        """The offset of a key's slot, and its time. A slot whose time has passed is free for another key."""
        first = zlib.crc32(key)
        best, least = 0, math.inf
        for probe in range(PROBES):
            at = (first + probe) % SLOTS * _SLOT.size
            stored, due = _SLOT.unpack_from(self._times, at)
            if stored == key:
                return at, due
            if stored == _EMPTY:
                due = -math.inf
            if max(due, now) < least:
                best, least = at, max(due, now)
            if stored == _EMPTY:
                break
        return best, now

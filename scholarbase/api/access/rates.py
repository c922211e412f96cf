"""How often a key may ask: a limit of requests a minute, counted over all serving processes.

The generic cell rate algorithm (ITU-T I.371, annex A, as virtual scheduling; https://brandur.org/rate-limiting is
easier to read) keeps one time for each key: when its next request would be due if all came evenly. A request that
comes earlier than that by more than the burst allows is refused and costs nothing; any other moves the time on by
``60 / rate`` seconds.

The burst is a minute's requests. A key that was idle may so ask all of them at once, as a program does that fans out,
and goes on at its rate: ``rate`` a minute in the long run, and less than twice that in the worst minute.
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
"""The file of the times, in the folder that serving processes share."""
WINDOW: Final = 60.0
"""Seconds: a limit is so many requests a minute."""
SLOTS: Final = 16_384
PROBES: Final = 32
"""How many slots a key may have its time in. Should those all be in use, the key among them that has asked least
begins anew."""
_SLOT: Final = struct.Struct("=8sd")
"""A key's id, and its time in seconds of the machine's monotonic clock, which all processes share."""
_EMPTY: Final = bytes(8)


class Verdict(NamedTuple):
    """What becomes of a request: ``wait`` is 0 where it is let in, else the seconds until it would be. ``remaining``
    is how many more would be let in at once, ``full`` the seconds until all of the limit is there again."""

    wait: float
    remaining: int
    full: float


def judge(due: float, rate: int, now: float) -> tuple[Verdict, float]:
    """The algorithm: a key's time and limit to the verdict on a request, and the key's new time."""
    interval = WINDOW / rate
    due = max(due, now)
    # The last of a burst comes exactly as early as it may, but for the last bits of a sum.
    wait = due + interval - WINDOW - now
    if wait > 1e-6:
        return Verdict(wait, 0, due - now), due
    due += interval
    return Verdict(0.0, math.floor((WINDOW - (due - now)) / interval + 1e-6), due - now), due


def make_file(path: Path) -> None:
    """A file in which the processes that open it count together."""
    with path.open("xb") as out:
        out.truncate(SLOTS * _SLOT.size)


class Rates:
    """The limits of all keys; for one thread. ``shared`` is a file of :func:`make_file`, None for this process
    alone."""

    def __init__(self, shared: Path | None = None) -> None:
        self._file = None if shared is None else shared.open("r+b")
        self._times = mmap.mmap(-1 if self._file is None else self._file.fileno(), SLOTS * _SLOT.size)

    def close(self) -> None:
        """Let go of the file. What stands in it stays."""
        self._times.close()
        if self._file is not None:
            self._file.close()

    def ask(self, key_id: str, rate: int, now: float | None = None) -> Verdict:
        """What becomes of a request of a key with this limit."""
        if self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            now = time.monotonic() if now is None else now
            key = key_id.encode()
            at, due = self._find(key, now)
            verdict, due = judge(due, rate, now)
            _SLOT.pack_into(self._times, at, key, due)
        finally:
            if self._file is not None:
                fcntl.flock(self._file, fcntl.LOCK_UN)
        return verdict

    def _find(self, key: bytes, now: float) -> tuple[int, float]:
        """A key's slot and time. A time that has passed says nothing, so that its slot is free for another key."""
        first = zlib.crc32(key)
        best, least = 0, math.inf
        for probe in range(PROBES):
            at = (first + probe) % SLOTS * _SLOT.size
            held, due = _SLOT.unpack_from(self._times, at)
            if held == key:
                return at, due
            if held == _EMPTY:
                due = -math.inf
            if max(due, now) < least:
                best, least = at, max(due, now)
            if held == _EMPTY:
                break
        return best, now

"""What a process remembers of sessions, so that most calls need not read them."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import Final, TypeVar

from scholarbase.sessions import rows
from scholarbase.sessions.progress import Progress
from scholarbase.sessions.session import Session
from scholarbase.sessions.storage import Connection, Storage

KNOWN_SESSIONS: Final = 10_000
FOLLOWED_SESSIONS: Final = 512
"""Sessions whose progress is remembered: some 200 kB for a thousand papers."""
USED_SECONDS: Final = 1.0
"""How often the time of a session's last use is written."""
MEASURE_SECONDS: Final = 1.0
"""How often the size of the file is measured."""

V = TypeVar("V")


class Registry:
    """Known sessions, and the progress of those that are followed. The writer's thread changes it; ``known``, the
    numbers of calls, and what is due may be used by any thread.

    Args:
        storage: tells when sessions were deleted, so that every process forgets those it knows: one of the same name
            may be another session.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._deletions_seen = storage.deletions()
        self._has_deleted = False
        self._known: OrderedDict[str, Session] = OrderedDict()
        self._progress: OrderedDict[str, Progress] = OrderedDict()
        self._used: OrderedDict[str, float] = OrderedDict()
        self._numbers: OrderedDict[str, int] = OrderedDict()
        self._measured = 0.0
        self.size = 0
        """The size of the file in bytes, as last measured."""

    def known(self, session_id: str) -> Session | None:
        """The session, unless sessions were deleted since it was read."""
        changed = self._storage.deletions()
        if changed != self._deletions_seen:
            self._deletions_seen = changed
            self._known.clear()
            self._numbers.clear()
        return self._known.get(session_id)

    def last_known(self, session_id: str) -> Session | None:
        """The session as it was last read, deleted or not."""
        return self._known.get(session_id)

    def remember(self, session: Session) -> None:
        _put(self._known, session.id, session, KNOWN_SESSIONS)

    def forget(self, session_id: str) -> None:
        """Forget a session that is deleted in the running transaction."""
        self._known.pop(session_id, None)
        self._progress.pop(session_id, None)
        self._numbers.pop(session_id, None)
        self._has_deleted = True

    def clear(self) -> None:
        self._known.clear()
        self._numbers.clear()
        self.forget_progress()

    def forget_progress(self) -> None:
        """Forget progress, which may hold what was rolled back."""
        self._progress.clear()
        self._used.clear()

    def committed(self) -> None:
        """Tell other processes, if the transaction deleted sessions."""
        if self._has_deleted:
            self._has_deleted = False
            self._storage.deleted()

    def progress(self, connection: Connection, session_id: str, opened: str) -> Progress:
        """The progress of the session opened at that time, with the calls recorded by other processes."""
        progress = self._progress.get(session_id)
        if progress is None or progress.opened != opened:
            progress = Progress(opened)
        _put(self._progress, session_id, progress, FOLLOWED_SESSIONS)
        for number, line in rows.calls_after(connection, session_id, progress.last):
            progress.add(number, line)
        return progress

    def last_number(self, session_id: str) -> int:
        """The number of the session's last call that this process has written or read; 0 where it knows none."""
        return self._numbers.get(session_id, 0)

    def set_last_number(self, session_id: str, number: int) -> None:
        _put(self._numbers, session_id, number, KNOWN_SESSIONS)

    def is_measure_due(self) -> bool:
        """Whether the size of the file is to be measured now."""
        at = time.monotonic()
        if at - self._measured < MEASURE_SECONDS:
            return False
        self._measured = at
        return True

    def is_use_due(self, session_id: str) -> bool:
        """Whether the time of the session's last use is to be written now."""
        at = time.monotonic()
        if at - self._used.get(session_id, 0.0) < USED_SECONDS:
            return False
        _put(self._used, session_id, at, KNOWN_SESSIONS)
        return True


def _put(remembered: OrderedDict[str, V], key: str, value: V, size: int) -> None:
    remembered.pop(key, None)
    remembered[key] = value
    while len(remembered) > size:
        remembered.popitem(last=False)

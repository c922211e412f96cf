"""Sessions, their limits and their recorded calls: plain data."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from scholarbase.errors import InvalidRequest
from scholarbase.models.calls import CallKind
from scholarbase.models.checks import as_of_day, check_text, shown
from scholarbase.settings import Settings

_ID: Final = re.compile(r"[A-Za-z0-9._~-]{1,128}", re.ASCII)
_DIGITS: Final = 16
MAX_TEXT: Final = 10_000
"""Characters of a session's ``query`` and ``query_id``."""
MAX_WHOLE: Final = 2**53 - 1
"""The largest number that every JSON reader reads."""


def check_session_id(value: object) -> str:
    """Raises InvalidRequest: not 1 to 128 letters, digits, dots, hyphens, underscores and tildes."""
    # "." and ".." would change the URL's path.
    if not isinstance(value, str) or not _ID.fullmatch(value) or value in (".", ".."):
        raise InvalidRequest(
            f"{shown(value, 140)} is not a valid session name: use 1 to 128 "
            "ASCII letters, digits, '.', '-', '_' and '~'."
        )
    return value


def session_key(name: str, owner: str) -> str:
    """What identifies a session in a store: its owner and its name, which has no slash."""
    return f"{owner}/{name}" if owner else name


def check_number(value: object, name: str) -> int | None:
    """A number of a call or a round, from a header or an argument; None where it is missing.

    Raises:
        InvalidRequest: it is not a whole number from 1 to ``MAX_WHOLE``.
    """
    if value is None:
        return None
    is_number = isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _DIGITS
    number = int(value) if is_number and isinstance(value, str) else value
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= MAX_WHOLE:
        raise InvalidRequest(
            f"{name} is {shown(value, 40)}: it must be a whole number from 1 to {MAX_WHOLE}."
        )
    return number


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that a session may use: calls, expansions among them, candidates (different papers that search and
    expansion calls returned), and tokens of responses (by :func:`responses.sizing.estimate_tokens`). None: no limit.

    Raises:
        InvalidRequest: a limit is not a whole number from 1 to ``MAX_WHOLE``.
    """

    calls: int | None = None
    expansions: int | None = None
    candidates: int | None = None
    tokens: int | None = None

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_WHOLE:
                raise InvalidRequest(
                    f"The limit of {name} is {value!r}: it must be a whole number from 1 to {MAX_WHOLE}. Leave it "
                    "out for no limit."
                )

    def __bool__(self) -> bool:
        # Evaluated several times for each call: asdict would take a tenth of a look-up.
        every = (self.calls, self.expansions, self.candidates, self.tokens)
        return any(value is not None for value in every)

    def to_dict(self) -> dict[str, int]:
        """The limits that are set."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, slots=True)
class Quotas:
    """The most that a folder of sessions may have: calls in a session, sessions of a key, and megabytes. None: no
    limit."""

    calls: int | None = None
    sessions: int | None = None
    megabytes: int | None = None

    @classmethod
    def of(cls, settings: Settings) -> Quotas:
        return cls(settings.session_calls, settings.sessions_per_key, settings.sessions_mb)


@dataclass(frozen=True, slots=True)
class Session:
    """What is fixed when a session opens.

    ``query_id`` and ``query`` are the question of a query set that it is for; ``as_of`` is the day after which no paper
    exists for it; ``owner`` is the id of the API key that opened it, empty on a server without keys. Sessions of
    different owners may have the same ``id``.

    Raises:
        InvalidRequest: a value is invalid.
    """

    id: str
    query_id: str = ""
    query: str | None = None
    as_of: str | None = None
    limits: Limits = field(default_factory=Limits)
    owner: str = ""
    opened: str = ""

    def __post_init__(self) -> None:
        check_session_id(self.id)
        for name in ("query_id", "query"):
            value = getattr(self, name)
            if value is None:
                continue
            if not isinstance(value, str) or (name == "query" and not value.strip()) or len(value) > MAX_TEXT:
                raise InvalidRequest(f"{name} must be a text of 1 to {MAX_TEXT} characters.")
            check_text(value, name)
        if self.as_of is not None:
            as_of_day(self.as_of)
        object.__setattr__(self, "query_id", self.query_id or self.id)
        object.__setattr__(self, "opened", self.opened or now())

    @property
    def key(self) -> str:
        return session_key(self.id, self.owner)

    def date_of_call(self, requested: str | None) -> str | None:
        """The ``as_of`` of a call that requests this one, or none.

        Raises:
            InvalidRequest: it is later than the session's.
        """
        if self.as_of is None or requested is None:
            return requested or self.as_of
        if as_of_day(requested) > as_of_day(self.as_of):
            raise InvalidRequest(
                f"as_of {requested!r} is later than {self.as_of!r}, the as_of of the session {self.id!r}: give that "
                "or an earlier one, or leave it out."
            )
        return requested

    def to_dict(self) -> dict[str, Any]:
        """The session as clients see it."""
        return {
            "session": self.id,
            "query_id": self.query_id,
            "query": self.query,
            "as_of": self.as_of,
            "limits": self.limits.to_dict(),
            "opened": self.opened,
        }


@dataclass(frozen=True, slots=True)
class CallRecord:
    """A call to record: a line of the trajectory (docs/trajectories.md) without what the session adds.

    ``ids`` are those that were returned, best first. ``key`` is the client's: a call sent twice with it is recorded
    once. ``error_type`` is the ``slug`` of the error. ``time`` is when the call began, by default now; ``ended`` when
    its response was ready, in microseconds of :func:`unix_time`, by default now. ``number`` is the one under which the
    budgets counted it before it ran. ``calls`` is the number of calls of its request.
    """

    tool: str
    kind: CallKind
    arguments: Mapping[str, Any]
    ids: tuple[str, ...] = ()
    scores: tuple[float, ...] | None = None
    time: str = ""
    seconds: float | None = None
    tokens: int | None = None
    parent: int | None = None
    round: int | None = None
    snapshot: str | None = None
    error: str | None = None
    error_type: str | None = None
    key: str | None = None
    number: int | None = None
    ended: int | None = None
    calls: int = 1


def unix_time() -> int:
    """Microseconds since 1970, by the clock that all processes of a machine share."""
    return time.time_ns() // 1000


def rfc3339(microseconds: int) -> str:
    """A time since 1970 in RFC 3339 form, in UTC, with microseconds."""
    moment = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=microseconds)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def now() -> str:
    """The time in RFC 3339 form, in UTC, with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

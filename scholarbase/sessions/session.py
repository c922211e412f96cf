"""What a session is, and what it keeps of a call: plain data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, Final

from scholarbase.errors import InvalidRequest
from scholarbase.models import check_text
from scholarbase.models.checks import as_of_day
from scholarbase.models.runs import CallKind

_ID: Final = re.compile(r"[A-Za-z0-9._~-]{1,128}", re.ASCII)
_DIGITS: Final = 16
MAX_TEXT: Final = 10_000
"""Characters of a query, or of the name of one, that a session is told."""


MAX_WHOLE: Final = 2**53 - 1
"""The largest number that every JSON reader reads."""


def check_session_id(value: object) -> str:
    """Raises InvalidRequest: not 1 to 128 letters, digits, dots, hyphens, underscores and tildes."""
    # A path of dots leads elsewhere.
    if not isinstance(value, str) or not _ID.fullmatch(value) or value in (".", ".."):
        shown = repr(value)
        raise InvalidRequest(
            f"{shown if len(shown) <= 140 else shown[:140] + '...'} is no name of a session: give 1 to 128 ASCII "
            "letters, digits, '.', '-', '_' and '~'."
        )
    return value


def check_number(value: object, name: str) -> int | None:
    """A number of a call or a round, as a header or an argument gives it; None where there is none.

    Raises:
        InvalidRequest: it is not a whole number of 1 or more.
    """
    if value is None:
        return None
    is_number = isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _DIGITS
    number = int(value) if is_number and isinstance(value, str) else value
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= MAX_WHOLE:
        shown = repr(value)
        shown = shown if len(shown) <= 40 else shown[:40] + "..."
        raise InvalidRequest(f"{name} is {shown}: it must be a whole number of 1 or more.")
    return number


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a session may ask: calls, expansions among them, candidates (different papers that search and expansion
    calls gave), and tokens of answers (an estimate: :func:`responses.sizing.estimate_tokens`). None: as much as it
    likes.

    Raises:
        InvalidRequest: a limit is not a whole number of 1 or more.
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
                    f"The limit of {name} is {value!r}: it must be a whole number of 1 or more. Leave it out for no "
                    "limit."
                )

    def __bool__(self) -> bool:
        # Asked several times of each call: asdict would take a tenth of a look-up.
        every = (self.calls, self.expansions, self.candidates, self.tokens)
        return any(value is not None for value in every)

    def to_dict(self) -> dict[str, int]:
        """The limits that there are."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Limits:
        """Raises InvalidRequest: a limit of another name, or a value that cannot be right."""
        known = tuple(f.name for f in fields(cls))
        for name in data:
            if name not in known:
                raise InvalidRequest(f"Unknown limit {name!r}: a session has {', '.join(known)}.")
        return cls(**data)


@dataclass(frozen=True, slots=True)
class Session:
    """What is fixed when a session opens.

    ``query_id`` and ``query`` say which question of a query set it is for; ``as_of`` is the day after which no paper
    exists for it; ``owner`` is the id of the API key that opened it, empty where no keys are in force.

    Raises:
        InvalidRequest: a value that cannot be right.
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

    def to_dict(self) -> dict[str, Any]:
        """What a client is told of a session."""
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
    """A call as it is kept; the trajectory's form (docs/trajectories.md) without what the session adds.

    ``ids`` are those that the caller got, best first. ``key`` is what a client sends a call with, so that the same call
    sent twice is kept once. ``counted``: it takes a place in the budgets of calls, and of expansions where it is one;
    ``taken`` says how many places were taken for it beforehand.
    """

    tool: str
    kind: CallKind
    arguments: Mapping[str, Any]
    ids: tuple[str, ...]
    scores: tuple[float, ...] | None = None
    time: str = ""
    seconds: float | None = None
    tokens: int | None = None
    parent: int | None = None
    round: int | None = None
    snapshot: str | None = None
    error: str | None = None
    key: str | None = None
    counted: bool = True
    taken: int = 0


def now() -> str:
    """The time as RFC 3339 has it, in UTC, with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

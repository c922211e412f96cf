"""Runs of an evaluation as plain data: rankings and judged queries."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
import orjson

from scholarbase.models.calls import Call

FORMAT: Final = 1
"""The version of the run folder's layout."""

MAX_GRADE: Final = 1_000_000
"""trec_eval allocates memory for every grade up to the highest, and overflows beyond 64 bits."""

Kind = Literal["search", "passages", "trajectory", "import"]
"""``passages``: ids are those of :mod:`scholarbase_research.evaluation.evidence`, not of papers."""
Found = Literal["id", "title", "absent"]


class RankedId(NamedTuple):
    """A result: the paper's canonical id and its score."""

    id: str
    score: float


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """A resolved answer: the canonical id of a paper, in the library or not.

    ``found`` is how it was found: by ``id``, by ``title``, or not at all (``absent``).
    """

    paper_id: str
    found: Found
    grade: Annotated[int, msgspec.Meta(ge=-MAX_GRADE, le=MAX_GRADE)] = 1

    @property
    def held(self) -> bool:
        return self.found != "absent"


@dataclass(frozen=True, slots=True)
class JudgedQuery:
    """A query with its answers resolved, each paper once.

    ``pool`` holds canonical ids. ``version`` is that of the paper in which evidence is searched, None for the text that
    is searched by default.
    """

    id: str
    text: str
    answers: tuple[JudgedAnswer, ...]
    intent: str | None = None
    category: str | None = None
    date: str | None = None
    pool: tuple[str, ...] | None = None
    version: int | None = None

    @property
    def relevant(self) -> tuple[JudgedAnswer, ...]:
        """The answers with a grade above zero, which recall counts."""
        return tuple(answer for answer in self.answers if answer.grade > 0)


@dataclass(frozen=True, slots=True)
class PaperNote:
    """Title, year and primary category (the first one) of a paper, for reports."""

    title: str | None
    year: int | None
    category: str | None = None


@dataclass(frozen=True, slots=True)
class RunManifest:
    """The facts of a run.

    ``queries`` has name, format, sha256, count and notes; ``search`` the search settings, None if unknown;
    ``answers`` how many were listed and held, and how they were found; ``files`` the SHA-256 of each file. ``command``
    makes the run again.
    """

    name: str
    kind: Kind
    snapshot: str
    papers: int
    version: str
    queries: dict[str, Any]
    search: dict[str, Any] | None
    answers: dict[str, int]
    command: str
    files: dict[str, str] = field(default_factory=dict)
    format: int = FORMAT

    @property
    def identity(self) -> str:
        """A hash of all facts but the name, the command and the files' hashes: runs of one identity have the same
        rankings."""
        facts = {k: v for k, v in asdict(self).items() if k not in ("command", "files", "name")}
        return hashlib.sha256(orjson.dumps(facts, option=orjson.OPT_SORT_KEYS)).hexdigest()[:32]

    def to_bytes(self) -> bytes:
        return orjson.dumps(
            asdict(self), option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
        )


@dataclass(frozen=True)
class Run:
    """A run in memory. ``rankings`` has an entry for every query, empty without results."""

    manifest: RunManifest
    queries: tuple[JudgedQuery, ...]
    rankings: Mapping[str, tuple[RankedId, ...]]
    papers: Mapping[str, PaperNote] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    calls: tuple[Call, ...] = ()

    @property
    def name(self) -> str:
        return self.manifest.name

    @property
    def depth(self) -> int:
        """The most results of a query: the depth of R@All."""
        return max(map(len, self.rankings.values()), default=0)

"""Records: what one line of a snapshot file says."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import orjson

from scholarbase.identifiers import Identifier
from scholarbase.models.status import PaperStatus

REJECTS_ALWAYS_ALLOWED: Final = 10
"""A small dataset does not fail because of a few bad lines."""
OWN_REJECTS_ALWAYS_ALLOWED: Final = 100
"""People's own files are small, and have entries without a title, or written by hand."""


@dataclass(slots=True)
class PaperRecord:
    """A paper in one source. ``publication_date`` is ISO ``YYYY-MM-DD``, ``arxiv_id`` has no version.

    ``external_ids`` maps schemes of :mod:`scholarbase.identifiers` (``DOI``, ``ACL``, ``DBLP``, ``MAG``, ``PMID``,
    ``PMCID``, ``sha``, ``Doc``, ``OpenAlex``, ``Key``, ``UUID``) to canonical values; arXiv and corpus ids have
    their own fields.
    ``further_dois`` name the paper too. ``groups`` are the authors that the source marks as organisations. ``details``
    has the known fields of :class:`.catalog.Details`. ``repaired``: the source has a damaged arXiv id. ``status`` is
    what the source says besides the abstract and the comment.
    ``references`` are the numbers of the OpenAlex works that the paper cites. ``line`` is where the record starts in
    its file, 0 if that is not known. ``written_title`` and ``written_abstract`` are texts with formulas as their author
    wrote them; ``title`` and ``abstract`` are plain text. ``tldr`` is a summary that comes with the paper.
    ``is_sure``: its ids are those of a full text, such as its file's name, and join it whatever its title is.
    """

    title: str
    corpus_id: int | None = None
    arxiv_id: str | None = None
    external_ids: dict[str, str] = field(default_factory=dict)
    further_dois: list[str] = field(default_factory=list)
    abstract: str | None = None
    authors: list[tuple[str, str | None]] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    year: int | None = None
    publication_date: str | None = None
    venue: str | None = None
    venue_id: str | None = None
    categories: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    citation_count: int | None = None
    reference_count: int | None = None
    url: str | None = None
    repaired: bool = False
    status: PaperStatus | None = None
    references: list[int] = field(default_factory=list)
    line: int = 0
    written_title: str | None = None
    written_abstract: str | None = None
    is_sure: bool = False
    tldr: str | None = None

    @property
    def work(self) -> int:
        """The number of its OpenAlex work, negated as by :func:`negative_work_id`."""
        return negative_work_id(int(self.external_ids["OpenAlex"][1:]))


@dataclass(slots=True)
class DeletedRecord:
    """Says that a source no longer has a paper: an arXiv record, or an OpenAlex work by its number."""

    arxiv_id: str | None = None
    work: int | None = None


@dataclass(slots=True)
class AbstractRecord:
    """``written`` is an abstract with formulas as its author wrote it."""

    corpus_id: int
    abstract: str
    written: str | None = None


@dataclass(slots=True)
class CitationRecord:
    """A citation between corpus ids; the numbers of OpenAlex works are below zero (:func:`negative_work_id`).

    ``citing`` or ``cited`` is None where the source does not know that end.
    """

    citing: int | None
    cited: int | None
    is_influential: bool | None = None
    contexts: list[str] = field(default_factory=list)
    intents: list[str] = field(default_factory=list)
    citation_id: int | None = None


@dataclass(slots=True)
class PaperIdRecord:
    """A sha-based id of a paper. A paper may have several, one of them primary."""

    corpus_id: int
    sha: str
    primary: bool


@dataclass(slots=True)
class AuthorRecord:
    author_id: str
    name: str
    aliases: list[str] = field(default_factory=list)
    affiliations: list[str] = field(default_factory=list)
    homepage: str | None = None
    paper_count: int | None = None
    citation_count: int | None = None
    h_index: int | None = None


@dataclass(slots=True)
class TldrRecord:
    corpus_id: int
    text: str


@dataclass(slots=True)
class VenueRecord:
    venue_id: str
    name: str
    alternate_names: list[str] = field(default_factory=list)
    kind: str | None = None
    issn: str | None = None
    url: str | None = None


def negative_work_id(work: int) -> int:
    """The number of an OpenAlex work, negated so that it cannot equal a corpus id."""
    return -work


Record = (
    PaperRecord
    | DeletedRecord
    | AbstractRecord
    | CitationRecord
    | PaperIdRecord
    | AuthorRecord
    | TldrRecord
    | VenueRecord
)


@dataclass(slots=True)
class Reject:
    """A line without a valid record: the reason, and a sentence that names the value."""

    reason: str
    detail: str


@dataclass(slots=True)
class Conflict:
    """An id that records of different papers have.

    ``file`` and ``line`` are those of a record that lost the id; if they are not known, its dataset and 0.
    ``titles``: the title of this record, and of one of the other paper.
    """

    file: str
    line: int
    id: Identifier
    titles: tuple[str, str]

    @property
    def reject(self) -> Reject:
        first, second = (title if len(title) <= 200 else f"{title[:197]}..." for title in self.titles)
        return Reject(
            "conflict", f'{self.id} is the id of "{first}" and of "{second}": they stay two papers.'
        )


NOTICES_FROM: Final = 8
"""The place of notices, which are written after all other entries, in any order."""
OwnRow = tuple[str, int, str, str]
"""An entry: the name of its file, its place among all entries, the record and the names of its sets (JSON)."""
Member = tuple[str, str, str]
"""A paper of a named set: the set's name, and the scheme and value of an id."""


def own_rows(records: Sequence[PaperRecord], sets: Collection[str], file: str) -> Iterator[OwnRow]:
    """The rows of a file's entries."""
    listed = orjson.dumps(sorted(sets)).decode()
    return ((file, _place(r), orjson.dumps(asdict(r)).decode(), listed) for r in records)


def record_of(stored: str) -> PaperRecord:
    """The record of a row."""
    return PaperRecord(**orjson.loads(stored))


def ids_of(record: PaperRecord) -> list[Identifier]:
    """The ids that join a record with others, its source's id first. A citation key joins none: another file may
    give it to another paper."""
    source_ids = (("CorpusId", record.corpus_id), ("OpenAlex", record.external_ids.get("OpenAlex")))
    dois = (("DOI", value) for value in record.further_dois)
    names = (*source_ids, ("arXiv", record.arxiv_id), *record.external_ids.items(), *dois)
    return [
        Identifier(scheme, str(value)) for scheme, value in names if value is not None and scheme != "Key"
    ]


def is_notice(record: PaperRecord) -> bool:
    """Whether an entry is a notice about a paper, which makes no paper itself."""
    return "notices" in record.details


def _place(record: PaperRecord) -> int:
    """Entries with ids that others know come first, those made of full texts last, and notices
    after all."""
    return (
        NOTICES_FROM * is_notice(record)
        + 4 * record.is_sure
        + 2 * (record.arxiv_id is None)
        + ("DOI" not in record.external_ids)
    )

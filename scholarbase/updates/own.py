"""People's own files in an update: which papers their entries may join.

A full build joins entries to the papers of all other sources. An update removes what entries gave to papers and joins
all entries again, so that both give the same papers. For that it needs every paper that has an id or the title of an
entry, also of a removed entry, and those that the keep rule dropped too.
"""

from __future__ import annotations

import logging
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import orjson

from scholarbase.errors import InvalidRequest, SourceError, TooManyRejects
from scholarbase.identifiers import Identifier
from scholarbase.indexes.catalog import find
from scholarbase.indexes.titles import title_hash
from scholarbase.ingest.records import OWN_REJECTS_ALWAYS_ALLOWED, PaperRecord, Reject, ids_of, record_of
from scholarbase.ingest.sources import Columns, Dataset, SourceFile, StoredBytes, read_records
from scholarbase.ingest.store import SCHEMES, About, RecordStore, links_of
from scholarbase.models.limits import KeepRule

log = logging.getLogger("scholarbase.updates")

MAX_ENTRIES: Final = 100_000
"""Entries that a library may have to be updated: their papers are in memory, some kilobytes each."""


@dataclass(slots=True)
class OwnKeys:
    """The ids and titles by which entries join papers."""

    ids: set[Identifier] = field(default_factory=set)
    titles: set[int] = field(default_factory=set)

    def add(self, records: Iterable[PaperRecord]) -> None:
        for record in records:
            self.ids.update(ids_of(record))
            self.titles.add(title_hash(record.title))

    def match(self, ids: Iterable[Identifier], title: int) -> bool:
        """Whether a paper with these ids and this hash of its title may be that of an entry."""
        return title in self.titles or not self.ids.isdisjoint(ids)

    def values(self, scheme: str) -> list[str]:
        return sorted(identifier.value for identifier in self.ids if identifier.scheme == scheme)

    def __len__(self) -> int:
        return len(self.ids) + len(self.titles)


def read_own(
    store: RecordStore,
    file: SourceFile,
    columns: Columns,
    sets: Collection[str] | None,
    max_reject_share: float,
) -> tuple[Counter[str], list[PaperRecord], list[tuple[int, Reject]]]:
    """Make a file's entries those of the file with its name, and return counts for a manifest, the earlier entries and
    the rejects. The sets stay if ``sets`` is None.

    Raises:
        SourceError: the file cannot be read, or has no entry.
        TooManyRejects: too many of its entries are rejected.
        InvalidRequest: the library then has more than ``MAX_ENTRIES``.
    """
    records: list[PaperRecord] = []
    rejects: list[tuple[int, Reject]] = []
    for entry in read_records(file, StoredBytes(), columns):
        if isinstance(entry.record, Reject):
            rejects.append((entry.line, entry.record))
        elif isinstance(entry.record, PaperRecord):
            entry.record.line = entry.line
            records.append(entry.record)
        if len(records) > MAX_ENTRIES:
            break
    total = len(records) + len(rejects)
    if not total:
        raise SourceError(f"{file.name} has no entry: leave it out, or export it again.")
    if not records or len(rejects) > max(OWN_REJECTS_ALWAYS_ALLOWED, max_reject_share * total):
        line, first = rejects[0]
        raise TooManyRejects(
            f"{len(rejects):,} of {total:,} entries of {file.name} were rejected. The first is at line {line}: "
            f"{first.detail}"
        )
    with store.transaction():
        earlier = store.replace_entries(file.name, records, sets)
    newer = OwnKeys()
    newer.add(records)
    gone = sum(not newer.match(ids_of(record), title_hash(record.title)) for record in earlier)
    if gone:
        log.warning(
            "%s replaces the file of that name in the library, which loses %d of its %d entries: to add a file, give "
            "it another name.",
            file.name,
            gone,
            len(earlier),
        )
    # An entry that only moved to another line is the same.
    now, before = (Counter(orjson.dumps(replace(r, line=0)) for r in listed) for listed in (records, earlier))
    same = (now & before).total()
    counts = Counter(records_updated=len(records) - same, records_unchanged=same, records_deleted=gone)
    return counts, earlier, rejects


def all_keys(store: RecordStore, earlier: OwnKeys) -> OwnKeys:
    """The keys of all entries, and of the ``earlier`` ones that were replaced.

    Raises:
        InvalidRequest: there are more than ``MAX_ENTRIES``.
    """
    entries, _ = store.own()
    keys = OwnKeys(set(earlier.ids), set(earlier.titles))
    for number, (_, _, record, _) in enumerate(entries, 1):
        if number > MAX_ENTRIES:
            raise InvalidRequest(
                f"The library's files of people's own have more than {MAX_ENTRIES:,} entries, too many for an update: "
                'run "scholarbase ingest" with the new release and the same files.'
            )
        keys.add([record_of(record)])
    return keys


def joined_papers(db: sqlite3.Connection, keys: OwnKeys) -> list[int]:
    """The numbers of the catalogue's papers that entries with these keys may have joined."""
    rows = db.execute(
        """
        SELECT id FROM papers WHERE title_hash IN (SELECT value FROM json_each(?))
        UNION SELECT id FROM papers WHERE arxiv_id IN (SELECT value FROM json_each(?))
        UNION SELECT id FROM papers WHERE corpus_id IN (SELECT CAST(value AS INTEGER) FROM json_each(?))
        UNION SELECT a.paper_id FROM json_each(?) AS wanted
            CROSS JOIN aliases AS a ON a.scheme = wanted.value ->> 0 AND a.value = wanted.value ->> 1
        """,
        [
            orjson.dumps(values).decode()
            for values in (
                sorted(keys.titles),
                keys.values("arXiv"),
                _whole(keys.values("CorpusId")),
                [[*identifier] for identifier in sorted(keys.ids)],
            )
        ],
    )
    return [row[0] for row in rows]


def add_records(
    about: About, db: sqlite3.Connection, store: RecordStore, keys: OwnKeys, keep: KeepRule
) -> None:
    """Add what the records with these keys are about, also those of papers that the catalogue lacks."""
    about.corpus_ids.update(_whole(keys.values("CorpusId")))
    about.arxiv_ids.update(keys.values("arXiv"))
    about.corpus_ids.update(
        record.corpus_id for record in store.records(Dataset.PAPER_IDS, "key", keys.values("sha"))
    )
    if keep == "title":
        return  # which drops no paper
    for dataset, record in _dropped(db, store, keep):
        if keys.match(ids_of(record), title_hash(record.title)):
            about.add(dataset, links_of(record))


def _dropped(
    db: sqlite3.Connection, store: RecordStore, keep: KeepRule
) -> Iterator[tuple[Dataset, PaperRecord]]:
    """The records of papers that the catalogue lacks."""
    for dataset, scheme in SCHEMES.items():
        # That rule never reads Semantic Scholar's papers without an arXiv id.
        only_arxiv = keep == "arxiv" and dataset is Dataset.PAPERS
        for keys in store.keys(dataset, only_arxiv=only_arxiv):
            known = find(db, [Identifier(scheme, str(key)) for key in keys])
            missing = [key for key in keys if Identifier(scheme, str(key)) not in known]
            for record in store.records(dataset, "key", missing):
                yield dataset, record


def _whole(values: Iterable[str]) -> list[int]:
    """Corpus ids as SQLite stores them, without larger ones."""
    return [int(value) for value in values if int(value) < 1 << 63]


def own_counts(joined: Counter[str], store: RecordStore) -> Counter[str]:
    """Counts of a manifest."""
    entries = store.db.execute("SELECT count(*) FROM own_entries").fetchone()[0]
    if not entries:
        return Counter()
    notices = {name: joined[name] for name in ("notices_joined", "notices_without_paper") if joined[name]}
    return Counter(own_entries=entries, own_joined=joined["own_joined"], **notices)

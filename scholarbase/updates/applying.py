"""Applies changes to the source records of a library, and remembers what they are about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import orjson

from scholarbase import identifiers
from scholarbase.ingest.batches import batched
from scholarbase.ingest.records import CitationRecord, DeletedRecord, PaperRecord, Record, Reject
from scholarbase.ingest.sources import (
    Columns,
    Dataset,
    SourceFile,
    StoredBytes,
    open_lines,
    openalex,
    read_records,
)
from scholarbase.ingest.store import About, Key, Links, RecordStore, cited_works, is_older, links_of
from scholarbase.updates.own import OwnKeys, read_own

T = TypeVar("T")

_AT_ONCE: Final = 5_000
"""Lines that are compared with the stored records at once."""


def _whole(value: Any) -> Key | None:
    digits = identifiers.number(str(value)) if type(value) in (int, str) else None
    return None if digits is None else int(digits)


def _text(value: Any) -> Key | None:
    return str(value) if type(value) in (int, str) and value != "" else None


def _digits(value: Any) -> Key | None:
    return identifiers.number(str(value)) if type(value) in (int, str) else None


def _sha(value: Any) -> Key | None:
    return identifiers.sha(value) if isinstance(value, str) else None


PRIMARY_KEYS: Final[dict[Dataset, tuple[str, Callable[[Any], Key | None]]]] = {
    Dataset.PAPERS: ("corpusid", _whole),
    Dataset.ABSTRACTS: ("corpusid", _whole),
    Dataset.TLDRS: ("corpusid", _whole),
    Dataset.PAPER_IDS: ("sha", _sha),
    Dataset.CITATIONS: ("citationid", _whole),
    Dataset.AUTHORS: ("authorid", _digits),
    Dataset.PUBLICATION_VENUES: ("id", _text),
    Dataset.ARXIV: ("id", lambda value: identifiers.stored_arxiv_id(value)[0]),
    Dataset.OPENALEX: ("id", openalex.work_key),
    Dataset.BEIR: ("_id", _text),
}
"""The primary key of each dataset, and how it is read."""


@dataclass(slots=True)
class Applied:
    """What the applied changes are about. Memory: some hundred bytes for each changed record."""

    about: About = field(default_factory=About)
    pairs: set[tuple[int, int]] = field(default_factory=set)
    """The corpus ids of citations that came, went or changed."""
    earlier_entries: OwnKeys = field(default_factory=OwnKeys)
    """The keys of entries of people's own files that were replaced."""
    counts: Counter[str] = field(default_factory=Counter)
    rejects: list[tuple[str, str, list[tuple[int, Reject]]]] = field(default_factory=list)


def apply_own(
    store: RecordStore,
    file: SourceFile,
    applied: Applied,
    columns: Columns,
    sets: Collection[str],
    max_reject_share: float,
) -> None:
    """Replace the file of the same name, whose sets it takes over unless it has others (:func:`.own.read_own`)."""
    counts, earlier, rejects = read_own(store, file, columns, sets or None, max_reject_share)
    applied.earlier_entries.add(earlier)
    applied.counts.update(counts)
    if rejects:
        applied.rejects.append((file.name, str(file.dataset), rejects))


def apply_updates(
    store: RecordStore,
    file: SourceFile,
    applied: Applied,
    sets: Collection[str],
    advance: Callable[[int], None],
) -> None:
    """Add the file's records to ``sets``, and to the store, or replace those with the same key. A rejected line removes
    the record of its key, which the full release would not have either. ``advance`` is called with the bytes read since
    the last call."""
    read = StoredBytes()
    for batch in batched(_advancing(read_records(file, read, {}), read, advance), _AT_ONCE):
        records: dict[Key, tuple[Record, bytes]] = {}
        gone: set[Key] = set()
        rejects: list[tuple[int, Reject]] = []
        for entry in batch:
            record, line = entry.record, entry.content
            if isinstance(record, Reject):
                rejects.append((entry.line, record))
                key = _key_of(file.dataset, line)
                if key is not None:
                    gone.add(key)
                    records.pop(key, None)
            else:
                key = links_of(record).key
                if key not in records or not is_older(file.dataset, line, records[key][1]):
                    records[key] = record, line
                gone.discard(key)
        with store.transaction():
            new = _replace(store, file.dataset, records, gone, applied)
            here = [key for key, (record, _) in records.items() if not isinstance(record, DeletedRecord)]
            store.join_sets(file.dataset, here if sets else (), sets)
        applied.counts["records_updated"] += new
        applied.counts["records_unchanged"] += len(records) - new
        if rejects:
            applied.rejects.append((file.name, str(file.dataset), rejects))


def apply_deletes(
    store: RecordStore, file: SourceFile, applied: Applied, advance: Callable[[int], None]
) -> None:
    """Delete the records with the file's keys. Those that do not exist count as deleted already. ``advance`` is called
    as by :func:`apply_updates`."""
    name, _ = PRIMARY_KEYS[file.dataset]
    read = StoredBytes()
    for batch in batched(_advancing(open_lines(file.path, read), read, advance), _AT_ONCE):
        keys: set[Key] = set()
        rejects: list[tuple[int, Reject]] = []
        for number, line in batch:
            key = _key_of(file.dataset, line)
            if key is None:
                rejects.append(
                    (number, Reject("bad-id", f"The line has no valid {name}: a key to delete was expected."))
                )
            else:
                keys.add(key)
        with store.transaction():
            _replace(store, file.dataset, {}, keys, applied)
        if rejects:
            applied.rejects.append((file.name, str(file.dataset), rejects))


def _advancing(values: Iterable[T], read: StoredBytes, advance: Callable[[int], None]) -> Iterator[T]:
    before = 0
    for value in values:
        yield value
        if read.count > before:
            advance(read.count - before)
            before = read.count


def _key_of(dataset: Dataset, line: bytes) -> Key | None:
    name, read = PRIMARY_KEYS[dataset]
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return read(record.get(name)) if isinstance(record, dict) else None


def _replace(
    store: RecordStore,
    dataset: Dataset,
    records: dict[Key, tuple[Record, bytes]],
    gone: set[Key],
    applied: Applied,
) -> int:
    """Replace records by key, and return the number of those that differ from the stored ones."""
    if dataset is Dataset.CITATIONS:
        return _replace_citations(store, records, gone, applied)
    stored: dict[Key, list[tuple[int, Links, bytes]]] = {}
    listed = orjson.dumps([*records, *gone]).decode()
    for number, key, corpus_id, arxiv_id, line in store.db.execute(
        """
        SELECT id, key, corpus_id, arxiv_id, line FROM records
        WHERE dataset = ? AND key IN (SELECT value FROM json_each(?))
        """,
        (str(dataset), listed),
    ).fetchall():
        stored.setdefault(key, []).append((number, Links(key, corpus_id, arxiv_id), line))
    new = [
        (record, line)
        for key, (record, line) in records.items()
        if _replaces(dataset, line, [store.line(row[2]) for row in stored.get(key, [])])
    ]
    replaced = [row for record, _ in new for row in stored.get(links_of(record).key, [])]
    deleted = [row for key in gone for row in stored.get(key, [])]
    store.db.executemany("DELETE FROM records WHERE id = ?", [(row[0],) for row in (*replaced, *deleted)])
    store.append(dataset, [record for record, _ in new], [line for _, line in new])
    if dataset is Dataset.OPENALEX:
        _replace_cited(store, [row[1].key for row in (*replaced, *deleted)], new, applied)
    store.leave_sets(dataset, gone)
    for _, links, _ in (*replaced, *deleted):
        applied.about.add(dataset, links)
    for record, _ in new:
        applied.about.add(dataset, links_of(record))
    applied.counts["records_deleted"] += len(deleted)
    return len(new)


def _replaces(dataset: Dataset, line: bytes, stored: list[bytes]) -> bool:
    """Whether a record takes the place of the stored ones."""
    return stored != [line] and not any(is_older(dataset, line, other) for other in stored)


def _replace_cited(
    store: RecordStore, works: list[Key], new: list[tuple[Record, bytes]], applied: Applied
) -> None:
    """Replace the citations of works, which their records have."""
    listed = orjson.dumps(works).decode()
    gone = "FROM citations WHERE key IN (SELECT value FROM json_each(?))"
    applied.pairs.update(store.db.execute(f"SELECT citing, cited {gone}", (listed,)))
    store.db.execute(f"DELETE {gone}", (listed,))
    citations = [
        citation for record, _ in new if isinstance(record, PaperRecord) for citation in cited_works(record)
    ]
    store.append(Dataset.CITATIONS, citations, [])
    applied.pairs.update((citation.citing or 0, citation.cited or 0) for citation in citations)


def _replace_citations(
    store: RecordStore, records: dict[Key, tuple[Record, bytes]], gone: set[Key], applied: Applied
) -> int:
    stored: dict[Key, list[tuple[Any, ...]]] = {}
    for row in store.db.execute(
        """
        SELECT key, citing, cited, is_influential, contexts, intents, id FROM citations
        WHERE key IN (SELECT value FROM json_each(?))
        """,
        (orjson.dumps([*records, *gone]).decode(),),
    ).fetchall():
        stored.setdefault(row[0], []).append(row)
    new = [
        record
        for key, (record, _) in records.items()
        if isinstance(record, CitationRecord)
        and [row[:6] for row in stored.get(key, [])] != [store.citation_row(record)]
    ]
    replaced = [row for record in new for row in stored.get(links_of(record).key, [])]
    deleted = [row for key in gone for row in stored.get(key, [])]
    store.db.executemany("DELETE FROM citations WHERE id = ?", [(row[6],) for row in (*replaced, *deleted)])
    store.append(Dataset.CITATIONS, new, [])
    ends = [row[1:3] for row in (*replaced, *deleted)] + [(record.citing, record.cited) for record in new]
    applied.pairs.update(
        (citing, cited) for citing, cited in ends if citing is not None and cited is not None
    )
    applied.counts["records_deleted"] += len(deleted)
    return len(new)

"""Joins notices, such as those of Retraction Watch, to the papers that they are about."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from typing import Final

import msgspec
import orjson

from scholarbase.databases import small_cache
from scholarbase.indexes.catalog import find
from scholarbase.ingest.claims import is_same_paper, stored_record
from scholarbase.ingest.records import NOTICES_FROM, PaperRecord, ids_of
from scholarbase.models.status import Notice, is_withdrawn, last_verdict, notices_until

_SCHEMES: Final = ("arXiv", "DOI", "PMID")
INDEX_ENTRIES: Final = (
    f"CREATE INDEX IF NOT EXISTS entries_by_place ON own_entries (place) WHERE place < {NOTICES_FROM}"
)
"""To read the entries that make papers without reading a million notices."""
_NOTICES: Final = dict[str, Notice]
MAX_NOTICES: Final = 50
"""Notices of a paper, the first by name: each one that is added writes all."""


def entries(db: sqlite3.Connection) -> Iterator[tuple[str, str, str]]:
    """File, record and sets of each entry of people's own files, in the order in which they are written.

    Notices are read as they are stored, each once: sorting a million of them would take a gigabyte of memory, and a
    large cache would keep all their pages.
    """
    yield from db.execute(
        f"SELECT file, record, sets FROM own_entries WHERE place < {NOTICES_FROM} ORDER BY place, record, file"
    )
    with small_cache(db):
        yield from db.execute(f"SELECT file, record, sets FROM own_entries WHERE place >= {NOTICES_FROM}")


def add_notice(db: sqlite3.Connection, record: PaperRecord) -> Counter[str]:
    """Add the notice of an entry to the paper with its DOI or PubMed id, and set the paper's status.

    The titles or the first authors must agree. Returns the count of ``notices_joined`` or ``notices_without_paper``.
    """
    known = find(db, [name for name in ids_of(record) if name.scheme in _SCHEMES])
    papers = (known[name] for name in ids_of(record) if name in known)
    number = next((paper for paper in papers if is_same_paper(record, stored_record(db, paper))), None)
    if number is None:
        return Counter(notices_without_paper=1)
    stored, status, comment = db.execute(
        "SELECT details -> '$.notices', status, details ->> '$.comment' FROM papers WHERE id = ?", (number,)
    ).fetchone()
    notices = orjson.loads(stored or "{}")
    for name, notice in record.details["notices"].items():
        notices[name] = max(notice, notices.get(name, notice), key=orjson.dumps)  # in any order of the rows
    for name in sorted(notices)[MAX_NOTICES:]:
        del notices[name]
    verdict = last_verdict(notices_until(msgspec.convert(notices, _NOTICES).values(), None))
    if verdict is not None and verdict.kind == "retraction":
        status = "retracted"
    elif verdict is not None and status == "retracted":
        row = db.execute("SELECT abstract FROM abstracts WHERE paper_id = ?", (number,)).fetchone()
        status = "withdrawn" if is_withdrawn(comment) or (row and is_withdrawn(row[0])) else None
    db.execute(
        "UPDATE papers SET details = json_set(coalesce(details, '{}'), '$.notices', json(?)), status = ? WHERE id = ?",
        (orjson.dumps(notices, option=orjson.OPT_SORT_KEYS).decode(), status, number),
    )
    return Counter(notices_joined=1)

"""Ids that several records claim: which of them keep an id, if they are of different papers.

Sources and people's own files have wrong ids: a sample's id in every entry, or a book's DOI in all of its chapters. An
id joins two records only if their titles or first authors agree. Else it stays with the record of the better source
(arXiv, Semantic Scholar, OpenAlex, own files), and of own entries alone none keeps it.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

import orjson

from scholarbase.bibliographies.names import surname
from scholarbase.identifiers import Identifier, arxiv_id_from_doi
from scholarbase.indexes.agreement import NAMING_LETTERS, is_same_work
from scholarbase.indexes.catalog import find
from scholarbase.indexes.titles import normalize_title, title_hash_of
from scholarbase.ingest.records import NOTICES_FROM, Conflict, PaperRecord, ids_of, record_of
from scholarbase.ingest.sources.own import own_key

_DOUBTFUL: Final = "doubtful_ids"
"""The table of :func:`doubtful_ids`."""
_FIRST_PAGE: Final = re.compile(r"\d+", re.ASCII)
_MOST_ENTRIES: Final = 10_000
"""Entries with one id that are compared; more than that have an id that says nothing."""

_MOST_COMPARED: Final = 20
"""Of these, how many the others are compared with."""


def is_same_paper(one: PaperRecord, other: PaperRecord) -> bool:
    """Whether two records with one id are of one paper."""
    first, second = (_FIRST_PAGE.search(_pages(record)) for record in (one, other))
    chapters = all(record.details.get("publication_types") == ["BookSection"] for record in (one, other))
    return is_same_work(
        one.title,
        [name for name, *_ in one.authors],
        other.title,
        [name for name, *_ in other.authors],
        are_parts=chapters or (first is not None and second is not None and first[0] != second[0]),
    )


def _pages(record: PaperRecord) -> str:
    journal = record.details.get("journal")
    return (journal[2] or "") if journal else ""


def stored_record(db: sqlite3.Connection, number: int) -> PaperRecord:
    """What :func:`is_same_paper` compares of a paper in the catalogue."""
    title, authors, details = db.execute(
        "SELECT title, authors, details FROM papers WHERE id = ?", (number,)
    ).fetchone()
    return PaperRecord(title, authors=orjson.loads(authors or "[]"), details=orjson.loads(details or "{}"))


def entry_id(record: PaperRecord) -> str:
    """The id of a record that has, or keeps, no other one."""
    return own_key(record.title, tuple(name for name, _ in record.authors), record.year)


def remove_id(record: PaperRecord, name: Identifier) -> None:
    """Remove an id from a record, with what follows from it."""
    dois = [doi for doi in (record.external_ids.get("DOI"), *record.further_dois) if doi is not None]
    if name.scheme == "arXiv":
        record.arxiv_id = None
        record.details.pop("is_open_access", None)
        dois = [doi for doi in dois if arxiv_id_from_doi(doi) != name.value]
    if record.external_ids.get(name.scheme) == name.value:
        del record.external_ids[name.scheme]
    dois = [doi for doi in dois if name != ("DOI", doi)]
    record.external_ids.pop("DOI", None)
    if dois:
        record.external_ids["DOI"] = dois[0]
    record.further_dois = dois[1:]
    if record.url in (f"https://arxiv.org/abs/{name.value}", f"https://doi.org/{name.value}"):
        record.url = f"https://doi.org/{dois[0]}" if dois else None


def divide_claims(
    arxiv: Sequence[PaperRecord], papers: Sequence[PaperRecord], works: Sequence[PaperRecord]
) -> tuple[list[tuple[str, PaperRecord, PaperRecord]], Counter[str]]:
    """Remove arXiv ids from the records that are of other papers than the best source's record with the id.

    Returns each of these ids with a record that lost it and the one that keeps it, and what has to be added to the
    counts of an ingest that had joined all of them.
    """
    claims: dict[str, list[tuple[str, PaperRecord]]] = {}
    for dataset, records in (("arxiv", arxiv), ("papers", papers), ("openalex", works)):
        for record in records:
            if record.arxiv_id is not None:
                claims.setdefault(record.arxiv_id, []).append((dataset, record))
    lost: list[tuple[str, PaperRecord, PaperRecord]] = []
    counts: Counter[str] = Counter()
    for arxiv_id, claimed in claims.items():
        members = claimed[:1]
        losers: list[tuple[str, PaperRecord]] = []
        for dataset, record in claimed[1:]:
            same = any(is_same_paper(record, member) for _, member in members)
            (members if same else losers).append((dataset, record))
        if losers:
            lost.append((arxiv_id, losers[0][1], members[0][1]))
            before, after = (Counter(dataset for dataset, _ in group) for group in (claimed, members))
            for name, count in _joins(before).items():
                counts[name] -= count - _joins(after)[name]
        for _, record in losers:
            remove_id(record, Identifier("arXiv", arxiv_id))
    return lost, counts


def _joins(claimed: Mapping[str, int]) -> dict[str, int]:
    """How many records of one paper joined others, by the names of counts."""
    arxiv, papers, works = (claimed.get(name, 0) for name in ("arxiv", "papers", "openalex"))
    return {
        "arxiv_joined": min(arxiv, papers, 1),
        "arxiv_ids_repeated": max(papers - 1, 0),
        "openalex_joined": works if arxiv or papers else max(works - 1, 0),
    }


def note_doubtful(db: sqlite3.Connection, joined: Iterable[tuple[int, int, PaperRecord]], file: str) -> None:
    """Note the records of a file that joined papers with their arXiv ids, by number and hash of the title, and are of
    other papers. Most have the same title, so that nothing else is compared."""
    for number, stored_hash, record in joined:
        title = normalize_title(record.title)
        if len(title) >= NAMING_LETTERS and title_hash_of(title) == stored_hash:
            continue
        if not is_same_paper(record, stored_record(db, number)):
            db.execute(f"CREATE TABLE IF NOT EXISTS {_DOUBTFUL} (arxiv_id TEXT, file TEXT, line INTEGER)")
            db.execute(f"INSERT INTO {_DOUBTFUL} VALUES (?, ?, ?)", (record.arxiv_id, file, record.line))


def doubtful_ids(db: sqlite3.Connection) -> dict[str, tuple[str, int]]:
    """The arXiv ids of the noted records, with the file and line of one of each. Deletes the notes."""
    if not db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (_DOUBTFUL,)).fetchone():
        return {}
    rows = db.execute(
        f"SELECT arxiv_id, file, line FROM {_DOUBTFUL} ORDER BY file DESC, line DESC"
    ).fetchall()
    db.execute(f"DROP TABLE {_DOUBTFUL}")
    return {arxiv_id: (file, line) for arxiv_id, file, line in rows}


def agreed_papers(
    db: sqlite3.Connection, record: PaperRecord, contested: Collection[Identifier]
) -> tuple[dict[Identifier, int], list[tuple[Identifier, str]]]:
    """The papers with the ids of an entry, which loses those that are ``contested`` or of other papers, and gets one
    made of it if no arXiv id or DOI is left. Also returns the ids of other papers, with their titles."""
    for name in [name for name in ids_of(record) if name in contested and not record.is_sure]:
        remove_id(record, name)
    known = find(db, ids_of(record))
    lost: list[tuple[Identifier, str]] = []
    for name, number in [*known.items()]:
        sql = (
            "SELECT paper_id FROM aliases WHERE scheme = ? AND value = ? AND paper_id <> ? ORDER BY paper_id"
        )
        numbers = (number, *(row[0] for row in db.execute(sql, (*name, number)).fetchall()))
        papers = {paper: stored_record(db, paper) for paper in numbers}
        same = next(
            (paper for paper, stored in papers.items() if record.is_sure or is_same_paper(record, stored)),
            None,
        )
        if same is None:
            lost.append((name, papers[number].title))
            remove_id(record, name)
            del known[name]
        else:
            known[name] = same
    if record.arxiv_id is None and not {"DOI", "Doc"} & record.external_ids.keys():
        record.external_ids["Doc"] = entry_id(record)
        known |= find(db, [Identifier("Doc", record.external_ids["Doc"])])
    return known, lost


def contested_ids(db: sqlite3.Connection) -> dict[Identifier, Conflict]:
    """The ids that own entries of different papers have, and no paper of another source."""
    db.execute("CREATE TEMP TABLE claims (scheme TEXT, value TEXT, work INTEGER, entry INTEGER)")
    db.executemany("INSERT INTO claims VALUES (?, ?, ?, ?)", _claims(db))
    shared = [
        Identifier(*row)
        for row in db.execute(
            "SELECT scheme, value FROM claims GROUP BY scheme, value HAVING min(work) < max(work) ORDER BY 1, 2"
        )
    ]
    known = find(db, shared)
    conflicts = {}
    for name in [identifier for identifier in shared if identifier not in known]:
        rows = db.execute(
            """
            SELECT file, record FROM own_entries JOIN claims ON own_entries.rowid = entry
            WHERE scheme = ? AND value = ? ORDER BY place, record LIMIT ?
            """,
            (*name, _MOST_ENTRIES),
        ).fetchall()
        if (pair := _different(rows)) is not None:
            (file, record), other = pair
            conflicts[name] = Conflict(file, record.line, name, (record.title, other.title))
    db.execute("DROP TABLE claims")
    return conflicts


def _claims(db: sqlite3.Connection) -> Iterator[tuple[str, str, int, int]]:
    sql = f"SELECT rowid, record FROM own_entries WHERE place < {NOTICES_FROM}"
    for entry, stored in db.execute(sql):
        record = record_of(stored)
        if record.is_sure:
            continue
        title = normalize_title(record.title)
        if len(title) < NAMING_LETTERS:
            title += f"\n{normalize_title(surname(record.authors[0][0])) if record.authors else ''}"
        for name in ids_of(record):
            if name.scheme != "Doc":
                yield *name, title_hash_of(title), entry


def _different(
    rows: Iterable[tuple[str, str]],
) -> tuple[tuple[str, PaperRecord], PaperRecord] | None:
    """An entry of another paper than the first of these entries, and the first one; None if all are of one paper."""
    (_, first), *left = [(file, record_of(stored)) for file, stored in rows]
    members = [first]
    for member in islice(members, _MOST_COMPARED):  # members are added meanwhile
        others = []
        for file, record in left:
            if is_same_paper(record, member):
                members.append(record)
            else:
                others.append((file, record))
        left = others
    return (left[0], first) if left else None

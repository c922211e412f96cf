"""The stages of an ingest that read full texts: documents to ``documents.sqlite``, and their papers to the catalogue.

Documents are read with the other sources, when the papers are not known yet, so each has a row in ``ingest_documents``
with the ids and the title of its paper. Once the keep rule is applied, :meth:`FullTexts.join` finds the papers. The row
has the passages of the document too, since its tokens are at hand: finding them is the largest part of cutting it.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import numpy as np
import orjson

from scholarbase.bibliographies.names import surname
from scholarbase.bibliographies.references import Reference, plain_texts
from scholarbase.databases import finish, open_for_writing
from scholarbase.documents.chunkers import Chunker, Passage, passages, token_counts
from scholarbase.documents.figure_pages import find_figure_pages
from scholarbase.documents.model import LINE_SOURCES, FullText, Metadata
from scholarbase.documents.readers import DocumentEntry, DocumentFile, read_documents
from scholarbase.documents.schema import open_for_building
from scholarbase.documents.store import delete_documents, mark_main, write_document
from scholarbase.documents.tokens import TokenSpans
from scholarbase.errors import SourceError
from scholarbase.identifiers import stored_identifier
from scholarbase.indexes import title_spans
from scholarbase.indexes.catalog import find
from scholarbase.indexes.filters import NO_FILTERS, venue_key
from scholarbase.indexes.titles import normalize_title, title_hash
from scholarbase.ingest.batches import batched
from scholarbase.ingest.checkpoint import Checkpoint
from scholarbase.ingest.claims import entry_id
from scholarbase.ingest.records import PaperRecord, Reject, VenueRecord
from scholarbase.ingest.sources import (
    PARSERS,
    Dataset,
    StoredBytes,
    changed_while_read,
    open_lines,
    sha256_of,
)
from scholarbase.ingest.sources.own import paper_of
from scholarbase.ingest.store import RecordStore
from scholarbase.ingest.writer import CatalogWriter
from scholarbase.manifest import SourceFact
from scholarbase.progress import Reporter, advancing

_STAGED: Final = """
CREATE TABLE IF NOT EXISTS ingest_documents (
    document INTEGER PRIMARY KEY, file TEXT NOT NULL, number INTEGER NOT NULL,
    ids TEXT NOT NULL, title TEXT, passages BLOB NOT NULL, has_text INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS ingest_documents_by_file ON ingest_documents (file, number);
"""
DOCUMENTS_PER_COMMIT: Final = 200
BYTES_PER_COMMIT: Final = 32_000_000
_JOINED_AT_ONCE: Final = 500
_MIN_TITLE_WORDS: Final = 4
"""Words of a title that names a paper without an id: shorter ones, such as *Introduction*, name several."""
_MIN_CITED_WORDS: Final = 3
"""Words of a title that is looked for in the text of an entry, beside its first author."""
_MAX_ENTRY: Final = 2_000
"""Characters of an entry in which titles are looked for."""
_NO_SECTION: Final = -1
_SCAN: Final = Reject(
    "scan",
    "It has no text, so it is not searched, only shown: recognize its text with OCR, and ingest it again.",
)
_NO_TEXT: Final = Reject("scan", "It has no text, so it is not searched, only shown.")


class FullTexts:
    """Reads the documents of a library that is being built. ``close`` it."""

    def __init__(
        self,
        path: Path,
        catalog: sqlite3.Connection,
        checkpoint: Checkpoint,
        chunker: Chunker,
        tokens: TokenSpans,
        reporter: Reporter,
    ) -> None:
        self._catalog = catalog
        self._checkpoint = checkpoint
        self._chunker = chunker
        self._tokens = tokens
        self._reporter = reporter
        self.db = open_for_building(path)
        self.db.executescript(_STAGED)
        self._own = Checkpoint(self.db)

    def close(self) -> None:
        self.db.close()

    # -- read -------------------------------------------------------------------------------------------

    def read(
        self,
        files: Sequence[DocumentFile],
        facts: Mapping[str, SourceFact],
        writer: CatalogWriter,
        store: RecordStore,
        max_reject_share: float,
    ) -> None:
        """Read all documents. The papers that the sources describe are written with ``writer``.

        Files that are one document may all be rejected.

        Raises:
            SourceError: a file cannot be read, or (SourceChanged) has changed since it was hashed, or (TooManyRejects)
                has too many bad lines.
        """
        if self._checkpoint.get("documents_read"):
            return
        total, before = sum(file.size for file in files), 0
        with self._reporter.stage("read documents", "documents", total) as tracker:
            for file in files:
                read = StoredBytes()
                entries = advancing(self._entries(file, read), tracker.advance)
                for batch in batched(
                    entries, DOCUMENTS_PER_COMMIT, BYTES_PER_COMMIT, lambda entry: entry.size
                ):
                    self._write(file, batch, writer, store)
                    tracker.at(before + read.count)
                digest = read.state[1] if file.source in LINE_SOURCES else sha256_of(file.path)
                if digest != facts[file.name].sha256:
                    raise changed_while_read(file.path)
                before += file.size
                tracker.at(before)
        for source in sorted({file.source for file in files} & LINE_SOURCES):
            self._checkpoint.check_rejects(source, f"documents of the kind {source}", max_reject_share)
        with self._checkpoint.transaction():
            self._checkpoint.set("documents_read", True)

    def _entries(self, file: DocumentFile, read: StoredBytes) -> Iterator[DocumentEntry]:
        after = self._checkpoint.get(f"document:{file.name}", 0)
        return read_documents(file, lambda path: open_lines(path, read), after)

    def _write(
        self, file: DocumentFile, batch: Sequence[DocumentEntry], writer: CatalogWriter, store: RecordStore
    ) -> None:
        records: dict[Dataset, list[PaperRecord]] = {Dataset.ARXIV: [], Dataset.JSON_LINES: []}
        venues: list[VenueRecord] = []
        lines: list[bytes] = []
        rejects: list[tuple[int, Reject]] = []
        scans: list[tuple[int, Reject]] = []
        # First the documents: a job killed before the second commit writes them again.
        with self._own.transaction():
            self._unstage(file.name, batch[0].number)
            for entry in batch:
                full = entry.document
                if not isinstance(full, FullText):
                    rejects.append((entry.number, Reject(full.reason, full.detail)))
                    continue
                if not full.document.has_text:
                    scans.append((entry.number, _SCAN if file.source == "pdf" else _NO_TEXT))
                ids = full.ids
                about = full.metadata
                if about.arxiv is not None:
                    line = orjson.dumps(about.arxiv)
                    if isinstance(record := PARSERS[Dataset.ARXIV](line), PaperRecord):
                        records[Dataset.ARXIV].append(record)
                        lines.append(line)
                elif about.title is not None and (described := _own_record(full, about)) is not None:
                    records[Dataset.JSON_LINES].append(described)
                    venues += [] if (venue := _venue_of(about)) is None else [venue]
                    # Last: a text without other ids, of a paper of this title, has it too.
                    ids = (*ids, f"Doc:{entry_id(described)}")
                self._stage(file.name, entry.number, full, ids)
        with self._checkpoint.transaction():
            counts: Counter[str] = Counter(
                {f"lines_{file.source}": len(batch), f"rejects_{file.source}": len(rejects)}
            )
            for dataset, papers in records.items():
                if papers:
                    counts += writer.write(dataset, papers, (), file.name)
            writer.write(Dataset.PUBLICATION_VENUES, venues)
            self._checkpoint.add("counts", counts.items())
            self._checkpoint.reject(file.name, file.source, rejects)
            self._checkpoint.reject(file.name, "scan", scans)
            self._checkpoint.set(f"document:{file.name}", batch[-1].number)
            if lines:
                with store.transaction():
                    store.append(Dataset.ARXIV, records[Dataset.ARXIV], lines)
                self._checkpoint.set("records", store.ends)

    def _unstage(self, file: str, number: int) -> None:
        """Delete the documents that a killed job wrote after its last commit to the catalogue."""
        rows = self.db.execute(
            "SELECT document FROM ingest_documents WHERE file = ? AND number >= ?", (file, number)
        ).fetchall()
        if rows:
            delete_documents(self.db, [row[0] for row in rows])
            self.db.execute("DELETE FROM ingest_documents WHERE file = ? AND number >= ?", (file, number))

    def _stage(self, file: str, entry_number: int, full: FullText, ids: Sequence[str]) -> None:
        spans = self._tokens.spans(full.document.text)
        tokens, of_sections = token_counts(full.document, self._tokens, spans)
        cuts = packed_passages(passages(full.document, self._chunker, self._tokens, spans))
        # Any number below zero that no other document has stands for the paper.
        placeholder = self.db.execute("SELECT -1 - coalesce(max(id), 0) FROM documents").fetchone()[0]
        number = write_document(self.db, full, tokens, of_sections, placeholder)
        title = full.metadata.title
        self.db.execute(
            "INSERT INTO ingest_documents VALUES (?, ?, ?, ?, ?, ?, ?)",
            (number, file, entry_number, orjson.dumps(ids).decode(), title, cuts, full.document.has_text),
        )

    # -- join -------------------------------------------------------------------------------------------

    def papers(self) -> Iterator[int]:
        """The papers in the catalogue of the documents that have a text."""
        rows = self.db.execute("SELECT ids, title FROM ingest_documents WHERE has_text ORDER BY document")
        while batch := rows.fetchmany(_JOINED_AT_ONCE):
            papers = self._papers([(orjson.loads(ids), title) for ids, title in batch])
            yield from (paper for paper in papers if paper is not None)

    def join(self) -> None:
        """Find the paper of each document, and those of its bibliography. Documents of no paper are rejected.

        Raises:
            SourceError: no document is of a paper that the library holds.
        """
        if self._checkpoint.get("documents_joined"):
            return
        rejects: dict[str, list[tuple[int, Reject]]] = {}
        counts: Counter[str] = Counter()
        total = self.db.execute("SELECT count(*) FROM ingest_documents").fetchone()[0]
        with self._reporter.stage("join documents", "documents", total) as tracker, self._own.transaction():
            self.db.execute("UPDATE documents SET paper = -id, is_main = 0")
            rows = self.db.execute(
                "SELECT document, file, number, ids, title FROM ingest_documents ORDER BY document"
            )
            for batch in iter(lambda: rows.fetchmany(_JOINED_AT_ONCE), []):
                keys = [(orjson.loads(ids), title) for _, _, _, ids, title in batch]
                for (number, file, line, ids, title), paper in zip(batch, self._papers(keys), strict=True):
                    if paper is None:
                        reject = Reject("no-paper", _unknown(orjson.loads(ids), title))
                        rejects.setdefault(file, []).append((line, reject))
                        delete_documents(self.db, [number])
                    elif self._join_one(number, paper):
                        counts["documents_repeated"] += 1
                tracker.advance(len(batch))
            self._join_bibliographies()
            mark_main(self.db)
            find_figure_pages(self.db)
        if rejects and not self.db.execute("SELECT 1 FROM documents LIMIT 1").fetchone():
            first = next(rejected[0][1].detail for rejected in rejects.values())
            raise SourceError(f"No document of --documents is of a paper of this library. The first: {first}")
        counts["documents_without_text"] = self.db.execute(
            "SELECT count(*) FROM ingest_documents JOIN documents ON id = document WHERE NOT has_text"
        ).fetchone()[0]
        with self._checkpoint.transaction():
            for file, rejected in rejects.items():
                self._checkpoint.reject(file, "documents", rejected)
            self._checkpoint.add("counts", counts.items())
            self._checkpoint.set("documents_joined", True)

    def _join_one(self, number: int, paper: int) -> bool:
        """Set the paper of a document. Of two of one version and source the longer one stays; returns whether there
        were two."""
        version, source, size, text = self.db.execute(
            "SELECT version, source, characters, text FROM documents WHERE id = ?", (number,)
        ).fetchone()
        other = self.db.execute(
            """
            SELECT id, characters, text FROM documents
            WHERE paper = ? AND coalesce(version, 0) = ? AND source = ?
            """,
            (paper, version or 0, source),
        ).fetchone()
        if other is not None:
            is_less = (size, text) <= tuple(other[1:])
            delete_documents(self.db, [number if is_less else other[0]])
            if is_less:
                return True
        self.db.execute("UPDATE documents SET paper = ? WHERE id = ?", (paper, number))
        return other is not None

    def _join_bibliographies(self) -> None:
        """Find the cited papers: by id, by title, or by a title in the text of the entry."""
        numbers = self.db.execute("SELECT id FROM documents ORDER BY id").fetchall()
        with self._reporter.stage("join bibliographies", "documents", len(numbers)) as tracker:
            for (number,) in advancing(numbers, tracker.advance):
                self._join_bibliography(number)

    def _join_bibliography(self, number: int) -> None:
        rows = self.db.execute(
            "SELECT place, ids, title, text FROM bibliography WHERE document = ?", (number,)
        ).fetchall()
        papers = self._papers([(orjson.loads(ids), title) for _, ids, title, _ in rows])
        cited = [
            self._cited(text) if paper is None else paper
            for paper, (*_, text) in zip(papers, rows, strict=True)
        ]
        self.db.executemany(
            "UPDATE bibliography SET paper = ? WHERE document = ? AND place = ?",
            [(paper, number, row[0]) for row, paper in zip(rows, cited, strict=True) if paper is not None],
        )

    def _cited(self, text: str) -> int | None:
        """The paper whose title is in the text of an entry, with the name of its first author: that with the longest
        title."""
        spans = title_spans.exact_titles(self._catalog, text[:_MAX_ENTRY], NO_FILTERS)
        for span in sorted(spans, key=lambda span: (span.start - span.end, span.id)):
            if not span.is_bounded or len(text[span.start : span.end].split()) < _MIN_CITED_WORDS:
                continue
            [author] = self._catalog.execute(
                "SELECT authors ->> '$[0][0]' FROM papers WHERE id = ?", (span.id,)
            ).fetchone()
            if author is not None and normalize_title(surname(author)) in normalize_title(text):
                return span.id
        return None

    def _papers(self, keys: Sequence[tuple[Sequence[str], str | None]]) -> list[int | None]:
        """The paper of each pair of ids and a title, by an id or, without any id that is known, by the title."""
        parsed = [[identifier for text in ids if (identifier := stored_identifier(text))] for ids, _ in keys]
        known = find(self._catalog, (identifier for ids in parsed for identifier in ids))
        papers: list[int | None] = []
        for ids, (_, title) in zip(parsed, keys, strict=True):
            paper = next((known[identifier] for identifier in ids if identifier in known), None)
            if paper is None and title is not None and len(title.split()) >= _MIN_TITLE_WORDS:
                paper = self._titled(title)
            papers.append(paper)
        return papers

    def _titled(self, title: str) -> int | None:
        """The only paper with this title."""
        rows = self._catalog.execute(
            "SELECT id FROM papers WHERE title_hash = ? LIMIT 2", (title_hash(title),)
        ).fetchall()
        return int(rows[0][0]) if len(rows) == 1 else None

    def set_snapshot(self, snapshot: str) -> None:
        """Store the library's snapshot id in the file."""
        self.db.execute("INSERT OR REPLACE INTO meta VALUES ('snapshot', ?)", (snapshot,))


def packed_passages(cuts: Iterable[Passage]) -> bytes:
    """Passages as they are stored until they are indexed: four 64-bit integers for each."""
    rows = [
        (cut.start, cut.end, cut.tokens, _NO_SECTION if cut.section is None else cut.section) for cut in cuts
    ]
    return np.array(rows, "<i8").tobytes()


def staged_passages(db: sqlite3.Connection, document: int) -> list[Passage]:
    """The passages of a document, in the order of its text."""
    [packed] = db.execute("SELECT passages FROM ingest_documents WHERE document = ?", (document,)).fetchone()
    rows = np.frombuffer(packed, "<i8").reshape(-1, 4).tolist()
    return [
        Passage(start, end, tokens, None if section == _NO_SECTION else section)
        for start, end, tokens, section in rows
    ]


def finish_documents(path: Path) -> None:
    """Drop the tables of the job and finish the file."""
    with closing(open_for_writing(path, create=False)) as db:
        for table in ("ingest_documents", "ingest_state", "ingest_rejects"):
            db.execute(f"DROP TABLE IF EXISTS {table}")
    finish(path)


def _own_record(full: FullText, about: Metadata) -> PaperRecord | None:
    """The paper that a source describes, None if it says too little."""
    ids = tuple(identifier for text in full.ids if (identifier := stored_identifier(text)))
    day = about.date if about.date is not None and len(about.date) == 10 else None
    entry = Reference(
        "",
        1,
        authors=about.authors,
        year=int(about.date[:4]) if about.date else None,
        date=day,
        ids=ids,
        volume=about.volume,
        keywords=about.keywords,
        url=about.url,
        **plain_texts(about.title or "", about.abstract or "", about.venue or ""),
    )
    record = paper_of(entry)
    if not isinstance(record, PaperRecord):
        return None
    record.is_sure = True
    record.tldr = about.tldr
    if (venue := _venue_of(about)) is not None:
        record.venue_id = venue.venue_id
    return record


def _venue_of(about: Metadata) -> VenueRecord | None:
    """The venue that a source gives two names, None for any other."""
    if about.venue is None or about.venue_name is None:
        return None
    return VenueRecord(f"name:{venue_key(about.venue_name)}", about.venue_name, [about.venue])


def _unknown(ids: Sequence[str], title: str | None) -> str:
    if not ids and title is None:
        return (
            "The document has no id and no title: name the file by an id of its paper, such as "
            "arXiv:2212.11867.pdf, or describe it in a file of the same name that ends in .json."
        )
    named = ", ".join([*ids[:3], *([] if title is None else [repr(title[:80])])])
    return f"The library has no paper {named}: ingest its metadata too, or use --keep title."

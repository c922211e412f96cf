"""Discovers the files of a snapshot, and reads their lines."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, TextIO

from scholarbase.errors import SourceChanged, SourceError
from scholarbase.files import MAX_LINE, NOTES, ZIP, ByteStream, decompress, source_errors, walk, wide_encoding
from scholarbase.ingest.sources import openalex, tables
from scholarbase.ingest.sources.added import START, format_of, formats
from scholarbase.ingest.sources.columns import Columns, header_of
from scholarbase.ingest.sources.detect import (
    MAX_LINES,
    OWN,
    READ_ORDER,
    UNUSED,
    Dataset,
    dataset_of_document,
    detect,
    loaded,
)
from scholarbase.ingest.sources.json_records import json_records
from scholarbase.ingest.sources.unfinished import check_complete

_CHUNK: Final = 1 << 18
_HASHED_AT_ONCE: Final = 1 << 20
_JSON: Final = frozenset(Dataset) - OWN
_SHOWN: Final = 300
_JSON_START: Final = re.compile(rb"\s*(?:\{|\[\s*(?:$|[]{[]))")
MAX_WHOLE: Final = 100_000_000
"""Bytes of a file of BibTeX or RIS, which are read as a whole: about 50,000 entries with abstracts."""

Form = Literal["lines", "document", "page", "table", "deleted"]


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of a snapshot.

    ``name`` is its path below the source folder, with forward slashes: it does not depend on where the snapshot is.
    ``size`` is in bytes, as stored. ``form`` is how its records are written: as lines, in a JSON document, as a page of
    OAI-PMH, as rows of a Parquet table, or as a list of deleted works of OpenAlex. ``added`` is the name of the format
    that an extension adds, for files of the dataset ``extension``.
    """

    path: Path
    name: str
    dataset: Dataset
    size: int
    form: Form = "lines"
    added: str | None = None

    @property
    def kind(self) -> str:
        """The name of its records in the manifest: the dataset, or the format that an extension adds."""
        return self.added or self.dataset.value


class StoredBytes:
    """Counts and hashes the bytes read from a file as it is stored.

    ``earlier`` is the state of an earlier run, which read a part of the file. ``same_start`` becomes False if this
    part has another hash now.
    """

    def __init__(self, earlier: tuple[int, str] | None = None) -> None:
        self.count = 0
        self.same_start = True
        self._hash = hashlib.sha256()
        self._earlier = earlier

    def add(self, data: memoryview) -> None:
        if self._earlier is not None and self.count + len(data) >= self._earlier[0]:
            rest = self._earlier[0] - self.count
            self._hash.update(data[:rest])
            self.same_start = self._hash.hexdigest() == self._earlier[1]
            self._earlier = None
            self._hash.update(data[rest:])
        else:
            self._hash.update(data)
        self.count += len(data)

    @property
    def state(self) -> tuple[int, str]:
        """The number of bytes and their SHA-256 in hexadecimal; those of the earlier run until as many are read."""
        return self._earlier or (self.count, self._hash.hexdigest())


class _HashedFile(io.FileIO):
    """A file whose bytes are added to a :class:`StoredBytes` as they are read for the first time."""

    def __init__(self, path: Path, read: StoredBytes) -> None:
        super().__init__(path)
        self._read = read

    def readinto(self, buffer: Any) -> int:
        start = self.tell()
        count = super().readinto(buffer)
        if count and start + count > self._read.count:
            self._read.add(memoryview(buffer).cast("B")[self._read.count - start : count])
        return count or 0


@contextmanager
def opened(
    path: Path, read: StoredBytes | None = None, done: Callable[[], str] = str
) -> Iterator[ByteStream]:
    """The decompressed bytes of a file, plain or compressed.

    ``read`` is updated with the stored bytes, all of them at the end of the block, whether they were read or not.
    ``done`` describes in an error what was read before the damage.

    Raises:
        SourceError: the file cannot be read, or its compressed stream is cut short or damaged.
    """
    with source_errors(path, done):
        raw: Any = _HashedFile(path, read or StoredBytes())
        with io.BufferedReader(raw, _CHUNK) as file, closing(decompress(file)) as stream:
            yield stream
            while read is not None and file.read(_CHUNK):
                pass


def open_lines(path: Path, read: StoredBytes | None = None) -> Generator[tuple[int, bytes]]:
    """Lines of a file, numbered from 1. ``read`` is that of :func:`opened`, which raises the errors.

    Lines come without their line ends. Of a line of more than ``MAX_LINE`` bytes only the start comes, somewhat longer
    than that, which parsers reject. Blank lines are counted and skipped. The file is closed when the iterator ends or
    is closed.
    """
    number = 0
    with opened(path, read, lambda: f" after {number} whole lines") as stream:
        for number, line in enumerate(_split(stream), 1):
            text = line.removesuffix(b"\r")
            if number == 1:
                text = text.removeprefix(b"\xef\xbb\xbf")
            if text and not text.isspace():
                yield number, text


@contextmanager
def open_text(path: Path, read: StoredBytes | None = None) -> Iterator[TextIO]:
    """The decompressed text of a file. Bytes that are not UTF-8 become surrogates. Raises as :func:`opened`."""
    with opened(path, read) as stream:
        buffered = io.BufferedReader(_Decompressed(stream), _CHUNK)
        with io.TextIOWrapper(buffered, "utf-8-sig", "surrogateescape") as text:
            yield text


class _Decompressed(io.RawIOBase):
    """A decompressed stream as a file. Closing it does not close the stream."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read1(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def read_whole(path: Path, read: StoredBytes) -> bytes:
    """The decompressed content of a file. Raises as :func:`opened`, and where it has more than ``MAX_WHOLE`` bytes."""
    with opened(path, read) as stream:
        pieces, size = [], 0
        while chunk := stream.read1(_CHUNK):
            pieces.append(chunk)
            size += len(chunk)
            if size > MAX_WHOLE:
                raise SourceError(
                    f"{path} has more than {MAX_WHOLE:,} bytes, and its format is read as a whole: split it, or "
                    "convert it to CSV or JSON lines."
                )
    return b"".join(pieces)


def changed_while_read(path: Path) -> SourceChanged:
    """The error of a file whose bytes are not those that were hashed at the start of the job."""
    return SourceChanged(
        f"{path} changed while it was being read, so the unfinished library was deleted: run the same command again "
        "when the file is complete."
    )


def sha256_of(path: Path, advance: Callable[[int], None] = lambda size: None) -> str:
    """The SHA-256 of a file as it is stored, in hexadecimal. ``advance`` is called with the size of each part read.

    Raises:
        SourceError: it cannot be read.
    """
    with source_errors(path), path.open("rb") as file:
        digest = hashlib.sha256()
        while part := file.read(_HASHED_AT_ONCE):
            digest.update(part)
            advance(len(part))
        return digest.hexdigest()


def discover(paths: Sequence[str | Path], columns: Columns = MappingProxyType({})) -> list[SourceFile]:
    """The snapshot files among ``paths`` and in the folders among them, in the order in which they must be read.

    Within a dataset they are in the order of ``paths``, and within a folder by name. Each file counts once, however
    many paths lead to it. In folders, hidden files and notes (README, LICENSE, ``.md``, ``.txt``, checksums) are
    skipped; ``.bib`` files are notes in a folder that has a snapshot. Files of unused datasets
    (:data:`~scholarbase.ingest.sources.detect.UNUSED`) come last. ``columns`` are the caller's names of columns.

    Raises:
        SourceError: a path does not exist, a file is not a snapshot file or cannot be read, there are no files, or a
            folder is of a download that is not complete.
    """
    files: dict[Path, SourceFile] = {}
    names: set[str] = set()
    for position, source in enumerate(paths, 1):
        root = Path(source)
        if not root.exists():
            raise SourceError(f"No file or folder at {source}: check the path of the snapshot.")
        check_complete(root)
        cited: list[Path] = []
        has_snapshot = False
        for path in walk(root, _is_note) if root.is_dir() else [root]:
            key = path.resolve()
            if key in files:
                continue
            name = path.relative_to(root).as_posix() if root.is_dir() else root.name
            if name in names:
                name = f"{position}/{name}"
            names.add(name)
            files[key] = _source_file(path, name, columns)
            is_note = root.is_dir() and path.suffix.lower() == ".bib"
            cited += [key] if is_note else []
            has_snapshot |= files[key].dataset not in OWN
        for key in cited if has_snapshot else []:
            del files[key]
    if not any(file.dataset not in UNUSED for file in files.values()):
        where = ", ".join(str(path) for path in paths) or "no path"
        unused = sorted({file.dataset.value for file in files.values()})
        what = f"only {' and '.join(unused)}, which are not used" if unused else "none"
        raise SourceError(
            f"No snapshot file in {where} ({what}): give the files or folders of a Semantic Scholar release "
            "(papers, abstracts, citations), an arXiv metadata snapshot or harvest, works of OpenAlex, the corpus of a "
            "BEIR collection, or files of your own (BibTeX, RIS, CSL-JSON, CSV, JSON lines)."
        )
    return sorted(files.values(), key=lambda file: (READ_ORDER[file.dataset], file.kind))


def files_of(source: str | Path) -> set[Path]:
    """The resolved paths of a file, or of the files in a folder."""
    root = Path(source)
    return {path.resolve() for path in (walk(root, _is_note) if root.is_dir() else [root])}


def _source_file(path: Path, name: str, columns: Columns) -> SourceFile:
    if path.exists() and not path.is_file():
        raise SourceError(f"{path} is not a regular file: a snapshot cannot be read from a pipe or a device.")
    if path.suffix.lower() == ".parquet" or _starts(path, tables.MAGIC):
        return _table(path, name)
    with closing(open_lines(path)) as lines:
        first = _first_line(path, (line for _, line in lines))
        document = _document(path, first, columns)
        form: Form = "lines" if document is None else "document"
        if document is None:
            dataset = detect(chain([first], (line for _, line in lines)), path.name, columns)
        else:
            dataset = document[0]
    if dataset not in _JSON and (encoding := wide_encoding(first)) is not None:
        raise SourceError(f"{path} is in {encoding}: save it as UTF-8.")
    if dataset is None and path.suffix.lower() == ".bib":
        dataset = Dataset.BIBTEX  # a long comment may come before the first entry
    if dataset is None:
        with open_text(path) as text:
            added = format_of(text.read(START))
        if added is None:
            record = loaded(first)
            keys = ", ".join(record)[:_SHOWN] if isinstance(record, dict) else None
            raise _no_source(path, first, keys if document is None else document[1])
        return SourceFile(path, name, Dataset.EXTENSION, path.stat().st_size, added=added)
    if dataset is Dataset.CSV:
        _check_columns(path, columns)
    if dataset is Dataset.ARXIV and first.lstrip().startswith(b"<"):
        form = "page"
    elif dataset is Dataset.OPENALEX and not first.lstrip().startswith((b"{", b"[")):
        form = "deleted"
    return SourceFile(path, name, dataset, path.stat().st_size, form)


def _first_line(path: Path, lines: Iterator[bytes]) -> bytes:
    """The first line of a file. Raises SourceError: it has none, or is an archive."""
    first = next(lines, None)
    if first is None:
        raise SourceError(f"{path} is empty: leave it out, or export it again.")
    if first.startswith(ZIP):
        raise SourceError(f"{path} is a ZIP archive: unpack it, and give its files.")
    return first


def _no_source(path: Path, first: bytes, keys: str | None) -> SourceError:
    """The error of a file with this first line; ``keys`` are those of the first record of a JSON document."""
    if keys is not None:
        what = f"records with the keys {keys}" if keys else "no records"
        return SourceError(
            f"{path} is not a source: its JSON has {what}. Works of OpenAlex (id, authorships, referenced_works), "
            "papers of Semantic Scholar (paperId, title) or arXiv (id, title, categories), CSL-JSON (title, issued, "
            "author), or a list of papers with titles were expected. Leave it out, or name its keys with --columns "
            "title=NAME."
        )
    if first.lstrip().startswith(b"{") and not _is_utf8(first):
        return SourceError(f"{path} is not valid UTF-8: save it as UTF-8.")
    if path.suffix.lower() in (".csv", ".tsv"):
        if b"\r" in first.rstrip(b"\r\n"):
            return SourceError(f"{path} has lines that end with CR alone: save it with LF or CRLF.")
        line = first[:_SHOWN].decode("utf-8", "replace")
        return SourceError(
            f"{path} has no column of titles: its first line is {line!r}. Give the column's name with "
            "--columns title=NAME."
        )
    others = "".join(f", or of {name}, which an extension adds" for name in formats())
    return SourceError(
        f"{path} is not a source: none of its first {MAX_LINES} lines is a record of a Semantic Scholar dataset, "
        "of an arXiv metadata snapshot or harvest, of OpenAlex, of a BEIR collection, or of BibTeX, RIS, CSL-JSON, "
        f"CSV or JSON lines with titles{others}. Leave it out, download it again, or name its columns with "
        "--columns title=NAME."
    )


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _check_columns(path: Path, columns: Columns) -> None:
    """Check that a CSV file has the columns that the caller names."""
    with closing(open_lines(path)) as lines:
        names, *_ = header_of((line.decode("utf-8", "replace") for _, line in lines), columns) or ([],)
    absent = sorted(set(columns.values()) - set(names))
    if absent:
        raise SourceError(
            f"{path} has no column {absent[0]!r}, which --columns names: its columns are {', '.join(names)}."
        )


def _document(path: Path, first: bytes, columns: Columns) -> tuple[Dataset | None, str] | None:
    """The dataset of a JSON document and the keys of its first record; None for JSON lines and other files."""
    if not _JSON_START.match(first):
        return None
    with opened(path) as stream:
        records = (text for _, text in json_records(stream))
        text = next(records, b"")
        record = loaded(text)
        if first.lstrip().startswith(b"{") and (record is None or text == first.strip()):
            return None
        keys = ", ".join(record)[:_SHOWN] if isinstance(record, dict) else ""
        return dataset_of_document(chain([text], records), path.name, columns), keys


def _starts(path: Path, magic: bytes) -> bool:
    with source_errors(path), path.open("rb") as file:
        return file.read(len(magic)) == magic


def _table(path: Path, name: str) -> SourceFile:
    """A Parquet file. Raises SourceError: it is not whole, or not a table of works."""
    names = tables.column_names(path)
    if not set(names) >= openalex.NEEDED:
        raise SourceError(
            f"{path} is not a source: its columns are {', '.join(names)[:_SHOWN]}, and a table of OpenAlex works has "
            f"{', '.join(sorted(openalex.NEEDED))}. Leave it out. Vectors are given with --vectors."
        )
    return SourceFile(path, name, Dataset.OPENALEX, path.stat().st_size, "table")


_NOTE_ENDINGS: Final = frozenset({".md", ".txt", ".rst", ".pdf", ".html", ".md5", ".sha256"})


def _is_note(path: Path) -> bool:
    name = path.name.lower()
    return name.startswith(("_success", *NOTES)) or path.suffix.lower() in _NOTE_ENDINGS


def _split(stream: ByteStream) -> Iterator[bytes]:
    """Lines of a stream; the rest of one that exceeds ``MAX_LINE`` bytes is not kept. A BufferedReader would lose the
    lines that precede damage; this yields them all."""
    pieces: list[bytes] = []
    size = 0
    while chunk := stream.read1(_CHUNK):
        lines = chunk.split(b"\n")
        if size <= MAX_LINE:
            pieces.append(lines[0])
            size += len(lines[0])
        if len(lines) > 1:
            yield b"".join(pieces)
            yield from lines[1:-1]
            pieces, size = [lines[-1]], len(lines[-1])
    last = b"".join(pieces)
    if last:
        yield last

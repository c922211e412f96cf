"""The files of full texts, and the readers of them, which extensions add."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from scholarbase.documents.model import PRECEDENCE, BadDocument, DocumentSource, FullText
from scholarbase.errors import ExtensionError, ScholarBaseError, SourceError
from scholarbase.extensions import added_list, missing
from scholarbase.files import NOTES, walk

log = logging.getLogger("scholarbase.ingest")

Lines = Iterable[tuple[int, bytes]]
Box = tuple[float, float, float, float]
_EXTENSION: Final = "fulltext"
"""The extension of ScholarBase that reads full texts and draws pages."""


class PageImage(NamedTuple):
    """A PNG, and its size in pixels."""

    png: bytes
    width: int
    height: int


class PageRenderer(Protocol):
    """Draws pages of PDFs. Thread-safe."""

    def draw(self, pdf: bytes, page: int, box: Box | None = None) -> PageImage:
        """A page of a PDF as PNG. ``page`` counts from 1; ``box`` is ``(x, y, width, height)`` in points from the
        page's top left corner, and the part of the page that is drawn.

        Raises:
            InvalidRequest: there is no such page, or the box is not on it.
            PageNotDrawn: the PDF is broken or encrypted, or the page takes too long or too much memory.
            Busy: other pages took too long.
        """
        ...

    def close(self) -> None:
        """End the process that draws."""
        ...


@dataclass(frozen=True, slots=True)
class DocumentFile:
    """A file of full texts. ``name`` is its path below the source folder, with forward slashes; ``size`` is in bytes,
    as stored."""

    path: Path
    name: str
    source: DocumentSource
    size: int
    reader: DocumentReader


class DocumentEntry(NamedTuple):
    """A document of a file, or why it is none: ``number`` is its line, its place among the articles of the file, or 1
    for a file that is one document; ``size`` is in bytes, of the line, the text or the file."""

    number: int
    size: int
    document: FullText | BadDocument


class DocumentReader(NamedTuple):
    """A reader of full texts.

    Args:
        forms: the formats that it reads, as part of a sentence.
        source_of: the source of a file by its content and ending, None if it is of none that this reader reads: the one
            of :data:`scholarbase.documents.model.PRECEDENCE` whose faithfulness it has.
        read: the documents of a file from the first one after a number on, in the same order each time. The second
            argument gives the numbered lines of a plain or compressed file, for the sources of ``LINE_SOURCES``.
        sidecar_of: the JSON file that describes the document in a file.
        open_renderer: opens what draws pages of PDFs.
    """

    forms: str
    source_of: Callable[[Path], DocumentSource | None]
    read: Callable[[DocumentFile, Callable[[Path], Lines], int], Iterator[DocumentEntry]]
    sidecar_of: Callable[[DocumentFile], Path | None] = lambda file: None
    open_renderer: Callable[[], PageRenderer] | None = None


def detect_documents(paths: Sequence[str | Path]) -> list[DocumentFile]:
    """The files of full texts among ``paths`` and in the folders among them, by name within a folder.

    Their sources are detected by content, then by ending. In folders, hidden files, notes (README, LICENSE, checksums)
    and files of other kinds are skipped. JSON files beside a document of the same name are its metadata. Each file
    counts once.

    Raises:
        SourceError: a path does not exist or cannot be read, a file named by itself is of no source, or there are none,
            or no extension reads full texts.
    """
    readers = added_list("document_readers")
    if not readers:
        raise SourceError(f"{', '.join(map(str, paths))} cannot be read: {missing(_EXTENSION)}.")
    forms = ", ".join(reader.forms for reader in readers)
    files: dict[Path, DocumentFile] = {}
    names: set[str] = set()
    skipped: list[str] = []
    for position, given in enumerate(paths, 1):
        root = Path(given)
        if not root.exists():
            raise SourceError(f"No file or folder at {given}: check the path of the documents.")
        for path in walk(root, _is_note) if root.is_dir() else [root]:
            key = path.resolve()
            if key in files:
                continue
            reader, source = _reader_of(readers, path)
            if source is None:
                if root.is_dir():
                    skipped += [] if path.suffix.lower() == ".json" else [path.name]
                    continue
                raise SourceError(f"{path} is not a full text: documents are {forms}.")
            name = path.relative_to(root).as_posix() if root.is_dir() else root.name
            name = name.encode("utf-8", "backslashreplace").decode()  # of a name that is not UTF-8
            if name in names:
                name = f"{position}/{name}"
            names.add(name)
            files[key] = DocumentFile(path, name, source, path.stat().st_size, reader)
    if skipped:
        log.warning(
            "Skipped of --documents: %s, not full texts, which are %s. The first: %s.",
            "1 file" if len(skipped) == 1 else f"{len(skipped):,} files",
            forms,
            skipped[0],
        )
    if not files:
        where = ", ".join(str(path) for path in paths) or "no path"
        raise SourceError(f"No full text in {where}: documents are {forms}.")
    return list(files.values())


def _reader_of(readers: Sequence[DocumentReader], path: Path) -> tuple[DocumentReader, DocumentSource | None]:
    """The first reader that reads a file, and the file's source; the last one and None for other files."""
    for reader in readers:
        source = reader.source_of(path)
        if source is not None:
            if source not in PRECEDENCE:
                raise SourceError(
                    f"{path}: a reader of an extension names the source {source!r}: the sources of full texts are "
                    f"{', '.join(PRECEDENCE)}."
                )
            return reader, source
    return reader, None


def read_documents(
    file: DocumentFile, lines_of: Callable[[Path], Lines], after: int = 0
) -> Iterator[DocumentEntry]:
    """The documents of a file, from the first one after number ``after``.

    ``lines_of`` gives the lines of a plain or compressed file with their numbers, for JSON lines.

    Raises:
        SourceError: the file cannot be read, or its reader fails.
        MissingExtra: a package that the reader needs is not installed.
    """
    try:
        yield from file.reader.read(file, lines_of, after)
    except (ScholarBaseError, OSError):
        raise
    except Exception as error:
        raise SourceError(
            f"{file.path} cannot be read: the reader of {file.source} failed ({type(error).__name__}: {error}). Leave "
            "the file out, or update the extension that reads it."
        ) from error


def sidecars(files: Iterable[DocumentFile]) -> list[tuple[Path, str, DocumentSource]]:
    """The files beside documents that describe them: the path, a name as those of documents, and the source."""
    by_path: dict[Path, tuple[Path, str, DocumentSource]] = {}
    for file in files:
        path = file.reader.sidecar_of(file)
        if path is not None:
            name = path.name.encode("utf-8", "backslashreplace").decode()
            by_path[path] = (path, f"{file.name}: {name}", file.source)
    return list(by_path.values())


def open_renderer() -> PageRenderer:
    """Open the first renderer of pages that an extension adds.

    Raises:
        ExtensionError: there is none.
    """
    for reader in added_list("document_readers"):
        if reader.open_renderer is not None:
            renderer: PageRenderer = reader.open_renderer()
            return renderer
    raise ExtensionError(f"Pages cannot be drawn: {missing(_EXTENSION)}.")


def _is_note(path: Path) -> bool:
    return path.name.lower().startswith(NOTES)

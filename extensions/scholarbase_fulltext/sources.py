"""Tells files of full texts apart, and reads the documents in them."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import fields, replace
from itertools import chain
from pathlib import Path
from typing import Final, Literal
from urllib.parse import unquote

import orjson

from scholarbase.documents.model import (
    LINE_SOURCES,
    BadDocument,
    DocumentSource,
    FullText,
    Metadata,
    arxiv_version,
)
from scholarbase.documents.readers import DocumentEntry, DocumentFile, Lines
from scholarbase.errors import InvalidRequest, SourceError
from scholarbase.files import DECOMPRESSION_ERRORS, MAX_LINE, decompress, source_errors
from scholarbase.identifiers import parse
from scholarbase_fulltext import latexml_tree, markdown, pdf
from scholarbase_fulltext.described import Described, described, read_sidecar
from scholarbase_fulltext.jats import read_articles
from scholarbase_fulltext.latexml import MARK, read_latexml
from scholarbase_fulltext.markdown import read_markdown, read_plain
from scholarbase_fulltext.pdf import read_pdf
from scholarbase_fulltext.s2orc import read_s2orc
from scholarbase_fulltext.unarxive import KEYS, read_unarxive

log = logging.getLogger("scholarbase.ingest")

MAX_SIDECAR: Final = 1_000_000
_START: Final = 1 << 16
_HTML_START: Final = 1 << 20
"""Bytes of HTML in which a class of LaTeXML is looked for: styles and scripts may come before the first."""
_CHUNK: Final = 1 << 18
_BY_ENDING: Final[dict[str, DocumentSource]] = {".md": "markdown", ".markdown": "markdown", ".txt": "text"}
_WHOLE: Final[dict[str, DocumentSource]] = {
    ".html": "latexml",
    ".htm": "latexml",
    ".pdf": "pdf",
    ".xml": "jats",
    ".nxml": "jats",
    **_BY_ENDING,
}
_LIMITS: Final[dict[DocumentSource, int]] = {
    "latexml": latexml_tree.MAX_BYTES,
    "pdf": pdf.MAX_BYTES,
    "markdown": markdown.MAX_BYTES,
    "text": markdown.MAX_BYTES,
}
_READERS: Final[dict[DocumentSource, Callable[[bytes], FullText]]] = {
    "pdf": read_pdf,
    "latexml": read_latexml,
    "markdown": read_markdown,
    "text": read_plain,
    "unarxive": read_unarxive,
    "s2orc": read_s2orc,
}
_HTML: Final = re.compile(rb"<html[\s>]", re.IGNORECASE)
_ARTICLE: Final = re.compile(rb"<(?:[a-z]{1,20}:)?(?:article|pmc-articleset)[\s>]", re.IGNORECASE)
_ENDINGS: Final = frozenset(
    {".gz", ".xz", ".zst", ".pdf", ".md", ".markdown", ".txt", ".xml", ".nxml", ".html", ".htm", ".xhtml"}
)
_OLD_NUMBER: Final = re.compile(r"([a-z-]{2,8}(?:\.[A-Z]{2})?|)(\d{7}(?:v[1-9]\d{0,3})?)", re.ASCII)
"""An old id of arXiv as in names of files, with its archive or without."""
FORMS: Final = (
    "JSON lines of unarXive or S2ORC, JATS XML, HTML of LaTeXML as arXiv has it, PDF, Markdown (.md, .markdown) or "
    "plain text (.txt) in UTF-8"
)


def read_documents(
    file: DocumentFile, lines_of: Callable[[Path], Lines], after: int = 0
) -> Iterator[DocumentEntry]:
    """The documents of a file, from the first one after number ``after``.

    ``lines_of`` gives the lines of a plain or compressed file with their numbers, for JSON lines. Files that are one
    document may have a JSON file beside them, ``NAME.json`` for ``NAME.pdf``, with the keys of Markdown's metadata. A
    document that does not say which paper it is gets its ids from the file's name, if that is one.

    Raises:
        SourceError: the file cannot be read.
        MissingExtra: it is a PDF, and pypdfium2 is not installed.
    """
    if file.source in LINE_SOURCES:
        for number, line in lines_of(file.path):
            if number > after:
                yield DocumentEntry(number, len(line), _read(file.source, line))
    elif file.source == "jats":
        number = 0
        try:
            for number, full in enumerate(_articles(file), 1):
                if number > after:
                    yield DocumentEntry(
                        number, len(full.document.text) if isinstance(full, FullText) else 0, full
                    )
        except SourceError as error:
            yield DocumentEntry(number + 1, 0, _damaged(error))
    elif after < 1:
        yield DocumentEntry(1, file.size, _read_file(file))


def sidecar_of(file: DocumentFile) -> Path | None:
    """The JSON file that describes the document in a file."""
    return None if file.source in ("jats", *LINE_SOURCES) else _sidecar_of(file.path)


def _read(source: DocumentSource, data: bytes) -> FullText | BadDocument:
    try:
        return _READERS[source](data)
    except BadDocument as error:
        return error
    except RecursionError:
        log.exception("The reader of %s called itself without end.", source)
        return BadDocument("reader-failed", f"The reader of {source} called itself without end: report it.")


def _articles(file: DocumentFile) -> Iterator[FullText | BadDocument]:
    """The articles of a JATS file. Only the id of a single one may be the file's name."""
    articles = read_articles(_pieces(file.path))
    first = next(articles)
    second = next(articles, None)
    if second is None and isinstance(first, FullText) and not first.ids:
        first = _with(first, _of_name(file.path))
    yield from chain((first,), () if second is None else (second,), articles)


def _read_file(file: DocumentFile) -> FullText | BadDocument:
    try:
        full = _read(file.source, _whole(file.path, _LIMITS[file.source]))
        if isinstance(full, BadDocument):
            return full
        sidecar = _sidecar_of(file.path)
        if sidecar is not None:
            full = _with(full, described(read_sidecar(_whole(sidecar, MAX_SIDECAR))))
        named = _of_name(file.path)
        if not full.ids:
            return _with(full, named)
        is_same = full.version is None and set(named.ids) & set(full.ids)
        return replace(full, version=named.version) if is_same else full
    except BadDocument as error:
        return error
    except SourceError as error:
        return _damaged(error)


def _damaged(error: SourceError) -> BadDocument:
    """A damaged document, which does not end a job. Raises any other error."""
    if not isinstance(error.__cause__, DECOMPRESSION_ERRORS):
        raise error
    return BadDocument("damaged", str(error))


def _sidecar_of(path: Path) -> Path | None:
    """The JSON file that describes a document: beside it, or ``metadata/NAME.json`` beside the folder that it is in, or
    beside that one, as AirQA's ``papers/acl2023/UUID.pdf``."""
    name = path.with_suffix(".json").name
    places = (path.parent / name, *(folder / "metadata" / name for folder in path.parents[1:3]))
    return next((candidate for candidate in places if candidate.is_file()), None)


def _with(full: FullText, known: Described) -> FullText:
    """The document with what is known of it from outside, which comes first."""
    outside = {field.name: getattr(known.metadata, field.name) for field in fields(Metadata)}
    metadata = replace(full.metadata, **{name: value for name, value in outside.items() if value})
    return replace(full, ids=known.ids or full.ids, version=known.version or full.version, metadata=metadata)


def _of_name(path: Path) -> Described:
    """The id that a file's name is: ``2212.11867v2.pdf``, ``10.18653%2Fv1%2FP19-1234.pdf``, ``DOI_10.1000_x.md``.

    Old ids of arXiv may be ``hep-th9901001.html``, or have the archive as a folder, ``hep-th/pdf/9901/9901001v1.pdf``.
    The id of ``index.html`` is its folder's name.
    """
    stem = path.name
    while Path(stem).suffix.lower() in _ENDINGS:
        stem = Path(stem).stem
    folders = [folder.name for folder in path.absolute().parents]
    if stem.lower() == "index":
        stem, folders = folders[0], folders[1:]
    name = unquote(stem, errors="strict") if "%" in stem else stem
    old = _OLD_NUMBER.fullmatch(name)
    archives = ([old[1]] if old[1] else folders) if old is not None else []
    written = [f"{archive}/{old[2]}" for archive in archives if old is not None]
    for text in dict.fromkeys((name, *written, name.replace("_", "/"), _prefixed(name))):
        try:
            identifier = parse(text)
        except (InvalidRequest, UnicodeDecodeError):
            continue
        if identifier.scheme not in ("URL", "Doc") or ":" in text:
            return Described((str(identifier),), arxiv_version(text) or None)
    return Described()


def _prefixed(name: str) -> str:
    """A name whose first ``_`` stands for the colon of a prefix, and others for slashes."""
    prefix, _, rest = name.partition("_")
    return f"{prefix}:{rest.replace('_', '/')}"


# -- detection --------------------------------------------------------------------------------------------


def source_of(path: Path) -> DocumentSource | None:
    """The source of a file; None if it is of none.

    Raises:
        SourceError: it cannot be read.
    """
    if not path.is_file():
        return None
    ending = _plain_ending(path)
    try:
        start = _start(path)
    except SourceError as error:
        if not isinstance(error.__cause__, DECOMPRESSION_ERRORS) or ending not in _WHOLE:
            raise
        return _WHOLE[ending]  # damaged, which reading it says
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    source: DocumentSource | None = None
    if b"%PDF-" in start[:1024] and (ending == ".pdf" or start.startswith(b"%PDF-")):
        source = "pdf"
    elif text.startswith(b"<"):
        source = _markup_source(path, text)
    elif text.startswith(b"{"):
        source = _json_source(path)
    if source is None and ending in (".pdf",):
        source = "pdf"  # broken, which its reader says
    return source or _BY_ENDING.get(ending)


def _markup_source(path: Path, start: bytes) -> Literal["jats", "latexml"] | None:
    """The source of a file that begins with a tag."""
    if _HTML.search(start) is None:
        return "jats" if _ARTICLE.search(start) else None
    return "latexml" if MARK in start or MARK in _start(path, _HTML_START) else None


def _plain_ending(path: Path) -> str:
    """The ending before that of a compressed file."""
    return Path(path.stem if path.suffix.lower() in (".gz", ".xz", ".zst") else path.name).suffix.lower()


def _json_source(path: Path) -> Literal["unarxive", "s2orc"] | None:
    """The source of a file of JSON lines, by the keys of its first line."""
    line = _start(path, MAX_LINE, until=b"\n").partition(b"\n")[0]
    try:
        record = orjson.loads(line.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError:
        return None
    if not isinstance(record, dict):
        return None
    if record.keys() >= KEYS:
        return "unarxive"
    body = record.get("body", record.get("content"))
    return "s2orc" if "corpusid" in record and isinstance(body, dict) and "text" in body else None


def _whole(path: Path, limit: int) -> bytes:
    """The decompressed content of a file. Raises BadDocument: it is longer than ``limit``."""
    data = _start(path, limit + 1)
    if len(data) > limit:
        raise BadDocument(
            "too-long", f"The file has more than {limit:,} bytes, which is the most that is read."
        )
    return data


def _start(path: Path, size: int = _START, until: bytes | None = None) -> bytes:
    """The first decompressed bytes of a file, up to ``size`` of them or about the end of a line."""
    pieces: list[bytes] = []
    count = 0
    with closing(_pieces(path)) as chunks:
        for chunk in chunks:
            pieces.append(chunk[: size - count])
            count += len(chunk)
            if count >= size or (until is not None and until in chunk):
                break
    return b"".join(pieces)


def _pieces(path: Path) -> Generator[bytes]:
    """The decompressed bytes of a file. Raises SourceError: it cannot be read."""
    with source_errors(path), path.open("rb") as file, closing(decompress(file)) as stream:
        while chunk := stream.read1(_CHUNK):
            yield chunk

"""arXiv's records over OAI-PMH: pages of ``ListRecords`` in the formats ``arXiv`` and ``arXivRaw``.

The elements are those of arXiv's server (https://info.arxiv.org/help/oa/). A record becomes a line of arXiv's metadata
snapshot (:mod:`.arxiv`), which has the same fields, so both give the same papers. Its ``update_date`` is the record's
datestamp. ``arXiv`` has only the day of the present version, in ``created``.

A page is read in one pass of expat, piece by piece. Document type declarations are refused, since these could define
entities.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from xml.parsers import expat

import orjson

from scholarbase.errors import SourceError
from scholarbase.files import ByteStream

START: Final = re.compile(rb"<(?:\w+:)?OAI-PMH[\s>]")
"""The first element of a page."""
_NAMESPACE: Final = "http://www.openarchives.org/OAI/2.0/"
_FORMATS: Final = ("http://arxiv.org/OAI/arXivRaw/", "http://arxiv.org/OAI/arXiv/")
_PIECE: Final = 1 << 16
_MAX_DEPTH: Final = 100
"""Elements within each other."""
_MAX_TEXT: Final = 10_000_000
"""Characters of a record."""
EMPTY: Final = "noRecordsMatch"
"""The error of a list without records."""
_RECORD: Final = ("OAI-PMH", "ListRecords", "record")
_FIELDS: Final = frozenset(
    {"id", "title", "categories", "comments", "journal-ref", "doi", "abstract", "created"}
)


class Record(NamedTuple):
    """A record: the line where it starts, its content as a line of the metadata snapshot, and its datestamp."""

    line: int
    content: bytes
    datestamp: str


class Malformed(Exception):
    """A document is not a whole response of OAI-PMH; the text is the reason."""


def read_page(stream: ByteStream, name: str) -> Iterator[tuple[int, bytes]]:
    """The lines where the records of a page start, and their contents. ``name`` is for messages.

    Raises:
        SourceError: it is cut off, not XML, an error response, or has a document type.
    """
    page = Page()
    count = 0
    try:
        while piece := stream.read1(_PIECE):
            page.read(piece)
            for record in page.taken():
                count += 1
                yield record.line, record.content
        page.end()
        for code, text in page.errors:
            if code != EMPTY:
                raise Malformed(f"it is the error {code or 'of no code'} ({text[:200]})")
        if not page.has_records and not page.errors:
            raise Malformed("it has no ListRecords")
    except Malformed as error:
        raise SourceError(
            f"{name} is not a whole page of records: {error}, after {count} whole records. Download it again."
        ) from error


class Page:
    """A response, read piece by piece.

    Attributes:
        has_records: whether it has ListRecords.
        token: the resumption token; empty on the last page.
        errors: codes and texts, such as ``noRecordsMatch``.
        earliest: the earliest datestamp, of Identify.
    """

    def __init__(self) -> None:
        self.has_records = False
        self.token = ""
        self.errors: list[tuple[str, str]] = []
        self.earliest = ""
        self._path: list[str] = []
        self._text: list[str] = []
        self._size = 0
        self._records: list[Record] = []
        self._error = ""
        self._begin(1)
        self._parser = parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = self._doctype
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters

    def read(self, piece: bytes) -> None:
        """Read the next bytes. Raises Malformed."""
        try:
            self._parser.Parse(piece)
        except expat.ExpatError as error:
            raise Malformed(str(error)) from error

    def end(self) -> None:
        """Raises Malformed: the document is cut off."""
        try:
            self._parser.Parse(b"", True)
        except expat.ExpatError as error:
            raise Malformed(str(error)) from error

    def taken(self) -> list[Record]:
        """The records read since the last call."""
        records, self._records = self._records, []
        return records

    def _begin(self, line: int) -> None:
        self._line, self._size = line, 0
        self._header = {"identifier": "", "datestamp": "", "status": ""}
        self._format = ""
        self._values: dict[str, Any] = {}
        self._versions: list[dict[str, str]] = []
        self._authors: list[list[str]] = []

    def _doctype(self, *_: object) -> None:
        raise Malformed("it has a document type declaration")

    def _characters(self, text: str) -> None:
        self._size += len(text)
        if self._size > _MAX_TEXT:
            raise Malformed(f"the record in line {self._line} has more than {_MAX_TEXT:,} characters")
        self._text.append(text)

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        namespace, _, name = tag.rpartition(" ")
        if not self._path and (namespace, name) != (_NAMESPACE, _RECORD[0]):
            raise Malformed(f"its first element is {name}, not {_RECORD[0]}")
        if len(self._path) >= _MAX_DEPTH:
            raise Malformed(f"it has more than {_MAX_DEPTH} elements within each other")
        self._path.append(name)
        self._text.clear()
        path = tuple(self._path)
        if path == _RECORD[:2]:
            self.has_records = True
        elif path == _RECORD:
            self._begin(self._parser.CurrentLineNumber)
        elif path == (*_RECORD, "header"):
            self._header["status"] = attributes.get("status", "")
        elif path[:-1] == (*_RECORD, "metadata"):
            self._format = namespace
        elif path[4:] and path[-1] == "version" and len(path) == 6:
            self._versions.append({"version": attributes.get("version", "")})
        elif path[-1] == "author" and len(path) == 7:
            self._authors.append(["", "", ""])
        elif path == (_RECORD[0], "error"):
            self._error = attributes.get("code", "")

    def _end(self, _: str) -> None:
        path, text = tuple(self._path), "".join(self._text)
        self._path.pop()
        self._text.clear()
        if path == _RECORD:
            if not self._header["identifier"] or not self._header["datestamp"]:
                raise Malformed("a record has no identifier or no datestamp")
            self._records.append(Record(self._line, self._content(), self._header["datestamp"]))
        elif path == (_RECORD[0], "error"):
            self.errors.append((self._error, text.strip()))
        elif path == (*_RECORD[:2], "resumptionToken"):
            self.token = text.strip()
        elif path == (_RECORD[0], "Identify", "earliestDatestamp"):
            self.earliest = text.strip()
        elif path[:-1] == (*_RECORD, "header") and path[-1] in self._header:
            self._header[path[-1]] = text.strip()
        elif path[:4] == (*_RECORD, "metadata"):
            self._field(path[5:], text)

    def _field(self, path: tuple[str, ...], text: str) -> None:
        """Add an element of a record's metadata."""
        match path:
            case ("authors",):
                if not self._authors:
                    self._values["authors"] = text
            case (name,) if name in _FIELDS:
                self._values[name] = text
            case ("version", "date"):
                self._versions[-1]["created"] = text.strip()
            case ("version", "source_type"):
                self._versions[-1]["source_type"] = text.strip()
            case ("authors", "author", ("keyname" | "forenames" | "suffix") as part):
                self._authors[-1][("keyname", "forenames", "suffix").index(part)] = text

    def _content(self) -> bytes:
        """The record as a line."""
        line: dict[str, Any] = {
            "id": self._header["identifier"].removeprefix("oai:arXiv.org:"),
            "update_date": self._header["datestamp"][:10],
        }
        if self._header["status"] == "deleted":
            line["deleted"] = True
        elif self._format not in _FORMATS:
            line["unknown_format"] = self._format
        else:
            line |= self._values
            if self._authors:
                line["authors_parsed"] = self._authors
            if self._versions:
                line["versions"] = self._versions
        return orjson.dumps(line, option=orjson.OPT_SORT_KEYS)

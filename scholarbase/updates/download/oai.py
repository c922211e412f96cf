"""Responses of the Open Archives Initiative's protocol, OAI-PMH 2.0 (https://www.openarchives.org/OAI/2.0/).

A page is read in one pass of expat, which gives the place of each record in the page, so that records can be left out
of it without changing the others. Document type declarations are refused, since these could define entities.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from xml.parsers import expat

NAMESPACE: Final = "http://www.openarchives.org/OAI/2.0/"
_ROOT: Final = "OAI-PMH"
_MAX_DEPTH: Final = 100
"""Elements within each other."""
_HEADER: Final = (_ROOT, "ListRecords", "record", "header")


class Malformed(Exception):
    """A response is not a whole OAI-PMH document; the text is the reason."""


class Header(NamedTuple):
    """A record's identifier, the date of its last change, and its status (``deleted`` or empty)."""

    identifier: str
    datestamp: str
    status: str


class Record(NamedTuple):
    """A record of a page: its header, and its first byte and the byte after its last."""

    header: Header
    begin: int
    end: int


@dataclass
class Page:
    """A response.

    Attributes:
        records: the records of ListRecords.
        token: the resumption token; empty on the last page.
        errors: codes and texts, such as ``noRecordsMatch``.
        earliest: the earliest datestamp, of Identify.
    """

    body: bytes
    records: list[Record] = field(default_factory=list)
    token: str = ""
    errors: list[tuple[str, str]] = field(default_factory=list)
    earliest: str = ""

    def without(self, leave_out: Callable[[Header], bool]) -> Page:
        """The page without some of its records, whose other bytes are those of this page."""
        kept: list[Record] = []
        pieces: list[bytes] = []
        at = removed = 0
        for record in self.records:
            if leave_out(record.header):
                pieces.append(self.body[at : record.begin])
                at = record.end
                removed += record.end - record.begin
            else:
                kept.append(Record(record.header, record.begin - removed, record.end - removed))
        pieces.append(self.body[at:])
        return Page(b"".join(pieces), kept, self.token, self.errors, self.earliest)


def read_page(body: bytes) -> Page:
    """Read a response.

    Raises:
        Malformed: it is cut off, not XML, has a document type, or is not an OAI-PMH document.
    """
    page = Page(body)
    _Reader(page).read()
    return page


class _Reader:
    """The state of expat's pass over a page."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._path: list[str] = []
        self._text: list[str] = []
        self._begin = 0
        self._header = {"identifier": "", "datestamp": "", "status": ""}
        self._error = ""
        self._parser = parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = self._doctype
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text.append

    def read(self) -> None:
        try:
            self._parser.Parse(self._page.body, True)
        except expat.ExpatError as error:
            raise Malformed(str(error)) from error

    def _doctype(self, *_: object) -> None:
        raise Malformed("it has a document type declaration")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        namespace, _, name = tag.rpartition(" ")
        if not self._path and (namespace, name) != (NAMESPACE, _ROOT):
            raise Malformed(f"its first element is {name}, not {_ROOT}")
        if len(self._path) >= _MAX_DEPTH:
            raise Malformed(f"it has more than {_MAX_DEPTH} elements within each other")
        self._path.append(name if namespace == NAMESPACE else tag)
        self._text.clear()
        if self._path == list(_HEADER[:-1]):
            self._begin = self._parser.CurrentByteIndex
            self._header = {"identifier": "", "datestamp": "", "status": ""}
        elif self._path == list(_HEADER):
            self._header["status"] = attributes.get("status", "")
        elif self._path == [_ROOT, "error"]:
            self._error = attributes.get("code", "")

    def _end(self, _: str) -> None:
        path, text = tuple(self._path), "".join(self._text).strip()
        self._path.pop()
        self._text.clear()
        if path[:-1] == _HEADER and path[-1] in self._header:
            self._header[path[-1]] = text
        elif path == _HEADER[:-1]:
            self._add_record()
        elif path == (_ROOT, "ListRecords", "resumptionToken"):
            self._page.token = text
        elif path == (_ROOT, "error"):
            self._page.errors.append((self._error, text))
        elif path == (_ROOT, "Identify", "earliestDatestamp"):
            self._page.earliest = text

    def _add_record(self) -> None:
        end = self._page.body.index(b">", self._parser.CurrentByteIndex) + 1
        header = Header(**self._header)
        if not header.identifier or not header.datestamp:
            raise Malformed("a record has no identifier or no datestamp")
        self._page.records.append(Record(header, self._begin, end))

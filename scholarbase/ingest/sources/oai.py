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
_RECORD: Final = ("OAI-PMH", "ListRecords", "record")
_FIELDS: Final = frozenset(
    {"id", "title", "categories", "comments", "journal-ref", "doi", "abstract", "created"}
)
_WITHDRAWN: Final = "I"
"""The source type of a version that is withdrawn."""


class Found(NamedTuple):
    """A record: the line where it starts, and its content as a line of the metadata snapshot."""

    line: int
    content: bytes


class _Damaged(Exception):
    """A page is not a whole page of records; the text is the reason."""


def read_page(stream: ByteStream, name: str) -> Iterator[Found]:
    """The records of a page. ``name`` is for messages.

    Raises:
        SourceError: it is cut off, not XML, an error response, or has a document type.
    """
    reader = _Reader()
    count = 0
    try:
        while True:
            piece = stream.read1(_PIECE)
            reader.parser.Parse(piece, not piece)
            for record in reader.taken():
                count += 1
                yield record
            if not piece:
                break
        if not reader.is_page:
            raise _Damaged("it has no ListRecords")
    except (_Damaged, expat.ExpatError) as error:
        raise SourceError(
            f"{name} is not a whole page of records: {error}, after {count} whole records. Download it again."
        ) from error


class _Reader:
    """The state of expat's pass over a page."""

    def __init__(self) -> None:
        self.is_page = False
        self._path: list[str] = []
        self._text: list[str] = []
        self._size = 0
        self._records: list[Found] = []
        self._error = ""
        self._begin(1)
        self.parser = parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = self._doctype
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters

    def taken(self) -> list[Found]:
        """The records read since the last call."""
        found, self._records = self._records, []
        return found

    def _begin(self, line: int) -> None:
        self._line, self._size = line, 0
        self._header = {"identifier": "", "datestamp": "", "status": ""}
        self._format = ""
        self._values: dict[str, Any] = {}
        self._versions: list[dict[str, str]] = []
        self._authors: list[list[str]] = []

    def _doctype(self, *_: object) -> None:
        raise _Damaged("it has a document type declaration")

    def _characters(self, text: str) -> None:
        self._size += len(text)
        if self._size > _MAX_TEXT:
            raise _Damaged(f"the record in line {self._line} has more than {_MAX_TEXT:,} characters")
        self._text.append(text)

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        namespace, _, name = tag.rpartition(" ")
        if not self._path and (namespace, name) != (_NAMESPACE, _RECORD[0]):
            raise _Damaged(f"its first element is {name}, not {_RECORD[0]}")
        if len(self._path) >= _MAX_DEPTH:
            raise _Damaged(f"it has more than {_MAX_DEPTH} elements within each other")
        self._path.append(name)
        self._text.clear()
        path = tuple(self._path)
        if path == _RECORD[:2]:
            self.is_page = True
        elif path == _RECORD:
            self._begin(self.parser.CurrentLineNumber)
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
            self._records.append(Found(self._line, self._content()))
        elif path == (_RECORD[0], "error"):
            if self._error != "noRecordsMatch":
                raise _Damaged(f"it is the error {self._error or 'of no code'} ({text.strip()[:200]})")
            self.is_page = True
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

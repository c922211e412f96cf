"""Formats of source files that extensions add."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final, NamedTuple, TextIO

from scholarbase.documents.model import PRECEDENCE as DOCUMENT_SOURCES
from scholarbase.errors import SourceError
from scholarbase.extensions import added_names
from scholarbase.ingest.sources.columns import FIELDS, Row, row_of
from scholarbase.ingest.sources.detect import Dataset

log = logging.getLogger("scholarbase.ingest")

START: Final = 100_000
"""Characters from which a format is recognised."""
_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,63}")
_RESERVED: Final = frozenset({*map(str, Dataset), *DOCUMENT_SOURCES})


class SourceFormat(NamedTuple):
    """A format of source files.

    An entry is a mapping with the fields of a JSON line (docs/ingest.md): ``title``, without which it is rejected, and
    any of ``abstract``, ``authors`` and ``keywords`` (lists, or texts separated by semicolons), ``year``, ``date``
    (``YYYY-MM-DD``), ``venue``, ``doi``, ``arxiv_id``, ``pmid``, ``url``, ``volume``, ``pages``, ``type`` (a word of
    BibTeX, RIS or CSL-JSON, such as ``article``), ``key`` (the citation key, an id ``Key:…``) and ``extra`` (a text
    that begins with other ids, such as ``PMCID: PMC1``). ``line`` is where it starts, for messages; by default the
    number of the entry.

    Args:
        recognises: whether a file whose text starts with this one, of up to 100,000 characters, is of the format.
        read: the entries of a file, in the same order each time. The text is decompressed as it is read.
    """

    recognises: Callable[[str], bool]
    read: Callable[[TextIO], Iterable[Mapping[str, Any]]]


@cache
def formats() -> Mapping[str, SourceFormat]:
    """The formats that extensions add, by name. Invalid ones are logged and left out."""
    valid: dict[str, SourceFormat] = {}
    for name, source_format in added_names("sources").items():
        if not _NAME.fullmatch(name) or name in _RESERVED:
            log.error(
                "The source format %r of an extension is not used: a lower-case name that the core does not use, such "
                "as refer, was expected.",
                name,
            )
        else:
            valid[name] = source_format
    return valid


def format_of(start: str) -> str | None:
    """The name of the first format that recognises the start of a file."""
    for name, source_format in formats().items():
        try:
            if source_format.recognises(start):
                return name
        except Exception:
            log.exception("The source format %r of an extension failed to recognise a file.", name)
    return None


def read_rows(name: str, text: TextIO, path: object) -> Iterator[Row]:
    """The entries of a file in a format.

    Raises:
        SourceError: the format fails, or an entry has an unknown field. Errors of the file are raised as they are.
    """
    try:
        for number, entry in enumerate(formats()[name].read(text), 1):
            if unknown := entry.keys() - {*FIELDS, "line"}:
                raise SourceError(
                    f"{path}: the format {name} of an extension gives an entry the field {min(unknown)!r}: the fields "
                    f"are {', '.join(FIELDS)} and line."
                )
            yield row_of(entry, entry.get("line", number))
    except (SourceError, EOFError, OSError):
        raise
    except Exception as error:
        raise SourceError(
            f"{path} cannot be read as {name}, a format of an extension ({type(error).__name__}: {error}): leave it "
            "out, or update the extension."
        ) from error

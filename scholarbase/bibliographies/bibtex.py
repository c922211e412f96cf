"""BibTeX, split into blocks by bibtexparser, which goes on after a broken entry.

Its middleware, which decodes LaTeX and joins strings, is not used: a macro that names itself twice doubles a text with
each use.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Final

from bibtexparser.model import (
    DuplicateBlockKeyBlock,
    DuplicateFieldKeyBlock,
    Entry,
    ImplicitComment,
    ParsingFailedBlock,
    String,
)
from bibtexparser.splitter import Splitter

from scholarbase.bibliographies.ids import find_ids, leading_ids
from scholarbase.bibliographies.names import split_keywords, split_names
from scholarbase.bibliographies.references import (
    CHECKING,
    Purpose,
    Reference,
    plain_texts,
    too_long,
    unreadable,
)
from scholarbase.bibliographies.years import first_year, whole_day
from scholarbase.identifiers import Identifier, field_ids
from scholarbase.markup import plain

# Broken entries are results, not lines of a log.
logging.getLogger("bibtexparser.splitter").setLevel(logging.CRITICAL)

START: Final = re.compile(r"^[ \t]*@(?!(?:comment|preamble)\b)[A-Za-z]+[ \t]*[{(]", re.M | re.I)
"""The start of a block, by which the format is known."""
ENTRY: Final = re.compile(r"@(?!(?:string|comment|preamble)\b)\w+[ \t]*[{(]", re.I)
"""The start of an entry, for counting them before they are read."""
_NO_START: Final = re.compile(r"^[ \t]*@", re.MULTILINE)
_VENUES: Final = (
    "journal",
    "journaltitle",
    "booktitle",
    "publisher",
    "school",
    "institution",
    "howpublished",
)
_WITH_IDS: Final = (
    "doi",
    "eprint",
    "arxivid",
    "url",
    "howpublished",
    "note",
    "journal",
    "pmid",
    "pmcid",
    "number",
    "volume",
)
_SCHEMES: Final = {"doi": "DOI", "arxivid": "arXiv", "pmid": "PMID", "pmcid": "PMCID"}
"""Fields with ids of one scheme."""
_EPRINTS: Final = {"pubmed": "PMID", "pmid": "PMID", "pmc": "PMCID", "pmcid": "PMCID", "doi": "DOI"}
"""The schemes of ``eprint`` by the type of the eprint, if it is not arXiv's."""
_NOTES: Final = frozenset({"note", "howpublished", "journal"})
"""Fields that may also mention other papers."""
_KEYWORDS: Final = ("keywords", "keyword")
_ESCAPED: Final = re.compile(r"\\([&%$#_])")
_MAX_MACRO: Final = 1_000
"""Characters of an abbreviation's text."""


def read_bibtex(text: str, purpose: Purpose = CHECKING) -> tuple[list[Reference], str]:
    """The references of a ``.bib`` file, and the text of its ``@string`` blocks."""
    references: list[Reference] = []
    macros: dict[str, str] = {}
    strings: list[str] = []
    for block in Splitter(text).split().blocks:
        line = (block.start_line or 0) + 1
        raw = block.raw or ""
        if isinstance(block, String):
            macros[block.key.lower()] = _text(block.value, macros)[:_MAX_MACRO]
            strings.append(raw)
        elif isinstance(block, Entry):
            references.append(_reference(block, raw, line, macros, purpose))
        elif isinstance(block, DuplicateBlockKeyBlock | DuplicateFieldKeyBlock):
            inner = block.ignore_error_block
            if isinstance(inner, Entry):  # the first value counts
                references.append(_reference(inner, raw, line, macros, purpose))
        elif isinstance(block, ParsingFailedBlock):
            reason = str(getattr(block.error, "abort_reason", "") or block.error).strip().rstrip(".")
            references.append(unreadable(raw, line, f"The BibTeX entry is broken: {reason}."))
        elif isinstance(block, ImplicitComment) and _NO_START.search(raw):
            references.append(unreadable(raw, line, "The BibTeX entry is broken: no { follows its type."))
    return references, "\n".join(strings)


def _reference(entry: Entry, raw: str, line: int, macros: Mapping[str, str], purpose: Purpose) -> Reference:
    key = entry.key or None
    if (refused := too_long(raw, line, purpose.max_length, key)) is not None:
        return refused
    fields: dict[str, str] = {}
    for field in entry.fields:
        fields.setdefault(field.key.lower(), _text(str(field.value), macros))
    names, more = split_names(fields.get("author") or fields.get("editor", ""))
    date = fields.get("year") or fields.get("date", "")
    return Reference(
        raw,
        line,
        key,
        _ids(fields, own=purpose.own_ids),
        authors=tuple(_plain(name) for name in names[: purpose.max_authors]),
        more_authors=more or len(names) > purpose.max_authors,
        year=first_year(date),
        kind=entry.entry_type.lower(),
        date=whole_day(fields.get("date", "")),
        keywords=split_keywords(next((_plain(fields[name]) for name in _KEYWORDS if name in fields), "")),
        url=_ESCAPED.sub(r"\1", fields.get("url", "")).strip() or None,
        volume=_plain(fields.get("volume", "")) or None,
        pages=_plain(fields.get("pages", "")) or None,
        **plain_texts(
            fields.get("title", ""),
            fields.get("abstract", ""),
            next((fields[name] for name in _VENUES if fields.get(name)), ""),
            braces=True,
        ),
    )


def _plain(text: str) -> str:
    return plain(text, braces=True)


def _ids(fields: Mapping[str, str], *, own: bool) -> tuple[Identifier, ...]:
    found: list[Identifier] = []
    kind = (fields.get("eprinttype") or fields.get("archiveprefix", "")).strip().lower()
    schemes = _SCHEMES | {"eprint": _EPRINTS.get(kind, "arXiv")}
    for name in _WITH_IDS:
        value = fields.get(name, "").strip()
        if (
            name == "eprint"
            and value.isdigit()
            and (archive := fields.get("primaryclass", "").partition(".")[0])
        ):
            value = f"{archive.strip()}/{value}" if schemes[name] == "arXiv" else value
        listed = field_ids(schemes[name], value) if name in schemes else []
        value = _ESCAPED.sub(r"\1", value)
        if listed:
            found += listed
        elif own and name in _NOTES:
            found += leading_ids(value)
        else:
            found += [one.id for one in find_ids(value)]
    return tuple(dict.fromkeys(found))


def _text(value: str, macros: Mapping[str, str]) -> str:
    """A value without its delimiters, its abbreviations and ``#`` resolved."""
    parts = _concatenated(value)
    return "".join(part if is_text else macros.get(part.lower(), part) for part, is_text in parts)


def _concatenated(value: str) -> list[tuple[str, bool]]:
    """The parts of a value between ``#``, each without delimiters, and whether it had some."""
    parts: list[tuple[str, bool]] = []
    depth, quoted, begin = 0, False, 0
    for place, char in enumerate(value + "#"):
        if char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
        elif char == '"' and not depth:
            quoted = not quoted
        elif char == "#" and ((not depth and not quoted) or place == len(value)):
            part = value[begin:place].strip()
            delimited = part[:1] + part[-1:] in ("{}", '""') and len(part) > 1
            parts.append((part[1:-1] if delimited else part, delimited))
            begin = place + 1
    return parts

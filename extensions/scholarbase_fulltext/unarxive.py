"""Reads unarXive: arXiv's papers from their LaTeX sources, as JSON lines.

A line has ``metadata`` (the paper's line in arXiv's metadata snapshot), ``abstract``, ``body_text`` (paragraphs, each
with its section), ``bib_entries`` and ``ref_entries`` (formulas, figures, tables). In the texts stand marks such as
``{{cite:ID}}`` and ``{{formula:ID}}``. https://github.com/IllDepence/unarXive
"""

from __future__ import annotations

import re
from email.utils import parsedate_to_datetime
from typing import Any, Final

from scholarbase.bibliographies.ids import find_ids
from scholarbase.bibliographies.years import years_in
from scholarbase.documents.model import (
    BadDocument,
    BibliographyEntry,
    FigureKind,
    FullText,
    Metadata,
)
from scholarbase_fulltext.building import (
    DocumentBuilder,
    Inline,
    InlineBuilder,
    known_ids,
    read_record,
)

KEYS: Final = frozenset({"body_text", "bib_entries", "ref_entries", "metadata"})
"""What a line of unarXive has."""
NO_CAPTION: Final = "NO_CAPTION"
FIGURES: Final = "Figures and tables"
_MARK: Final = re.compile(r"\{\{(cite|formula|figure|table):([^{}]{1,100})\}\}")
_SPACE_AFTER_MARK: Final = re.compile(r"(?:(?<=\}\})|(?<=REF))[^\S\n]+(?=[.,;:)\]])")
"""unarXive has a space behind each mark, also before a full stop."""
_LIST_OPTIONS: Final = re.compile(r"\s*\[[a-z]+\*?=[^\[\]\n]{0,100}\]\n")
_EMPTY_LINE: Final = re.compile(r"\n[^\S\n]*\n")
_DEPTHS: Final = {"section": 1, "subsection": 2, "subsubsection": 3}
_PARAGRAPH_HEADING: Final = 4
_ID_SCHEMES: Final = (
    ("doi", "DOI:"),
    ("arxiv_id", "arXiv:"),
    ("pubmed_id", ""),
    ("pmc_id", ""),
    ("open_alex_id", ""),
)


def read_unarxive(line: bytes) -> FullText:
    """The full text in a line of unarXive.

    Raises:
        BadDocument: it is not a record of unarXive.
    """
    record = read_record(line)
    missing = sorted(KEYS - record.keys())
    if missing:
        raise BadDocument("not-unarxive", f"The record has no {missing[0]!r}, as records of unarXive have.")
    wrong = [
        key
        for key, kind in (
            ("body_text", list),
            ("bib_entries", dict),
            ("ref_entries", dict),
            ("metadata", dict),
        )
        if not isinstance(record[key], kind)
    ]
    if wrong:
        raise BadDocument("not-unarxive", f"{wrong[0]!r} is not of the type that it has in unarXive.")
    return _Reader(record).read()


class _Reader:
    """Reads one record."""

    def __init__(self, record: dict[str, Any]) -> None:
        self._record = record
        self._builder = DocumentBuilder()
        self._entries: dict[str, int] = {}
        """The places of the cited entries, in the order of their first marks."""
        self._labels: dict[str, str] = {}
        """The labels of figures and tables, in the order of their marks."""
        self._open: list[str | None] = []
        """The number of each open section, from the outermost."""

    def read(self) -> FullText:
        metadata = self._record["metadata"]
        paragraphs = [item for item in self._record["body_text"] if isinstance(item, dict)]
        self._abstract(paragraphs)
        self._body(paragraphs)
        self._figures()
        self._bibliography()
        name = _text(metadata.get("id")) or _text(self._record.get("paper_id"))
        title = " ".join(_text(metadata.get("title")).split()) or None
        dois = re.split(r"[\s,;]+", _text(metadata.get("doi")))
        ids = known_ids([f"arXiv:{name}", *(f"DOI:{doi}" for doi in dois)])
        version, date = _version(metadata.get("versions"))
        described = Metadata(
            title=title,
            abstract=" ".join(_text(metadata.get("abstract")).split()) or None,
            authors=_authors(metadata.get("authors_parsed")),
            date=date,
            arxiv=metadata,
        )
        return FullText("unarxive", self._builder.build(), tuple(ids), version, described)

    def _abstract(self, paragraphs: list[dict[str, Any]]) -> None:
        abstract = self._record.get("abstract")
        text = abstract.get("text") if isinstance(abstract, dict) else abstract
        text = _text(text) or _text(self._record["metadata"].get("abstract"))
        first = _text(paragraphs[0].get("section")) if paragraphs else ""
        if text.strip() and first.strip().lower() != "abstract":
            self._builder.heading("Abstract")
            self._builder.paragraph(self._inline(text))

    def _body(self, paragraphs: list[dict[str, Any]]) -> None:
        previous: tuple[str, str, str] = ("", "", "")
        before_headings = True
        for item in paragraphs:
            title, number, kind = (_text(item.get(key)) for key in ("section", "sec_number", "sec_type"))
            if title.strip() and (title, number, kind) != previous:
                heading_number = None if number in ("", "-1") else number
                depth = self._depth(heading_number, kind)
                self._builder.heading(self._inline(title), level=depth, number=heading_number)
                self._open[depth - 1 :] = [None] * (depth - 1 - len(self._open)) + [heading_number]
                before_headings = False
            elif before_headings and self._builder.end:
                self._builder.heading("Text")  # not a part of the abstract
                before_headings = False
            previous = (title, number, kind)
            text = _text(item.get("text"))
            if item.get("content_type") == "list":
                self._builder.paragraph(self._list(text), "list")
            else:
                self._builder.paragraph(self._inline(text))

    def _depth(self, number: str | None, kind: str) -> int:
        """A section's depth: of a number such as ``2.1``, one below the section that the number names, if that has a
        heading; else by the kind."""
        if number is not None and "." in number:
            parent = number.rpartition(".")[0]
            while parent:
                if parent in self._open:
                    return self._open.index(parent) + 2
                parent = parent.rpartition(".")[0]
            return 1
        depth = _DEPTHS.get(kind, _PARAGRAPH_HEADING)
        return min(depth, len(self._open) + 1)

    def _figures(self) -> None:
        entries = self._record["ref_entries"]
        for name, entry in entries.items():
            if isinstance(entry, dict) and _caption(entry):
                self._label(name, entry)
        if self._labels:
            self._builder.heading(FIGURES)
        for name, label in self._labels.items():
            entry = entries[name]
            self._builder.captioned(_kind(entry), label, self._inline(_caption(entry)))

    def _bibliography(self) -> None:
        entries = self._record["bib_entries"]
        for name in entries:
            self._entries.setdefault(name, len(self._entries))
        for name in self._entries:
            entry = entries[name] if isinstance(entries[name], dict) else {}
            text = self._inline(_text(entry.get("bib_entry_raw"))).text
            self._builder.bibliography.append(
                BibliographyEntry(text, year=years_in(text)[0], ids=_entry_ids(entry, text))
            )

    def _list(self, text: str) -> Inline:
        """A list, with a line for each item."""
        options = _LIST_OPTIONS.match(text)
        building = InlineBuilder()
        for item in _EMPTY_LINE.split(text[options.end() :] if options else text):
            building.line_break()
            self._fill(building, item)
        return building.build()

    def _inline(self, text: str) -> Inline:
        building = InlineBuilder()
        self._fill(building, text)
        return building.build()

    def _fill(self, building: InlineBuilder, text: str) -> None:
        text = _SPACE_AFTER_MARK.sub("", text)
        end = 0
        for mark in _MARK.finditer(text):
            building.add(text[end : mark.start()])
            end = mark.end()
            kind, name = mark[1], mark[2]
            if kind == "cite":
                if name in self._record["bib_entries"]:
                    position = self._entries.setdefault(name, len(self._entries))
                    building.cite(f"[{position + 1}]", position)
                else:
                    building.add("[?]")
                continue
            entry = self._record["ref_entries"].get(name)
            if not isinstance(entry, dict):
                building.add(mark[0])
            elif kind == "formula":
                latex = _text(entry.get("latex")).strip()
                building.add(f"${latex}$" if latex else "")
            else:
                building.add(self._label(name, entry))
        building.add(text[end:])

    def _label(self, name: str, entry: dict[str, Any]) -> str:
        if name not in self._labels:
            self._labels[name] = self._builder.label(_kind(entry))
        return self._labels[name]


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _kind(entry: dict[str, Any]) -> FigureKind:
    return "table" if entry.get("type") == "table" else "figure"


def _caption(entry: dict[str, Any]) -> str:
    caption = _text(entry.get("caption")).strip() if entry.get("type") in ("figure", "table") else ""
    return "" if caption == NO_CAPTION else caption


def _authors(parsed: object) -> tuple[str, ...]:
    """Names such as ``Ada B. Lovelace`` from arXiv's lists of last name, first names, suffix."""
    names = []
    for parts in parsed if isinstance(parsed, list) else []:
        if isinstance(parts, list):
            last, first, suffix = ([_text(part).strip() for part in parts] + ["", "", ""])[:3]
            names.append(" ".join(part for part in (first, last, suffix) if part))
    return tuple(name for name in names if name)


def _version(versions: object) -> tuple[int | None, str | None]:
    """The number of the last version, and the day of the first one."""
    known = [item for item in versions if isinstance(item, dict)] if isinstance(versions, list) else []
    if not known:
        return None, None
    number = re.fullmatch(r"v([1-9]\d{0,3})", _text(known[-1].get("version")))
    try:
        date = parsedate_to_datetime(_text(known[0].get("created"))).date().isoformat()
    except (ValueError, TypeError, IndexError, OverflowError):
        date = None
    return (int(number[1]) if number else None), date


def _entry_ids(entry: dict[str, Any], text: str) -> tuple[str, ...]:
    """The ids of an entry: those in its text come first, those that unarXive matched in OpenAlex after them."""
    arxiv_ids = [item.get("id") for item in _objects(entry.get("contained_arXiv_ids"))]
    names = [f"arXiv:{value}" for value in arxiv_ids if isinstance(value, str)]
    names += [_text(item.get("url")) for item in _objects(entry.get("contained_links"))]
    matched = entry.get("ids")
    after = matched if isinstance(matched, dict) else {}
    ids = [*known_ids(names), *(str(item.id) for item in find_ids(text))]
    ids += known_ids([f"{prefix}{after[key]}" for key, prefix in _ID_SCHEMES if _text(after.get(key))])
    return tuple(dict.fromkeys(name for name in ids if not name.startswith("URL:")))


def _objects(values: object) -> list[dict[str, Any]]:
    return [item for item in values if isinstance(item, dict)] if isinstance(values, list) else []

"""BibTeX and BibLaTeX, split into blocks by bibtexparser, which goes on after a broken entry.

Its middleware, which decodes LaTeX and joins strings, is not used: a macro that names itself twice doubles a text with
each use. The fields, and how entries inherit them, are those of https://ctan.org/pkg/biblatex (sections 2.2, 2.4 and
appendix B) and https://ctan.org/pkg/bibtex.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from bibtexparser.model import (
    DuplicateBlockKeyBlock,
    DuplicateFieldKeyBlock,
    Entry,
    ImplicitComment,
    ParsingFailedBlock,
    String,
)
from bibtexparser.splitter import Splitter

from scholarbase.bibliographies.ids import field_ids, find_ids, invalid_ids, leading_ids
from scholarbase.bibliographies.names import in_braces, outside_braces, split_keywords, split_names, ungrouped
from scholarbase.bibliographies.references import (
    CHECKING,
    Purpose,
    Reference,
    plain_texts,
    timed,
    too_long,
    unreadable,
    with_subtitle,
)
from scholarbase.bibliographies.years import MONTHS, day_of_parts, first_year, whole_day
from scholarbase.identifiers import Identifier
from scholarbase.markup import plain

# Broken entries are results, not lines of a log.
logging.getLogger("bibtexparser.splitter").setLevel(logging.CRITICAL)

START: Final = re.compile(r"^[ \t]*@(?!(?:comment|preamble)\b)[A-Za-z]+[ \t]*[{(]", re.M | re.I)
"""The start of a block, by which the format is known."""
ENTRY: Final = re.compile(r"@(?!(?:string|comment|preamble|xdata|set)\b)\w+[ \t]*[{(]", re.I)
"""The start of a paper's entry, for counting them before they are read."""
_NO_START: Final = re.compile(r"^[ \t]*@(?!comment\b)", re.MULTILINE | re.IGNORECASE)
_NO_PAPERS: Final = frozenset({"xdata", "set"})
"""Types of entries that only have fields, or names, for others."""
_BOOKS: Final = frozenset({"book", "collection", "proceedings", "mvbook", "mvcollection", "mvproceedings"})
_CONTAINERS: Final = ("journal", "journaltitle", "booktitle")
_VENUES: Final = (
    *_CONTAINERS,
    "eventtitle",
    "publisher",
    "school",
    "institution",
    "organization",
    "howpublished",
)
_TITLES: Final = ("title", "shorttitle")
_DATES: Final = ("year", "date", "month", "day")
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
_INHERITED: Final = (
    *_DATES,
    *_CONTAINERS,
    "eventtitle",
    "publisher",
    "school",
    "institution",
    "volume",
    "author",
)
"""Fields of a book or of proceedings that also hold for their parts. Its ids, link, pages and abstract do not, and its
editors are not the authors of a part."""
_INSTEAD: Final[Mapping[str, Sequence[str]]] = {
    "year": ("date",),
    "date": ("year",),
    "month": ("year", "date"),
    "day": ("year", "date", "month"),
    **dict.fromkeys(_CONTAINERS, _CONTAINERS),
}
"""The fields beside which an inherited one would say something else."""
_READ: Final = frozenset(
    {
        *_INHERITED,
        *_VENUES,
        *_TITLES,
        *_WITH_IDS,
        *_KEYWORDS,
        "subtitle",
        "abstract",
        "editor",
        "pages",
        "crossref",
        "eprinttype",
        "archiveprefix",
        "primaryclass",
        "eprintclass",
    }
)
_MAX_LEVELS: Final = 8
"""Entries that inherit from each other in a chain."""
_MAX_DATA: Final = 50
"""Entries of type ``xdata`` that one entry names."""
_PART: Final = r"""(?:_+|"[^"]*"|[^\W_][\w:.+/-]*)(?![^\s#])"""
_VALUE: Final = re.compile(rf"{_PART}(?:\s*#\s*{_PART})*")
"""A value, whose braces are hidden."""
_NO_COMMA: Final = re.compile(rf"\s*({_VALUE.pattern})\s+([A-Za-z]\w*)\s*=\s*(?=[_\"\d])")
"""A value and the next field without a comma between them."""
_BEGINS_BLOCK: Final = re.compile(
    r"@(?:(?:string|comment|preamble)\b|\w+[ \t]*[{(][\s,]*(?:[^\s,{}()\"=]+[\s,]+)?[\w:+.-]+\s*=)", re.I
)
"""The start of a block within another one, which lacks its end. Other texts, such as ``@foo{bar}``, are of a value."""
_KEY: Final = re.compile(r"\s*@\w+\s*[{(]\s*([^\s,{}()\"=]+)\s*,")
"""The start of an entry, with its key."""
_ESCAPED: Final = re.compile(r"\\([&%$#_])")
_MAX_MACRO: Final = 1_000
"""Characters of an abbreviation's text."""
_MAX_VALUE: Final = 1_000_000
"""Characters of a value with its abbreviations."""
_NAME_PART: Final = re.compile(
    r"\s*\"?\s*(family|given|prefix|suffix|useprefix|\w+-i)\s*=\s*(.*?)\s*\"?\s*", re.DOTALL
)


class _Block(NamedTuple):
    """An entry. ``fields`` has those of its ``xdata`` too, with abbreviations resolved."""

    kind: str
    key: str | None
    raw: str
    line: int
    fields: Mapping[str, str]


def read_bibtex(text: str, purpose: Purpose = CHECKING) -> tuple[list[Reference], str]:
    """The references of a ``.bib`` file, and the text of its ``@string`` and ``@xdata`` blocks, which they need."""
    blocks: list[_Block | Reference] = []
    macros: dict[str, str] = dict(MONTHS)
    shared: list[str] = []
    for block in timed(_Splitter(text).split().blocks):
        line = (block.start_line or 0) + 1
        raw = block.raw or ""
        # Of entries with one key all are read, and of fields with one name the first.
        entry = block.ignore_error_block if isinstance(block, _REPEATED) else block
        if isinstance(block, String):
            macros[block.key.lower()] = _text(block.value, macros)[:_MAX_MACRO]
            shared.append(raw)
        elif isinstance(entry, Entry):
            key = entry.key or None
            refused = too_long(raw, line, purpose.max_length, key)
            blocks.append(refused or _Block(entry.entry_type.lower(), key, raw, line, _fields(entry, macros)))
            if entry.entry_type.lower() in _NO_PAPERS:
                shared.append(raw)
        elif isinstance(block, ParsingFailedBlock):
            reason = str(getattr(block.error, "abort_reason", "") or block.error).strip().rstrip(".")
            start = _KEY.match(raw)
            key = start[1] if start is not None else None
            blocks.append(unreadable(raw, line, f"The BibTeX entry is broken: {reason}.", key))
        elif isinstance(block, ImplicitComment) and _NO_START.search(raw):
            blocks.append(unreadable(raw, line, "The BibTeX entry is broken: no { follows its type."))
    return list(_references(blocks, purpose)), "\n".join(shared)


_REPEATED: Final = (DuplicateBlockKeyBlock, DuplicateFieldKeyBlock)


class _Splitter(Splitter):
    """The splitter of bibtexparser, for which every ``@foo{`` at the beginning of a line begins a block."""

    def _is_at_line_start(self, pos: int) -> bool:
        return super()._is_at_line_start(pos) and _BEGINS_BLOCK.match(self.bibstr, pos) is not None


def _fields(entry: Entry, macros: Mapping[str, str]) -> dict[str, str]:
    fields: dict[str, str] = {}
    for name, value in _written(entry):
        if name in _READ or name == "xdata":
            fields.setdefault(name, _text(value, macros))
    return fields


def _written(entry: Entry) -> Iterator[tuple[str, str]]:
    """The names of the fields in lower case, and their values as they are written."""
    for field in entry.fields:
        name, value, start = field.key.lower(), str(field.value), 0
        outside = outside_braces(value)
        while (match := _NO_COMMA.match(outside, start)) is not None:
            yield name, value[match.start(1) : match.end(1)]
            name, start = match[2].lower(), match.end()
        yield name, value[start:]


def written_fields(text: str) -> list[tuple[str, str]]:
    """The fields of an entry, their names in lower case, and their values as they are written, with delimiters; an
    empty list if the text is not one whole entry."""
    blocks = _Splitter(text).split().blocks
    whole = blocks[0] if len(blocks) == 1 and isinstance(blocks[0], Entry) else None
    return [] if whole is None else list(_written(whole))


def is_value(written: str) -> bool:
    """Whether a value has nothing after its end, such as a comment or another field."""
    return _VALUE.fullmatch(outside_braces(written)) is not None


def _references(blocks: Sequence[_Block | Reference], purpose: Purpose) -> Iterator[Reference]:
    entries = [block for block in blocks if isinstance(block, _Block)]
    data: dict[str, _Block] = {}
    for entry in entries:
        if entry.kind == "xdata" and entry.key:
            data.setdefault(entry.key.lower(), entry)
    for _ in range(_MAX_LEVELS if len(data) > 1 else 0):  # they may name others
        data = {key: _with_data(entry, data) for key, entry in data.items()}
    parents: dict[str, _Block] = {}
    for entry in entries:
        if entry.kind not in _NO_PAPERS and entry.key:
            parents.setdefault(entry.key.lower(), _with_data(entry, data))
    for block in timed(blocks):
        if isinstance(block, Reference):
            yield block
        elif block.kind not in _NO_PAPERS:
            whole = _with_data(block, data)
            yield _reference(whole, _inherited(whole, parents), purpose)


def _with_data(block: _Block, data: Mapping[str, _Block]) -> _Block:
    """An entry with the fields that it lacks and its ``xdata`` have."""
    names = block.fields.get("xdata")
    if names is None:
        return block
    fields = dict(block.fields)
    for name in islice(names.split(","), _MAX_DATA):
        if (source := data.get(name.strip().lower())) is not None:
            fields = {**source.fields, **fields}
    return block._replace(fields=fields)


def _inherited(block: _Block, parents: Mapping[str, _Block]) -> dict[str, str]:
    """The fields that an entry lacks and its ``crossref`` has, or the entries that this one inherits from. The title of
    a book or of proceedings is the ``booktitle`` of their parts, that of a periodical the ``journaltitle``."""
    fields: dict[str, str] = {}
    child = block
    for _ in range(_MAX_LEVELS):
        name = child.fields.get("crossref", "").strip().lower()
        parent = parents.get(name)
        if parent is None or parent is child:
            break
        known = block.fields.keys() | fields.keys()
        lacking = [
            name
            for name in _INHERITED
            if name in parent.fields and name not in known and known.isdisjoint(_INSTEAD.get(name, ()))
        ]
        fields |= {name: parent.fields[name] for name in lacking}
        title = parent.fields.get("title")
        if (
            title
            and block.kind not in _BOOKS
            and known.isdisjoint(_CONTAINERS)
            and fields.keys().isdisjoint(_CONTAINERS)
        ):
            fields["journaltitle" if parent.kind == "periodical" else "booktitle"] = title
        child = parent
    return fields


def _reference(block: _Block, inherited: Mapping[str, str], purpose: Purpose) -> Reference:
    own = block.fields
    fields = {**inherited, **own}
    names, has_more = split_names(fields.get("author") or own.get("editor", ""))
    date, written_year = fields.get("date", ""), fields.get("year", "")
    year = first_year(written_year) or first_year(date)
    ids, invalid = _ids(own, own=purpose.own_ids)
    title = next((own[name] for name in (*_TITLES, "booktitle") if own.get(name)), "")
    return Reference(
        block.raw,
        block.line,
        block.key,
        ids,
        authors=tuple(map(_name, names[: purpose.max_authors])),
        more_authors=has_more or len(names) > purpose.max_authors,
        year=year,
        kind=block.kind,
        date=whole_day(date)
        or day_of_parts(year, _plain(fields.get("month", "")), _plain(fields.get("day", ""))),
        keywords=split_keywords(next((_plain(own[name]) for name in _KEYWORDS if name in own), "")),
        url=_ESCAPED.sub(r"\1", own.get("url", "")).strip() or None,
        volume=_plain(fields.get("volume", "")) or None,
        pages=_plain(own.get("pages", "")) or None,
        inherited="".join(f", {name} = {{{value}}}" for name, value in inherited.items()),
        invalid_ids=invalid,
        **plain_texts(
            with_subtitle(title, own.get("subtitle", "")),
            own.get("abstract", ""),
            next((fields[name] for name in _VENUES if fields.get(name)), ""),
            braces=True,
        ),
    )


def _plain(text: str) -> str:
    return plain(text, braces=True)


def _name(text: str) -> str:
    """A name as :attr:`.Reference.authors` has it, also of one in BibLaTeX's parts."""
    if in_braces(text):
        return f"{{{_plain(ungrouped(text))}}}"
    if "=" in text and (parts := _name_parts(text)).get("family"):
        family = " ".join(filter(None, (parts.get("prefix"), parts["family"])))
        return ", ".join(filter(None, (family, parts.get("suffix"), parts.get("given"))))
    return _plain(text)


def _name_parts(text: str) -> dict[str, str]:
    """The parts of ``family=Oord, given=Aaron, prefix=van den, useprefix=true``, also in quotation marks."""
    parts: dict[str, str] = {}
    start = 0
    for match in re.finditer(",|$", outside_braces(text)):
        part = _NAME_PART.fullmatch(text[start : match.start()])
        if part is None:
            return {}
        parts[part[1]] = _plain(part[2])
        start = match.end()
    return parts


def _ids(fields: Mapping[str, str], *, own: bool) -> tuple[tuple[Identifier, ...], tuple[str, ...]]:
    """The ids of an entry, and the values of fields for ids that have none."""
    ids: list[Identifier] = []
    invalid: list[str] = []
    kind = (fields.get("eprinttype") or fields.get("archiveprefix", "")).strip().lower()
    schemes = _SCHEMES | {"eprint": _EPRINTS.get(kind, "arXiv")}
    for name in _WITH_IDS:
        value = fields.get(name, "").strip()
        if (
            name == "eprint"
            and value.isdigit()
            and (archive := (fields.get("primaryclass") or fields.get("eprintclass", "")).partition(".")[0])
        ):
            value = f"{archive.strip()}/{value}" if schemes[name] == "arXiv" else value
        listed = field_ids(schemes[name], value) if name in schemes else []
        value = _ESCAPED.sub(r"\1", value)
        if listed:
            ids += listed
        elif own and name in _NOTES:
            ids += leading_ids(value)
        else:
            found = [match.id for match in find_ids(value)]
            ids += found
            # An eprint may be that of another archive.
            if not found and (name in ("doi", "arxivid") or (name == "eprint" and kind in ("", "arxiv"))):
                invalid += invalid_ids(schemes[name], name, [value])
    return tuple(dict.fromkeys(ids)), tuple(invalid)


def _text(value: str, macros: Mapping[str, str]) -> str:
    """A value without its delimiters, its abbreviations and ``#`` resolved."""
    pieces, size = [], 0
    for part, is_text in _concatenated(value):
        pieces.append(part if is_text else macros.get(part.lower(), part))
        size += len(pieces[-1])
        if size > _MAX_VALUE:
            break
    return "".join(pieces)


def _concatenated(value: str) -> list[tuple[str, bool]]:
    """The parts of a value between ``#``, each without delimiters, and whether it had some."""
    parts: list[tuple[str, bool]] = []
    depth, quoted, begin = 0, False, 0
    for match in re.finditer(r'[{}"#]|$', value):
        char = match[0]
        if char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
        elif char == '"' and not depth:
            quoted = not quoted
        elif not char or (char == "#" and not depth and not quoted):
            part = value[begin : match.start()].strip()
            delimited = part[:1] + part[-1:] in ("{}", '""') and len(part) > 1
            parts.append((part[1:-1] if delimited else part, delimited))
            begin = match.end()
    return parts

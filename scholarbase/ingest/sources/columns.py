"""Papers in named columns: CSV files with a header, and JSON lines.

A column is recognised by its name, such as those of Zotero's and Scopus' CSV exports, or named by the caller.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from scholarbase.bibliographies.csl import is_item, reference_of
from scholarbase.bibliographies.ids import field_ids, leading_ids, whole_id
from scholarbase.bibliographies.json_items import ENDS
from scholarbase.bibliographies.names import authors_in, listed_names, name_of, split_keywords
from scholarbase.bibliographies.references import PAPERS, Reference, plain_texts
from scholarbase.bibliographies.years import first_year, whole_day
from scholarbase.errors import InvalidRequest
from scholarbase.files import MAX_LINE
from scholarbase.identifiers import Identifier, stored_arxiv_id
from scholarbase.ingest.records import PaperRecord, Reject
from scholarbase.ingest.sources import openalex
from scholarbase.ingest.sources.cleaning import clean_paper
from scholarbase.ingest.sources.retraction_watch import is_retraction_watch, notice_of
from scholarbase.ingest.sources.s2ag import BadRecord, is_answer, load, paper_of_answer
from scholarbase.markup import plain

_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "title": ("title", "papertitle", "articletitle", "documenttitle"),
    "abstract": ("abstract", "abstractnote", "summary"),
    "authors": ("authors", "author", "authornames", "creators"),
    "year": ("year", "publicationyear", "pubyear", "yearpublished"),
    "date": ("date", "publicationdate", "published", "datepublished", "coverdate"),
    "venue": ("venue", "publicationtitle", "journal", "journaltitle", "sourcetitle", "conferencename",
              "proceedingstitle", "booktitle", "containertitle", "publisher"),
    "doi": ("doi",),
    "arxiv_id": ("arxivid", "arxiv", "eprint"),
    "pmid": ("pmid", "pubmedid"),
    "url": ("url", "link", "entryid"),
    "keywords": ("keywords", "authorkeywords", "manualtags", "automatictags", "tags"),
    "volume": ("volume",),
    "pages": ("pages",),
    "type": ("type", "itemtype", "documenttype"),
    "key": ("citationkey", "key", "id"),
    "extra": ("extra", "note"),
}  # fmt: skip
"""The names of each field's columns in lower case without spaces and punctuation, the best first."""
FIELDS: Final = tuple(_NAMES)
DELIMITERS: Final = (",", ";", "\t", "|")
MAX_COLUMNS: Final = 1000
"""Columns of a file that are looked at."""
_SEPARATOR: Final = re.compile(r'"?sep=(\t|[^\s"])"?', re.IGNORECASE)
_PUNCTUATION: Final = re.compile(r"[\W_]+")

Columns = Mapping[str, str]
"""Names of columns by field, as the caller gives them."""
Found = Mapping[str, Sequence[str]]
"""The names of each field's columns in one file."""


class Row(NamedTuple):
    """A row: its first line, the bytes of its lines, and what it says. ``repaired``: its arXiv id was damaged."""

    line: int
    size: int
    content: Reference | PaperRecord | Reject
    repaired: bool = False


def parse_columns(text: str) -> dict[str, str]:
    """The columns in ``title=Paper Title,doi=DOI``. Raises InvalidRequest: another form, or an unknown field."""
    columns: dict[str, str] = {}
    for part in text.split(","):
        field, equals, column = (piece.strip() for piece in part.partition("="))
        if field not in FIELDS or not equals or not column:
            raise InvalidRequest(
                f"{part.strip()!r} in the columns {text!r} is not FIELD=COLUMN: use title=Title,doi=DOI, with the "
                f"fields {', '.join(FIELDS)}."
            )
        if field in columns:
            raise InvalidRequest(f"The columns {text!r} name the field {field!r} twice: name it once.")
        columns[field] = column
    return columns


@lru_cache(maxsize=256)
def _recognise(names: tuple[str, ...], chosen: tuple[tuple[str, str], ...]) -> Found:
    by_key: dict[str, str] = {}
    for name in names[:MAX_COLUMNS]:
        by_key.setdefault(_PUNCTUATION.sub("", name.casefold()), name)
    fields: dict[str, Sequence[str]] = {
        field: columns
        for field, keys in _NAMES.items()
        if (columns := tuple(by_key[key] for key in keys if key in by_key))
    }
    return fields | {field: (column,) for field, column in chosen if column in names}


def recognise(names: Iterable[str], chosen: Columns) -> Found:
    """The columns of each field among these names: the ``chosen`` one, if it is there, else those recognised."""
    return _recognise(tuple(names), tuple(chosen.items()))


def header_of(lines: Iterable[str], chosen: Columns) -> tuple[list[str], str] | None:
    """The names in the header of a CSV file, and their delimiter: that of a first line such as ``sep=;``, which Excel
    reads, else the one that makes most columns. None if there is no column of titles."""
    best: tuple[list[str], str] | None = None
    following = iter(lines)
    line = next(following, "").rstrip("\r\n")
    separator = _SEPARATOR.fullmatch(line)
    if separator is not None:
        line = next(following, "").rstrip("\r\n")
    for delimiter in DELIMITERS if separator is None else (separator[1],):
        try:
            [names] = csv.reader([line], delimiter=delimiter, strict=True)
        except (csv.Error, ValueError):
            continue
        names = [name.strip() for name in names]
        if "title" in recognise(names, chosen) and (best is None or len(names) > len(best[0])):
            best = names, delimiter
    return best


def csv_rows(lines: Iterator[tuple[int, bytes]], chosen: Columns) -> Iterator[Row]:
    """The rows below the header of a CSV file with a column of titles."""
    consumed = [0, 0]  # the last line that the reader has taken, and the bytes since the last row

    def texts() -> Iterator[str]:
        for number, line in lines:
            consumed[0], consumed[1] = number, consumed[1] + len(line)
            yield line.decode("utf-8", "surrogateescape") + "\n"

    text = texts()
    header = header_of(text, chosen)
    if header is None:
        return
    names, delimiter = header
    fields, notices = recognise(names, chosen), is_retraction_watch(names)
    before = csv.field_size_limit(2 * MAX_LINE)
    try:
        reader = csv.reader(text, delimiter=delimiter, strict=True)
        while True:
            begin, consumed[1] = consumed[0] + 1, 0
            try:
                values = next(reader, None)
            except csv.Error as error:
                yield Row(begin, consumed[1], Reject("bad-row", f"The row is not valid CSV: {error}."))
                continue
            if values is None:
                return
            if len(values) != len(names):
                reason = f"The row has {len(values)} values, and the header has {len(names)} columns."
                yield Row(begin, consumed[1], Reject("bad-row", reason))
                continue
            row = dict(zip(names, values, strict=True))
            if notices:
                yield Row(begin, consumed[1], notice_of(row))
            else:
                yield _row(begin, consumed[1], row, fields)
    finally:
        csv.field_size_limit(before)


def json_rows(records: Iterable[tuple[int, bytes]], chosen: Columns) -> Iterator[Row]:
    """The objects of a file, each with its line: papers of Semantic Scholar's API, items of CSL-JSON, or objects with
    named columns."""
    for number, text in records:
        try:
            record = _unwrapped(load(text))
            if "title" not in chosen and is_answer(record):
                paper = paper_of_answer(record)
                clean_paper(paper)
                yield Row(number, len(text), paper)
            elif "title" not in chosen and (is_item(record) or _is_of_snapshot(record)):
                if openalex.is_work(record):
                    record["abstract"] = openalex.abstract_of(record.get("abstract_inverted_index"))
                yield Row(number, len(text), reference_of(record, number, PAPERS))
            else:
                yield _row(number, len(text), record, recognise(record, chosen))
        except BadRecord as bad:
            yield Row(number, len(text), bad.reject)


def _is_of_snapshot(record: Mapping[str, Any]) -> bool:
    """Whether an object is a record of OpenAlex or arXiv."""
    return openalex.is_work(record) or isinstance(record.get("categories"), str)


def row_of(values: Mapping[str, Any], line: int) -> Row:
    """The row of an object whose names are those of the fields."""
    size = sum(len(value) for value in values.values() if isinstance(value, str))
    return _row(line, size, values, {field: (field,) for field in FIELDS if field in values})


def _row(line: int, size: int, values: Mapping[str, Any], fields: Found) -> Row:
    texts: dict[str, str] = {}
    for field, columns in fields.items():
        first = next((value for name in columns if (value := values.get(name)) not in (None, "", [])), None)
        text = _text(first, "; " if field in ("authors", "keywords") else " ")
        if len(text) > PAPERS.max_length:
            reason = f"The column {columns[0]!r} has {len(text):,} characters: the maximum is {PAPERS.max_length:,}."
            return Row(line, size, Reject("entry-too-long", reason))
        texts[field] = text
    if "keywords" in fields:  # Zotero has two columns of them
        listed = (_text(values.get(name), "; ") for name in fields["keywords"])
        texts["keywords"] = "; ".join(filter(None, listed))[: PAPERS.max_length]
    ids, repaired = _ids(texts, values.get(fields["arxiv_id"][0]) if "arxiv_id" in fields else None)
    names = listed_names(texts.get("authors", ""))
    date = texts.get("date", "")
    reference = Reference(
        "",
        line,
        texts.get("key") or None,
        ids,
        authors=tuple(map(plain, names[: PAPERS.max_authors])),
        year=first_year(texts.get("year", "")) or first_year(date),
        kind=texts.get("type", ""),
        date=whole_day(date),
        keywords=split_keywords(texts.get("keywords", "")),
        url=texts.get("url") or None,
        volume=texts.get("volume") or None,
        pages=texts.get("pages") or None,
        **plain_texts(*(texts.get(field, "") for field in ("title", "abstract", "venue"))),
    )
    return Row(line, size, reference, repaired)


def _text(value: Any, separator: str) -> str:
    """A value as text. Lists have texts, or objects with a name."""
    if isinstance(value, list):
        return separator.join(filter(None, (_text(item, " ") for item in authors_in(value))))
    if isinstance(value, dict):
        return name_of(value)
    if isinstance(value, float) and value.is_integer():  # a column of whole numbers with an empty cell
        value = int(value)
    return str(value).strip() if isinstance(value, str | int | float) and not isinstance(value, bool) else ""


def _ids(texts: Mapping[str, str], arxiv: Any) -> tuple[tuple[Identifier, ...], bool]:
    """The ids of a row, invalid ones left out, and whether the arXiv id was repaired."""
    ids: list[Identifier | None] = []
    ids += field_ids("arXiv", arxiv)
    ids += field_ids("DOI", texts.get("doi", ""))
    ids += field_ids("PMID", texts.get("pmid", ""))
    ids.append(whole_id(texts.get("url", "")))
    if (key := texts.get("key", "")).startswith("http"):
        ids.append(whole_id(key))
    ids += leading_ids(texts.get("extra", ""))
    return tuple(dict.fromkeys(name for name in ids if name is not None)), stored_arxiv_id(arxiv)[1]


def is_record(record: Any, chosen: Columns) -> bool:
    """Whether a JSON value is a paper of a list: an object with a title."""
    paper = _unwrapped(record)
    return isinstance(paper, dict) and (is_item(paper) or "title" in recognise(paper, chosen))


def _unwrapped(record: Any) -> Any:
    """The paper in a citation of Semantic Scholar's API."""
    papers = (record.get(name) for name in ENDS) if isinstance(record, dict) else ()
    return next((paper for paper in papers if isinstance(paper, dict)), record)

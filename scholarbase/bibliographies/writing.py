"""Papers written as BibTeX, RIS, CSL-JSON and CSV (RFC 4180).

RIS: https://en.wikipedia.org/wiki/RIS_(file_format). CSL-JSON:
https://citeproc-js.readthedocs.io/en/latest/csl-json/markup.html.
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count, product
from string import ascii_lowercase
from typing import Any, Final

import orjson

from scholarbase.bibliographies.facts import (
    arxiv_id_of,
    authors_of,
    container_of,
    day_of,
    doi_of,
    journal_of,
    kind_of,
    link_of,
    note_of,
    one_line,
)
from scholarbase.bibliographies.latex import escaped, with_formulas
from scholarbase.bibliographies.names import NameParts, name_parts
from scholarbase.errors import InvalidRequest
from scholarbase.models.checks import shown
from scholarbase.models.limits import EXPORT_FORMATS, ExportFormat
from scholarbase.models.papers import AsWritten, Author, Paper

MEDIA_TYPES: Final[Mapping[str, str]] = {
    "bibtex": "application/x-bibtex; charset=utf-8",
    "ris": "application/x-research-info-systems; charset=utf-8",
    "csl": "application/vnd.citationstyles.csl+json",
    "csv": "text/csv; charset=utf-8",
}
_CSL_TYPES: Final = {
    "article": "article-journal",
    "inproceedings": "paper-conference",
    "book": "book",
    "incollection": "chapter",
}
_RIS_TYPES: Final = {"article": "JOUR", "inproceedings": "CPAPER", "book": "BOOK", "incollection": "CHAP"}
_IN_LINKS: Final = str.maketrans({"{": "%7B", "}": "%7D", "\\": "%5C"})
"""What would end a value of BibTeX, in a DOI or a link."""
_MAX_WORDS: Final = 4
"""Words of the title in a citation key."""
_FILE: Final = re.compile(
    r".*?\.(?:bib|bibtex|ris|json|jsonl|csv|tsv|txt)(?:\.(?:gz|xz|zst))?/", re.IGNORECASE
)
"""The name of a file before a key that other files have too."""
_NOT_IN_KEYS: Final = re.compile(r"[\s,{}\x00-\x1f\x7f]+")
"""What would end a key of BibTeX."""
_FORMULA: Final = ("=", "+", "-", "@")
"""How a cell begins that spreadsheets compute. The texts are untrusted."""


def write_papers(papers: Iterable[Paper], format: ExportFormat = "bibtex") -> str:
    """The papers as a bibliography, in their order. An entry has what its paper's fields have.

    Args:
        format: ``bibtex``, ``ris``, ``csl`` (CSL-JSON) or ``csv``.

    Raises:
        InvalidRequest: another format.
    """
    listed = list(papers)
    if format not in EXPORT_FORMATS:
        raise InvalidRequest(f"format is {shown(format)}: use one of {', '.join(EXPORT_FORMATS)}.")
    if format == "csv":
        return _csv_table(listed)
    pairs = list(zip(listed, citation_keys(listed), strict=True))
    if format == "bibtex":
        return "\n".join(bibtex_entry(paper, key, whole=True) for paper, key in pairs)
    if format == "ris":
        return "\n".join(_ris_record(paper, key) for paper, key in pairs)
    items = [_csl_item(paper, key) for paper, key in pairs]
    return orjson.dumps(items, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()


# -- citation keys ------------------------------------------------------------------------------------


def citation_key(paper: Paper) -> str:
    """The paper's citation key without its file's name; without a key, one made of first author, year and title."""
    return _own_key(paper) or _made_key(paper)


def _own_key(paper: Paper) -> str:
    key = paper.external_ids.get("Key", "")
    # Zotero's CSL-JSON has links to its items in place of keys.
    return "" if "://" in key else _NOT_IN_KEYS.sub("", _FILE.sub("", key))


def _made_key(paper: Paper) -> str:
    """The family name of the first author, the year, the first word of the title, and initials of the next."""
    family = paper.authors[0].name.split()[-1:] if paper.authors else []
    words = [_letters(word) for word in (paper.title or "").split()]
    words = [word for word in words if word][:_MAX_WORDS]
    head = words[0].capitalize() if words else ""
    initials = "".join(word[0].upper() for word in words[1:])
    return _letters("".join(family)) + str(paper.year or "") + head + initials or "paper"


def citation_keys(papers: Sequence[Paper]) -> list[str]:
    """The keys of several papers, of which equal ones get a letter: ``Gross1993TwoDQ``, ``Gross1993TwoDQa``.

    A paper's own key stays, unless an earlier paper has it. Keys that are made differ from all others in any case.
    """
    first = {
        key: position for position in reversed(range(len(papers))) if (key := _own_key(papers[position]))
    }
    used = {key.lower() for key in first}
    keys = []
    for position, paper in enumerate(papers):
        key = citation_key(paper)
        if first.get(key) != position:
            key = next(variant for variant in _variants(key) if variant.lower() not in used)
            used.add(key.lower())
        keys.append(key)
    return keys


def _variants(key: str) -> Iterator[str]:
    """The key, then the key with ``a`` to ``z``, ``aa`` and so on."""
    yield key
    for size in count(1):
        for letters in product(ascii_lowercase, repeat=size):
            yield key + "".join(letters)


def _letters(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text[:100])
    return "".join(char for char in decomposed if char.isascii() and char.isalnum())


# -- BibTeX -------------------------------------------------------------------------------------------


def bibtex_entry(paper: Paper, key: str | None = None, *, whole: bool = False) -> str:
    """The paper's entry, of its title, authors, year, venue, journal, publication types, ids and URL.

    Args:
        key: the citation key; by default the paper's own.
        whole: with the category, the abstract and a note on its status.
    """
    lines = [f" {name} = {{{value}}}" for name, value in bibtex_values(paper, whole=whole).items()]
    return f"@{kind_of(paper)}{{{key or citation_key(paper)},\n" + ",\n".join(lines) + "\n}\n"


def bibtex_values(paper: Paper, *, whole: bool = False) -> dict[str, str]:
    """The values of the fields of a paper's entry, without braces around them."""
    journal, kind, arxiv_id = paper.journal, kind_of(paper), arxiv_id_of(paper)
    written = paper.as_written if isinstance(paper.as_written, AsWritten) else AsWritten()
    container = "booktitle" if kind in ("inproceedings", "incollection") else "journal"
    values = {
        "author": " and ".join(map(_bibtex_name, paper.authors)),
        container: "" if kind == "misc" else _plain(container_of(paper)),
        "volume": _plain(journal.volume if journal is not None else None),
        "pages": _plain(journal.pages if journal is not None else None).replace("\N{EN DASH}", "--"),
        "title": (written.title and with_formulas(written.title)) or _plain(paper.title),
        "year": str(paper.year or ""),
        "eprint": arxiv_id or "",
        "archivePrefix": "arXiv" if arxiv_id else "",
        "doi": (doi_of(paper) or "").translate(_IN_LINKS),
        "url": one_line(link_of(paper)).translate(_IN_LINKS),
    }
    if whole:
        values["primaryClass"] = paper.categories[0] if arxiv_id and paper.categories else ""
        values["note"] = _plain(note_of(paper))
        values["abstract"] = (written.abstract and with_formulas(written.abstract)) or _plain(paper.abstract)
    return {name: value for name, value in values.items() if value}


def _plain(text: str | None) -> str:
    return escaped(one_line(text))


def _bibtex_name(author: Author) -> str:
    """A name as BibTeX reads it: a group's name in braces."""
    text = one_line(author.name)
    is_group = author.is_group is True or (" " in text and not name_parts(text).given)
    return f"{{{escaped(text)}}}" if is_group else escaped(text)


# -- CSL-JSON -----------------------------------------------------------------------------------------


def _csl_item(paper: Paper, key: str) -> dict[str, Any]:
    """The paper's item, without empty keys."""
    kind, arxiv_id, day = kind_of(paper), arxiv_id_of(paper), day_of(paper)
    parts = [day.year, day.month, day.day] if day is not None else [paper.year] if paper.year else []
    journal = paper.journal
    item = {
        "id": key,
        "type": _CSL_TYPES.get(kind, "article"),
        "title": one_line(paper.title),
        "author": [_csl_name(author) for author in authors_of(paper) if author.family],
        "issued": {"date-parts": [parts]} if parts else None,
        "container-title": one_line(container_of(paper)) if kind != "misc" else "",
        "volume": one_line(journal.volume) if journal is not None else "",
        "page": one_line(journal.pages) if journal is not None else "",
        "number": f"arXiv:{arxiv_id}" if arxiv_id else "",
        "DOI": doi_of(paper),
        "URL": link_of(paper),
        "keyword": "; ".join((*paper.categories, *paper.fields_of_study)),
        "note": note_of(paper),
        "abstract": one_line(paper.abstract),
    }
    return {name: value for name, value in item.items() if value}


def _csl_name(author: NameParts) -> dict[str, str]:
    if not author.given:
        return {"literal": author.family}
    parts = {"family": author.family, "given": author.given, "suffix": author.suffix}
    return {name: value for name, value in parts.items() if value}


# -- RIS ----------------------------------------------------------------------------------------------


def _ris_record(paper: Paper, key: str) -> str:
    """The paper's record, from ``TY  -`` to ``ER  -``."""
    lines = (f"{tag}  - {text}" for tag, value in _ris_values(paper, key) if (text := one_line(value)))
    return "\n".join([*lines, "ER  - \n"])


def _ris_values(paper: Paper, key: str) -> Iterator[tuple[str, str | None]]:
    kind, arxiv_id, day = kind_of(paper), arxiv_id_of(paper), day_of(paper)
    yield "TY", _RIS_TYPES.get(kind, "UNPB" if arxiv_id else "GEN")
    yield "ID", key
    yield "TI", paper.title
    for author, parts in zip(paper.authors, authors_of(paper), strict=True):
        # As EndNote, so that the name of a group is not read as a person's.
        yield "AU", f"{parts.inverted}," if author.is_group is True else parts.inverted
    yield "PY", str(paper.year or "")
    yield "DA", "" if day is None else f"{day:%Y/%m/%d}"
    if kind != "misc":
        yield "T2", container_of(paper)
    if paper.journal is not None:
        first, _, last = (paper.journal.pages or "").partition("-")
        yield "VL", paper.journal.volume
        yield "SP", first
        yield "EP", last.lstrip("-")
    yield "DO", doi_of(paper)
    yield "UR", link_of(paper)
    yield "N1", f"arXiv:{arxiv_id}" if arxiv_id else ""
    yield "N1", note_of(paper)
    for category in (*paper.categories, *paper.fields_of_study):
        yield "KW", category
    yield "AB", paper.abstract


# -- CSV ----------------------------------------------------------------------------------------------

_COLUMNS: Final[Mapping[str, Callable[[Paper], str | int | None]]] = {
    "id": lambda paper: paper.id,
    "title": lambda paper: paper.title,
    "authors": lambda paper: "; ".join(one_line(author.name).replace(";", ",") for author in paper.authors),
    "year": lambda paper: paper.year,
    "date": lambda paper: paper.publication_date,
    "venue": journal_of,
    "volume": lambda paper: paper.journal.volume if paper.journal is not None else None,
    "pages": lambda paper: paper.journal.pages if paper.journal is not None else None,
    "doi": doi_of,
    "arxiv_id": arxiv_id_of,
    "key": _own_key,
    "url": link_of,
    "status": lambda paper: paper.status,
    "citation_count": lambda paper: paper.citation_count,
    "categories": lambda paper: " ".join(paper.categories),
    "abstract": lambda paper: paper.abstract,
}


def _csv_table(papers: Sequence[Paper]) -> str:
    """A header, and a row for each paper. A text that begins as a formula gets an apostrophe before it."""
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerow(_COLUMNS)
    writer.writerows([_cell(value(paper)) for value in _COLUMNS.values()] for paper in papers)
    return table.getvalue()


def _cell(value: str | int | None) -> str:
    text = one_line(str(value)) if value is not None else ""
    return f"'{text}" if text.startswith(_FORMULA) else text

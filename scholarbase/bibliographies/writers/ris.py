"""RIS records of papers (https://en.wikipedia.org/wiki/RIS_(file_format))."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from scholarbase.bibliographies.writers.facts import (
    arxiv_id_of,
    authors_of,
    container_of,
    day_of,
    doi_of,
    kind_of,
    link_of,
    note_of,
    one_line,
)
from scholarbase.models.papers import Paper

_TYPES: Final = {"article": "JOUR", "inproceedings": "CPAPER", "book": "BOOK", "incollection": "CHAP"}


def ris_record(paper: Paper, key: str) -> str:
    """The paper's record, from ``TY  -`` to ``ER  -``."""
    lines = (f"{tag}  - {text}" for tag, value in _values(paper, key) if (text := one_line(value)))
    return "\n".join([*lines, "ER  - \n"])


def _values(paper: Paper, key: str) -> Iterator[tuple[str, str | None]]:
    kind, arxiv_id, day = kind_of(paper), arxiv_id_of(paper), day_of(paper)
    yield "TY", _TYPES.get(kind, "UNPB" if arxiv_id else "GEN")
    yield "ID", key
    yield "TI", paper.title
    for author in authors_of(paper):
        yield "AU", author.inverted
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

"""BibTeX entries of papers."""

from __future__ import annotations

from typing import Final

from scholarbase.bibliographies.latex import escaped
from scholarbase.bibliographies.names import name_parts
from scholarbase.bibliographies.writers.facts import (
    arxiv_id_of,
    container_of,
    doi_of,
    kind_of,
    link_of,
    note_of,
    one_line,
)
from scholarbase.bibliographies.writers.keys import citation_key
from scholarbase.models.papers import Paper

_IN_LINKS: Final = str.maketrans({"{": "%7B", "}": "%7D", "\\": "%5C"})
"""What would end a value, in a DOI or a link."""


def bibtex_entry(paper: Paper, key: str | None = None, *, whole: bool = False) -> str:
    """The paper's entry, of its title, authors, year, venue, journal, publication types, ids and URL.

    Args:
        key: the citation key; by default the paper's own.
        whole: with the category, the abstract and a note on its status.
    """
    journal, kind, arxiv_id = paper.journal, kind_of(paper), arxiv_id_of(paper)
    container = "booktitle" if kind in ("inproceedings", "incollection") else "journal"
    values = {
        "author": " and ".join(_name(author.name) for author in paper.authors),
        container: "" if kind == "misc" else _plain(container_of(paper)),
        "volume": _plain(journal.volume if journal is not None else None),
        "pages": _plain(journal.pages if journal is not None else None),
        "title": _plain(paper.title),
        "year": str(paper.year or ""),
        "eprint": arxiv_id or "",
        "archivePrefix": "arXiv" if arxiv_id else "",
        "doi": (doi_of(paper) or "").translate(_IN_LINKS),
        "url": one_line(link_of(paper)).translate(_IN_LINKS),
    }
    if whole:
        values["primaryClass"] = paper.categories[0] if arxiv_id and paper.categories else ""
        values["note"] = _plain(note_of(paper))
        values["abstract"] = _plain(paper.abstract)
    lines = [f" {name} = {{{value}}}" for name, value in values.items() if value]
    return f"@{kind}{{{key or citation_key(paper)},\n" + ",\n".join(lines) + "\n}\n"


def _plain(text: str | None) -> str:
    return escaped(one_line(text))


def _name(name: str) -> str:
    """A name, that of a group in braces. BibTeX takes ``and`` as the end of a name, in any case."""
    words = ["&" if word.lower() == "and" else word for word in one_line(name).split()]
    text = escaped(" ".join(words))
    return f"{{{text}}}" if len(words) > 1 and not name_parts(" ".join(words)).given else text

"""BibTeX entries of papers, for ``citationStyles``."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from scholarbase.api.dialects.describing import arxiv_id_of
from scholarbase.models.papers import Paper

_TYPES: Final = {
    "JournalArticle": "article",
    "Conference": "inproceedings",
    "Book": "book",
    "BookSection": "incollection",
}
_SPECIAL: Final = re.compile(r"[{}\\%#$&_^~]")
_MAX_WORDS: Final = 4
"""Words of the title in the key."""


def bibtex(paper: Paper) -> str:
    """The paper's entry, of its title, authors, year, venue, journal, types and URL."""
    kinds = (_TYPES[kind] for kind in paper.publication_types if kind in _TYPES)
    kind = next(kinds, "article" if paper.journal is not None else "misc")
    journal = paper.journal
    values = {
        "author": " and ".join(_plain(author.name) for author in paper.authors),
        "booktitle" if kind in ("inproceedings", "incollection") else "journal": _plain(
            (journal.name if journal is not None else None) or paper.venue or ""
        ),
        "pages": _plain((journal.pages if journal is not None else None) or ""),
        "title": _plain(paper.title or ""),
        "volume": _plain((journal.volume if journal is not None else None) or ""),
        "year": str(paper.year or ""),
        "eprint": arxiv_id_of(paper) or "",
        "doi": _plain(paper.external_ids.get("DOI", "")),
    }
    lines = [f" {name} = {{{value}}}" for name, value in values.items() if value]
    return f"@{kind}{{{_key(paper)},\n" + ",\n".join(lines) + "\n}\n"


def _key(paper: Paper) -> str:
    """The family name of the first author, the year, the first word of the title, and initials of the next."""
    family = paper.authors[0].name.split()[-1:] if paper.authors else []
    words = [_letters(word) for word in (paper.title or "").split()]
    words = [word for word in words if word][:_MAX_WORDS]
    head = words[0].capitalize() if words else ""
    initials = "".join(word[0].upper() for word in words[1:])
    return _letters("".join(family)) + str(paper.year or "") + head + initials or "paper"


def _letters(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text[:100])
    return "".join(char for char in decomposed if char.isascii() and char.isalnum())


def _plain(text: str) -> str:
    """A text without characters that BibTeX or TeX would interpret."""
    return " ".join(_SPECIAL.sub(" ", text).split())

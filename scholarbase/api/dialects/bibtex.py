"""BibTeX entries of papers."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from scholarbase.api.dialects.describing import arxiv_id_of, doi_of, is_preprint, journal_of, link_of
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
    """The paper's entry, of its title, authors, year, venue, journal, publication types, ids and URL."""
    journal = paper.journal
    known = (_TYPES[kind] for kind in paper.publication_types if kind in _TYPES)
    kind = "misc" if is_preprint(paper) else next(known, "article" if journal_of(paper) else "misc")
    container = "booktitle" if kind in ("inproceedings", "incollection") else "journal"
    values = {
        "author": " and ".join(_plain(author.name) for author in paper.authors),
        container: "" if kind == "misc" else _plain(journal_of(paper) or ""),
        "volume": _plain((journal.volume if journal is not None else None) or ""),
        "pages": _plain((journal.pages if journal is not None else None) or ""),
        "title": _plain(paper.title or ""),
        "year": str(paper.year or ""),
        "eprint": arxiv_id_of(paper) or "",
        "archivePrefix": "arXiv" if arxiv_id_of(paper) else "",
        "doi": (doi_of(paper) or "").translate(_BRACES),
        "url": link_of(paper).translate(_BRACES),
    }
    lines = [f" {name} = {{{value}}}" for name, value in values.items() if value]
    return f"@{kind}{{{_key(paper)},\n" + ",\n".join(lines) + "\n}\n"


_BRACES: Final = str.maketrans({"{": "%7B", "}": "%7D", "\\": "%5C"})
"""What would end a value, in a DOI or a link."""


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

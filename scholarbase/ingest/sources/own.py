"""People's own files as sources: BibTeX, RIS, CSL-JSON, CSV and JSON lines.

An entry without an arXiv id and a DOI gets an id made of its first author, year and title
(:func:`own_key`): the same wherever it stands in a file, and in which format.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

from scholarbase.bibliographies.bibtex import read_bibtex
from scholarbase.bibliographies.names import display_name, in_braces, surname
from scholarbase.bibliographies.references import PAPERS, Reference
from scholarbase.bibliographies.ris import read_ris
from scholarbase.errors import InvalidRequest
from scholarbase.identifiers import citation_key, dblp_key
from scholarbase.indexes.titles import normalize_title
from scholarbase.ingest.records import PaperRecord, Reject
from scholarbase.ingest.sources.s2ag import BadRecord, clean, clean_title

READERS: Final[Mapping[str, Callable[[str], list[Reference]]]] = {
    "bibtex": lambda text: read_bibtex(text, PAPERS)[0],
    "ris": lambda text: read_ris(text, PAPERS),
}
"""The formats that are read as a whole."""

_LINE_END: Final = re.compile(r"\r\n?")
_HALF: Final = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair, which stands for a byte that is not UTF-8."""
REPLACED: Final = "\ufffd"
"""What messages show for such a byte."""
_KINDS: Final = {
    "article": "JournalArticle", "journalarticle": "JournalArticle", "articlejournal": "JournalArticle",
    "jour": "JournalArticle", "inproceedings": "Conference", "conference": "Conference",
    "conferencepaper": "Conference", "paperconference": "Conference", "conf": "Conference", "cpaper": "Conference",
    "book": "Book", "inbook": "BookSection", "incollection": "BookSection", "booksection": "BookSection",
    "chapter": "BookSection", "chap": "BookSection", "dataset": "Dataset", "data": "Dataset",
}  # fmt: skip
"""Semantic Scholar's names of the formats' types."""
_OTHER_IDS: Final = ("DOI", "ACL", "DBLP", "MAG", "PMID", "PMCID", "sha", "CorpusId", "UUID")
_DBLP: Final = "DBLP:"
"""How the keys of DBLP's exports start, of which the rest is an id."""
_WORDS_OF_KEY: Final = 5


def read_entries(form: str, content: bytes) -> Iterator[Reference]:
    """The entries of a file of BibTeX or RIS, with their lines."""
    text = content.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    try:
        yield from READERS[form](_LINE_END.sub("\n", text))
    except InvalidRequest as error:
        yield Reference("", 1, problem=str(error))


def paper_of(entry: Reference, *, repaired: bool = False) -> PaperRecord | Reject:
    """The paper that an entry describes, or the reason why it cannot be one."""
    if entry.problem is not None:
        reason = "entry-too-long" if len(entry.raw) > PAPERS.max_length else "broken-entry"
        return Reject(reason, _named(entry, entry.problem))
    try:
        return _paper(entry, repaired)
    except BadRecord as bad:
        return Reject(bad.reject.reason, _named(entry, bad.reject.detail))


def _named(entry: Reference, sentence: str) -> str:
    return sentence if entry.key is None else f"{_HALF.sub(REPLACED, entry.key[:80])!r}: {sentence}"


def _paper(entry: Reference, repaired: bool) -> PaperRecord:
    authors = [clean(display_name(name), "authors") for name in entry.authors]
    texts = (entry.raw, entry.title, entry.abstract, entry.venue, entry.url, *entry.authors, *entry.keywords)
    if any(_HALF.search(text) for text in texts if text):
        raise BadRecord("bad-unicode", "The entry is not valid UTF-8: save the file as UTF-8.")
    title = clean_title(entry.title)
    ids = {identifier.scheme: identifier.value for identifier in reversed(entry.ids)}
    arxiv_id, doi = ids.get("arXiv"), ids.get("DOI")
    dois = [identifier.value for identifier in entry.ids if identifier.scheme == "DOI"]
    external_ids: dict[str, str] = {scheme: ids[scheme] for scheme in _OTHER_IDS if scheme in ids}
    year = int(entry.date[:4]) if entry.date else entry.year
    if arxiv_id is None and doi is None:
        external_ids["Doc"] = own_key(title, tuple(filter(None, authors)), year)
    if (key := citation_key(entry.key or "")) is not None:
        external_ids["Key"] = key
        if key.startswith(_DBLP) and (record_key := dblp_key(key.removeprefix(_DBLP))) is not None:
            external_ids.setdefault("DBLP", record_key)
    venue = clean(entry.venue, "venue")
    journal = [venue, clean(entry.volume, "volume"), clean(entry.pages, "pages")]
    kind = _KINDS.get(re.sub(r"\W", "", entry.kind[:50].lower()))
    details: dict[str, Any] = {
        "journal": journal if journal[1:] != [None, None] else None,
        "publication_types": [kind] if kind else None,
        "fields_of_study": [word for raw in entry.keywords if (word := clean(raw, "keywords"))] or None,
        "is_open_access": True if arxiv_id else None,
    }
    url = clean(entry.url, "url")
    if url is None or not url.startswith(("http://", "https://")):
        url = f"https://arxiv.org/abs/{arxiv_id}" if arxiv_id else f"https://doi.org/{doi}" if doi else None
    return PaperRecord(
        title=title,
        arxiv_id=arxiv_id,
        external_ids=external_ids,
        further_dois=dois[1:],
        abstract=clean(entry.abstract, "abstract"),
        authors=[(name, None) for name in authors if name],
        groups=[name for name, raw in zip(authors, entry.authors, strict=True) if name and in_braces(raw)],
        year=year,
        publication_date=entry.date,
        venue=venue,
        details={name: value for name, value in details.items() if value is not None},
        url=url,
        repaired=repaired,
        written_title=entry.written_title,
        written_abstract=entry.written_abstract,
    )


def own_key(title: str, authors: Sequence[str], year: int | None) -> str:
    """The id of an entry without one: ``vaswani-2017-attention-is-all-you-need-`` and a hash of these three.

    The hash is of the title as titles are compared, so that its case, punctuation and LaTeX do not matter.
    """
    name = surname(authors[0]) if authors else ""
    when = "" if year is None else str(year)
    content = "\n".join((normalize_title(title) or title, normalize_title(name), when))
    digest = blake2b(content.encode(), digest_size=6).hexdigest()
    words = [normalize_title(word) for word in (name, when, *title.split()[:_WORDS_OF_KEY])]
    return "-".join((*(word[:30] for word in words if word.isascii() and word), digest))

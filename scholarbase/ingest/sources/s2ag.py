"""The Semantic Scholar Academic Graph datasets: one JSON line to one record.

The formats are those of https://api.semanticscholar.org/api-docs/datasets: corpus ids are numbers in some datasets
and strings in others, any value may be null, and intents are a list of names or, in newer releases, a list of lists.

A line without a valid record gives a :class:`Reject` whose ``reason`` is one of ``bad-json``, ``bad-unicode``,
``not-an-object``, ``no-id``, ``bad-id``, ``no-title``, ``title-too-long``, ``no-abstract``, ``no-sha``,
``bad-sha``, ``no-name``, ``no-text`` and ``bad-type``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from functools import wraps
from typing import Any, Final, TypeVar

import orjson

from scholarbase import identifiers
from scholarbase.bibliographies.json_items import loads
from scholarbase.files import MAX_LINE
from scholarbase.ingest.records import (
    AbstractRecord,
    AuthorRecord,
    CitationRecord,
    PaperIdRecord,
    PaperRecord,
    Reject,
    TldrRecord,
    VenueRecord,
)
from scholarbase.models.checks import shown
from scholarbase.models.status import PaperStatus

T = TypeVar("T")

MAX_TITLE_LENGTH: Final = 5000
"""Maximum characters of a title. The longest real titles have some hundreds."""

_CONTROL: Final = dict.fromkeys((*range(32), *range(127, 160)))


class BadRecord(ValueError):
    """Raised for a line without a valid record; has the reject that its parser returns."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reject = Reject(reason, detail)


def load(line: bytes) -> dict[str, Any]:
    """Parse a line as a JSON object. Raises BadRecord: it is too long, not JSON, not Unicode or not an object."""
    if len(line) > MAX_LINE:
        raise BadRecord("line-too-long", f"The line has more than {MAX_LINE:,} bytes.")
    try:
        record = loads(line)
    except orjson.JSONDecodeError as error:
        # orjson reports surrogates both for \ud800 escapes and for bytes that are not UTF-8.
        reason = "bad-unicode" if "surrogate" in error.msg else "bad-json"
        raise BadRecord(reason, f"The line is not valid JSON: {error}.") from None
    if not isinstance(record, dict):
        raise BadRecord("not-an-object", f"The line is a JSON {type(record).__name__}, not an object.")
    return record


def parser(parse: Callable[[dict[str, Any]], T]) -> Callable[[bytes], T | Reject]:
    """Make a parser of JSON objects take a line of a file; its BadRecord becomes a reject."""

    @wraps(parse)
    def parse_line(line: bytes) -> T | Reject:
        try:
            return parse(load(line))
        except BadRecord as bad:
            return bad.reject

    return parse_line


def clean(value: Any, key: str) -> str | None:
    """Collapse whitespace and remove control characters; None if the value is null or blank.

    Raises:
        BadRecord: the value is not a string.
    """
    if value is None:
        return None
    if not isinstance(value, str):
        raise BadRecord("bad-type", f"{key} is {shown(value)}: a string was expected.")
    if "  " not in value and value.isprintable():
        # The common case. Line breaks and tabs are not printable.
        return value.strip(" ") or None
    text = " ".join(value.split())
    if not text.isprintable():
        text = " ".join(text.translate(_CONTROL).split())
    return text or None


def clean_title(value: Any) -> str:
    """A paper's title. Raises BadRecord: it is missing, or exceeds ``MAX_TITLE_LENGTH``."""
    title = clean(value, "title")
    if title is None:
        raise BadRecord("no-title", "There is no title: a paper needs one.")
    if len(title) > MAX_TITLE_LENGTH:
        raise BadRecord(
            "title-too-long",
            f"The title has {len(title)} characters, more than {MAX_TITLE_LENGTH}: {title[:60]}...",
        )
    return title


def iso_date(value: Any) -> str | None:
    """The ``YYYY-MM-DD`` that the value starts with; None if it is not a valid date."""
    if not isinstance(value, str) or len(value) < 10 or value[4] != "-" or value[7] != "-":
        return None
    if len(value) > 10 and value[10] not in "T ":
        return None
    day = value[:10]
    try:
        date.fromisoformat(day)
    except ValueError:
        return None
    return day


def _corpus_id(value: Any) -> int | None:
    """A positive whole number, also from a string; None for other values."""
    if type(value) is int:
        return value if 0 < value < 1 << 63 else None
    if type(value) is str:
        digits = identifiers.number(value)
        return None if digits is None else int(digits)
    return None


def _required_id(record: Mapping[str, Any], key: str = "corpusid") -> int:
    value = record.get(key)
    corpus_id = _corpus_id(value)
    if corpus_id is None:
        if value is None or value == "":
            raise BadRecord("no-id", f"{key} is missing.")
        raise BadRecord("bad-id", f"{key} is {shown(value)}: a positive whole number was expected.")
    return corpus_id


def _required(record: Mapping[str, Any], key: str, reason: str, problem: str) -> str:
    """A text. Raises BadRecord: there is none."""
    text = clean(record.get(key), key)
    if text is None:
        raise BadRecord(reason, problem)
    return text


def list_of(record: Mapping[str, Any], key: str) -> list[Any]:
    value = record.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise BadRecord("bad-type", f"{key} is {shown(value)}: a list was expected.")
    return value


def object_of(record: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = record.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadRecord("bad-type", f"{key} is {shown(value)}: an object was expected.")
    return value


def _texts(record: Mapping[str, Any], key: str) -> list[str]:
    return [text for value in list_of(record, key) if (text := clean(value, key)) is not None]


def whole(record: Mapping[str, Any], key: str) -> int | None:
    value = record.get(key)
    if value is None or (type(value) is int and 0 <= value < 1 << 63):
        return value
    raise BadRecord("bad-type", f"{key} is {shown(value)}: a whole number of 0 or more was expected.")


def _flag(record: Mapping[str, Any], key: str) -> bool | None:
    value = record.get(key)
    if value is None or type(value) is bool:
        return value
    raise BadRecord("bad-type", f"{key} is {shown(value)}: true or false was expected.")


def _year(value: Any) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:5])
    if value is None or type(value) is int:
        return value if value is not None and 1 <= value <= 9999 else None
    raise BadRecord("bad-type", f"year is {shown(value)}: a whole number was expected.")


_SCHEMES: Final = (
    ("DOI", "DOI", identifiers.doi),
    ("ACL", "ACL", identifiers.acl_id),
    ("DBLP", "DBLP", identifiers.dblp_key),
    ("MAG", "MAG", identifiers.number),
    ("PubMed", "PMID", identifiers.pmid),
    ("PubMedCentral", "PMCID", identifiers.pmcid),
)


def _arxiv_id(external_ids: Mapping[str, Any]) -> tuple[str | None, bool]:
    """The arXiv id, else that in arXiv's own DOI, which ``identifiers.parse`` reads as an arXiv id too; and whether it
    was repaired."""
    arxiv_id, repaired = identifiers.stored_arxiv_id(external_ids.get("ArXiv"))
    if arxiv_id is None:
        arxiv_id = identifiers.arxiv_id_from_doi(identifiers.doi(str(external_ids.get("DOI") or "")) or "")
    return arxiv_id, repaired


def _other_ids(external_ids: Mapping[str, Any], url: str | None) -> dict[str, str]:
    """Canonical ids in other schemes. Invalid ids are left out."""
    ids: dict[str, str] = {}
    for key, scheme, read in _SCHEMES:
        value = external_ids.get(key)
        if value is not None:
            canonical = read(str(value).strip())
            if canonical is not None:
                ids[scheme] = canonical
    if url is not None and "/paper/" in url:
        sha = identifiers.sha(url.rpartition("/")[2])
        if sha is not None:
            ids["sha"] = sha
    return ids


def _authors(record: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    authors: list[tuple[str, str | None]] = []
    for entry in list_of(record, "authors"):
        if not isinstance(entry, dict):
            raise BadRecord("bad-type", f"An author is {shown(entry)}: an object was expected.")
        name = clean(entry.get("name"), "authors.name")
        if name is not None:
            author_id = entry.get("authorId")
            authors.append((name, None if author_id is None else str(author_id)))
    return authors


def _details(record: Mapping[str, Any], arxiv_id: str | None) -> dict[str, Any]:
    """The known fields of :class:`.catalog.Details`."""
    journal = object_of(record, "journal")
    parts = [clean(journal.get(key), f"journal.{key}") for key in ("name", "volume", "pages")]
    open_access = _flag(record, "isopenaccess")
    details = {
        "publication_types": _texts(record, "publicationtypes"),
        "fields_of_study": _fields_of_study(record),
        "is_open_access": True if arxiv_id is not None else open_access,
        "journal": parts if any(parts) else None,
    }
    return {name: value for name, value in details.items() if value is not None and value != []}


def _fields_of_study(record: Mapping[str, Any]) -> list[str]:
    """The distinct categories, which several classifiers give."""
    fields: dict[str, None] = {}
    for entry in list_of(record, "s2fieldsofstudy"):
        if not isinstance(entry, dict):
            raise BadRecord("bad-type", f"A field of study is {shown(entry)}: an object was expected.")
        category = clean(entry.get("category"), "s2fieldsofstudy.category")
        if category is not None:
            fields[category] = None
    return list(fields)


def _status(record: Mapping[str, Any]) -> PaperStatus | None:
    """Whether a publication type is PubMed's *Retracted Publication* (https://www.nlm.nih.gov/mesh/pubtypes.html)."""
    types = (name.replace(" ", "").lower() for name in _texts(record, "publicationtypes"))
    return "retracted" if "retractedpublication" in types else None


@parser
def parse_papers(record: dict[str, Any]) -> PaperRecord:
    """Parse a line of ``papers``."""
    return _paper(record, _required_id(record))


def is_answer(record: Mapping[str, Any]) -> bool:
    """Whether a JSON object is a paper of the Academic Graph API."""
    return "paperId" in record and "title" in record


def paper_of_answer(record: Mapping[str, Any]) -> PaperRecord:
    """A paper of the Academic Graph API (https://api.semanticscholar.org/api-docs/graph). Its corpus id is one of
    ``external_ids``, as that of an entry of people's own.

    Raises:
        BadRecord: it has no title, or a value of another type.
    """
    lower = {key.lower(): value for key, value in record.items()}
    venue = lower.get("publicationvenue")
    if isinstance(venue, dict):
        lower["venue"] = venue.get("name") or lower.get("venue")
    if not lower.get("s2fieldsofstudy"):
        lower["s2fieldsofstudy"] = [{"category": name} for name in list_of(lower, "fieldsofstudy")]
    paper = _paper(lower, None)
    paper.abstract = clean(lower.get("abstract"), "abstract")
    paper.tldr = clean(object_of(lower, "tldr").get("text"), "tldr")
    corpus_id = _corpus_id(lower.get("corpusid") or object_of(lower, "externalids").get("CorpusId"))
    sha = identifiers.sha(str(lower.get("paperid")))
    known = {"CorpusId": None if corpus_id is None else str(corpus_id), "sha": sha}
    paper.external_ids |= {scheme: value for scheme, value in known.items() if value is not None}
    return paper


def _paper(record: Mapping[str, Any], corpus_id: int | None) -> PaperRecord:
    """A paper of the release or, with keys in lower case, of the API.

    An invalid publication date is dropped, and the year kept; a missing year is taken from the date. The arXiv id is
    ``ArXiv``, else that of arXiv's own DOI. The venue is ``venue``, else the journal's name. A paper on arXiv is open
    access.
    """
    external_ids = object_of(record, "externalids")
    url = clean(record.get("url"), "url")
    published = iso_date(record.get("publicationdate"))
    year = _year(record.get("year"))
    if year is None and published is not None:
        year = int(published[:4])
    arxiv_id, repaired = _arxiv_id(external_ids)
    return PaperRecord(
        title=clean_title(record.get("title")),
        corpus_id=corpus_id,
        arxiv_id=arxiv_id,
        external_ids=_other_ids(external_ids, url),
        authors=_authors(record),
        year=year,
        publication_date=published,
        venue=clean(record.get("venue"), "venue")
        or clean(object_of(record, "journal").get("name"), "journal.name"),
        venue_id=clean(record.get("publicationvenueid"), "publicationvenueid"),
        citation_count=whole(record, "citationcount"),
        details=_details(record, arxiv_id),
        reference_count=whole(record, "referencecount"),
        url=url,
        repaired=repaired,
        status=_status(record),
    )


@parser
def parse_abstracts(record: dict[str, Any]) -> AbstractRecord:
    """Parse a line of ``abstracts``."""
    corpus_id = _required_id(record)
    abstract = _required(record, "abstract", "no-abstract", f"The abstract of CorpusId:{corpus_id} is empty.")
    return AbstractRecord(corpus_id, abstract)


def _end(record: Mapping[str, Any], key: str) -> int | None:
    """One end of a citation; None where the source does not know it."""
    if key not in record:
        raise BadRecord("no-id", f"{key} is missing.")
    return None if record[key] is None else _required_id(record, key)


def _intents(values: list[Any]) -> list[str]:
    """The distinct intents of a citation, from ``["a"]`` or ``[["a"], null, ["b", "a"]]``."""
    intents: dict[str, None] = {}
    for value in values:
        for name in value if isinstance(value, list) else (value,):
            text = clean(name, "intents")
            if text is not None:
                intents[text] = None
    return list(intents)


@parser
def parse_citations(record: dict[str, Any]) -> CitationRecord:
    """Parse a line of ``citations``. A null end is None; a line that lacks a key is rejected (``no-id``)."""
    citing, cited = _end(record, "citingcorpusid"), _end(record, "citedcorpusid")
    influential = _flag(record, "isinfluential")
    contexts = _texts(record, "contexts") if record.get("contexts") is not None else []
    intents = _intents(list_of(record, "intents")) if record.get("intents") is not None else []
    return CitationRecord(citing, cited, influential, contexts, intents, _corpus_id(record.get("citationid")))


@parser
def parse_paper_ids(record: dict[str, Any]) -> PaperIdRecord:
    """Parse a line of ``paper-ids``. ``primary`` is false if null."""
    corpus_id = _required_id(record)
    stored = record.get("sha")
    if stored is None:
        raise BadRecord("no-sha", f"CorpusId:{corpus_id} has no sha.")
    sha = identifiers.sha(stored) if isinstance(stored, str) else None
    if sha is None:
        raise BadRecord("bad-sha", f"sha is {shown(stored)}: 40 hexadecimal digits were expected.")
    return PaperIdRecord(corpus_id, sha, _flag(record, "primary") is True)


@parser
def parse_authors(record: dict[str, Any]) -> AuthorRecord:
    """Parse a line of ``authors``. Author ids may be numbers or strings."""
    author_id = _required_id(record, "authorid")
    name = _required(record, "name", "no-name", f"The author {author_id} has no name.")
    return AuthorRecord(
        author_id=str(author_id),
        name=name,
        aliases=_texts(record, "aliases"),
        affiliations=_texts(record, "affiliations"),
        homepage=clean(record.get("homepage"), "homepage"),
        paper_count=whole(record, "papercount"),
        citation_count=whole(record, "citationcount"),
        h_index=whole(record, "hindex"),
    )


@parser
def parse_tldrs(record: dict[str, Any]) -> TldrRecord:
    """Parse a line of ``tldrs``."""
    corpus_id = _required_id(record)
    text = _required(record, "text", "no-text", f"The summary of CorpusId:{corpus_id} is empty.")
    return TldrRecord(corpus_id, text)


@parser
def parse_publication_venues(record: dict[str, Any]) -> VenueRecord:
    """Parse a line of ``publication-venues``."""
    venue_id = _required(record, "id", "no-id", "id is missing.")
    name = _required(record, "name", "no-name", f"The venue {venue_id} has no name.")
    return VenueRecord(
        venue_id=venue_id,
        name=name,
        alternate_names=_texts(record, "alternate_names"),
        kind=clean(record.get("type"), "type"),
        issn=clean(record.get("issn"), "issn"),
        url=clean(record.get("url"), "url"),
    )

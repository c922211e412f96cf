"""Works of OpenAlex's snapshot, as JSON lines or as rows of Parquet tables, and the lists of deleted works.

The fields of a work are those of https://developers.openalex.org/api-reference/works. The two formats differ
(https://developers.openalex.org/download/snapshot-format): in Parquet ``abstract_inverted_index`` is a JSON text,
``ids`` a map, and dates are dates. :func:`line_of` makes the same line of both, with the fields that are read.

A work that was deleted, or merged into another, is no longer in the snapshot. ``deleted_ids.csv`` (``work_id``,
``deleted_date``) and the files of ``legacy-data/merged_ids/works`` (``merge_date``, ``id``, ``merge_into_id``) list
them; OpenAlex's advice is to delete a merged work too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from typing import Any, Final

import orjson

from scholarbase import identifiers
from scholarbase.ingest.records import DeletedRecord, PaperRecord
from scholarbase.ingest.sources.s2ag import (
    BadRecord,
    clean,
    clean_title,
    iso_date,
    list_of,
    object_of,
    parser,
    whole,
)
from scholarbase.models.checks import shown

COLUMNS: Final = (
    "id", "doi", "title", "display_name", "ids", "publication_date", "publication_year", "type", "authorships",
    "topics", "locations", "primary_location", "open_access", "is_retracted", "biblio", "referenced_works",
    "abstract_inverted_index", "cited_by_count", "referenced_works_count", "updated_date",
)  # fmt: skip
"""The fields of a work that are read, at the top."""
NEEDED: Final = frozenset({"id", "authorships", "referenced_works"})
"""Columns by which a Parquet file of works is known."""
DELETED_HEADERS: Final = (b"work_id,deleted_date", b"merge_date,id,merge_into_id")
"""The first lines of the lists of deleted works."""
MAX_WORDS: Final = 10_000
"""Words of an abstract that are read. Some works have a whole text as their abstract."""
_SITE: Final = "https://openalex.org/"
_AFTER_ALL: Final = "T99"
"""Ends the date of a deletion: it is later than all changes of that day."""
_TYPES: Final = {
    "article": "JournalArticle", "book-chapter": "BookSection", "letter": "LettersAndComments",
}  # fmt: skip
"""Semantic Scholar's names of types. The others have OpenAlex's, such as ``Review`` and ``Preprint``."""
_PICKED: Final = {
    "ids": ("doi", "mag", "pmid", "pmcid", "arxiv"),
    "biblio": ("volume", "first_page", "last_page"),
    "open_access": ("is_oa",),
}
_ARXIV_LINKS: Final = ("landing_page_url", "pdf_url")


def is_work(record: Mapping[str, Any]) -> bool:
    """Whether a JSON object is a work."""
    stored = record.get("id")
    return isinstance(stored, str) and stored.startswith(f"{_SITE}W")


def is_other_entity(record: Mapping[str, Any]) -> bool:
    """Whether a JSON object is an author, a source, a topic or another entity of OpenAlex."""
    stored = record.get("id")
    return isinstance(stored, str) and stored.startswith(_SITE) and not is_work(record)


# -- lines -------------------------------------------------------------------------------------------------


def line_of(work: Mapping[str, Any]) -> bytes:
    """A work as a JSON line of its fields that are read, alike for both formats.

    Raises:
        BadRecord: it has values within each other that orjson reads and does not write.
    """
    kept = {name: _plain(name, work.get(name)) for name in COLUMNS}
    kept["authorships"] = _each(kept["authorships"], _authorship)
    kept["topics"] = _each(kept["topics"], _topic)
    kept["locations"] = _each(kept["locations"], _location)
    kept["primary_location"] = _location(kept["primary_location"])
    present = {name: value for name, value in kept.items() if value is not None}
    try:
        return orjson.dumps(present, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError as error:
        raise BadRecord("bad-type", f"The work cannot be stored: {error}.") from None


def _plain(name: str, value: Any) -> Any:
    """A value of a Parquet row as it is in JSON lines."""
    if isinstance(value, date):  # and times, which are dates too
        value = value.isoformat()
    if name == "updated_date" and isinstance(value, str):
        value = value[:19].replace(" ", "T")
    if name == "ids" and isinstance(value, list) and all(isinstance(pair, tuple) for pair in value):
        value = dict(value)
    if name in _PICKED:
        return _picked(value, *_PICKED[name])
    if name == "abstract_inverted_index" and isinstance(value, str):
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError:
            return value
    return value


def _each(values: Any, read: Any) -> Any:
    return [read(value) for value in values] if isinstance(values, list) else values


def _picked(value: Any, *names: str) -> Any:
    """An object with these keys alone, as far as it has them."""
    if not isinstance(value, dict):
        return value
    return {name: value[name] for name in names if value.get(name) is not None}


def _nested(value: Any, names: Sequence[str], inner: str, kept: Sequence[str]) -> Any:
    """An object with these keys alone, one of which is an object with the ``kept`` keys alone."""
    picked = _picked(value, inner, *names)
    if isinstance(picked, dict) and inner in picked:
        picked[inner] = _picked(picked[inner], *kept)
    return picked


_authorship: Final = partial(_nested, names=["raw_author_name"], inner="author", kept=["id", "display_name"])
_topic: Final = partial(_nested, names=["display_name"], inner="field", kept=["display_name"])
_location: Final = partial(
    _nested, names=["landing_page_url", "pdf_url", "native_id"], inner="source", kept=["display_name"]
)


def deleted_lines(lines: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """The lines of a list of deleted works as JSON lines, by their numbers."""
    header: list[str] | None = None
    for number, line in lines:
        values = [value.strip().strip('"') for value in line.decode("utf-8", "replace").split(",")]
        if header is None:
            header = values
            continue
        row = dict(zip(header, values, strict=False))
        when = row.get("deleted_date") or row.get("merge_date") or ""
        yield (
            number,
            orjson.dumps(
                {
                    "id": row.get("work_id") or row.get("id"),
                    "deleted": True,
                    "updated_date": f"{when[:10]}{_AFTER_ALL}",
                },
                option=orjson.OPT_SORT_KEYS,
            ),
        )


# -- records -----------------------------------------------------------------------------------------------


def work_number(value: Any) -> int | None:
    """The number of a work by its id (``W2741809807``) or link, or None."""
    if not isinstance(value, str):
        return None
    work_id = identifiers.openalex_id(value.removeprefix(_SITE))
    return None if work_id is None else int(work_id[1:])


def work_key(value: Any) -> str | None:
    """The id of a work as it is stored, such as ``W2741809807``, or None."""
    number = work_number(value)
    return None if number is None else f"W{number}"


def _required_id(record: Mapping[str, Any]) -> int:
    stored = record.get("id")
    number = work_number(stored)
    if number is not None:
        return number
    if stored is None or stored == "":
        raise BadRecord("no-id", "id is missing.")
    raise BadRecord(
        "bad-id", f"id is {shown(stored)}: the id of a work, such as {_SITE}W2741809807, was expected."
    )


def abstract_of(index: Any) -> str | None:
    """The abstract that an inverted index describes: its words in the order of their positions.

    OpenAlex cuts indexes of more than 32,760 bytes; of these, the text up to the first missing word is left. At most
    ``MAX_WORDS`` are read.

    Raises:
        BadRecord: it is not an index, or has a position that is not a whole number.
    """
    if not index:
        return None
    if not isinstance(index, dict):
        raise BadRecord("bad-type", f"abstract_inverted_index is {shown(index)}: an object was expected.")
    words: dict[int, str] = {}
    for word, positions in index.items():
        for position in positions if isinstance(positions, list) else (None,):
            if type(position) is not int or position < 0:
                raise BadRecord(
                    "bad-type",
                    f"abstract_inverted_index has {shown(position)} as a position of {shown(word)}: a whole number "
                    "was expected.",
                )
            if position < MAX_WORDS:
                words.setdefault(position, word)
    if not words:
        return None
    first = min(words)
    end = next(position for position in range(first, first + len(words) + 1) if position not in words)
    return clean(" ".join(words[position] for position in range(first, end)), "abstract_inverted_index")


def _other_ids(record: Mapping[str, Any], ids: Mapping[str, Any]) -> dict[str, str]:
    """Canonical ids in other schemes, from values that are ids or links. Invalid ones are left out."""
    links = (
        ("DOI", record.get("doi") or ids.get("doi"), identifiers.doi),
        ("MAG", ids.get("mag"), identifiers.number),
        ("PMID", ids.get("pmid"), identifiers.pmid),
        ("PMCID", ids.get("pmcid"), identifiers.pmcid),
    )
    canonical: dict[str, str] = {}
    for scheme, stored, read in links:
        if stored is None:
            continue
        text = str(stored).strip().rstrip("/")
        value = read(text if scheme == "DOI" else text.rpartition("/")[2])
        if value is not None:
            canonical[scheme] = value
    return canonical


def _arxiv_id(
    ids: Mapping[str, Any], doi: str | None, locations: list[Mapping[str, Any]]
) -> tuple[str | None, bool]:
    """The arXiv id in the ids, in arXiv's own DOI, or in a location at arXiv; and whether it was repaired."""
    stored = str(ids.get("arxiv") or "").removeprefix("https://arxiv.org/abs/")
    arxiv_id, repaired = identifiers.stored_arxiv_id(stored.removeprefix("arXiv:"))
    if arxiv_id is None and doi is not None:
        arxiv_id = identifiers.arxiv_id_from_doi(doi)
    for location in locations:
        if arxiv_id is not None:
            break
        native = location.get("native_id")
        if isinstance(native, str) and native.lower().startswith("oai:arxiv.org:"):
            arxiv_id = identifiers.arxiv_id(native[len("oai:arxiv.org:") :])
        for name in _ARXIV_LINKS:
            link = location.get(name)
            if arxiv_id is None and isinstance(link, str):
                arxiv_id = _linked(link)
    return arxiv_id, repaired


def _linked(link: str) -> str | None:
    """The arXiv id of a link to arXiv, or to arXiv's own DOI."""
    site, _, path = link.partition("://")[2].partition("/")
    if site.removeprefix("www.") in ("doi.org", "dx.doi.org"):
        return identifiers.arxiv_id_from_doi(path)
    if site.removeprefix("www.") not in ("arxiv.org", "export.arxiv.org"):
        return None
    kind, _, rest = path.partition("/")
    return identifiers.arxiv_id(rest.removesuffix(".pdf")) if kind in ("abs", "pdf") else None


def _authors(record: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    authors: list[tuple[str, str | None]] = []
    for entry in list_of(record, "authorships"):
        if not isinstance(entry, dict):
            raise BadRecord("bad-type", f"An authorship is {shown(entry)}: an object was expected.")
        author = object_of(entry, "author")
        name = clean(author.get("display_name"), "display_name") or clean(
            entry.get("raw_author_name"), "raw_author_name"
        )
        if name is not None:
            author_id = author.get("id")
            text = author_id.removeprefix(_SITE) if isinstance(author_id, str) else None
            authors.append((name, text or None))
    return authors


def _fields_of_study(record: Mapping[str, Any]) -> list[str]:
    """The distinct fields of the topics, then the topics."""
    names: dict[str, None] = {}
    topics = [topic for topic in list_of(record, "topics") if isinstance(topic, dict)]
    for subject in (*(object_of(topic, "field") for topic in topics), *topics):
        name = clean(subject.get("display_name"), "display_name")
        if name is not None:
            names[name] = None
    return list(names)


def _details(record: Mapping[str, Any], venue: str | None, arxiv_id: str | None) -> dict[str, Any]:
    """The known fields of :class:`.catalog.Details`."""
    biblio = object_of(record, "biblio")
    volume, first, last = (clean(biblio.get(key), key) for key in ("volume", "first_page", "last_page"))
    pages = first if last in (None, first) else f"{first or ''}-{last}"
    kind = clean(record.get("type"), "type")
    types = [] if kind is None else [_TYPES.get(kind, "".join(part.title() for part in kind.split("-")))]
    is_open = object_of(record, "open_access").get("is_oa")
    details = {
        "journal": [venue, volume, pages] if volume or pages else None,
        "publication_types": types,
        "fields_of_study": _fields_of_study(record),
        "is_open_access": True if arxiv_id is not None else is_open if type(is_open) is bool else None,
    }
    return {name: value for name, value in details.items() if value is not None and value != []}


@parser
def parse_works(record: dict[str, Any]) -> PaperRecord | DeletedRecord:
    """Parse a line of :func:`line_of` or :func:`deleted_lines`.

    The first of January stands for a date of which only the year is known, so it counts as the year alone.
    """
    number = _required_id(record)
    if record.get("deleted") is True:
        return DeletedRecord(work=number)
    ids = object_of(record, "ids")
    external_ids = _other_ids(record, ids)
    locations = [location for location in list_of(record, "locations") if isinstance(location, dict)]
    primary = object_of(record, "primary_location")
    arxiv_id, repaired = _arxiv_id(ids, external_ids.get("DOI"), [primary, *locations])
    published = iso_date(record.get("publication_date"))
    year = record.get("publication_year")
    if published is not None:
        year = int(published[:4])
    venue = clean(object_of(primary, "source").get("display_name"), "display_name")
    url = clean(primary.get("landing_page_url"), "landing_page_url")
    doi = external_ids.get("DOI")
    return PaperRecord(
        title=clean_title(record.get("title") or record.get("display_name")),
        arxiv_id=arxiv_id,
        external_ids={"OpenAlex": f"W{number}"} | external_ids,
        abstract=abstract_of(record.get("abstract_inverted_index")),
        authors=_authors(record),
        year=year if type(year) is int and 1 <= year <= 9999 else None,
        publication_date=None if published is None or published.endswith("-01-01") else published,
        venue=venue,
        details=_details(record, venue, arxiv_id),
        citation_count=whole(record, "cited_by_count"),
        reference_count=whole(record, "referenced_works_count"),
        url=url or (None if doi is None else f"https://doi.org/{doi}"),
        repaired=repaired,
        status="retracted" if record.get("is_retracted") is True else None,
        references=[
            work
            for stored in list_of(record, "referenced_works")
            if (work := work_number(stored)) is not None
        ],
    )

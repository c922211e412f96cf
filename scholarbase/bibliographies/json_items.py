"""JSON of papers as items of CSL-JSON: of OpenAlex, Semantic Scholar and arXiv, and objects with a title."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import orjson

from scholarbase.bibliographies.names import authors_in, name_of

LISTS: Final = frozenset(
    {
        "results", "data", "items", "works", "papers", "records", "documents", "docs", "articles", "entries",
        "publications",
        "recommendedPapers",
    }
)  # fmt: skip
"""Keys of the records in the pages of OpenAlex (``results``), Semantic Scholar (``data``), Crossref (``items``), Solr
(``docs``) and other services."""
WRAPPERS: Final = frozenset({"message", "response"})
"""Keys of the object around such a list."""
ENDS: Final = ("citedPaper", "citingPaper")
"""Keys of the paper in a citation of Semantic Scholar's API."""
EXPECTED: Final = (
    "Items of CSL-JSON (title, author, issued, DOI), works of OpenAlex (id, title, authorships), papers of Semantic "
    "Scholar (paperId, title, externalIds) or arXiv (id, title, categories), or objects with a title were expected."
)
_KEYS: Final = {
    "author": ("authors", "creators"),
    "issued": ("year", "publication_year", "date", "publicationDate", "publication_date"),
    "container-title": ("publicationVenue", "venue", "journal", "booktitle"),
    "title": ("display_name",),
    "DOI": ("doi",),
    "arXiv": ("arxiv_id", "arxiv", "ArXiv", "eprint"),
    "PMID": ("pmid", "PubMed"),
    "PMCID": ("pmcid", "PubMedCentral"),
    "URL": ("url", "link"),
}
"""Keys of other records by those of CSL-JSON, the best first."""
_OF_ITEMS: Final = frozenset({"author", "issued", "container-title", "editor"})
"""Keys that only items of CSL-JSON have."""
_ALIKE: Final = frozenset(
    (
        "id",
        "citation-key",
        "type",
        "subtitle",
        "volume",
        "page",
        "abstract",
        "keyword",
        "publisher",
        "note",
        "number",
    )
)
"""Other keys that mean the same in all records."""
_PAGE: Final = "https://www.semanticscholar.org/paper/"


def json_items(text: str) -> list[Any]:
    """The records of a JSON document, of a page of an API, or of JSON lines. Raises orjson.JSONDecodeError."""
    try:
        values = [loads(text)]
    except orjson.JSONDecodeError:
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) < 2 or not lines[0].rstrip().endswith("}"):
            raise
        values = list(map(orjson.loads, lines))
    documents = [document for value in values for document in (value if isinstance(value, list) else [value])]
    return [record for document in documents for record in _records(document)]


def loads(text: bytes | str) -> Any:
    """The value of a JSON text, with None for the ``NaN`` and ``Infinity`` that Python writes.

    Raises:
        orjson.JSONDecodeError: it is not valid.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        if not re.search(r"NaN|Infinity", text if isinstance(text, str) else text.decode("utf-8", "replace")):
            raise
        try:
            return json.loads(text, parse_constant=lambda _: None)
        except (ValueError, RecursionError):
            pass
        raise


def _records(document: Any) -> list[Any]:
    """The records of a page, or the document itself, if it is none."""
    page = document
    if isinstance(document, dict):
        page = next((document[name] for name in sorted(WRAPPERS & document.keys())), document)
    if not isinstance(page, dict):
        return [document]
    arrays = [page[name] for name in sorted(LISTS & page.keys()) if isinstance(page[name], list)]
    lists = [array for array in arrays if not array or isinstance(array[0], dict)]
    return lists[0] if lists and "title" not in page else [page]


def as_item(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """A record with no other keys than those of CSL-JSON; one that has some already is returned unchanged."""
    record = next((record[end] for end in ENDS if isinstance(record.get(end), dict)), record)
    if not _OF_ITEMS.isdisjoint(record):
        return record
    ids = record.get("externalIds") or record.get("ids")
    known = {
        **(ids if isinstance(ids, dict) else {}),
        **{name: value for name, value in record.items() if value},
    }
    item = {
        name: next((known[key] for key in (name, *others) if known.get(key)), None)
        for name, others in _KEYS.items()
    }
    if isinstance(record.get("categories"), str):
        item["arXiv"] = record.get("id")
    authors = record.get("authorships") or item["author"]
    item["author"] = list(map(_name, authors_in(authors))) if isinstance(authors, list) else authors
    location = record.get("primary_location")
    source = location.get("source") if isinstance(location, dict) else item["container-title"]
    item["container-title"] = _name(source)
    if str(record.get("id", "")).startswith("https://"):
        item["URL"] = record["id"]
    elif "paperId" in record:
        item["URL"] = f"{_PAGE}{record['paperId']}"
    if known.get("CorpusId"):
        item["note"] = f"CorpusId:{known['CorpusId']}"
    # Without lists of hundreds of references, of which a work of OpenAlex has several.
    return {name: record[name] for name in _ALIKE & record.keys()} | item


def _name(value: Any) -> Any:
    """The name of an author or a journal, which may be an object."""
    return name_of(value) if isinstance(value, dict) else value

"""The corpus of a BEIR collection (``corpus.jsonl``): one JSON line to one record.

A line has ``_id``, ``title``, ``text`` and perhaps ``metadata``: https://github.com/beir-cellar/beir/wiki. A
document's id is ``Doc:<_id>``. In some collections (FiQA) the titles are empty: then the first sentence of the text is
the title, and the whole text the abstract. Of ``metadata``, ``authors``, ``venue`` or ``journal``, ``year``, ``url``,
``doi`` and ``pubmed_id`` are read; values of other kinds than expected are left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from scholarbase import identifiers
from scholarbase.bibliographies.names import display_name, split_names
from scholarbase.ingest.records import PaperRecord
from scholarbase.ingest.sources.s2ag import BadRecord, clean, clean_title, parser

MAX_SENTENCE_TITLE: Final = 120
"""Characters of a title that is a sentence of the text: about the maximum of real titles."""

_SENTENCE = re.compile(r".+?[.!?](?=\s|$)")


def first_sentence(text: str) -> str:
    """The first sentence of a text, cut with ``…`` after the last whole word within 120 characters."""
    match = _SENTENCE.match(text)
    sentence = match[0] if match else text
    if len(sentence) <= MAX_SENTENCE_TITLE:
        return sentence
    head, space, _ = sentence[:MAX_SENTENCE_TITLE].rpartition(" ")
    return f"{head if space else sentence[: MAX_SENTENCE_TITLE - 1]}…"


def _document_id(record: Mapping[str, Any]) -> str:
    stored = record.get("_id")
    if stored is None or stored == "":
        raise BadRecord("no-id", "_id is missing.")
    document_id = identifiers.document_id(str(stored)) if type(stored) in (str, int) else None
    if document_id is None:
        raise BadRecord(
            "bad-id",
            f"_id is {str(stored)[:80]!r}: up to {identifiers.MAX_DOCUMENT_ID} printable characters without "
            "whitespace were expected.",
        )
    return document_id


def _authors(listed: Any) -> list[tuple[str, str | None]]:
    """The authors: a list of names or of objects with a name, or a text with semicolons or ``and``."""
    if isinstance(listed, str):
        listed = split_names(listed)[0]
    if not isinstance(listed, list):
        return []
    names = [author.get("name") if isinstance(author, dict) else author for author in listed]
    texts = (clean(display_name(name), "authors") for name in names if isinstance(name, str))
    return [(text, None) for text in texts if text]


@parser
def parse_beir(record: dict[str, Any]) -> PaperRecord:
    """Parse a line of a BEIR corpus. A document without title and text is rejected (``no-text``)."""
    document = _document_id(record)
    text = clean(record.get("text"), "text")
    title = clean(record.get("title"), "title")
    if title is None and text is None:
        raise BadRecord("no-text", f"Document {document!r} has neither a title nor a text.")
    metadata = record.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise BadRecord("bad-type", f"metadata is {str(metadata)[:80]!r}: an object was expected.")
    year, url = metadata.get("year"), metadata.get("url")
    others = {
        "PMID": identifiers.pmid(str(metadata.get("pubmed_id") or "").strip()),
        "DOI": identifiers.doi(str(metadata.get("doi") or "")),
    }
    venue = metadata.get("venue") or metadata.get("journal")
    return PaperRecord(
        title=first_sentence(text) if title is None and text is not None else clean_title(title),
        external_ids={"Doc": document}
        | {scheme: value for scheme, value in others.items() if value is not None},
        abstract=text,
        authors=_authors(metadata.get("authors")),
        venue=clean(venue, "venue") if isinstance(venue, str) else None,
        year=year if type(year) is int and 1 <= year <= 9999 else None,
        url=url if isinstance(url, str) and url.startswith(("http://", "https://")) else None,
    )

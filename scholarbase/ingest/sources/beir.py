"""The corpus of a BEIR collection (``corpus.jsonl``): one JSON line to one record.

A line has ``_id``, ``title``, ``text`` and perhaps ``metadata``: https://github.com/beir-cellar/beir/wiki. A
document's id is the collection's own, ``Doc:<_id>``. In some collections (FiQA) no document has a title: there the
first sentence of the text stands for it, and the text stays whole as the abstract. Of ``metadata`` a ``url``, a
``year`` and a ``pubmed_id`` are read.

Queries and judgements lie beside the corpus and are no documents: an ingest passes them over.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from scholarbase import identifiers
from scholarbase.ingest.records import PaperRecord, Reject
from scholarbase.ingest.sources.s2ag import BadRecord, clean, clean_title, load

MAX_BORROWED_TITLE: Final = 120
"""Characters of a title that the text lends: about what a real title has at most."""

_SENTENCE = re.compile(r".+?[.!?](?=\s|$)")


def first_sentence(text: str) -> str:
    """The first sentence of a text, or its first words and ``…`` where that is longer than 120 characters."""
    match = _SENTENCE.match(text)
    sentence = match[0] if match else text
    if len(sentence) <= MAX_BORROWED_TITLE:
        return sentence
    head, space, _ = sentence[:MAX_BORROWED_TITLE].rpartition(" ")
    return f"{head if space else sentence[: MAX_BORROWED_TITLE - 1]}…"


def _document_id(record: Mapping[str, Any]) -> str:
    given = record.get("_id")
    if given is None or given == "":
        raise BadRecord("no-id", "_id is missing.")
    value = identifiers.document_id(str(given)) if type(given) in (str, int) else None
    if value is None:
        raise BadRecord(
            "bad-id",
            f"_id is {str(given)[:80]!r}: up to {identifiers.MAX_DOCUMENT_ID} printable characters without white "
            "space were expected.",
        )
    return value


def parse_beir(line: bytes) -> PaperRecord | Reject:
    """A line of a BEIR corpus. One without title and text is rejected (``no-text``)."""
    try:
        record = load(line)
        document = _document_id(record)
        text = clean(record.get("text"), "text")
        given = clean(record.get("title"), "title")
        if given is None and text is None:
            raise BadRecord("no-text", f"Document {document!r} has neither a title nor a text.")
        metadata = record.get("metadata") or {}
        if not isinstance(metadata, dict):
            raise BadRecord("bad-type", f"metadata is {str(metadata)[:80]!r}: an object was expected.")
        year, url = metadata.get("year"), metadata.get("url")
        pmid = identifiers.number(str(metadata.get("pubmed_id") or ""))
        return PaperRecord(
            title=first_sentence(text) if given is None and text is not None else clean_title(given),
            external_ids={"Doc": document} | ({"PMID": pmid} if pmid is not None else {}),
            abstract=text,
            year=year if type(year) is int and 1 <= year <= 9999 else None,
            url=url if isinstance(url, str) and url.startswith(("http://", "https://")) else None,
        )
    except BadRecord as bad:
        return bad.reject

"""Papers by title: the match of a whole title, and the completions of its beginning."""

from __future__ import annotations

from typing import Any, Final

from scholarbase.indexes.query_syntax import MAX_WORDS, compile, words
from scholarbase.models.limits import MAX_TITLE_MATCHES
from scholarbase.models.papers import Paper
from scholarbase_dialects.base import Answer, DialectRequest
from scholarbase_dialects.calls import Calls, plain_query
from scholarbase_dialects.listing.conditions import Text, every
from scholarbase_dialects.semantic_scholar import parameters
from scholarbase_dialects.semantic_scholar.fields import paper_fields, requested
from scholarbase_dialects.semantic_scholar.filters import filters_of
from scholarbase_dialects.semantic_scholar.papers import Writer, paper_id_of

SUGGESTIONS: Final = 10
MAX_PARTIAL: Final = 100
"""Characters of a partial query; the rest is cut."""


def match(request: DialectRequest, calls: Calls) -> Answer:
    """The paper whose title is the query, or nearly."""
    fields, filters = paper_fields(requested(request)), filters_of(request)
    text = parameters.query_of(request)
    conditions = filters.conditions
    [kept] = calls.match([text], limit=MAX_TITLE_MATCHES if conditions else 1, fields=fields.native())
    if conditions:
        passing = calls.meeting([hit.paper.id for hit in kept], every(conditions))
        kept = tuple(hit for hit in kept if hit.paper.id in passing)
    calls.show([hit.paper.id for hit in kept[:1]], limit=1, **filters.recorded)
    if not kept:
        return parameters.error(404, "Title match not found")
    content = Writer(calls).paper(kept[0].paper, fields)
    content["matchScore"] = round(100 * kept[0].score, 4)
    return {"data": [content]}


def autocomplete(request: DialectRequest, calls: Calls) -> Answer:
    """The most cited papers whose title has all words of the query, and one that begins as its last word."""
    text = plain_query(parameters.query_of(request)[:MAX_PARTIAL])
    query_words = words(text)[:MAX_WORDS]
    if not query_words:
        calls.begun.append(({"q": text}, [], []))
        return {"matches": []}
    last = query_words[-1] + ("*" if len(query_words[-1]) > 1 and text[-1:].isalnum() else "")
    quoted = [f'"{word}"' for word in query_words[:-1]] + [
        f'"{last.rstrip("*")}"' + last[len(query_words[-1]) :]
    ]
    _, papers = calls.listed(
        Text(compile(f"title:({' '.join(quoted)})")),
        {"q": text},
        order="-citation_count" if calls.as_of is None else "-date",
        limit=SUGGESTIONS,
        fields=("title", "authors", "year", "external_ids"),
    )
    return {
        "matches": [
            {"id": paper_id_of(paper), "title": paper.title, "authorsYear": _authors_year(paper)}
            for paper in papers
        ]
    }


def _authors_year(paper: Paper) -> str:
    """Such as ``Beltagy et al., 2019``."""
    families = [author.name.split()[-1] for author in paper.authors[:2] if author.name.split()]
    names = " & ".join(families) if len(paper.authors) <= 2 else f"{families[0]} et al." if families else ""
    parts: list[Any] = [part for part in (names, paper.year) if part]
    return ", ".join(map(str, parts))

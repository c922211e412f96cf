"""The search page of arXiv, which programs read for the ids of titles: https://github.com/arXiv/arxiv-search

Of its fields this is the search of titles. The page has the elements and classes of the original's results, and nothing
else: no forms, styles or scripts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date
from html import escape
from typing import Final

from scholarbase.bibliographies.facts import ARXIV_LINK, arxiv_id_of, day_of
from scholarbase.errors import InvalidRequest
from scholarbase.indexes.query_syntax import MAX_WORDS
from scholarbase.models.checks import shown
from scholarbase.models.limits import MAX_TITLE_LENGTH
from scholarbase.models.papers import Paper
from scholarbase_dialects.base import Answer, Body, Dialect, DialectRequest, Operation
from scholarbase_dialects.calls import Calls, plain_query
from scholarbase_dialects.describing import names_of
from scholarbase_dialects.listing import lists
from scholarbase_dialects.listing.conditions import (
    Among,
    ArxivIds,
    Condition,
    ListOrder,
    either,
    every,
    words_condition,
)

SIZES: Final = ("25", "50", "100", "200")
"""Papers of a page."""
DEFAULT_SIZE: Final = "50"
MAX_START: Final = 10_000
MAX_AUTHORS: Final = 25
"""Authors that the page shows of each paper."""
ORDERS: Final[dict[str, ListOrder]] = {
    "": "-relevance",
    "-announced_date_first": "-date",
    "announced_date_first": "date",
    "-submitted_date": "-date",
    "submitted_date": "date",
}
FIELDS: Final = (
    *("title", "abstract", "authors", "categories", "external_ids", "publication_date", "comment", "venue"),
)
_PART: Final = re.compile(r'"([^"]+)"|([^\s"]+)')
_FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
MEDIA_TYPE: Final = "text/html; charset=utf-8"


def _one_of(request: DialectRequest, name: str, default: str, valid: Sequence[str]) -> str:
    value = request.text(name, default)
    if value not in valid:
        raise InvalidRequest(f"{name} is {shown(value)}: it must be one of {', '.join(filter(None, valid))}")
    return value


def _size(request: DialectRequest) -> int:
    return int(_one_of(request, "size", DEFAULT_SIZE, SIZES))


def _titled(title: str, calls: Calls) -> Condition | None:
    """The papers whose title has all words and quoted phrases of a text, and those of which it is the title.

    None for a text without words. The second part finds a title whose words are divided otherwise, such as ``GPT4``.
    """
    parts = [match[1] or match[2] for match in _PART.finditer(title)]
    words = [
        condition for part in parts[:MAX_WORDS] if (condition := words_condition(part, "title")) is not None
    ]
    if not words:
        return None
    same = calls.library.match_title(title, limit=3, min_score=1.0, as_of=calls.as_of, fields=("id",)).results
    numbers = lists.held(calls.library, [match.paper.id for match in same], as_of=calls.as_of)
    by_words = every(list(dict.fromkeys(words)))
    return every([either([by_words, Among("id", numbers)]) if numbers else by_words, ArxivIds(None)])


def _search(request: DialectRequest, calls: Calls) -> Answer:
    kind = _one_of(request, "searchtype", "", ("title",))
    show = _one_of(request, "abstracts", "show", ("show", "hide")) == "show"
    size, order = _size(request), ORDERS[_one_of(request, "order", "", tuple(ORDERS))]
    start = request.whole("start", 0, 0, MAX_START)
    title = plain_query(request.text("query"))[:MAX_TITLE_LENGTH]
    total, papers = calls.listed(
        _titled(title, calls), {}, order=order, limit=size, offset=start, fields=FIELDS
    )
    _, ids, scores = calls.begun.pop()
    page = {"titles": [title], "limit": size, "offset": start, "as_of": calls.as_of}
    calls.begun.append(({name: value for name, value in page.items() if value}, ids, scores))
    return Body("".join(_page(kind, title, papers, total, start, show)).encode(), MEDIA_TYPE)


def _page(
    kind: str, title: str, papers: Sequence[Paper], total: int, start: int, show_abstracts: bool
) -> Iterator[str]:
    asked = f"{kind}: {_text(title)}"
    yield (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>\n'
        "<title>Search | arXiv e-print repository</title>\n</head>\n<body>\n"
        '<main class="container" id="main-container">\n'
    )
    if papers:
        shown_places = f"Showing {start + 1}&ndash;{start + len(papers)} of {total:,} results for"
        yield f'<h1 class="title is-clearfix">{shown_places} {kind}: <span class="mathjax">{_text(title)}</span></h1>\n'
        yield f'<div class="content">\n<ol class="breathe-horizontal" start="{start + 1}">\n'
        for paper in papers:
            yield from _result(paper, show_abstracts)
        yield "</ol>\n</div>\n"
    else:
        yield (
            '<p class="is-size-4 has-text-warning">\n'
            f'  Sorry, your query for <span class="is-warning">{asked}</span> produced no results.\n</p>\n'
        )
    yield "</main>\n</body>\n</html>\n"


def _result(paper: Paper, show_abstract: bool) -> Iterator[str]:
    name = arxiv_id_of(paper)
    yield f"""<li class="arxiv-result">
  <div class="is-marginless">
    <p class="list-title is-inline-block"><a href="{ARXIV_LINK}{name}">arXiv:{name}</a>
      <span>&nbsp;[<a href="https://arxiv.org/pdf/{name}">pdf</a>]&nbsp;</span>
    </p>
    <div class="tags is-inline-block">
"""
    for category, style in zip(
        paper.categories, ["is-link"] + ["is-grey"] * len(paper.categories), strict=False
    ):
        yield f'      <span class="tag is-small {style} tooltip is-tooltip-top">{_text(category)}</span>\n'
    yield f'    </div>\n  </div>\n  <p class="title is-5 mathjax">\n    {_line(paper.title)}\n  </p>\n'
    names = names_of(paper.authors)
    authors = ", ".join(f"<a>{_line(author)}</a>" for author in names[:MAX_AUTHORS])
    if len(names) > MAX_AUTHORS:
        authors += f", et al. ({len(names) - MAX_AUTHORS} additional authors not shown)"
    yield f'  <p class="authors">\n    {_label("Authors:")} {authors}\n  </p>\n'
    if show_abstract:
        text = _line(paper.abstract)
        yield f'  <p class="abstract mathjax">\n    {_label("Abstract")}: '
        yield f'<span class="abstract-full has-text-grey-dark mathjax">{text}</span>\n  </p>\n'
    if (day := day_of(paper)) is not None:
        submitted = f"{_label('Submitted')} {_day(day)}; "
        announced = f"{_label('originally announced')} {day:%B} {day.year}."
        yield f'  <p class="is-size-7">{submitted}{announced}</p>\n'
    venue = paper.venue if paper.venue != "arXiv.org" else None
    for label, value in (("Comments:", paper.comment), ("Journal ref:", venue)):
        if value:
            yield f'  <p class="comments is-size-7">{_label(label)} {_line(value)}</p>\n'
    yield "</li>\n"


def _label(text: str) -> str:
    return f'<span class="has-text-black-bis has-text-weight-semibold">{text}</span>'


def _day(day: date) -> str:
    """Such as ``4 January, 1993``."""
    return f"{day.day} {day:%B}, {day.year}"


def _line(text: str | None) -> str:
    return _text(" ".join((text or "").split()))


def _text(text: str) -> str:
    return escape(_FORBIDDEN.sub("", text))


def error_page(status: int, message: str) -> Body:
    """An error as a page."""
    content = (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>\n'
        f"<title>{status}</title>\n</head>\n<body>\n<h1>{status}</h1>\n<p>{_text(message)}</p>\n</body>\n</html>\n"
    )
    return Body(content.encode(), MEDIA_TYPE, status)


DIALECT: Final = Dialect(
    "arxiv-search",
    "/arxiv-search",
    "the search page of arXiv",
    (
        Operation("GET", "", _search, "match_titles",
                  frozenset(("query", "searchtype", "abstracts", "size", "order", "start")), papers=_size),
    ),
    error_page,
    alone="/search",
)  # fmt: skip

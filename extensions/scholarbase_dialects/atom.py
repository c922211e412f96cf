"""Atom 1.0 feeds as the arXiv API writes them: https://info.arxiv.org/help/api/user-manual.html#_details_of_atom_results_returned"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from hashlib import sha1
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from scholarbase.bibliographies.facts import arxiv_id_of, day_of
from scholarbase.models.papers import Paper
from scholarbase_dialects.base import Body
from scholarbase_dialects.describing import names_of

MEDIA_TYPE: Final = "application/atom+xml; charset=utf-8"
FIELDS: Final = (
    *("title", "abstract", "authors", "categories", "external_ids", "publication_date", "year", "venue"),
    *("comment", "versions", "update_date"),
)
FIELDS_AS_OF: Final = tuple(name for name in FIELDS if name not in ("versions", "update_date"))
"""Those that were known at a point in time: versions and changes may be later."""
ERROR: Final = "Error"
"""The title of the entry of an error."""
NO_DATE: Final = "1970-01-01T00:00:00Z"
_SCHEMA: Final = "http://arxiv.org/schemas/atom"
_FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What no XML 1.0 document may contain: https://www.w3.org/TR/xml/#charsets"""


def feed(query: str, link: str, entries: Sequence[Paper], *, total: int, start: int, per_page: int) -> bytes:
    """A page of papers.

    Args:
        query: the parameters of the request, as the feed's title shows them.
        link: the URL of the request.
        total: the papers on all pages.
    """
    return _feed(query, link, [_entry(paper) for paper in entries], _updated(entries), total, start, per_page)


def error_feed(status: int, message: str) -> Body:
    """The feed of a request that failed: its only entry has the title ``Error`` and the message."""
    sentence = message.rstrip(".")
    link = f"http://arxiv.org/api/errors#{'_'.join(sentence.split())}"
    entry = "".join(
        (
            "  <entry>\n",
            *(_element("id", link), _element("title", ERROR), _element("summary", sentence)),
            *(_element("updated", NO_DATE), _link(link, "alternate", "text/html")),
            "    <author>\n      <name>arXiv api core</name>\n    </author>\n  </entry>\n",
        )
    )
    content = _feed("", "http://arxiv.org/api/query", [entry], NO_DATE, 1, 0, 1)
    return Body(content, MEDIA_TYPE, status)


def _feed(
    query: str, link: str, entries: Sequence[str], updated: str, total: int, start: int, per_page: int
) -> bytes:
    parts = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<feed xmlns="http://www.w3.org/2005/Atom" xmlns:opensearch="http://a9.com/-/spec/opensearch/1.1/" '
        f'xmlns:arxiv="{_SCHEMA}">\n',
        f'  <link href={_quoted(link)} rel="self" type="application/atom+xml"/>\n',
        f'  <title type="html">ArXiv Query: {_text(query)}</title>\n',
        f"  <id>http://arxiv.org/api/{sha1(query.encode()).hexdigest()}</id>\n",
        f"  <updated>{updated}</updated>\n",
        f"  <opensearch:totalResults>{total}</opensearch:totalResults>\n",
        f"  <opensearch:startIndex>{start}</opensearch:startIndex>\n",
        f"  <opensearch:itemsPerPage>{per_page}</opensearch:itemsPerPage>\n",
        *entries,
        "</feed>\n",
    )
    return "".join(parts).encode()


def _entry(paper: Paper) -> str:
    return "".join(("  <entry>\n", *_elements(paper), "  </entry>\n"))


def _elements(paper: Paper) -> Iterator[str]:
    """The elements of a paper. Clients fail without an author, a category and a date, so that each is there, perhaps
    empty."""
    name = f"{arxiv_id_of(paper)}v{max(len(paper.versions), 1)}"
    yield _element("id", f"http://arxiv.org/abs/{name}")
    yield _element("updated", _update(paper))
    yield _element("published", _date(paper))
    yield _element("title", " ".join((paper.title or "").split()))
    yield _element("summary", paper.abstract or "")
    for author in names_of(paper.authors) or [""]:
        yield f"    <author>\n      <name>{_text(author)}</name>\n    </author>\n"
    doi = paper.external_ids.get("DOI")
    if doi:
        yield _element("arxiv:doi", doi)
        yield _link(f"http://dx.doi.org/{doi}", "related", None, "doi")
    if paper.comment:
        yield _element("arxiv:comment", paper.comment)
    if paper.venue and paper.venue != "arXiv.org":
        yield _element("arxiv:journal_ref", paper.venue)
    yield _link(f"http://arxiv.org/abs/{name}", "alternate", "text/html")
    yield _link(f"http://arxiv.org/pdf/{name}", "related", "application/pdf", "pdf")
    categories = paper.categories or ("",)
    yield f'    <arxiv:primary_category term={_quoted(categories[0])} scheme="{_SCHEMA}"/>\n'
    for category in categories:
        yield f'    <category term={_quoted(category)} scheme="{_SCHEMA}"/>\n'


def _date(paper: Paper) -> str:
    """The publication date at midnight; of a paper without a day, the first of its year."""
    day = day_of(paper)
    if day is not None:
        return f"{day.isoformat()}T00:00:00Z"
    return f"{paper.year:04}-01-01T00:00:00Z" if paper.year is not None and paper.year > 0 else NO_DATE


def _update(paper: Paper) -> str:
    """The day of the last change at midnight, else the publication date."""
    return f"{paper.update_date}T00:00:00Z" if paper.update_date else _date(paper)


def _updated(papers: Sequence[Paper]) -> str:
    """The latest date of the papers: equal requests have equal feeds."""
    return max(map(_update, papers), default=NO_DATE)


def _element(name: str, text: str) -> str:
    return f"    <{name}>{_text(text)}</{name}>\n"


def _link(href: str, rel: str, kind: str | None, title: str | None = None) -> str:
    titled = f'title="{title}" ' if title else ""
    typed = f' type="{kind}"' if kind else ""
    return f'    <link {titled}href={_quoted(href)} rel="{rel}"{typed}/>\n'


def _text(text: str) -> str:
    return escape(_FORBIDDEN.sub("", text))


def _quoted(text: str) -> str:
    return quoteattr(_FORBIDDEN.sub("", text))

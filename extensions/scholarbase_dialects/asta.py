"""The tool set ``asta``: the tools of Ai2's Asta by their names, arguments and answers, as AstaBench calls them.

The names, and what is read of the answers, are those of ``astabench.tools.asta_tools``
(https://github.com/allenai/asta-bench); papers, authors and snippets are those of the dialect ``semantic-scholar``. A
date cut is ``publication_date_range``, ``inserted_before``, or the ``as_of`` of a session.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Annotated, Any, Final, Literal

import orjson
from pydantic import BeforeValidator

from scholarbase.errors import InvalidRequest, PaperNotFound
from scholarbase.models.checks import as_of_day, check_text, date_bounds
from scholarbase.models.requests import Request, Timed
from scholarbase.models.responses import Response
from scholarbase.models.values import AsOf
from scholarbase.search.library import Library
from scholarbase.tools.tool import Tool
from scholarbase_dialects.base import Answer, Answerer, Body, DialectRequest
from scholarbase_dialects.calls import Calls
from scholarbase_dialects.semantic_scholar import authors, graph, snippets, titles

NOT_FOUND: Final = 404


class AstaAnswer(Response, frozen=True):
    """``answer`` is the original's JSON; ``results`` are the ids of its papers, for sessions."""

    snapshot: str
    answer: Any
    results: tuple[dict[str, str], ...] = ()


Text = Annotated[str, BeforeValidator(lambda value: ",".join(value) if _is_names(value) else value)]
"""A text, or a list of names, which are joined by commas."""


def _is_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


class _Base(Timed):
    """Arguments of all tools. The session sets ``as_of``, and the caller's method ``format``."""

    as_of: AsOf = None
    format: Literal["json", "text"] = "json"


class _Call(_Base):
    fields: Text = ""


class _Dated(_Call):
    publication_date_range: str = ""


class _Filtered(_Dated):
    venues: Text = ""


class PaperCall(_Call):
    paper_id: str


class BatchCall(_Call):
    ids: Annotated[
        tuple[str, ...], BeforeValidator(lambda value: tuple(value) if _is_names(value) else value)
    ]


class CitationsCall(_Dated):
    paper_id: str
    limit: int = 50


class SearchCall(_Filtered):
    keyword: str
    limit: int = 50


class TitleCall(_Filtered):
    title: str


class SnippetCall(_Base):
    query: str
    limit: int = 10
    venues: Text = ""
    paper_ids: Text = ""
    inserted_before: str = ""


class AuthorsCall(_Call):
    name: str
    limit: int = 10


class AuthorPapersCall(_Base):
    author_id: str
    paper_fields: Text = ""
    limit: int = 100
    publication_date_range: str = ""


PARAMETERS: Final[Mapping[str, str]] = {
    "keyword": "query",
    "title": "query",
    "name": "query",
    "query": "query",
    "fields": "fields",
    "paper_fields": "fields",
    "limit": "limit",
    "venues": "venue",
    "paper_ids": "paperIds",
    "publication_date_range": "publicationDateOrYear",
}
"""Arguments to parameters of the dialect. All others are ids, and dates before which papers were published."""


@dataclass(frozen=True, slots=True)
class AstaTool(Tool):
    """A tool of this set. Over MCP its answer is JSON, with a text for each item of a list, as in the original."""

    def texts(self, content: Mapping[str, Any], offset: int) -> list[str]:
        answer = content["answer"]
        items = answer if isinstance(answer, list) else [answer]
        return [orjson.dumps(item, option=orjson.OPT_INDENT_2).decode() for item in items]


def _tool(
    name: str, description: str, request: type[Request], answer: Answerer, shown: Mapping[str, str]
) -> AstaTool:
    def run(library: Library, call: Any) -> AstaAnswer:
        return _answer(library, answer, call)

    return AstaTool(name, description, request, run, shown)


def _answer(library: Library, answer: Answerer, call: Any) -> AstaAnswer:
    arguments = {name: value for name, value in call if value not in (None, "", ())}
    as_of, before = arguments.pop("as_of", None), arguments.pop("inserted_before", None)
    if before is not None:
        as_of = _day_before(before, as_of)
    query = {PARAMETERS[name]: [str(value)] for name, value in arguments.items() if name in PARAMETERS}
    path = {name: arguments[name] for name in ("paper_id", "author_id") if name in arguments}
    for name, value in path.items():
        check_text(value, name)
    calls = Calls(library, as_of)
    asked = DialectRequest(path, query, {"ids": list(call.ids)} if isinstance(call, BatchCall) else None)
    content = _content(answer(asked, calls))
    ids = dict.fromkeys(paper_id for _, paper_ids, _ in calls.begun for paper_id in paper_ids)
    return AstaAnswer(library.snapshot_id, content, tuple({"id": paper_id} for paper_id in ids))


def _content(answer: Answer) -> Any:
    """The JSON of an answer. Raises PaperNotFound, InvalidRequest: the original returns an error."""
    if isinstance(answer, Body):
        message = orjson.loads(answer.content)["error"]
        raise PaperNotFound(message) if answer.status == NOT_FOUND else InvalidRequest(message)
    return answer


def _day_before(before: str, as_of: str | None) -> str:
    """The last day before a date, or ``as_of`` if that is earlier. Raises InvalidRequest: it is not a date."""
    date_bounds(before, "inserted_before")
    day = (date.fromisoformat(f"{before}-01-01"[:10]) - timedelta(days=1)).isoformat()
    return day if as_of is None else min(day, as_of, key=as_of_day)


def _items(answer: Answerer) -> Answerer:
    """The list in an answer, without the page that it is of."""

    def items(request: DialectRequest, calls: Calls) -> Answer:
        content = answer(request, calls)
        return content["data"] if isinstance(content, Mapping) else content

    return items


def _known(request: DialectRequest, calls: Calls) -> Answer:
    """The papers of a batch that the library has."""
    return [paper for paper in _content(graph.batch(request, calls)) if paper is not None]


_FIELDS: Final = (
    "fields of Semantic Scholar's Graph, separated by commas: title,abstract,authors,year,corpusId"
)
_DATES: Final = "START:END, dates as YYYY-MM-DD; one may be left out"
_VENUES: Final = "venues, separated by commas"
_PAPER: Final = "CorpusId:..., ARXIV:..., DOI:..., or Semantic Scholar's id"

ASTA: Final[tuple[Tool, ...]] = (
    _tool(
        "get_paper",
        "Get a paper by its id.",
        PaperCall,
        graph.paper,
        {"paper_id": _PAPER, "fields": _FIELDS},
    ),
    _tool(
        "get_paper_batch",
        "Get several papers by their ids.",
        BatchCall,
        _known,
        {"ids": _PAPER, "fields": _FIELDS},
    ),
    _tool(
        "get_citations",
        "Get the papers that cite a paper.",
        CitationsCall,
        _items(graph.citations),
        {"paper_id": _PAPER, "fields": _FIELDS, "limit": "default 50", "publication_date_range": _DATES},
    ),
    _tool(
        "search_authors_by_name",
        "Search authors by name.",
        AuthorsCall,
        _items(authors.search),
        {"name": "a name", "fields": "name,paperCount,papers.title", "limit": "default 10"},
    ),
    _tool(
        "get_author_papers",
        "Get the papers of an author.",
        AuthorPapersCall,
        _items(authors.papers),
        {
            "author_id": "of search_authors_by_name",
            "paper_fields": _FIELDS,
            "limit": "default 100",
            "publication_date_range": _DATES,
        },
    ),
    _tool(
        "search_papers_by_relevance",
        "Search papers by keywords, best first.",
        SearchCall,
        _items(graph.search),
        {
            "keyword": "keywords or a question",
            "fields": _FIELDS,
            "limit": "default 50",
            "publication_date_range": _DATES,
            "venues": _VENUES,
        },
    ),
    _tool(
        "search_paper_by_title",
        "Search a paper by its title.",
        TitleCall,
        titles.match,
        {"title": "a title", "fields": _FIELDS, "publication_date_range": _DATES, "venues": _VENUES},
    ),
    _tool(
        "snippet_search",
        "Search snippets of papers for a question.",
        SnippetCall,
        snippets.search,
        {
            "query": "a question or words",
            "limit": "default 10",
            "venues": _VENUES,
            "paper_ids": "ids of papers to search, separated by commas",
            "inserted_before": "only papers before this date: YYYY, YYYY-MM or YYYY-MM-DD",
        },
    ),
)

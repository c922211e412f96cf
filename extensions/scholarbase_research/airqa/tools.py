"""The tool set ``airqa``: AirQA's environment (arXiv:2509.16952, appendices B and C.4), with a library as its data.

An action never fails for its arguments, as in that environment: the observation is then the sentence that says why.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final

from scholarbase.errors import InvalidRequest, ScholarBaseError, TimeLimit, ToolNotFound
from scholarbase.models.document_requests import PageBody, PassageSearchBody
from scholarbase.models.document_responses import PassagesResponse
from scholarbase.models.requests import Request
from scholarbase.models.responses import Observation, Response
from scholarbase.models.sql import SqlBody, SqlResponse
from scholarbase.search.library import Library
from scholarbase.tools import arguments as written
from scholarbase.tools.tool import Tool, ToolSet
from scholarbase_research.airqa.actions import (
    RETRIEVED,
    Action,
    AnswerAction,
    QueryAction,
    Refused,
    RetrieveAction,
    ViewAction,
)

PNG: Final = "image/png"
MOST_ROWS: Final = 1_000
"""Rows of a statement, of which an observation has as many as fit."""
_MOST_NAME: Final = 100
"""Characters of an unknown action's name that are recorded."""
_UUID: Final = re.compile(r"'[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}'", re.IGNORECASE | re.ASCII)
_COMPARED: Final = re.compile(
    r"(\b(?:ref_)?paper_id\b[\"`\]]?\s*(?:==?|<>|!=|\bIS(?:\s+NOT)?\b|(?:\bNOT\s+)?\bIN\b)\s*\(?\s*)"
    rf"({_UUID.pattern}(?:\s*,\s*{_UUID.pattern})*)",
    re.IGNORECASE | re.ASCII,
)
"""A column of papers' ids that a statement compares with one UUID or a list of them."""
_REVERSED: Final = re.compile(
    rf"{_UUID.pattern}(?=\s*(?:==?|<>|!=)\s*(?:\w+\.)?(?:ref_)?paper_id\b(?!\s*\())", re.IGNORECASE | re.ASCII
)
"""A UUID that stands before the column."""
_CALL: Final = r"paper_id(\g<0>)"
_SERVER_ERROR: Final = 500
"""The first status of an error that is not the caller's."""

Run = Callable[[Library, Any], Response]


def _observing(run: Run) -> Run:
    """An action whose errors are observations, other than those of the server."""

    @wraps(run)
    def observed(library: Library, action: Action) -> Response:
        try:
            if isinstance(action, Refused):
                return Observation(library.snapshot_id, action.reason, error_type=action.error_type)
            return run(library, action)
        except ScholarBaseError as error:
            if error.status >= _SERVER_ERROR and not isinstance(error, TimeLimit):
                raise
            return Observation(library.snapshot_id, str(error), error_type=error.slug)

    return observed


def _refused(error: InvalidRequest, arguments: Mapping[str, Any]) -> Refused:
    form = "text" if arguments.get("format") == "text" else "json"
    return Refused(reason=str(error), error_type=error.slug, format=form)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class ActionTool(Tool):
    """A tool of this set."""

    def canonical(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments with the names and types of this tool, or as they were written if they are invalid."""
        try:
            return self._canonical(arguments)
        except InvalidRequest:
            if not isinstance(arguments, Mapping):
                raise
            return dict(arguments)

    def parse(self, arguments: Mapping[str, Any]) -> Request:
        """Build the action of ``canonical`` arguments, a :class:`Refused` one if they are invalid."""
        try:
            return self.request.parse(self._canonical(arguments), kind="argument")
        except InvalidRequest as error:
            return _refused(error, arguments)

    def _canonical(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        kinds = {name: {} if name == "answer" else kind for name, kind in self.kinds.items()}  # of any type
        return written.canonical(arguments, kinds, self.name, self.shown, self.required)


@dataclass(frozen=True, slots=True)
class UnknownAction(ActionTool):
    """An action that the set lacks: its observation is the ``description``."""

    def canonical(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return dict(arguments) if isinstance(arguments, Mapping) else {}

    def parse(self, arguments: Mapping[str, Any]) -> Request:
        return _refused(ToolNotFound(self.description), arguments)


class Actions(ToolSet):
    """AirQA's actions. The case of their names does not matter, since the paper writes ``Answer``."""

    instructions = (
        "A local library of papers with their full texts. Retrieve passages, query the database, view pages, and end "
        "with an answer."
    )

    def unknown(self, name: str, reason: str) -> Tool:
        """The action whose name differs only in case, or an unknown action, whose observation is ``reason``."""
        if not isinstance(name, str):
            raise ToolNotFound(reason)
        for tool in self:
            if tool.name == name.lower():
                return tool
        return UnknownAction(name[:_MOST_NAME], reason, Refused, _observing(_retrieve), {})


def _retrieve(library: Library, action: RetrieveAction) -> PassagesResponse:
    request = PassageSearchBody.of(
        q=action.query, limit=action.limit, syntax="plain", as_of=action.as_of, timeout=action.timeout
    )
    return library.run_passage_search(request)


def _query(library: Library, action: QueryAction) -> SqlResponse:
    """Run a statement. AirQA's papers have UUIDs as ids: where a column of ids is compared with one, the paper's id in
    this library is meant."""
    sql = _COMPARED.sub(lambda match: match[1] + _UUID.sub(_CALL, match[2]), action.sql)
    sql = _REVERSED.sub(_CALL, sql)
    body = SqlBody.of(query=sql, limit=MOST_ROWS, as_of=action.as_of, timeout=action.timeout)
    return library.run_sql(body)


def _view(library: Library, action: ViewAction) -> Observation:
    box = action.bounding_box or None
    request = PageBody.of(
        paper_id=action.paper_id,
        page=action.page_number,
        box=box,
        as_of=action.as_of,
        timeout=action.timeout,
    )
    image = library.run_page(request)
    paper = library.paper(action.paper_id, fields=("id",), as_of=action.as_of).id
    part = f", box {', '.join(f'{coordinate:g}' for coordinate in box)}" if box else ""
    return Observation(
        library.snapshot_id,
        f"Page {action.page_number} of {paper}{part}.",
        id=paper,
        image=b64encode(image).decode(),
        media_type=PNG,
    )


def _answer(library: Library, action: AnswerAction) -> Observation:
    return Observation(library.snapshot_id, "This is the final answer.", answer=action.answer, done=True)


ACTIONS: Final = Actions(
    (
        ActionTool(
            "retrieve",
            "Retrieve the passages of the papers' full texts that are most relevant to a query text.",
            RetrieveAction,
            _observing(_retrieve),
            {
                "query": "What to search for. Rephrase the question to be clear and specific",
                "limit": f"The number of passages, default {RETRIEVED}",
            },
            kind="search",
        ),
        ActionTool(
            "query",
            "Run a SQL query in SQLite's dialect on the database of papers. Long results are cut.",
            QueryAction,
            _observing(_query),
            {"sql": "One SELECT statement"},
            is_cached=False,
            kind="inspect",
        ),
        ActionTool(
            "view",
            "View a page of a paper, or a part of it, as an image.",
            ViewAction,
            _observing(_view),
            {
                "paper_id": "The paper's id",
                "page_number": "The page, from 1",
                "bounding_box": "[x_min, y_min, delta_x, delta_y] in points; the whole page by default",
            },
            kind="inspect",
        ),
        ActionTool(
            "answer",
            "End with the final answer, strictly in the format that the question asks for.",
            AnswerAction,
            _observing(_answer),
            {"answer": "The final answer; a number or a list as JSON"},
        ),
    )
)

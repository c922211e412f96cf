"""The tools for agents written in Python, on a library or on a server."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from types import NoneType
from typing import Any, Final, Protocol

from scholarbase.errors import InvalidRequest, StorageError
from scholarbase.models.checks import as_text_arguments, check_json_format, check_type, shown
from scholarbase.models.limits import SchemaForm
from scholarbase.search.library import Library
from scholarbase.sessions.recording import BUDGET_SECONDS, WRITE_SECONDS, Recording, SessionCall
from scholarbase.sessions.session import Session, check_number, check_session_id
from scholarbase.sessions.store import SessionStore
from scholarbase.sessions.writer import wait_for
from scholarbase.tools.definitions import schemas, tool_named, tools_in
from scholarbase.tools.responding import CallResponse, make_response
from scholarbase.tools.tool import Tool

log = logging.getLogger("scholarbase.tools")


class ToolServer(Protocol):
    """A server that answers tool calls by name, such as :class:`scholarbase.client.Client`, with its arguments."""

    def tools(self, *args: Any, **kwargs: Any) -> list[dict[str, Any]]: ...
    def call_tool(self, *args: Any, **kwargs: Any) -> dict[str, Any]: ...
    def call_tool_as_text(self, *args: Any, **kwargs: Any) -> str: ...


class Tools:
    """The tools, on a library or on a server. Safe to share between threads.

    Args:
        source: an open library, or a client.
        session: the session in which calls are recorded. On a server, its name; on a library, a :class:`Session` to
            open, or the name of one in ``store``.
        store: where the calls on a library are recorded.
        tool_set: ``scholarbase``, or ``airqa`` for the actions of AirQA's environment.

    Raises:
        InvalidRequest: a session on a library without a store, or a store for a server, which has its own; or an
            argument has another type.
    """

    def __init__(
        self,
        source: Library | ToolServer,
        *,
        session: str | Session | None = None,
        store: SessionStore | None = None,
        tool_set: str = "scholarbase",
    ) -> None:
        tools_in(tool_set)
        self.tool_set: Final[str] = tool_set
        if not isinstance(source, Library) and not hasattr(source, "call_tool"):
            raise InvalidRequest(f"source is {shown(source)}: it must be an open library or a client.")
        check_type(session, (str, Session, NoneType), "session", "a name, a Session or None")
        check_type(store, (SessionStore, NoneType), "store", "a SessionStore or None")
        self._source = source
        self._store = store
        self._owner = session.owner if isinstance(session, Session) else ""
        self.session: Final[str | None] = session.id if isinstance(session, Session) else session
        if not isinstance(source, Library):
            if store is not None or isinstance(session, Session):
                raise InvalidRequest(
                    "A server records its own sessions: open one there (client.open_session), and give its name."
                )
        elif session is not None:
            if store is None:
                raise InvalidRequest("Calls on a library are recorded in a store: give one, or no session.")
            check_session_id(self.session)
            if isinstance(session, Session):
                wait_for(store.open(session), BUDGET_SECONDS)

    def schemas(self, form: SchemaForm = "openai", *, strict: bool = False) -> list[dict[str, Any]]:
        """The tools as function schemas, with the search modes of the library. Those for full texts are left out if it
        has none.

        Args:
            form: ``openai`` (chat completions), ``openai-responses``, ``anthropic``, ``gemini`` or ``mcp``.
            strict: schemas for OpenAI's strict mode.
        """
        if not isinstance(self._source, Library):
            return self._source.tools(form, strict=strict, session=self.session, tool_set=self.tool_set)
        return schemas(
            form,
            modes=self._source.modes,
            graph=self._source.has_graph,
            full_texts=self._source.has_full_texts,
            in_session=self.session is not None,
            strict=strict,
            tools=tools_in(self.tool_set),
        )

    def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        parent: int | None = None,
        round: int | None = None,
    ) -> dict[str, Any]:
        """Call a tool; the result is the JSON of its response.

        Args:
            name: the name of the tool.
            arguments: its arguments, as a model wrote them.
            parent: the number of the call that this one follows from; by default found from its arguments.
            round: the agent's turn, for calls that are made side by side.

        Raises:
            ToolNotFound: no tool has this name.
            InvalidRequest: an argument is invalid.
            BudgetExhausted: a budget of the session is used up.
            PaperNotFound, and the other errors of the library or the client.
        """
        if not isinstance(self._source, Library):
            return self._source.call_tool(
                name, arguments, session=self.session, parent=parent, round=round, tool_set=self.tool_set
            )
        check_json_format(arguments)
        return self._call(self._source, name, arguments, parent, round).content

    def call_as_text(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        parent: int | None = None,
        round: int | None = None,
    ) -> str:
        """Call a tool; the result is readable text. Arguments and errors are those of ``call``."""
        if not isinstance(self._source, Library):
            return self._source.call_tool_as_text(
                name, arguments, session=self.session, parent=parent, round=round, tool_set=self.tool_set
            )
        return self._call(self._source, name, as_text_arguments(arguments), parent, round).body.decode()

    def _call(
        self,
        library: Library,
        name: str,
        arguments: Mapping[str, Any],
        parent: int | None,
        round: int | None,
    ) -> CallResponse:
        tool = tool_named(name, self.tool_set)
        parent, round = check_number(parent, "parent"), check_number(round, "round")
        if self.session is None or self._store is None:
            if parent is not None or round is not None:
                raise InvalidRequest("A parent or a round needs a session: give one to Tools.")
            return call_tool(library, tool, tool.canonical(arguments), for_model=True)
        recording = Recording(
            session=self._store.find(self.session, self._owner),
            tool=tool.name,
            store=self._store,
            snapshot=library.snapshot_id,
            parent=parent,
            round=round,
        )
        return call_recorded(library, tool, arguments, recording)


def call_recorded(
    library: Library, tool: Tool, arguments: Mapping[str, Any], recording: Recording
) -> CallResponse:
    """Call a tool, or what is recorded as one, and record it; waits for both. Raises as ``Tools.call``."""
    try:
        arguments = tool.canonical(arguments)
        seen = bool(arguments.get("exclude_seen"))
        if recording.needs_budget(seen):
            recording.budget = wait_for(recording.reserve(seen), BUDGET_SECONDS)
        response = call_tool(library, tool, arguments, recording, for_model=True)
    except Exception as error:
        _wait_written(recording.record_failure(_object(arguments), error), WRITE_SECONDS)
        raise
    _wait_written(
        recording.record([(response.arguments(arguments), response.returned[0])]), recording.write_seconds
    )
    return response


def call_tool(
    library: Library,
    tool: Tool,
    arguments: Mapping[str, Any],
    call: SessionCall | None = None,
    *,
    form: Callable[[dict[str, Any]], dict[str, Any]] = dict,
    for_model: bool = False,
) -> CallResponse:
    """Call a tool, or what is recorded as one, with ``canonical`` arguments. ``form`` changes the response's JSON
    before it is cut to a size; ``for_model`` applies the default size. Raises as ``Tools.call``."""
    request = tool.parse(arguments)
    run = tool.run_for_model if for_model else tool.run
    return make_response(
        library,
        request,
        lambda changed: form(run(library, changed).to_dict()),
        call,
        compact=True,
        tool_tokens=library.settings.tool_tokens if for_model else None,
    )


def _wait_written(calls: Future[list[int]], seconds: float) -> None:
    """Wait for calls that are being written, no longer than a response may."""
    try:
        wait_for(calls, seconds)
    except StorageError as error:
        log.warning("A call is not recorded yet: %s", error)


def _object(arguments: Any) -> dict[str, Any]:
    return dict(arguments) if isinstance(arguments, Mapping) else {"arguments": repr(arguments)}

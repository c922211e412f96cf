"""``scholarbase mcp`` and ``scholarbase session``: tools for agents, and recorded sessions."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scholarbase.cli.groups import Commands
from scholarbase.cli.options import (
    as_of_option,
    encoder_option,
    json_option,
    library_option,
    open_source,
    print_json,
    require_library,
    setting_options,
    url_option,
)
from scholarbase.errors import InvalidRequest, SessionExists
from scholarbase.sessions.session import Quotas, Session
from scholarbase.sessions.store import SessionStore
from scholarbase.settings import Settings
from scholarbase.terminal import printable, printable_json

if TYPE_CHECKING:
    from scholarbase.client import Client

SESSION_SECONDS = 30.0

sessions_option = setting_options("sessions")


@contextmanager
def opened_sessions(settings: Settings, sessions: str | None) -> Iterator[SessionStore]:
    """The sessions of the option, or else of the settings."""
    if sessions:
        settings = settings.model_copy(update={"sessions": sessions})
    location = settings.sessions_location
    if location is None:
        raise InvalidRequest(
            "The folder of sessions is none: set it with --sessions or SCHOLARBASE_SESSIONS."
        )
    with SessionStore(location, quotas=Quotas.of(settings)) as store:
        yield store


# -- mcp ------------------------------------------------------------------------------------------------


@click.command()
@url_option
@library_option
@encoder_option
@click.option(
    "--tools",
    "tool_set",
    default="scholarbase",
    show_default=True,
    help="The nine tools of ScholarBase; airqa, the actions of AirQA; retrieval, search and fetch as chat products "
    "expect them; or a set of an extension, such as asta, the tools of Asta.",
)
@click.option("--session", "name", help="Record the calls under this name.")
@click.option("--query", help="The question of the session.")
@as_of_option
@sessions_option
@click.pass_obj
def mcp(
    settings: Settings,
    url: str | None,
    library: Path | None,
    encoder: str | None,
    tool_set: Any,
    name: str | None,
    query: str | None,
    as_of: str | None,
    sessions: str | None,
) -> None:
    """Serve the tools to an MCP client on standard input and output.

    --session, --query and --as-of record the calls in a session.
    """
    from scholarbase.extras import check_installed

    check_installed("mcp", "The Model Context Protocol")
    from scholarbase.api.mcp import serve_stdio
    from scholarbase.client import Client
    from scholarbase.tools import Tools
    from scholarbase.tools.definitions import mcp_tool_set

    served = partial(
        serve_stdio, max_bytes=settings.max_body_bytes, offered=tool_set, seconds=settings.timeout
    )
    native = tool_set if mcp_tool_set(tool_set) is None else "scholarbase"
    recorded = name is not None or query is not None or as_of is not None
    named = name or f"mcp-{secrets.token_hex(4)}"
    with open_source(settings, library, url, encoder) as source:
        if isinstance(source, Client):
            if sessions is not None:
                raise InvalidRequest(
                    "--sessions needs a local library: the server has its own sessions. Omit it."
                )
            if query is not None or as_of is not None:
                _open_on_server(source, named, query, as_of)
            served(Tools(source, session=named if recorded else None, tool_set=native))
            return
        with opened_sessions(settings, sessions) as store:
            session: Session | str | None = named if recorded else None
            if query is not None or as_of is not None:
                session = _open_in_store(store, Session(named, query=query, as_of=as_of))
            tools = Tools(source, session=session, store=store if recorded else None, tool_set=native)
            served(tools)


def _open_in_store(store: SessionStore, session: Session) -> str:
    """Open a session, or one with the same query and date again, since MCP clients restart their servers."""
    try:
        store.open(session).result(SESSION_SECONDS)
    except SessionExists:
        existing = store.session(session.id).session
        if (existing.query, existing.as_of) != (session.query, session.as_of):
            raise
    return session.id


def _open_on_server(client: Client, name: str, query: str | None, as_of: str | None) -> None:
    try:
        client.open_session(name, query=query, as_of=as_of)
    except SessionExists:
        existing = client.session_report(name)
        if (existing["query"], existing["as_of"]) != (query, as_of):
            raise


# -- session --------------------------------------------------------------------------------------------


@click.group(cls=Commands, short_help="List, show, replay, export and delete sessions.")
def session() -> None:
    """List, show, evaluate, replay, export and delete recorded sessions."""


@session.command("list")
@sessions_option
@json_option
@click.pass_obj
def list_sessions(settings: Settings, sessions: str | None, as_json: bool) -> None:
    """List sessions, the most recently used first."""
    with opened_sessions(settings, sessions) as store:
        _, stored = store.sessions()
    if as_json:
        print_json([facts.to_dict() for facts in stored])
        return
    for facts in stored:
        as_of = facts.session.as_of and f"as of {facts.session.as_of}"
        columns = (facts.session.key, f"{facts.calls} calls", facts.used, as_of, facts.session.query)
        click.echo(printable("  ".join(filter(None, columns))))


@session.command(short_help="Print the trajectory of a session.")
@click.argument("name")
@sessions_option
@click.pass_obj
def show(settings: Settings, name: str, sessions: str | None) -> None:
    """Print the trajectory of the session NAME, one JSON object per call."""
    with opened_sessions(settings, sessions) as store:
        for line in store.lines(store.session(name, of_any_owner=True).session.key):
            click.echo(printable_json(line.decode()))


@session.command(short_help="Print the costs and the results of a session.")
@click.argument("name")
@click.option(
    "--answer", "answers", multiple=True, help="A paper that answers the question; may be repeated."
)
@library_option
@sessions_option
@click.pass_obj
def report(
    settings: Settings, name: str, answers: Sequence[str], library: Path | None, sessions: str | None
) -> None:
    """Print the costs of the session NAME, and with --answer its results.

    "answers" is the number of those that --answer names; what the agent answered is the last call of "session show".
    """
    from scholarbase.search.library import Library
    from scholarbase.sessions.report import held_answers
    from scholarbase.sessions.report import report as made

    answer_ids: dict[str, str | None] | None = None
    if answers:
        path = require_library(library, settings)
        with Library.open(path, encoder="none", rerankers={}, settings=settings) as opened:
            answer_ids = held_answers(opened, answers)
    with opened_sessions(settings, sessions) as store:
        recorded = store.session(name, of_any_owner=True).session
        content = made(recorded, store.lines(recorded.key), answer_ids)
    print_json(content)


@session.command()
@click.argument("name")
@sessions_option
@click.pass_obj
def delete(settings: Settings, name: str, sessions: str | None) -> None:
    """Delete the session NAME and its calls."""
    with opened_sessions(settings, sessions) as store:
        store.delete(store.session(name, of_any_owner=True).session.key).result(SESSION_SECONDS)

"""``scholarbase mcp``, and ``scholarbase session``: what agents are served, and what they did."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click
import orjson

from scholarbase.cli.options import as_of_option, encoder_option, library_option, need_library, open_source
from scholarbase.errors import InvalidRequest, ReplayDiffers, SessionExists
from scholarbase.files import atomic_write, storage_errors
from scholarbase.sessions.session import Session
from scholarbase.sessions.store import SessionStore
from scholarbase.settings import Settings

if TYPE_CHECKING:
    from scholarbase.client import Client

SESSION_SECONDS = 30.0
SHOWN_DIFFERENCES = 20

sessions_option = click.option(
    "--sessions",
    type=click.Path(path_type=Path),
    help="The folder of sessions. [env: SCHOLARBASE_SESSIONS]",
)


@contextmanager
def _store(settings: Settings, folder: Path | None) -> Iterator[SessionStore]:
    where = settings.sessions_folder if folder is None or str(folder) == "none" else folder
    if where is None or str(folder) == "none":
        raise InvalidRequest(
            "The folder of sessions is none: name one by --sessions or SCHOLARBASE_SESSIONS."
        )
    with SessionStore(where) as store:
        yield store


# -- mcp ------------------------------------------------------------------------------------------------


@click.command()
@click.option("--url", help="A ScholarBase server to ask instead of a library. [env: SCHOLARBASE_URL]")
@library_option
@encoder_option
@click.option("--session", "name", help="Record the calls under this name.")
@click.option("--query", help="The question that the session is for.")
@as_of_option
@sessions_option
@click.pass_obj
def mcp(
    settings: Settings,
    url: str | None,
    library: Path | None,
    encoder: str | None,
    name: str | None,
    query: str | None,
    as_of: str | None,
    sessions: Path | None,
) -> None:
    """Serve the tools to an MCP client on standard input and output.

    With --as-of, --query or --session the calls are recorded, and papers after the date do not exist.
    """
    from scholarbase.api.mcp import serve_stdio
    from scholarbase.client import Client
    from scholarbase.tools import Tools

    recorded = name is not None or query is not None or as_of is not None
    named = name or f"mcp-{secrets.token_hex(4)}"
    with open_source(settings, library, url, encoder) as source:
        if isinstance(source, Client):
            if sessions is not None:
                raise InvalidRequest("--sessions is for a library here: the server has its own sessions.")
            if query is not None or as_of is not None:
                _open_there(source, named, query, as_of)
            serve_stdio(Tools(source, session=named if recorded else None), max_bytes=settings.max_body_bytes)
            return
        with _store(settings, sessions) as store:
            session: Session | str | None = named if recorded else None
            if query is not None or as_of is not None:
                session = _opened_here(store, Session(named, query=query, as_of=as_of))
            tools = Tools(source, session=session, store=store if recorded else None)
            serve_stdio(tools, max_bytes=settings.max_body_bytes)


def _opened_here(store: SessionStore, session: Session) -> str:
    """The session's name, once it is open: a client that starts its servers itself starts this one again and again."""
    try:
        store.open(session).result(SESSION_SECONDS)
    except SessionExists:
        there = store.session(session.id).session
        if (there.query, there.as_of) != (session.query, session.as_of):
            raise
    return session.id


def _open_there(client: Client, name: str, query: str | None, as_of: str | None) -> None:
    try:
        client.open_session(name, query=query, as_of=as_of)
    except SessionExists:
        there = client.session_report(name)
        if (there["query"], there["as_of"]) != (query, as_of):
            raise


# -- session --------------------------------------------------------------------------------------------


@click.group()
def session() -> None:
    """Recorded sessions: list, show, judge, run again, export for training."""


@session.command("list")
@sessions_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def list_sessions(settings: Settings, sessions: Path | None, as_json: bool) -> None:
    """List sessions, the last used first."""
    with _store(settings, sessions) as store:
        _, found = store.sessions()
    if as_json:
        rows = [one.to_dict() for one in found]
        click.echo(orjson.dumps(rows, option=orjson.OPT_INDENT_2).decode())
        return
    for one in found:
        about = one.session
        rest = [f"as of {about.as_of}"] if about.as_of else []
        rest += [about.query] if about.query else []
        click.echo("  ".join([about.id, f"{one.calls} calls", one.used, *rest]))


@session.command()
@click.argument("name")
@sessions_option
@click.pass_obj
def show(settings: Settings, name: str, sessions: Path | None) -> None:
    """Print the trajectory of the session NAME, one JSON object a call."""
    with _store(settings, sessions) as store:
        for line in store.lines(name):
            click.echo(line)


@session.command()
@click.argument("name")
@click.option(
    "--answer", "answers", multiple=True, help="A paper that answers the question; may be repeated."
)
@library_option
@sessions_option
@click.pass_obj
def report(
    settings: Settings, name: str, answers: Sequence[str], library: Path | None, sessions: Path | None
) -> None:
    """Print what the session NAME cost, and with --answer what it found."""
    from scholarbase.search.library import Library
    from scholarbase.sessions.report import calls_of, held_answers
    from scholarbase.sessions.report import report as made

    held: dict[str, str | None] | None = None
    if answers:
        with Library.open(need_library(library, settings), encoder="none", settings=settings) as opened:
            held = held_answers(opened, answers)
    with _store(settings, sessions) as store:
        facts = store.session(name)
        content = made(facts.session, calls_of(store.lines(name)), held).to_dict()
    click.echo(orjson.dumps(content, option=orjson.OPT_INDENT_2).decode())


@session.command()
@click.argument("name")
@library_option
@encoder_option
@sessions_option
@click.pass_obj
def replay(
    settings: Settings, name: str, library: Path | None, encoder: str | None, sessions: Path | None
) -> None:
    """Run the session NAME again on a library, and tell where it differs.

    NAME may be a file: a trajectory that a server gave, whose failed calls are then passed over.
    """
    from scholarbase.search.library import Library
    from scholarbase.tools.replay import Difference, differences, read_recorded
    from scholarbase.tools.replay import replay as run

    with Library.open(need_library(library, settings), encoder=encoder, settings=settings) as opened:
        if Path(name).is_file():
            about, lines, passed = read_recorded(Path(name))
        else:
            with _store(settings, sessions) as store:
                about, lines, passed = store.session(name).session, list(store.lines(name)), 0
        found: list[Difference] = []
        snapshots: set[str] = set()
        for one in run(opened, about, lines):
            found.extend(differences([one]))
            snapshots.add(one.recorded.get("snapshot", opened.snapshot_id))
        others = sorted(snapshots - {opened.snapshot_id})
    for difference in found[:SHOWN_DIFFERENCES]:
        click.echo(str(difference))
    said = f"{len(lines)} calls run again on the snapshot {opened.snapshot_id}"
    if others:
        said += f" (recorded on {', '.join(others)})"
    if passed:
        said += f"; {passed} failed ones were passed over"
    if found:
        raise ReplayDiffers(f"{said}: {len(found)} differ.")
    click.echo(f"{said}: none differs.")


@session.command()
@click.argument("names", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Export every session that was told its question.")
@click.option(
    "--window", default=5, show_default=True, help="How many turns before a call stand in its sample."
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="The file; standard output when left out."
)
@library_option
@encoder_option
@sessions_option
@click.pass_obj
def export(
    settings: Settings,
    names: Sequence[str],
    every: bool,
    window: int,
    output: Path | None,
    library: Path | None,
    encoder: str | None,
    sessions: Path | None,
) -> None:
    """Write the sessions NAMES as conversations for training, one JSON object a line.

    What the tools gave is made again on the library, which must be the one that the sessions were recorded on.
    """
    from scholarbase.search.library import Library
    from scholarbase.tools.conversations import conversations

    if bool(names) == every:
        raise InvalidRequest("Which sessions? Give their names, or --all.")
    with (
        Library.open(need_library(library, settings), encoder=encoder, settings=settings) as opened,
        _store(settings, sessions) as store,
        _written(output) as file,
    ):
        chosen = names or [one.session.id for one in store.sessions()[1] if one.session.query is not None]
        for name in chosen:
            about = store.session(name).session
            for sample in conversations(opened, about, store.lines(name), window=window):
                file.write(orjson.dumps(sample, option=orjson.OPT_APPEND_NEWLINE))


@session.command()
@click.argument("name")
@sessions_option
@click.pass_obj
def delete(settings: Settings, name: str, sessions: Path | None) -> None:
    """Delete the session NAME and its calls."""
    with _store(settings, sessions) as store:
        store.session(name)
        store.delete(name).result(SESSION_SECONDS)


@contextmanager
def _written(output: Path | None) -> Iterator[BinaryIO]:
    """A file that has its name once it is whole; standard output where none is named."""
    if output is None:
        yield sys.stdout.buffer
        return
    with storage_errors(output, "give another file"), atomic_write(output) as file:
        yield file

"""Training conversations: ``scholarbase session export``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import click
import orjson

from scholarbase.cli.agents import opened_sessions, sessions_option
from scholarbase.cli.options import encoder_option, library_option, require_library
from scholarbase.errors import InvalidRequest
from scholarbase.files import atomic_write, storage_errors
from scholarbase.settings import Settings


@click.command("export", short_help="Write sessions as training conversations.")
@click.argument("names", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Export every session that has a query.")
@click.option("--window", default=5, show_default=True, help="Turns of context before each call.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="The output file. [default: standard output]"
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
    sessions: str | None,
) -> None:
    """Write the sessions NAMES as training conversations, one JSON object per line.

    Tool results are not recorded: the calls are replayed on the library, which must have the snapshot of the sessions.
    """
    from scholarbase.search.library import Library
    from scholarbase_research.conversations import conversations

    if bool(names) == every:
        raise InvalidRequest("Give either the names of sessions or --all.")
    with (
        Library.open(require_library(library, settings), encoder=encoder, settings=settings) as opened,
        opened_sessions(settings, sessions) as store,
        _output(output) as file,
    ):
        chosen = names or [one.session.key for one in store.sessions()[1] if one.session.query is not None]
        for name in chosen:
            recorded = store.session(name, of_any_owner=True).session
            for sample in conversations(opened, recorded, store.lines(recorded.key), window=window):
                file.write(orjson.dumps(sample, option=orjson.OPT_APPEND_NEWLINE))


@contextmanager
def _output(output: Path | None) -> Iterator[BinaryIO]:
    """Standard output, or a file that replaces ``output`` once it is complete."""
    if output is None:
        yield sys.stdout.buffer
        return
    with storage_errors(output, "choose another file"), atomic_write(output) as file:
        yield file

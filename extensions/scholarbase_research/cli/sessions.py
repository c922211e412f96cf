"""``scholarbase session export``, ``completeness`` and ``replay``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import click
import orjson

from scholarbase.cli.agents import opened_sessions, sessions_option
from scholarbase.cli.options import encoder_option, json_option, library_option, print_json, require_library
from scholarbase.errors import InvalidRequest, ReplayDiffers
from scholarbase.files import atomic_write, storage_errors
from scholarbase.settings import Settings
from scholarbase.terminal import printable

SHOWN_DIFFERENCES = 20


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
        chosen = names or [
            entry.session.key for entry in store.sessions()[1] if entry.session.query is not None
        ]
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


@click.command("completeness", short_help="Estimate how many relevant papers were not seen.")
@click.argument("name")
@click.option("--relevant", multiple=True, help="A paper that was judged relevant; may be repeated.")
@click.option(
    "--known", multiple=True, help="A relevant paper that is known from elsewhere; may be repeated."
)
@library_option
@encoder_option
@sessions_option
@json_option
@click.pass_obj
def completeness(
    settings: Settings,
    name: str,
    relevant: Sequence[str],
    known: Sequence[str],
    library: Path | None,
    encoder: str | None,
    sessions: str | None,
    as_json: bool,
) -> None:
    """Estimate how many relevant papers the session NAME has not seen, from its calls.

    Without --relevant and --known the papers of its last answer are taken as the relevant ones.
    """
    from scholarbase.search.library import Library
    from scholarbase_research.completeness.sessions import session_recall

    with (
        Library.open(require_library(library, settings), encoder=encoder, settings=settings) as opened,
        opened_sessions(settings, sessions) as store,
    ):
        recorded = store.session(name, of_any_owner=True).session
        recall = session_recall(opened, recorded, store.lines(recorded.key), relevant, known)
        if as_json:
            print_json(recall.to_dict())
        else:
            click.echo(recall.observation)


@click.command("replay")
@click.argument("name")
@library_option
@encoder_option
@sessions_option
@click.pass_obj
def replay(
    settings: Settings, name: str, library: Path | None, encoder: str | None, sessions: str | None
) -> None:
    """Replay the session NAME on a library, and report differences.

    NAME may be the file of a trajectory from a server. Failed calls and the agent's answers are not replayed.
    """
    from scholarbase.search.library import Library
    from scholarbase_research.replay.calls import Difference, differences, read_recorded
    from scholarbase_research.replay.calls import replay as run

    with Library.open(require_library(library, settings), encoder=encoder, settings=settings) as opened:
        if Path(name).is_file():
            recorded, lines, skipped = read_recorded(Path(name))
        else:
            with opened_sessions(settings, sessions) as store:
                recorded = store.session(name, of_any_owner=True).session
                lines, skipped = list(store.lines(recorded.key)), 0
        all_differences: list[Difference] = []
        snapshots: set[str] = set()
        ran = 0
        for replayed in run(opened, recorded, lines):
            ran += replayed.ran
            all_differences.extend(differences([replayed]))
            snapshots.add(replayed.recorded.get("snapshot", opened.snapshot_id))
        others = sorted(snapshots - {opened.snapshot_id})
    for difference in all_differences[:SHOWN_DIFFERENCES]:
        click.echo(printable(difference))
    total = len(lines) + skipped
    calls = f"{ran} of {total} calls" if ran < total else f"{total} call{'s' * (total != 1)}"
    summary = f"{calls} replayed on the snapshot {opened.snapshot_id}"
    if others:
        summary += f" (recorded on {', '.join(others)})"
    if all_differences:
        raise ReplayDiffers(f"{summary}. Differences: {len(all_differences)}.")
    click.echo(printable(f"{summary}. No differences."))

"""The run folder: rankings of every query, their answers, and how to repeat the run.

    manifest.json       snapshot, query set, search settings, counts, hashes of the files, command; no times
    run.trec.gz         query_id Q0 paper_id rank score tag: https://github.com/usnistgov/trec_eval
    qrels.trec.gz       query_id 0 paper_id grade
    queries.jsonl.gz    each query with its answers as resolved in the library
    papers.jsonl.gz     title, year and primary category of the first results and of the answers, for reports
    calls.jsonl.gz      an agent's tool calls, only in the run of a trajectory
    seconds.json        seconds of each query: the only file that differs between two identical runs

The gzip files contain no timestamp, so that identical runs have identical files. TREC tools sort a run by its scores,
read as 32-bit floats, and break ties by id. The scores are therefore written strictly decreasing, equal ones lowered
by the smallest step, so that every tool reads the same ranking.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote, unquote

import msgspec
import numpy as np
import orjson

from scholarbase import __version__
from scholarbase.errors import QueryFileError, RunDamaged, RunExists, RunMismatch, RunNotFound
from scholarbase.files import atomic_write, gzip_writer, temporary_files, text_lines, unhidden
from scholarbase.models.calls import Call
from scholarbase_research.evaluation.queries import QuerySet
from scholarbase_research.evaluation.run_data import (
    FORMAT,
    JudgedQuery,
    Kind,
    PaperNote,
    RankedId,
    Run,
    RunManifest,
)

MANIFEST: Final = "manifest.json"
RUN: Final = "run.trec.gz"
QRELS: Final = "qrels.trec.gz"
QUERIES: Final = "queries.jsonl.gz"
PAPERS: Final = "papers.jsonl.gz"
CALLS: Final = "calls.jsonl.gz"
SECONDS: Final = "seconds.json"
LEVEL: Final = 6
"""Compression level of gzip. Level 9 takes 2.4 times as long and makes a run 5% smaller."""
R = TypeVar("R")

HASHED: Final = (RUN, QRELS, QUERIES, PAPERS, CALLS)
FILES: Final = frozenset({MANIFEST, SECONDS, *HASHED})
"""All files of a run folder."""


class _Queries(msgspec.Struct):
    name: str
    sha256: str
    count: int


class _PaperRow(msgspec.Struct):
    id: str
    title: str | None
    year: int | None
    category: str | None = None


def run_manifest(
    about: Mapping[str, Any],
    queries: QuerySet,
    counts: Mapping[str, int],
    kind: Kind,
    name: str,
    command: str,
    search: dict[str, Any],
) -> RunManifest:
    """The manifest of a run before it is written.

    Args:
        about: ``snapshot()`` of the library or its server.
        counts: how many answers were found, and how.
        search: the search settings, or what is known of a run made elsewhere.
    """
    return RunManifest(
        name=name,
        kind=kind,
        snapshot=about["snapshot"],
        papers=about["manifest"]["counts"]["papers"],
        version=__version__,
        queries={
            "name": queries.name,
            "format": queries.format,
            "sha256": queries.sha256,
            "count": len(queries.queries),
            "notes": list(queries.notes),
        },
        search=search,
        answers=dict(counts),
        command=command,
    )


# -- scores ---------------------------------------------------------------------------------------------


def strictly_decreasing(scores: Sequence[float]) -> list[float]:
    """Scores as strictly decreasing 32-bit floats: a score that is not lower than the one before is lowered by the
    smallest step below it.

    Each is returned as the number of its shortest decimal form, so that reading what was written gives the same.
    """
    values = np.asarray(scores, np.float32)
    if not (values[1:] < values[:-1]).all():
        last = np.float32(np.inf)
        for at, score in enumerate(values):
            if not score < last:
                values[at] = np.nextafter(last, np.float32(-np.inf))
            last = values[at]
    return [float(str(score)) for score in values]


# -- writing --------------------------------------------------------------------------------------------


def write_run(folder: Path, run: Run) -> Run:
    """Write a run folder, replacing the run at its path. The manifest is the last file: a folder without one is no run.

    Returns: the run as :func:`read_run` reads it, with the hashes of its files and strictly decreasing scores.

    Raises:
        RunExists: the path is occupied by something other than a run.
        OSError: the folder cannot be written.
    """
    check_place(folder)
    run = replace(run, rankings={query.id: _as_read(run.rankings.get(query.id, ())) for query in run.queries})
    folder.mkdir(parents=True, exist_ok=True)
    for name in (MANIFEST, SECONDS, *HASHED):
        for path in (folder / name, *temporary_files(folder / name)):
            path.unlink(missing_ok=True)
    files = {
        RUN: _trec_run(run),
        QRELS: _trec_qrels(run.queries),
        QUERIES: (orjson.dumps(asdict(query)) for query in run.queries),
        PAPERS: (
            orjson.dumps({"id": paper_id, **asdict(note)}) for paper_id, note in sorted(run.papers.items())
        ),
    }
    if run.manifest.kind == "trajectory":
        files[CALLS] = (orjson.dumps(asdict(call)) for call in run.calls)
    hashes = {name: _write_lines(folder / name, lines) for name, lines in files.items()}
    with atomic_write(folder / SECONDS) as file:
        file.write(orjson.dumps(run.seconds, option=orjson.OPT_SORT_KEYS))
    written = replace(run.manifest, files=hashes).to_bytes()
    with atomic_write(folder / MANIFEST) as file:
        file.write(written)
    # Read back, so that the facts have the order of the file: reports list them in this order.
    return replace(run, manifest=RunManifest(**orjson.loads(written)))


def check_place(folder: Path) -> None:
    """Check that a run can be written to ``folder``.

    Raises:
        RunExists: the path is not a run folder, or the run folder has other files. (A library has a
            ``manifest.json`` too.)
    """
    if not folder.exists():
        return
    names = unhidden(folder) if folder.is_dir() else {""}
    if names <= FILES:
        return
    if MANIFEST in names:
        raise RunExists(
            f"{folder} holds {min(names - FILES)}, which is not part of a run: give another folder, or move it away."
        )
    raise RunExists(f"{folder} exists and is not a run: give another folder, or move it away.")


def _as_read(ranking: Sequence[RankedId]) -> tuple[RankedId, ...]:
    scores = strictly_decreasing([result.score for result in ranking])
    return tuple(RankedId(result.id, score) for result, score in zip(ranking, scores, strict=True))


def _write_lines(path: Path, lines: Iterable[bytes]) -> str:
    """Write a gzip file without timestamp or name. Returns its SHA-256."""
    with atomic_write(path) as file, gzip_writer(file, LEVEL) as packed:
        packed.writelines(b"\n".join([*chunk, b""]) for chunk in _chunks(lines))
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _chunks(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    coming = iter(lines)
    while chunk := list(islice(coming, 1000)):
        yield chunk


def _trec_run(run: Run) -> Iterator[bytes]:
    tag = token(run.name)
    for query in run.queries:
        begin = f"{token(query.id)} Q0"
        for rank, (paper_id, score) in enumerate(run.rankings[query.id], 1):
            yield f"{begin} {token(paper_id)} {rank} {score!r} {tag}".encode()


def _trec_qrels(queries: Iterable[JudgedQuery]) -> Iterator[bytes]:
    for query in queries:
        for answer in query.answers:
            yield f"{token(query.id)} 0 {token(answer.paper_id)} {answer.grade}".encode()


_TOKEN: Final = "".join(chr(c) for c in range(33, 127) if chr(c) != "%")


@lru_cache(maxsize=65_536)
def token(text: str) -> str:
    """A text as one field of a TREC file: white space, ``%`` and non-ASCII characters become percent escapes."""
    return quote(text, safe=_TOKEN)


# -- reading --------------------------------------------------------------------------------------------


def read_run(folder: Path) -> Run:
    """Read a run folder and check every file against its hash in the manifest.

    Raises:
        RunNotFound: the folder is not a run.
        RunDamaged: a file is missing, changed or unreadable.
    """
    manifest = read_manifest(folder)
    for name, sha256 in manifest.files.items():
        path = folder / name
        if name not in HASHED or not path.is_file():
            raise RunDamaged(
                f"The file {name} of the run at {folder} is missing: make the run again ({manifest.command})."
            )
        if hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
            raise RunDamaged(
                f"{path} does not match its hash in the run's manifest: make the run again ({manifest.command})."
            )
    try:
        queries = tuple(_rows(folder / QUERIES, JudgedQuery))
        papers = {
            row.id: PaperNote(row.title, row.year, row.category) for row in _rows(folder / PAPERS, _PaperRow)
        }
        calls = tuple(_rows(folder / CALLS, Call)) if CALLS in manifest.files else ()
        ranked: dict[str, list[RankedId]] = {query.id: [] for query in queries}
        for _, line in text_lines(folder / RUN):
            query_id, _, paper_id, _, score, _ = line.split(" ")
            ranked[unquote(query_id)].append(RankedId(unquote(paper_id), float(score)))
        seconds = (
            msgspec.convert(orjson.loads((folder / SECONDS).read_bytes()), dict[str, float])
            if (folder / SECONDS).is_file()
            else {}
        )
    except (KeyError, ValueError, OSError, msgspec.ValidationError, RecursionError, QueryFileError) as error:
        raise RunDamaged(f"The run at {folder} cannot be read ({error}): make the run again.") from error
    rankings = {query_id: tuple(ranking) for query_id, ranking in ranked.items()}
    return Run(manifest, queries, rankings, papers, seconds, calls)


def read_manifest(folder: Path) -> RunManifest:
    """Read the manifest of a run folder.

    Raises:
        RunNotFound: the folder is not a run.
        RunDamaged: the manifest cannot be read, or has another format.
    """
    path = folder / MANIFEST
    if not path.is_file():
        below = sorted(run_file.parent.name for run_file in folder.glob(f"*/{RUN}"))
        if below:
            raise RunNotFound(
                f"No run at {folder}, but below it: give {folder / below[0]}, one of {', '.join(below)}."
            )
        raise RunNotFound(f'No run at {folder}: make one with "scholarbase eval run".')
    try:
        manifest = msgspec.convert(orjson.loads(path.read_bytes()), RunManifest)
        msgspec.convert(manifest.queries, _Queries)
    except (ValueError, msgspec.ValidationError, RecursionError) as error:
        raise RunDamaged(f"{path} is not the manifest of a run ({error}): make the run again.") from error
    if manifest.format != FORMAT:
        raise RunDamaged(
            f"The run at {folder} has format {manifest.format}, and this version of ScholarBase reads format {FORMAT}: "
            f"read it with version {manifest.version}, or make the run again."
        )
    return manifest


def check_comparable(a: Run, b: Run, *, across_snapshots: bool = False) -> None:
    """Raises RunMismatch: the query sets differ, or the snapshots differ and ``across_snapshots`` is off."""
    ours, theirs = a.manifest.queries, b.manifest.queries
    # Other versions may have skipped other broken lines of the same file.
    if ours["sha256"] != theirs["sha256"] or [q.id for q in a.queries] != [q.id for q in b.queries]:
        raise RunMismatch(
            f"The run {a.name!r} is of the query set {ours['name']!r} ({ours['sha256'][:12]}) and {b.name!r} of "
            f"{theirs['name']!r} ({theirs['sha256'][:12]}): compare runs of the same queries."
        )
    if a.manifest.snapshot != b.manifest.snapshot and not across_snapshots:
        raise RunMismatch(
            f"The run {a.name!r} was made on snapshot {a.manifest.snapshot} and {b.name!r} on {b.manifest.snapshot}: "
            "run one of them again on the other's library, or compare them anyway with --across-snapshots."
        )


def _rows(path: Path, kind: type[R]) -> Iterator[R]:
    """The rows of a file, which may be from anyone. Raises as :func:`.text_lines`, ValueError and ValidationError."""
    for _, line in text_lines(path):
        yield msgspec.convert(orjson.loads(line), kind)

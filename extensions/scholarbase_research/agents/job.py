"""Runs an agent on the questions of a query set; resumable, several questions at once.

agent.jsonl        one line for each finished question: the job's checkpoint
trajectory.jsonl   the calls of all questions, for ``scholarbase eval trajectory``
manifest.json      policy, snapshot, query set, counts
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import msgspec
import orjson

from scholarbase.errors import RunDamaged, RunExists
from scholarbase.files import atomic_write, locked_folder, storage_errors
from scholarbase.models.checks import check_whole, date_bounds
from scholarbase.models.source import Source
from scholarbase.progress import Reporter, SilentReporter
from scholarbase.tools.calling import Tools
from scholarbase_research.agents.base import Policy, Trace
from scholarbase_research.evaluation.queries import Query, QuerySet
from scholarbase_research.evaluation.requests import QUERY_DATE, last_date
from scholarbase_research.jobs import check_outputs, in_threads
from scholarbase_research.llm.base import Price

log = logging.getLogger("scholarbase_research.agents")

CHECKPOINT: Final = "agent.jsonl"
TRAJECTORY: Final = "trajectory.jsonl"
MANIFEST: Final = "manifest.json"
OUTPUTS: Final = (MANIFEST, TRAJECTORY)
MAX_CONCURRENCY: Final = 256


def run_agent(
    source: Source,
    tools: Tools,
    queries: QuerySet,
    policy: Policy,
    folder: Path,
    *,
    to: str | None = None,
    concurrency: int = 4,
    price: Price | None = None,
    restart: bool = False,
    reporter: Reporter | None = None,
) -> dict[str, Any]:
    """Run an agent on every question, and write its folder. Returns the manifest.

    Args:
        tools: the tools on ``source``.
        to: the latest date of papers, or ``query`` for each question's own.
        concurrency: questions at once.
        price: that of the policy's model.
        restart: discard finished questions.

    Raises:
        QueryFileError: a question lacks the date that ``to`` requires.
        RunExists: the folder has the calls of another agent, library or query set, or files of the same names, or
            another process writes to it.
        ScholarBaseError: the model, the library or the storage fails. Finished questions are kept.
    """
    check_whole(concurrency, "concurrency", 1, MAX_CONCURRENCY)
    if to is not None and to != QUERY_DATE:
        date_bounds(to, "to")
    latest = {query.id: last_date(query) if to == QUERY_DATE else to for query in queries.queries}
    snapshot = source.snapshot()["snapshot"]
    identity = {**policy.identity, "queries": queries.sha256, "snapshot": snapshot, "to": to}
    with locked_folder(
        folder, RunExists(f"Another process runs an agent in {folder}: wait for it, or stop it.")
    ):
        check_outputs(folder, CHECKPOINT, OUTPUTS, RunExists)
        done = _opened(folder / CHECKPOINT, identity, {query.id for query in queries.queries}, restart)
        left = [query for query in queries.queries if query.id not in done]
        if done:
            log.info("%d of %d questions are done already.", len(done), len(queries.queries))

        def answer(query: Query) -> dict[str, Any]:
            trace = Trace(query, snapshot)
            policy.run(tools, trace, latest[query.id])
            return {
                "query_id": query.id,
                "stop": trace.stop,
                "usage": msgspec.to_builtins(trace.usage),
                "response_tokens": trace.response_tokens,
                "lines": trace.lines,
            }

        stage = (reporter or SilentReporter()).stage("agent", "questions", len(queries.queries), len(done))
        with stage as tracker:
            for record in in_threads(answer, left, concurrency, len(done), len(queries.queries)):
                _append(folder / CHECKPOINT, record)
                done[record["query_id"]] = record
                tracker.advance(1)
                tracker.at(len(done))
        records = [done[query.id] for query in queries.queries]
        with storage_errors(folder):
            return _write(folder, records, identity, queries, price)


def _opened(
    path: Path, identity: dict[str, Any], known: set[str], restart: bool
) -> dict[str, dict[str, Any]]:
    """The finished questions of the checkpoint. Its first line is the identity."""
    head = orjson.dumps(identity, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_SORT_KEYS)
    done: dict[str, dict[str, Any]] = {}
    content = path.read_bytes() if path.exists() else b""
    whole = content[: content.rfind(b"\n") + 1]
    first, _, rest = whole.partition(b"\n")
    if content and not _is_identity(first):
        raise RunExists(f"{path} is not the file of an agent's run: use another --out, or move the file.")
    if not content or restart:
        with storage_errors(path):
            for name in OUTPUTS:
                path.with_name(name).unlink(missing_ok=True)
        with storage_errors(path), atomic_write(path) as file:
            file.write(head)
        return done
    if first + b"\n" != head:
        raise RunExists(
            f"{path} has the calls of another agent, library or query set: use another --out, or start again with "
            "--restart."
        )
    for number, line in enumerate(rest.splitlines(), 2):
        try:
            record = orjson.loads(line)
            if record["query_id"] not in known:
                raise ValueError(f"the question {record['query_id']!r} is unknown")
            done[record["query_id"]] = record
        except (ValueError, KeyError, TypeError) as error:
            raise RunDamaged(
                f"{path}, line {number} cannot be read ({error}): start again with --restart."
            ) from error
    if len(whole) < len(content):
        with storage_errors(path):
            os.truncate(path, len(whole))
    return done


def _is_identity(line: bytes) -> bool:
    try:
        return bool({"queries", "snapshot", "to"} <= orjson.loads(line).keys())
    except (ValueError, AttributeError):
        return False


def _append(path: Path, record: dict[str, Any]) -> None:
    line = orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)
    with storage_errors(path), path.open("ab", buffering=0) as file:
        size = file.tell()
        try:
            while line:
                line = line[file.write(line) :]
        except OSError:
            file.truncate(size)
            raise


def _write(
    folder: Path,
    records: Sequence[dict[str, Any]],
    identity: dict[str, Any],
    queries: QuerySet,
    price: Price | None,
) -> dict[str, Any]:
    with atomic_write(folder / TRAJECTORY) as file:
        for line in (line for record in records for line in record["lines"]):
            file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
    totals = {
        key: sum(record["usage"].get(key, 0) for record in records)
        for key in ("replies", "input_tokens", "output_tokens", "uncounted")
    }
    calls = [sum(line["tool"] != "answer" for line in record["lines"]) for record in records]
    manifest = {
        "identity": identity,
        "queries": {"name": queries.name, "count": len(records)},
        "stops": dict(sorted(Counter(record["stop"] for record in records).items())),
        "calls": sum(calls),
        "calls_mean": round(fmean(calls), 4),
        "response_tokens_mean": round(fmean(record["response_tokens"] for record in records), 4),
        "failed_calls": sum("error" in line for record in records for line in record["lines"]),
        "usage": totals,
        "tokens_mean": round((totals["input_tokens"] + totals["output_tokens"]) / len(records), 4),
        "cost": None
        if price is None
        else round((totals["input_tokens"] * price.input + totals["output_tokens"] * price.output) / 1e6, 6),
    }
    with atomic_write(folder / MANIFEST) as file:
        file.write(orjson.dumps(manifest, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    return manifest

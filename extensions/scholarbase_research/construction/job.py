"""Constructs the answer sets of a query set: several questions at once, resumable at any instant."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final

from scholarbase.errors import ConstructionError, QueryFileError
from scholarbase.files import locked_folder, storage_errors
from scholarbase.models.checks import check_whole
from scholarbase.models.source import Source
from scholarbase.progress import Reporter, SilentReporter
from scholarbase_research.construction.outputs import OUTPUTS, write_outputs
from scholarbase_research.construction.process import Cancelled, Parts, Setup, construct
from scholarbase_research.construction.store import Store
from scholarbase_research.evaluation.answers import resolve_answers
from scholarbase_research.evaluation.queries import QuerySet
from scholarbase_research.evaluation.requests import QUERY_DATE, last_date
from scholarbase_research.jobs import check_outputs, in_threads
from scholarbase_research.llm.base import Price

log = logging.getLogger("scholarbase_research.construction")

DATABASE: Final = "construction.sqlite"
MAX_CONCURRENCY: Final = 256


def known_answers(source: Source, queries: QuerySet) -> dict[str, frozenset[str]]:
    """The answers in the query file that the library holds, by question; empty if the file has none."""
    if not any(query.answers for query in queries.queries):
        return {}
    try:
        judged = resolve_answers(source, queries)
    except QueryFileError as error:
        log.warning("%s Recall is computed over the answers that this run finds.", error)
        return {}
    known = {
        query.id: frozenset(answer.paper_id for answer in query.relevant if answer.held)
        for query in judged.queries
    }
    return {query: papers for query, papers in known.items() if papers}


def construct_answers(
    source: Source,
    queries: QuerySet,
    folder: Path,
    setup: Setup,
    *,
    known: Mapping[str, frozenset[str]] | None = None,
    concurrency: int = 4,
    judge_concurrency: int = 8,
    restart: bool = False,
    reporter: Reporter | None = None,
) -> dict[str, Any]:
    """Construct the answer set of every question, and write the files of the result to ``folder``.

    A question that is done is not repeated, and one that was interrupted continues from its stored rows.

    Args:
        known: answers that are known before, by question; they are used to measure recall, never to judge.
        concurrency: questions at once.
        judge_concurrency: papers that are judged at once, over all questions.
        restart: discard what the folder has.

    Returns: the report.

    Raises:
        QueryFileError: there are no questions, or one lacks the date that limits its papers.
        ConstructionError: the folder has another construction or files of the same names, or another process writes
            to it.
        ScholarBaseError: a source, a judge or the storage fails. What is done is kept, and the same call continues.
    """
    check_whole(concurrency, "concurrency", 1, MAX_CONCURRENCY)
    check_whole(judge_concurrency, "judge_concurrency", 1, MAX_CONCURRENCY)
    if not queries.queries:
        raise QueryFileError(f"The query set {queries.name} has no questions.")
    if setup.limits.to == QUERY_DATE:
        for query in queries.queries:
            last_date(query)
    snapshot = source.snapshot()["snapshot"]
    identity = {"queries": queries.sha256, "snapshot": snapshot, **setup.identity}
    known = known or {}
    with locked_folder(
        folder,
        ConstructionError(f"Another process is constructing answers in {folder}: wait for it, or stop it."),
    ):
        check_outputs(folder, DATABASE, OUTPUTS, ConstructionError)
        if restart:
            with storage_errors(folder):
                # The database last: it shows that the other files are of an earlier run.
                for name in (*OUTPUTS, *(f"{DATABASE}{end}" for end in ("-wal", "-shm", "-journal", ""))):
                    (folder / name).unlink(missing_ok=True)
        with closing(Store(folder / DATABASE, identity)) as store:
            store.add_questions(
                [(query.id, number, query.text, query.date) for number, query in enumerate(queries.queries)],
                [(query, paper) for query, papers in sorted(known.items()) for paper in sorted(papers)],
            )
            _run(source, queries, store, setup, concurrency, judge_concurrency, reporter or SilentReporter())
            if source.snapshot()["snapshot"] != snapshot:
                raise ConstructionError(
                    "The library changed during the construction: start again with --restart, or serve the snapshot "
                    f"{snapshot} again."
                )
            with storage_errors(folder):
                return write_outputs(folder, store, queries, identity, setup.prices)


def _run(
    source: Source,
    queries: QuerySet,
    store: Store,
    setup: Setup,
    concurrency: int,
    judge_concurrency: int,
    reporter: Reporter,
) -> None:
    done = store.done()
    left = [query for query in queries.queries if query.id not in done]
    if done:
        log.info("%d of %d questions are done already.", len(done), len(queries.queries))
    ended = threading.Event()

    def check() -> None:
        if ended.is_set():
            raise Cancelled

    with (
        ThreadPoolExecutor(judge_concurrency, "judge") as judges,
        reporter.stage("construct", "questions", len(queries.queries), len(done)) as tracker,
    ):
        parts = Parts(source, setup, store, judges, check)

        for number, answered in enumerate(
            in_threads(
                partial(construct, parts),
                left,
                concurrency,
                len(done),
                len(queries.queries),
                kept="done, and all verdicts are kept",
                ended=ended,
            ),
            len(done) + 1,
        ):
            tracker.advance(1)
            tracker.at(number)
            log.info(
                "%d papers judged, %d answers (%s)%s",
                *(answered.judged, answered.answers, answered.stop, cost_text(store, setup.prices)),
            )


def cost_text(store: Store, prices: Mapping[str, Price]) -> str:
    """The tokens used so far, and their cost where prices are known."""
    used = store.usage()
    if not used:
        return ""
    tokens = sum(usage.input_tokens + usage.output_tokens for usage in used.values())
    text = f"; so far {sum(usage.replies for usage in used.values()):,} replies, {tokens:,} tokens"
    if prices:
        total = sum(prices[name].cost(usage) for name, usage in used.items() if name in prices)
        text += f", cost {total:,.4f}"
    return text

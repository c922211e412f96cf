"""Searching for every query of a set, many at a time, into a run folder.

A run that was stopped, whatever stopped it, goes on where it was when it is started again: ``partial`` keeps what
is done. What a run holds depends on the library, the queries and the settings alone, never on the concurrency, on
which queries were asked together, or on whether the library is here or behind a server.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Final, NamedTuple

from scholarbase.errors import (
    EvaluationError,
    InvalidRequest,
    PaperNotFound,
    QueryFileError,
    RunDamaged,
    RunExists,
    ScholarBaseError,
)
from scholarbase.evaluation.asking import (
    Asked,
    SearchSettings,
    check_modes,
    default_name,
    manifest_of,
    searches,
)
from scholarbase.evaluation.making import noted, paper_notes
from scholarbase.evaluation.partial import Found, Partial
from scholarbase.evaluation.runs import MANIFEST, check_place, read_manifest, read_run, write_run
from scholarbase.files import storage_errors
from scholarbase.models import MAX_LIMIT, SearchRequest, SearchResponse
from scholarbase.models.queries import QuerySet
from scholarbase.models.runs import JudgedQuery, PaperNote, RankedId, Run, RunManifest
from scholarbase.models.source import Source
from scholarbase.progress import Reporter, SilentReporter, Tracker
from scholarbase.search.library import Library

__all__ = ["SearchSettings", "check_modes", "default_name", "run_searches"]

log = logging.getLogger("scholarbase.evaluation")


class Load(NamedTuple):
    """How many threads ask, and how many queries each of them asks for in one call."""

    concurrency: int
    batch: int


IN_PROCESS: Final = Load(1, 1)
"""In the process a search holds the interpreter's lock, or a model that already takes every core: further threads
only get in each other's way (50,000 papers, two cores: 80 dense queries/s with one thread, 60 with two)."""
LAST_ANSWERS: Final = 2.0
"""Seconds that the searches which are under way when a run is stopped have to end."""
OVER_HTTP: Final = Load(4, 8)
"""Over HTTP a call's own cost is shared and the server kept busy, and a batch still ends soon on a slow server
(the same library, two cores: 377 sparse queries/s one by one, 463 with four threads, 635 in batches of 8, and
711 with both). A server with several workers needs the threads."""


def run_searches(
    source: Source,
    queries: QuerySet,
    judged: Sequence[JudgedQuery],
    counts: Mapping[str, int],
    settings: SearchSettings,
    folder: Path,
    *,
    name: str,
    command: str,
    concurrency: int | None = None,
    restart: bool = False,
    reporter: Reporter | None = None,
) -> Run:
    """Search for every query and write the run folder.

    What an unfinished run of the same identity has done is not done again, and a finished one is returned as it is.

    Args:
        judged: the queries with their answers resolved in the library of ``source``, in their order.
        counts: what the manifest says of the answers.
        folder: the run's own; made, or replaced where ``restart`` is on.
        name: the run's, which is also the tag of its TREC file.
        command: makes the run again.
        concurrency: threads that search; None is what is fastest for the kind of source.
        restart: throw away what is done, and replace another run.

    Raises:
        QueryFileError: a query lacks the date or the pool that the settings ask for.
        InvalidRequest: a query cannot be searched for; the sentence says which.
        RunExists: another run, or something that is none, is in the way.
        RunDamaged: the run in the folder is not what its manifest says.
        EvaluationError: another process makes this run, or the library changed under it.
        StorageError: the folder cannot be written.
        EncoderError, VectorIndexError, LibraryCorrupt, ClientError: a search failed; what is done is kept.
    """
    _check_arguments(queries, judged, concurrency)
    manifest = manifest_of(source, queries, judged, counts, settings, name, command)
    asked = searches(judged, manifest, settings)
    with Partial(folder) as partial:
        # A run that was begun to replace another goes on to do so.
        replacing = restart or partial.holds(manifest, judged, replacing=True)
        finished = None if replacing else _finished(folder, manifest, judged)
        if finished is not None:
            if partial.holds(manifest, judged):
                partial.clear()
            log.info("The run at %s is finished: nothing to search for.", folder)
            return finished
        check_place(folder)
        partial.open(manifest, judged, restart=restart)
        load = IN_PROCESS if isinstance(source, Library) else OVER_HTTP
        load = load if concurrency is None else load._replace(concurrency=concurrency)
        try:
            _search(source, asked, manifest, partial, load, reporter or SilentReporter())
        except ScholarBaseError as error:
            raise type(error)(f"{error} {_kept(partial, asked, restart)}") from error
        except KeyboardInterrupt:
            log.warning("Stopped: %s", _kept(partial, asked, restart))
            raise
        found = [partial.done[query.id] for query in judged]
        rankings = {query_id: ranking for query_id, ranking, _ in found}
        notes = _notes(source, manifest, judged, rankings)
        seconds = {query_id: taken for query_id, _, taken in found}
        run = Run(manifest, tuple(judged), rankings, notes, seconds)
        with storage_errors(folder):
            run = write_run(folder, run)
        partial.clear()
    return run


# -- what is asked ----------------------------------------------------------------------------------------


def _check_arguments(queries: QuerySet, judged: Sequence[JudgedQuery], concurrency: int | None) -> None:
    if concurrency is not None and (isinstance(concurrency, bool) or concurrency < 1):
        raise InvalidRequest(f"concurrency is {concurrency!r}: it must be a whole number of 1 or more.")
    if not judged:
        raise QueryFileError(f"The query set {queries.name} has no queries: there is nothing to search for.")
    if [query.id for query in judged] != [query.id for query in queries.queries]:
        raise InvalidRequest(
            f"The judged queries are not those of the query set {queries.name}: resolve its own answers."
        )


# -- a run that stands there already ----------------------------------------------------------------------


def _finished(folder: Path, manifest: RunManifest, judged: Sequence[JudgedQuery]) -> Run | None:
    """The finished run of this identity, None where the folder holds none.

    Raises:
        RunExists: there is another run, or something that is none.
        RunDamaged: it is not what its manifest says.
    """
    if not (folder / MANIFEST).is_file():
        check_place(folder)
        return None
    try:
        stored = read_manifest(folder)
        if stored.identity == manifest.identity:
            run = read_run(folder)
            if run.queries == tuple(judged):
                return run if run.name == manifest.name else _renamed(folder, run, manifest)
    except RunDamaged as error:
        check_place(folder)
        raise RunDamaged(f"{error} Give --restart to replace it.") from error
    raise RunExists(
        f"At {folder} stands the run of other settings, queries or another snapshot ({stored.command}): "
        "give another name or folder, or replace it with --restart."
    )


def _renamed(folder: Path, run: Run, manifest: RunManifest) -> Run:
    with storage_errors(folder):
        return write_run(folder, replace(run, manifest=manifest))


# -- searching --------------------------------------------------------------------------------------------


def _search(
    source: Source,
    asked: Sequence[Asked],
    manifest: RunManifest,
    partial: Partial,
    load: Load,
    reporter: Reporter,
) -> None:
    """Ask for what is not done, and keep every answer as it comes."""
    left = [each for each in asked if each.query_id not in partial.done]
    if len(left) < len(asked):
        log.info("%s: %d of %d queries are done already.", manifest.name, len(asked) - len(left), len(asked))
    batches = [left[at : at + load.batch] for at in range(0, len(left), load.batch)]
    ask = _asking(source, manifest, partial.shared)
    with reporter.stage(f"search {manifest.name}", "queries", len(asked), len(partial.done)) as tracker:
        _keep_all(ask, batches, partial, load.concurrency, tracker)


def _kept(partial: Partial, asked: Sequence[Asked], restart: bool) -> str:
    return (
        f"{len(partial.done)} of {len(asked)} queries are done and kept: the same command"
        f"{' without --restart' if restart else ''} goes on from there."
    )


def _keep_all(
    ask: Callable[[Sequence[Asked]], list[Found]],
    batches: Sequence[Sequence[Asked]],
    partial: Partial,
    concurrency: int,
    tracker: Tracker,
) -> None:
    def keep(found: list[Found]) -> None:
        partial.append(found)
        tracker.advance(len(found))
        tracker.at(len(partial.done))

    if concurrency == 1:
        # In the caller's own thread, since a model in the process keeps its threads for each thread that calls it.
        for batch in batches:
            keep(ask(batch))
        return
    coming = SimpleQueue[Sequence[Asked]]()
    for batch in batches:
        coming.put(batch)
    answers = SimpleQueue[list[Found] | Exception | None]()
    stopped = Event()

    def work() -> None:
        try:
            while not stopped.is_set():
                try:
                    batch = coming.get_nowait()
                except Empty:
                    break
                answers.put(ask(batch))
        except Exception as error:
            stopped.set()
            answers.put(error)
        finally:
            answers.put(None)

    # Daemons, so that Ctrl-C ends the process also while a server keeps us waiting for its answer.
    threads = [Thread(target=work, name="search", daemon=True) for _ in range(min(concurrency, len(batches)))]
    for thread in threads:
        thread.start()
    failed: Exception | None = None
    working = len(threads)
    try:
        while working:
            answer = answers.get()
            try:
                if answer is None:
                    working -= 1
                elif isinstance(answer, Exception):
                    raise answer
                else:
                    keep(answer)
            except Exception as error:
                failed = failed or error
                # What has not begun is not begun any more; what has is waited for, and kept.
                stopped.set()
    finally:
        stopped.set()
        until = time.monotonic() + LAST_ANSWERS
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
    if failed is not None:
        raise failed


def _asking(
    source: Source, manifest: RunManifest, shared: Callable[[str], str]
) -> Callable[[Sequence[Asked]], list[Found]]:
    """A function that searches for a few queries. The seconds of one call are shared out among its queries."""
    assert manifest.search is not None
    limit: int = manifest.search["limit"]

    def ask(batch: Sequence[Asked]) -> list[Found]:
        began = time.perf_counter()
        requests = [each.request for each in batch if each.request is not None]
        answers = iter(_answers(source, batch) if len(batch) > 1 else map(source.run, requests))
        rankings: list[tuple[RankedId, ...]] = []
        for query_id, request in batch:
            if request is None:
                rankings.append(())
                continue
            try:
                scores = _ranking(source, request, next(answers), limit, manifest)
            except (InvalidRequest, PaperNotFound) as error:
                raise type(error)(f"Query {query_id!r} cannot be searched for: {error}") from error
            rankings.append(tuple(RankedId(shared(i), score) for i, score in scores.items()))
        seconds = (time.perf_counter() - began) / len(batch)
        return [Found(each.query_id, ranking, seconds) for each, ranking in zip(batch, rankings, strict=True)]

    return ask


def _answers(source: Source, batch: Sequence[Asked]) -> Iterator[SearchResponse]:
    requests = [each.request for each in batch if each.request is not None]
    try:
        yield from source.search_batch(requests)
    except (InvalidRequest, PaperNotFound):
        # One by one, so that the error comes where the query's id is known.
        for request in requests:
            yield source.run(request)


def _ranking(
    source: Source, request: SearchRequest, answer: SearchResponse, limit: int, manifest: RunManifest
) -> dict[str, float]:
    """The ids and scores of a query's results, best first, over as many pages as the limit takes. Each paper comes
    once: where vectors are searched approximately, two pages may share one."""
    scores: dict[str, float] = {}
    while True:
        _check_unchanged(answer.snapshot, manifest)
        for hit in answer.results:
            scores.setdefault(hit.paper.id, hit.score)
        if len(scores) >= limit or answer.next_offset is None:
            return scores
        size = min(MAX_LIMIT, limit - len(scores))
        answer = source.run(request.model_copy(update={"offset": answer.next_offset, "limit": size}))


def _check_unchanged(snapshot: str, manifest: RunManifest) -> None:
    if snapshot != manifest.snapshot:
        raise EvaluationError(
            f"The library changed under the run: it began on snapshot {manifest.snapshot}, and the answers now come "
            f"from {snapshot}. Serve the first again, or begin again with --restart."
        )


# -- what a report says of papers -------------------------------------------------------------------------


def _notes(
    source: Source,
    manifest: RunManifest,
    judged: Sequence[JudgedQuery],
    rankings: Mapping[str, tuple[RankedId, ...]],
) -> dict[str, PaperNote]:
    """Title and year of each query's first results and of the answers that the library holds."""
    ids = noted(judged, rankings)
    notes = paper_notes(source, ids)
    _check_unchanged(source.snapshot()["snapshot"], manifest)
    if missing := ids - notes.keys():
        raise EvaluationError(
            f"The library does not hold {min(missing)}, which a search found or an answer names: resolve the answers "
            "in the library that is searched."
        )
    return notes

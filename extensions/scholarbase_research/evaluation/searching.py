"""Search for every query of a set and write a run folder.

A run that was interrupted or killed resumes from its checkpoint. Its content depends only on the library, the queries
and the settings, not on the concurrency, the batches, or whether the library is opened here or behind a server.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from multiprocessing.pool import ThreadPool
from pathlib import Path
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
from scholarbase.files import storage_errors
from scholarbase.models.checks import check_whole
from scholarbase.models.document_requests import PaperPassagesBody, PassageSearch
from scholarbase.models.document_responses import PassageHit, PassagesResponse
from scholarbase.models.requests import SearchRequest
from scholarbase.models.responses import Hit, SearchResponse
from scholarbase.models.source import Source
from scholarbase.progress import Reporter, SilentReporter, Tracker
from scholarbase.search.library import Library
from scholarbase_research.evaluation.checkpoints import Checkpoint, QueryResult
from scholarbase_research.evaluation.evidence import Span
from scholarbase_research.evaluation.papers import paper_notes
from scholarbase_research.evaluation.queries import QuerySet
from scholarbase_research.evaluation.requests import (
    PassageSettings,
    QueryRequest,
    SearchSettings,
    default_name,
    naming,
)
from scholarbase_research.evaluation.run_data import JudgedQuery, RankedId, Run, RunManifest
from scholarbase_research.evaluation.runs import (
    MANIFEST,
    check_place,
    read_manifest,
    read_run,
    run_manifest,
    write_run,
)

__all__ = ["PassageSettings", "SearchSettings", "default_name", "run_searches"]

log = logging.getLogger("scholarbase_research.evaluation")

Request = SearchRequest | PassageSearch | PaperPassagesBody
Response = SearchResponse | PassagesResponse


class Load(NamedTuple):
    """The number of threads, and the searches of one request."""

    concurrency: int
    batch: int


IN_PROCESS: Final = Load(1, 1)
"""In the process a search holds the interpreter's lock, or runs a model on all cores: more threads are slower (50,000
papers, two cores: 80 dense queries/s with one thread, 60 with two)."""
OVER_HTTP: Final = Load(4, 8)
"""Batches share the cost of a request, threads keep the server busy (the same library, two cores: 377 sparse queries/s
one by one, 463 with four threads, 635 in batches of 8, 711 with both). A server with several workers needs the
threads."""


def run_searches(
    source: Source,
    queries: QuerySet,
    judged: Sequence[JudgedQuery],
    counts: Mapping[str, int],
    settings: SearchSettings | PassageSettings,
    folder: Path,
    *,
    name: str,
    command: str,
    concurrency: int | None = None,
    restart: bool = False,
    reporter: Reporter | None = None,
) -> Run:
    """Search for every query and write the run folder.

    Finished queries of an interrupted run of the same identity are not searched again; a finished run is returned
    unchanged.

    Args:
        judged: the queries, in order, with their answers resolved in the library of ``source``.
        settings: :class:`PassageSettings` for queries whose answers are passages.
        counts: counts of the answers, for the manifest.
        folder: the run's folder; made, or replaced if ``restart`` is on.
        name: the run's name, which is also the tag of its TREC file.
        command: the command that makes the run.
        concurrency: number of threads; None is the fastest for this kind of source.
        restart: remove the run in the folder and its finished queries first.

    Raises:
        QueryFileError: a query lacks the date or the pool that the settings require.
        InvalidRequest: the request of a query is invalid; the message names the query.
        RunExists: the folder has another run, or is not a run.
        RunDamaged: the run in the folder does not match its manifest.
        EvaluationError: another process makes this run, or the library changed during the run.
        StorageError: the folder cannot be written.
        EncoderError, VectorIndexError, LibraryCorrupt, ClientError: a search failed; finished queries are kept.
    """
    folder = Path(folder)
    if concurrency is not None:
        check_whole(concurrency, "concurrency", 1)
    if not judged:
        raise QueryFileError(f"The query set {queries.name} has no queries: there is nothing to search for.")
    if [query.id for query in judged] != [query.id for query in queries.queries]:
        raise InvalidRequest(
            f"The judged queries are not those of the query set {queries.name}: resolve its own answers."
        )
    used, about = settings.used(source), source.snapshot()
    facts = settings.facts(used, about)
    manifest = run_manifest(about, queries, counts, settings.kind, name, command, facts)
    requests = settings.requests(judged, used.mode)
    with Checkpoint(folder) as checkpoint:
        if restart:
            check_place(folder)
            checkpoint.clear()
            (folder / MANIFEST).unlink(missing_ok=True)
        finished = _finished(folder, manifest, judged)
        if finished is not None:
            log.info("The run at %s is finished: nothing to search for.", folder)
            return finished
        checkpoint.open(manifest, judged)
        if isinstance(source, Library):
            source.forget_queries()  # of an earlier run: this run's times would be too short
        try:
            _search(source, requests, manifest, checkpoint, concurrency, reporter or SilentReporter())
        except ScholarBaseError as error:
            raise type(error)(f"{error} {_resume_hint(checkpoint, requests, restart)}") from error
        except KeyboardInterrupt:
            log.warning("Interrupted: %s", _resume_hint(checkpoint, requests, restart))
            raise
        results = [checkpoint.done[query.id] for query in judged]
        rankings = {result.query_id: result.ranking for result in results}
        seconds = {result.query_id: result.seconds for result in results}
        notes = paper_notes(source, judged, rankings, passages=manifest.kind == "passages")
        _check_unchanged(source.snapshot()["snapshot"], manifest)
        run = Run(manifest, tuple(judged), rankings, notes, seconds)
        with storage_errors(folder):
            run = write_run(folder, run)
        checkpoint.clear()
    return run


def _finished(folder: Path, manifest: RunManifest, judged: Sequence[JudgedQuery]) -> Run | None:
    """The finished run of this identity, None if the folder does not exist or is empty.

    Raises:
        RunExists: the folder has another run, or is not a run.
        RunDamaged: the run does not match its manifest.
    """
    if not (folder / MANIFEST).is_file():
        check_place(folder)
        return None
    try:
        stored = read_manifest(folder)
        if stored.identity == manifest.identity:
            run = read_run(folder)
            if run.queries == tuple(judged):
                return run
    except RunDamaged as error:
        check_place(folder)
        raise RunDamaged(f"{error} Give --restart to replace it.") from error
    before, now = stored.search or {}, manifest.search or {}
    names = [name for name in before | now if before.get(name) != now.get(name)]
    which = f"; the settings differ in {', '.join(names)}" if names else ""
    raise RunExists(
        f"{folder} has a run of other settings, queries or another snapshot ({stored.command}{which}): "
        "give another name or folder, or replace it with --restart."
    )


# -- searching --------------------------------------------------------------------------------------------


def _search(
    source: Source,
    requests: Sequence[QueryRequest],
    manifest: RunManifest,
    checkpoint: Checkpoint,
    concurrency: int | None,
    reporter: Reporter,
) -> None:
    """Search for the queries that are not finished, and store each result in the checkpoint."""
    left = [request for request in requests if request.query_id not in checkpoint.done]
    if done := len(requests) - len(left):
        log.info("%s: %d of %d queries are done already.", manifest.name, done, len(requests))
    load = IN_PROCESS if isinstance(source, Library) else OVER_HTTP
    size = load.batch if manifest.kind == "search" else 1
    batches = [left[at : at + size] for at in range(0, len(left), size)]
    search = partial(_search_batch, source, manifest, checkpoint.intern)
    with reporter.stage(f"search {manifest.name}", "queries", len(requests), len(checkpoint.done)) as tracker:
        _search_batches(search, batches, checkpoint, concurrency or load.concurrency, tracker)


def _resume_hint(checkpoint: Checkpoint, requests: Sequence[QueryRequest], restart: bool) -> str:
    return (
        f"{len(checkpoint.done)} of {len(requests)} queries are done and kept: the same command"
        f"{' without --restart' if restart else ''} resumes from there."
    )


def _search_batches(
    search: Callable[[Sequence[QueryRequest]], list[QueryResult]],
    batches: Sequence[Sequence[QueryRequest]],
    checkpoint: Checkpoint,
    concurrency: int,
    tracker: Tracker,
) -> None:
    def store(results: list[QueryResult]) -> None:
        checkpoint.append(results)
        tracker.advance(len(results))
        tracker.at(len(checkpoint.done))

    if concurrency == 1:
        # In the caller's thread: a model in the process starts threads of its own for each thread that calls it.
        for batch in batches:
            store(search(batch))
        return
    # Its threads are daemons, so that Ctrl-C ends the process while a response is awaited.
    with ThreadPool(max(1, min(concurrency, len(batches)))) as pool:
        for results in pool.imap_unordered(search, batches):
            store(results)


def _search_batch(
    source: Source, manifest: RunManifest, intern: Callable[[str], str], batch: Sequence[QueryRequest]
) -> list[QueryResult]:
    """Search for a batch. Its seconds are divided equally among its queries."""
    assert manifest.search is not None
    began = time.perf_counter()
    responses = _first_pages(source, [request for _, request in batch if request is not None])
    rankings: list[tuple[RankedId, ...]] = []
    for query_id, request in batch:
        with naming(query_id):
            scores = {}
            if request is not None:
                excluded = (query_id, f"Doc:{query_id}") if manifest.search.get("exclude_self") else ()
                scores = _ranking(source, request, next(responses), manifest, excluded)
        rankings.append(tuple(RankedId(intern(name), score) for name, score in scores.items()))
    seconds = (time.perf_counter() - began) / len(batch)
    return [
        QueryResult(query_id, ranking, seconds)
        for (query_id, _), ranking in zip(batch, rankings, strict=True)
    ]


def _first_pages(source: Source, requests: Sequence[Request]) -> Iterator[Response]:
    searches = [request for request in requests if isinstance(request, SearchRequest)]
    if len(searches) > 1:
        try:
            yield from source.search_batch(searches)
        except (InvalidRequest, PaperNotFound):
            pass  # one by one, so that the error is raised where the query's id is known
        else:
            return
    for request in requests:
        yield _run(source, request)


def _run(source: Source, request: Request) -> Response:
    if isinstance(request, SearchRequest):
        return source.run(request)
    if isinstance(request, PassageSearch):
        return source.run_passage_search(request)
    return source.run_paper_passages(request)


def _ranking(
    source: Source, request: Request, response: Response, manifest: RunManifest, excluded: Sequence[str]
) -> dict[str, float]:
    """The ids and scores of all pages up to the limit, best first, each id once, without those that are excluded: pages
    of an approximate search may overlap."""
    assert manifest.search is not None
    limit = manifest.search["limit"]
    scores: dict[str, float] = {}
    while True:
        _check_unchanged(str(response.snapshot), manifest)
        for hit in response.results:
            if (name := _id_of(hit)) not in excluded:
                scores.setdefault(name, hit.score)
        if len(scores) >= limit or response.next_offset is None:
            return scores
        size = min(request.limit, limit - len(scores))
        page = request.model_copy(update={"offset": response.next_offset, "limit": size})
        response = _run(source, page)


def _id_of(hit: Hit | PassageHit) -> str:
    if isinstance(hit, Hit):
        return hit.paper.id
    return Span(hit.paper.id, hit.passage.start, hit.passage.end).id


def _check_unchanged(snapshot: str, manifest: RunManifest) -> None:
    if snapshot != manifest.snapshot:
        raise EvaluationError(
            f"The library changed during the run, from snapshot {manifest.snapshot} to {snapshot}: serve the first "
            "snapshot again, or start again with --restart."
        )

"""Import what other systems found as run folders.

:func:`read_trec` reads TREC runs, :mod:`.results` JSON lines, and :mod:`.trajectories` the tool calls of agents.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import numpy as np

from scholarbase.errors import InvalidRequest, QueryFileError, RunExists
from scholarbase.files import storage_errors, text_lines
from scholarbase.identifiers import parse
from scholarbase.models.calls import Call
from scholarbase.models.source import Source
from scholarbase_research.evaluation.checkpoints import Checkpoint
from scholarbase_research.evaluation.papers import paper_notes, resolve
from scholarbase_research.evaluation.queries import QuerySet
from scholarbase_research.evaluation.run_data import JudgedQuery, Kind, PaperNote, RankedId, Run, RunManifest
from scholarbase_research.evaluation.runs import MANIFEST, check_place, read_manifest, run_manifest, write_run

_MAX_FLOAT: Final = 3.4028234663852886e38
"""The largest 32-bit float."""
_FIELDS: Final = "query_id Q0 paper_id rank score tag"


@dataclass
class Imported:
    """What another system found: its rankings, and the facts of it for the manifest.

    ``notes`` describe papers that the library lacks.
    """

    kind: Kind
    search: dict[str, Any]
    rankings: Mapping[str, tuple[RankedId, ...]]
    calls: Sequence[Call] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    notes: Mapping[str, PaperNote] = field(default_factory=dict)


def import_run(
    source: Source,
    read: Callable[[Source, QuerySet, Sequence[JudgedQuery]], Imported],
    queries: QuerySet,
    judged: Sequence[JudgedQuery],
    counts: Mapping[str, int],
    folder: Path,
    *,
    name: str,
    command: str,
    restart: bool = False,
) -> Run:
    """Write what ``read`` finds as a run folder.

    Args:
        judged, counts: the queries with resolved answers, and how they were found.
        restart: replace another run at ``folder``.

    Raises:
        RunExists: ``folder`` has another run, and ``restart`` is off; or it has other files.
        RunDamaged: ``folder`` has an unreadable run, and ``restart`` is off.
        EvaluationError: another process is writing this run.
        StorageError: the folder cannot be written. The errors of ``read`` are raised too.
    """
    imported = read(source, queries, judged)
    manifest = run_manifest(source.snapshot(), queries, counts, imported.kind, name, command, imported.search)
    # Locks the folder against other processes, as a search does.
    with Checkpoint(folder), storage_errors(folder):
        _check_free(folder, manifest, restart)
        notes = paper_notes(source, judged, imported.rankings, imported.notes)
        run = Run(manifest, tuple(judged), imported.rankings, notes, imported.seconds, tuple(imported.calls))
        return write_run(folder, run)


def _check_free(folder: Path, manifest: RunManifest, restart: bool) -> None:
    check_place(folder)
    if restart or not (folder / MANIFEST).is_file():
        return
    existing = read_manifest(folder)
    if existing.identity != manifest.identity:
        raise RunExists(
            f"{folder} has another run, {existing.name!r} of kind {existing.kind}: give another folder, or --restart "
            "to replace it."
        )


# -- TREC runs ------------------------------------------------------------------------------------------


class _TrecFile(NamedTuple):
    """A parsed run: the results of each query with ids as written, the possible canonical forms of each id, the more
    likely one first, and the hash of the lines."""

    results: dict[str, list[RankedId]]
    forms: dict[str, tuple[str, ...]]
    sha256: str


def read_trec(path: Path, source: Source, queries: QuerySet, judged: Sequence[JudgedQuery]) -> Imported:
    """Read a TREC run, plain or packed.

    A line has six fields, separated by white space: ``query_id Q0 paper_id rank score tag``. Results are ordered as in
    trec_eval (https://github.com/usnistgov/trec_eval): by descending score, read as a 32-bit float, then by descending
    id; the rank column is ignored.

    Ids of any form are resolved to the library's papers; a paper that it does not hold keeps its canonical id. If all
    answers of the query set are documents of a collection (``Doc:31715818``), the ids of the run are too, with or
    without the prefix. A duplicate paper counts at its best rank. Queries missing from the file get an empty ranking.

    Raises:
        QueryFileError: the file is missing, empty or damaged, or a line is invalid.
    """
    file = _read_trec(path, {query.id for query in judged}, _is_about_documents(queries))
    library_ids = resolve(source, {paper_id for forms in file.forms.values() for paper_id in forms})
    answer_ids = {answer.paper_id for query in judged for answer in query.answers}
    ids = {written: _resolved_id(forms, library_ids, answer_ids) for written, forms in file.forms.items()}
    facts = Counter(lines=0, duplicates=0, papers=0, papers_absent=0, queries_without_results=0)
    rankings: dict[str, tuple[RankedId, ...]] = {}
    seen: set[str] = set()
    for query in judged:
        results = file.results.get(query.id, [])
        ranked: dict[str, float] = {}
        for written, score in sorted(results, key=_trec_order, reverse=True):
            ranked.setdefault(ids[written], score)
        rankings[query.id] = tuple(map(RankedId, ranked, ranked.values()))
        seen.update(ranked)
        facts.update(
            lines=len(results), duplicates=len(results) - len(ranked), queries_without_results=not ranked
        )
    facts.update(papers=len(seen), papers_absent=len(seen.difference(library_ids.values())))
    return Imported("import", {"file": path.name, "sha256": file.sha256, **facts}, rankings)


def _read_trec(path: Path, known: set[str], documents: bool) -> _TrecFile:
    digest = hashlib.sha256()
    results: dict[str, list[RankedId]] = {}
    forms: dict[str, tuple[str, ...]] = {}
    for number, text in text_lines(path):
        digest.update(text.encode())
        parts = text.split()
        if not parts:
            continue
        where = f"{path}, line {number}"
        if len(parts) != 6:
            raise QueryFileError(f"{where} has {len(parts)} fields: a line of a TREC run has six, {_FIELDS}.")
        query_id, _, written, _, score, _ = parts
        # ScholarBase's run files percent-escape white space.
        query_id = query_id if query_id in known else unquote(query_id)
        if query_id not in known:
            raise QueryFileError(
                f"{where} has the query {query_id!r}, which is not in the query set: give the query file that this "
                "run was made with."
            )
        if written not in forms:
            try:
                forms[written] = _forms(written, documents)
            except InvalidRequest as error:
                raise QueryFileError(f"{where}: {error}") from error
        # Share the text of an id that many queries found.
        results.setdefault(query_id, []).append(RankedId(sys.intern(written), _score(score, where)))
    if not results:
        raise QueryFileError(f"{path} contains no results: a TREC run has lines of six fields, {_FIELDS}.")
    return _TrecFile(results, forms, digest.hexdigest())


def _trec_order(result: RankedId) -> tuple[float, bytes]:
    """What trec_eval sorts by, descending: its ``form_res_rels.c``."""
    return float(np.float32(result.score)), result.id.encode()


def _score(text: str, where: str) -> float:
    try:
        score = math.nan if "_" in text else float(text)
    except ValueError:
        score = math.nan
    if not abs(score) <= _MAX_FLOAT:
        raise QueryFileError(f"{where} has the score {text!r}: it must be a number within a 32-bit float.")
    return score


def _forms(written: str, documents: bool) -> tuple[str, ...]:
    """The canonical id as written, and with percent escapes decoded. Raises InvalidRequest: neither is an id."""
    texts = [written, unquote(written)] if "%" in written else [written]
    if documents:
        texts = [text if text[:4].lower() == "doc:" else f"Doc:{text}" for text in texts]
    forms: dict[str, None] = {}
    problems = []
    for text in texts:
        try:
            forms[str(parse(text))] = None
        except InvalidRequest as error:
            problems.append(error)
    if not forms:
        raise problems[0]
    return tuple(forms)


def _resolved_id(forms: Sequence[str], library_ids: Mapping[str, str], answer_ids: Collection[str]) -> str:
    """The id of the library's paper, else of an absent answer, else the id as written."""
    for form in forms:
        if form in library_ids:
            return library_ids[form]
    return next((form for form in forms if form in answer_ids), forms[0])


def _is_about_documents(queries: QuerySet) -> bool:
    """Whether all answers are documents of a collection, whose ids other systems write without a prefix."""
    ids = [answer.id for query in queries.queries for answer in query.answers if answer.id is not None]
    return bool(ids) and all(paper_id.lower().startswith("doc:") for paper_id in ids)

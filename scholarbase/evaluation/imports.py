"""Runs made elsewhere: a ranking file of another system, as TREC tools write it, becomes a run folder.

Six fields a line, parted by white space: ``query_id Q0 paper_id rank score tag``. The order is trec_eval's
(https://github.com/usnistgov/trec_eval): scores falling, read as 32-bit floats, ties by id falling; the rank column
says nothing. :mod:`scholarbase.evaluation.trajectories` shares how the run is written.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote

from scholarbase.errors import InvalidRequest, QueryFileError, RunExists
from scholarbase.evaluation.checkpoints import Checkpoint
from scholarbase.evaluation.measures import rank_ties
from scholarbase.evaluation.papers import noted_papers, paper_notes, resolve
from scholarbase.evaluation.runs import MANIFEST, check_place, read_manifest, repair, run_manifest, write_run
from scholarbase.files import storage_errors, text_lines
from scholarbase.identifiers import parse
from scholarbase.models.queries import QuerySet
from scholarbase.models.runs import Call, JudgedQuery, RankedId, Run, RunManifest
from scholarbase.models.source import Source

_GREATEST: Final = 3.4028234663852886e38
"""The greatest 32-bit float."""
_FIELDS: Final = "query_id Q0 paper_id rank score tag"


class _TrecFile(NamedTuple):
    """A run as its file has it: the results of each query, with the ids as they are written; the canonical forms
    that each id may be, the likelier first; the hash of what the file says."""

    results: dict[str, list[RankedId]]
    forms: dict[str, tuple[str, ...]]
    sha256: str


def run_from_trec(
    source: Source,
    path: Path,
    queries: QuerySet,
    judged: Sequence[JudgedQuery],
    counts: Mapping[str, int],
    folder: Path,
    *,
    name: str,
    command: str,
    restart: bool = False,
) -> Run:
    """Read the run of another system, packed or not, and write it as a run folder of kind ``import``.

    Ids of any form are brought to those of the library; a paper that it does not hold keeps the canonical form of
    the id that was given. Where all answers of the query set are a collection's own documents (``Doc:31715818``),
    so are the ids of the run, with the prefix or without. A paper that a query has twice counts where it stands
    best. Queries that the file lacks have an empty ranking. ``manifest.search`` counts all of that.

    Args:
        judged, counts: the queries with their answers resolved, and how they were found.
        restart: replace what stands at ``folder``, if it is another run.

    Raises:
        QueryFileError: the file is missing, empty or damaged, or a line of it cannot be right.
        RunExists: another run, or something else, stands at ``folder``.
    """
    known = {query.id for query in judged}
    file = _read_trec(path, known, _speaks_of_documents(queries))
    found = resolve(source, {paper_id for forms in file.forms.values() for paper_id in forms})
    named = {answer.paper_id for query in judged for answer in query.answers}
    names = {written: _name(forms, found, named) for written, forms in file.forms.items()}
    facts = Counter(lines=0, duplicates=0, papers=0, papers_absent=0, queries_without_results=0)
    rankings: dict[str, tuple[RankedId, ...]] = {}
    seen: set[str] = set()
    for query in judged:
        results = file.results.get(query.id, [])
        ranked: dict[str, float] = {}
        for written, score in rank_ties(results):
            ranked.setdefault(names[written], score)
        rankings[query.id] = tuple(map(RankedId, ranked, ranked.values()))
        seen.update(ranked)
        facts.update(
            lines=len(results), duplicates=len(results) - len(ranked), queries_without_results=not ranked
        )
    facts.update(papers=len(seen), papers_absent=len(seen.difference(found.values())))
    search = {"file": path.name, "sha256": file.sha256, **facts}
    manifest = run_manifest(source.snapshot(), queries, counts, "import", name, command, search)
    return write_outside_run(source, folder, manifest, judged, rankings, restart=restart)


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
        # Our own files have percent escapes for what would end a field.
        query_id = query_id if query_id in known else unquote(query_id)
        if query_id not in known:
            raise QueryFileError(
                f"{where} is about the query {query_id!r}, which the query set does not have: give the query file "
                "that this run was made with."
            )
        if written not in forms:
            try:
                forms[written] = _forms(written, documents)
            except InvalidRequest as error:
                raise QueryFileError(f"{where}: {error}") from error
        # One text for an id that many queries found.
        results.setdefault(query_id, []).append(RankedId(sys.intern(written), _score(score, where)))
    if not results:
        raise QueryFileError(f"{path} holds no result: a TREC run has lines of six fields, {_FIELDS}.")
    return _TrecFile(results, forms, digest.hexdigest())


def _score(text: str, where: str) -> float:
    try:
        score = math.nan if "_" in text else float(text)
    except ValueError:
        score = math.nan
    if not abs(score) <= _GREATEST:
        raise QueryFileError(
            f"{where} has {text!r} for a score: it must be a number that a 32-bit float holds."
        )
    return score


def _forms(written: str, documents: bool) -> tuple[str, ...]:
    """The canonical forms that an id of a foreign run may be: with percent escapes as they are, and undone.

    Raises:
        InvalidRequest: it is no id either way.
    """
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


def _name(forms: Sequence[str], found: Mapping[str, str], named: Collection[str]) -> str:
    """What a result is called: as the library's paper, else as an answer that it lacks, else as it was written."""
    for form in forms:
        if form in found:
            return found[form]
    return next((form for form in forms if form in named), forms[0])


def _speaks_of_documents(queries: QuerySet) -> bool:
    """Whether the answers are a collection's own documents, which other systems name without a prefix."""
    ids = [answer.id for query in queries.queries for answer in query.answers if answer.id is not None]
    return bool(ids) and all(paper_id.lower().startswith("doc:") for paper_id in ids)


# -- how runs made elsewhere are written ----------------------------------------------------------------


def write_outside_run(
    source: Source,
    folder: Path,
    manifest: RunManifest,
    judged: Sequence[JudgedQuery],
    rankings: Mapping[str, tuple[RankedId, ...]],
    *,
    calls: Sequence[Call] = (),
    seconds: Mapping[str, float] | None = None,
    restart: bool = False,
) -> Run:
    """Write a run folder, unless another run stands there.

    Raises:
        RunExists: another run stands at ``folder``, and ``restart`` is off; or something that is no run.
        RunDamaged: a run stands there that cannot be read, and ``restart`` is off.
        EvaluationError: another process makes this run.
        StorageError: the folder cannot be written.
    """
    # Held as by one who searches: two that write one folder at a time would be in each other's way.
    with Checkpoint(folder), storage_errors(folder):
        repair(folder)
        _check_free(folder, manifest, restart)
        notes = paper_notes(source, noted_papers(judged, rankings))
        return write_run(folder, Run(manifest, tuple(judged), rankings, notes, seconds or {}, tuple(calls)))


def _check_free(folder: Path, manifest: RunManifest, restart: bool) -> None:
    """See that only the same run, or one that may be replaced, stands at ``folder``."""
    check_place(folder)
    if restart or not (folder / MANIFEST).is_file():
        return
    there = read_manifest(folder)
    if there.identity != manifest.identity:
        raise RunExists(
            f"Another run, {there.name!r} of kind {there.kind}, stands at {folder}: name another folder, or give "
            "--restart to replace it."
        )

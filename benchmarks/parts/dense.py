"""Dense search: the graph's recall against exact search on the same vectors, and how much faster it is.

The vectors have 1024 dimensions and the geometry of real texts: BM25's term weights times idf, a truncated SVD to 256
(Halko, Martinsson and Tropp, arXiv:0909.4061), an orthogonal lift to 1024, unit length. A paper that repeats another's
text, as copies of one snapshot do, loses a third of its terms at random: no collection has each paper four times, and
equal vectors would make the true top 100 a matter of ties.

The queries with targets are the real questions, which go the same way. Papers held out, with all their copies, stand in
rows of their own, without a target: they lie among the vectors, and are easier to answer.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.utils.extmath import randomized_svd

from benchmarks.asking import BLOCK, spread
from benchmarks.rows import Bound, Row, Setting
from scholarbase.evaluation.formats import read_queries
from scholarbase.files import atomic_write
from scholarbase.indexes.filters import NO_FILTERS
from scholarbase.indexes.vectors.base import BM25, Payload, SparseVector, VectorConfig, VectorPoint
from scholarbase.indexes.vectors.bm25 import Bm25Parameters, Bm25Text
from scholarbase.indexes.vectors.edge import EdgeIndex, EdgeWriter
from scholarbase.manifest import read_manifest

PART: Final = "dense"
PAPERS: Final = 600_000
DIMENSIONS: Final = 1024
RANK: Final = 256
VOCABULARY: Final = 50_000
"""Terms of most papers; the rest, in a few papers each, would say little in 256 dimensions."""
SAMPLE: Final = 100_000
"""Papers that the SVD is fitted on; all are projected."""
QUERIES: Final = 200
COPIES: Final = 4
"""Papers with one text that a corpus holds, or a library read twice."""
LIMIT: Final = 100
ROUNDS: Final = 3
CHECKED: Final = 10
KEPT: Final = 2 / 3
SEED: Final = 4
TOLERANCE: Final = 1e-4
"""Cosines nearer than this are ties: float16 rounds each of 1024 components."""

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Prepared:
    """``vectors`` (papers x 1024, mapped), ``held_out`` and ``questions`` (queries x 1024): float16, unit length."""

    folder: Path
    vectors: npt.NDArray[np.float16]
    held_out: npt.NDArray[np.float16]
    questions: npt.NDArray[np.float16]


@dataclass(frozen=True, slots=True)
class Weights:
    """BM25's weights, papers x terms; which column a term is; and the number of the first paper with the same text."""

    matrix: sparse.csr_matrix
    terms: dict[int, int]
    first: npt.NDArray[np.int64]


def run(setting: Setting) -> list[Row]:
    """Rows: recall at 100 of the default search, and its speed, beside exact search on the same shard; for questions,
    then for papers held out.

    Raises:
        RuntimeError: Edge's exact search does not find what comparing with every vector finds.
    """
    prepared = prepare(setting)
    facts = build(prepared)
    index = EdgeIndex.open(prepared.folder / "shard")
    try:
        check_exact(index, prepared)
        return rows(index, prepared, facts)
    finally:
        index.close()


def prepare(setting: Setting) -> Prepared:
    """The vectors, made once: ``vectors.npy``, ``held_out.npy`` and ``questions.npy`` in the work folder."""
    count = min(setting.papers, PAPERS)
    folder = setting.work / f"dense-{count}"
    if not (folder / "questions.npy").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        # What is held out takes its copies with it.
        weights = term_weights(setting.library, count + QUERIES * COPIES)
        firsts = np.unique(weights.first)
        chosen = np.random.default_rng(SEED).choice(firsts, min(QUERIES, len(firsts) // 10), replace=False)
        kept = np.flatnonzero(~np.isin(weights.first, chosen))[:count]
        held_out = weights.matrix[np.flatnonzero(np.isin(weights.first, chosen) & _is_first(weights.first))]
        queries = {"held_out": held_out, "questions": question_weights(setting, weights.terms)}
        project(weights.matrix[kept], queries, folder)
    vectors = np.load(folder / "vectors.npy", mmap_mode="r")
    return Prepared(folder, vectors, np.load(folder / "held_out.npy"), np.load(folder / "questions.npy"))


def _is_first(first: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Which papers are the first with their text."""
    places = np.zeros(len(first), np.bool_)
    places[np.unique(first, return_index=True)[1]] = True
    return places


def term_weights(library: Path, count: int) -> Weights:
    """The weights of ``count`` papers over the most frequent terms.

    A library with fewer papers is read again: then every paper repeats one.
    """
    chance = np.random.default_rng(SEED)
    seen: dict[bytes, int] = {}
    first: list[int] = []
    indices: list[npt.NDArray[np.uint32]] = []
    values: list[Floats] = []
    for vector in _papers(library, count):
        terms, weights = np.asarray(vector.indices, np.uint32), np.asarray(vector.values, np.float32)
        key = hashlib.blake2b(terms.tobytes() + weights.tobytes(), digest_size=8).digest()
        first.append(seen.setdefault(key, len(first)))
        if first[-1] < len(first) - 1:
            kept = chance.random(len(terms)) < KEPT
            kept[0] = True
            terms, weights = terms[kept], weights[kept]
        indices.append(terms)
        values.append(weights)
    flat = np.concatenate(indices)
    names, columns, frequencies = np.unique(flat, return_inverse=True, return_counts=True)
    starts = np.concatenate([[0], np.cumsum([len(terms) for terms in indices])])
    whole = sparse.csr_matrix((np.concatenate(values), columns, starts), shape=(len(indices), len(names)))
    common = np.sort(np.argsort(-frequencies, kind="stable")[:VOCABULARY])
    matrix = whole[:, common]
    held = np.flatnonzero(np.diff(matrix.indptr))
    terms = {int(name): column for column, name in enumerate(names[common])}
    return Weights(matrix[held], terms, np.array(first, np.int64)[held])


def _papers(library: Path, count: int) -> Iterator[SparseVector]:
    """The BM25 vectors of the library's papers, from the first on, again and again until there are ``count``."""
    index = EdgeIndex.open(library / "vectors")
    given = 0
    try:
        while given < count:
            before = given
            for points in index.points(2000):
                for point in points:
                    if BM25 in point.sparse and given < count:
                        given += 1
                        yield point.sparse[BM25]
                if given == count:
                    return
            if given == before:
                raise RuntimeError(
                    f"The library at {library} has no BM25 vectors: build it with papers in it."
                )
    finally:
        index.close()


def question_weights(setting: Setting, terms: dict[int, int]) -> sparse.csr_matrix:
    """The first questions that have a known term, as rows over the same columns, weight 1 for each term."""
    text = Bm25Text(Bm25Parameters.from_dict(read_manifest(setting.library)[0].bm25))
    rows: list[list[int]] = []
    for query in read_queries(setting.data / "autoscholar" / "queries.jsonl").queries:
        columns = [terms[i] for i in text.query(query.text).indices if i in terms]
        if columns:
            rows.append(columns)
        if len(rows) == QUERIES:
            break
    starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    flat = np.concatenate(rows)
    return sparse.csr_matrix((np.ones(len(flat), np.float32), flat, starts), shape=(len(rows), len(terms)))


def project(matrix: sparse.csr_matrix, queries: Mapping[str, sparse.csr_matrix], folder: Path) -> None:
    """Write all as unit vectors of 1024 dimensions; the queries last, so that their files say that all is done."""
    frequencies = np.bincount(matrix.indices, minlength=matrix.shape[1])
    count = matrix.shape[0]
    weigh = sparse.diags(np.log1p((count - frequencies + 0.5) / (frequencies + 0.5)).astype(np.float32))
    chance = np.random.default_rng(SEED)
    rows = np.sort(chance.choice(count, min(SAMPLE, count), replace=False))
    rank = min(RANK, len(rows) - 1, matrix.shape[1] - 1)
    basis = randomized_svd(_unit_rows(matrix[rows] @ weigh), rank, n_iter=3, random_state=SEED)[2]
    lift = np.linalg.qr(chance.standard_normal((DIMENSIONS, rank)))[0].T.astype(np.float32)

    def lifted(block: sparse.csr_matrix) -> npt.NDArray[np.float16]:
        flat = (block @ weigh) @ basis.T.astype(np.float32)
        flat /= np.linalg.norm(flat, axis=1, keepdims=True)
        return np.asarray(flat @ lift, np.float16)

    unfinished = folder / "vectors.new.npy"
    out = np.lib.format.open_memmap(unfinished, "w+", np.float16, (count, DIMENSIONS))
    for start in range(0, count, 20_000):
        out[start : start + 20_000] = lifted(matrix[start : start + 20_000])
    out.flush()
    unfinished.rename(folder / "vectors.npy")
    for name, asked in queries.items():
        with atomic_write(folder / f"{name}.npy") as file:
            np.save(file, lifted(asked))


def _unit_rows(matrix: sparse.csr_matrix) -> sparse.csr_matrix:
    norms = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
    return sparse.diags((1 / norms).astype(np.float32)) @ matrix


def build(prepared: Prepared) -> dict[str, Any]:
    """The shard of these vectors, made once through ScholarBase's own writer; what making it took."""
    path, about = prepared.folder / "shard", prepared.folder / "shard.json"
    if about.is_file():
        facts: dict[str, Any] = json.loads(about.read_text())
        return facts
    shutil.rmtree(path, ignore_errors=True)
    began = time.perf_counter()
    writer = EdgeWriter.open(path, VectorConfig(dimensions=DIMENSIONS))
    try:
        for start in range(0, len(prepared.vectors), 1000):
            block = prepared.vectors[start : start + 1000].astype(np.float32)
            writer.upsert([VectorPoint(start + i + 1, Payload(), vector) for i, vector in enumerate(block)])
        written = time.perf_counter() - began
        writer.finish()
    finally:
        writer.close()
    facts = {
        "upsert_seconds": round(written, 1),
        "build_seconds": round(time.perf_counter() - began, 1),
        "bytes": sum(file.stat().st_size for file in path.rglob("*") if file.is_file()),
        "segments": sum(1 for folder in (path / "segments").iterdir() if folder.is_dir()),
    }
    about.write_text(json.dumps(facts))
    return facts


def brute_force(vectors: npt.NDArray[np.float16], question: Floats) -> Floats:
    """The cosine of every vector with the question: a float32 product, block by block."""
    blocks = [vectors[i : i + 50_000].astype(np.float32) @ question for i in range(0, len(vectors), 50_000)]
    return np.concatenate(blocks)


def check_exact(index: EdgeIndex, prepared: Prepared) -> None:
    """See that exact search is exact: it must find what numpy finds, but for ties."""
    for question in prepared.held_out[:CHECKED].astype(np.float32):
        scores = brute_force(prepared.vectors, question)
        expected = np.sort(scores)[::-1][:LIMIT]
        hits = index.search_dense(question, LIMIT, NO_FILTERS, exact=True)
        found = scores[[hit.id - 1 for hit in hits]]
        if len(hits) != len(expected) or np.abs(found - expected).max() > TOLERANCE:
            raise RuntimeError(
                f"Exact search found {len(hits)} papers whose cosines differ from the true top {LIMIT}'s by up to "
                f"{np.abs(found - expected[: len(found)]).max():.5f}: the shard does not hold the vectors it was given."
            )


@dataclass(frozen=True, slots=True)
class Measured:
    """Milliseconds of every search, both ways, and the recall of each query."""

    ours: list[float]
    exact: list[float]
    recalls: list[float]


def measure(index: EdgeIndex, queries: Sequence[Floats]) -> Measured:
    """Both ways of searching, block by block in turns, each warmed by a block that does not count."""
    measured = Measured([], [], [])
    for query in queries[:BLOCK]:
        index.search_dense(query, LIMIT, NO_FILTERS)
        index.search_dense(query, LIMIT, NO_FILTERS, exact=True)
    for start in range(0, len(queries), BLOCK):
        block = queries[start : start + BLOCK]
        for _ in range(ROUNDS):
            found, times = _timed(lambda q: index.search_dense(q, LIMIT, NO_FILTERS), block)
            measured.ours.extend(times)
        true, times = _timed(lambda q: index.search_dense(q, LIMIT, NO_FILTERS, exact=True), block)
        measured.exact.extend(times)
        for hits, wanted in zip(found, true, strict=True):
            share = len({hit.id for hit in hits} & {hit.id for hit in wanted}) / len(wanted)
            measured.recalls.append(share)
    return measured


def _timed(ask: Callable[[Floats], Any], queries: Sequence[Floats]) -> tuple[list[Any], list[float]]:
    answers, times = [], []
    for query in queries:
        began = time.perf_counter()
        answers.append(ask(query))
        times.append((time.perf_counter() - began) * 1000)
    return answers, times


def rows(index: EdgeIndex, prepared: Prepared, facts: dict[str, Any]) -> list[Row]:
    """Recall and speed for the questions, which have targets, and for the papers held out, which have none."""
    what = f"dense top {LIMIT} of {len(prepared.vectors):,} x {DIMENSIONS}"
    beside = "exact search on the same vectors"
    papers = measure(index, list(prepared.held_out.astype(np.float32)))
    asked = measure(index, list(prepared.questions.astype(np.float32)))
    numpy_times = _timed(
        lambda q: brute_force(prepared.vectors, q), list(prepared.held_out[:5].astype(np.float32))
    )[1]
    made: list[Row] = []
    for name, seen, targets in (("questions", asked, (0.98, 50)), ("papers held out", papers, (None, None))):
        recall = statistics.fmean(seen.recalls)
        here, floor = statistics.median(seen.ours), statistics.median(seen.exact)
        noted = {
            "queries": len(seen.recalls),
            "lowest": min(seen.recalls),
            "below_0.9": sum(value < 0.9 for value in seen.recalls),
            **facts,
        }
        times = {
            "ms": spread(seen.ours),
            "exact_ms": spread(seen.exact),
            "numpy_from_float16_ms": statistics.median(numpy_times),
        }
        bound: Bound | None = "at least" if targets[0] else None
        made.append(
            Row(
                PART,
                f"{what}, {name}: recall",
                beside,
                recall,
                1.0,
                "",
                recall,
                bound,
                targets[0],
                noted,
            )
        )
        made.append(
            Row(
                PART,
                f"{what}, {name}: speed",
                beside,
                here,
                floor,
                "ms",
                floor / here,
                bound,
                targets[1],
                times,
            )
        )
    return made

"""Dense search: recall and speed of the graph compared with exact search on the same vectors.

The vectors have 1024 dimensions and the geometry of real texts: BM25's term weights times idf, a truncated SVD to 256
(Halko, Martinsson and Tropp, arXiv:0909.4061), an orthogonal projection to 1024, unit length. A paper with the text of
another, as in copies of one snapshot, loses a third of its terms at random, since equal vectors would make the true top
100 depend on ties.

The queries with targets are the real questions, projected likewise. Held-out papers, with all their copies, have rows
of their own, without a target: as queries they are easier.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.utils.extmath import randomized_svd

from benchmarks.rows import Bound, Row, Setting
from benchmarks.timing import BLOCK, questions, size, summary
from scholarbase.files import atomic_write
from scholarbase.indexes.filters import NO_FILTERS
from scholarbase.indexes.vectors.base import (
    BM25,
    EngineVector,
    Payload,
    SparseVector,
    VectorConfig,
    VectorPoint,
)
from scholarbase.indexes.vectors.bm25 import Bm25Parameters, Bm25Text
from scholarbase.indexes.vectors.edge import EdgeWriter
from scholarbase.indexes.vectors.index import EdgeIndex
from scholarbase.manifest import read_manifest

PART: Final = "dense"
PAPERS: Final = 600_000
DIMENSIONS: Final = 1024
RANK: Final = 256
VOCABULARY: Final = 50_000
"""The most frequent terms. Rarer ones have little effect in 256 dimensions."""
SAMPLE: Final = 100_000
"""Papers that the SVD is fitted on; all are projected."""
QUERIES: Final = 200
COPIES: Final = 4
"""Maximum number of papers with the same text."""
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
    """BM25's weights (papers x terms), the column of each term, and the first paper with the same text."""

    matrix: sparse.csr_matrix
    terms: dict[int, int]
    first: npt.NDArray[np.int64]


def run(setting: Setting) -> list[Row]:
    """Rows of recall at 100 and speed compared with exact search on the same shard, for questions and for held-out
    papers.

    Raises:
        RuntimeError: Edge's exact search differs from a comparison with every vector.
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
    """Build ``vectors.npy``, ``held_out.npy`` and ``questions.npy`` in the work folder, unless they exist."""
    count = min(setting.papers, PAPERS)
    folder = setting.work / f"dense-{count}"
    if not (folder / "questions.npy").is_file():
        folder.mkdir(parents=True, exist_ok=True)
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
    """A mask of the papers that are the first with their text."""
    places = np.zeros(len(first), np.bool_)
    places[np.unique(first, return_index=True)[1]] = True
    return places


def term_weights(library: Path, count: int) -> Weights:
    """The weights of ``count`` papers over the most frequent terms. A smaller library is read repeatedly."""
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
    filled = np.flatnonzero(np.diff(matrix.indptr))
    columns_by_term = {int(name): column for column, name in enumerate(names[common])}
    return Weights(matrix[filled], columns_by_term, np.array(first, np.int64)[filled])


def _papers(library: Path, count: int) -> Iterator[SparseVector | EngineVector]:
    """``count`` BM25 vectors of the library's papers, repeated from the first after the last."""
    with closing(EdgeIndex.open(library / "vectors")) as index:
        yielded = 0
        while yielded < count:
            before = yielded
            for points in index.points(2000):
                for point in points:
                    if BM25 in point.sparse and yielded < count:
                        yielded += 1
                        yield point.sparse[BM25]
                if yielded == count:
                    return
            if yielded == before:
                raise RuntimeError(f"The library at {library} has no BM25 vectors: build it with papers.")


def question_weights(setting: Setting, terms: dict[int, int]) -> sparse.csr_matrix:
    """The first questions with a known term, as rows over the same columns, weight 1 for each term."""
    text = Bm25Text(Bm25Parameters.from_dict(read_manifest(setting.library)[0].bm25))
    rows: list[list[int]] = []
    for question in questions(setting):
        columns = [terms[i] for i in text.query(question).indices if i in terms]
        if columns:
            rows.append(columns)
        if len(rows) == QUERIES:
            break
    starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    flat = np.concatenate(rows)
    return sparse.csr_matrix((np.ones(len(flat), np.float32), flat, starts), shape=(len(rows), len(terms)))


def project(matrix: sparse.csr_matrix, queries: Mapping[str, sparse.csr_matrix], folder: Path) -> None:
    """Write papers and queries as unit vectors of 1024 dimensions, the queries last, as their files mark completion."""
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
    for name, weights in queries.items():
        with atomic_write(folder / f"{name}.npy") as file:
            np.save(file, lifted(weights))


def _unit_rows(matrix: sparse.csr_matrix) -> sparse.csr_matrix:
    norms = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
    return sparse.diags((1 / norms).astype(np.float32)) @ matrix


def build(prepared: Prepared) -> dict[str, Any]:
    """Build the shard of these vectors with ScholarBase's writer, unless it exists. Returns the cost of the build."""
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
        "bytes": size(path),
        "segments": sum(1 for folder in (path / "segments").iterdir() if folder.is_dir()),
    }
    about.write_text(json.dumps(facts))
    return facts


def brute_force(vectors: npt.NDArray[np.float16], question: Floats) -> Floats:
    """The cosine of every vector with the question, computed in float32 by blocks."""
    blocks = [vectors[i : i + 50_000].astype(np.float32) @ question for i in range(0, len(vectors), 50_000)]
    return np.concatenate(blocks)


def check_exact(index: EdgeIndex, prepared: Prepared) -> None:
    """Check that exact search finds what numpy finds, except for ties."""
    for question in prepared.held_out[:CHECKED].astype(np.float32):
        scores = brute_force(prepared.vectors, question)
        expected = np.sort(scores)[::-1][:LIMIT]
        hits = index.search_dense(question, LIMIT, NO_FILTERS, exact=True)
        cosines = scores[[hit.id - 1 for hit in hits]]
        if len(hits) != len(expected) or np.abs(cosines - expected).max() > TOLERANCE:
            raise RuntimeError(
                f"Exact search found {len(hits)} papers whose cosines differ from those of the true top {LIMIT} by up "
                f"to {np.abs(cosines - expected[: len(cosines)]).max():.5f}: the shard does not hold the same vectors."
            )


@dataclass(frozen=True, slots=True)
class Measured:
    """Milliseconds of every approximate and exact search, and the recall of each query."""

    ours: list[float]
    exact: list[float]
    recalls: list[float]


def measure(index: EdgeIndex, queries: Sequence[Floats]) -> Measured:
    """Alternate approximate and exact search block by block, each warmed by one block that is not measured."""
    measured = Measured([], [], [])
    for query in queries[:BLOCK]:
        index.search_dense(query, LIMIT, NO_FILTERS)
        index.search_dense(query, LIMIT, NO_FILTERS, exact=True)
    for start in range(0, len(queries), BLOCK):
        block = queries[start : start + BLOCK]
        for _ in range(ROUNDS):
            approximate, times = _timed(lambda q: index.search_dense(q, LIMIT, NO_FILTERS), block)
            measured.ours.extend(times)
        true, times = _timed(lambda q: index.search_dense(q, LIMIT, NO_FILTERS, exact=True), block)
        measured.exact.extend(times)
        for hits, expected in zip(approximate, true, strict=True):
            recall = len({hit.id for hit in hits} & {hit.id for hit in expected}) / len(expected)
            measured.recalls.append(recall)
    return measured


def _timed(search: Callable[[Floats], Any], queries: Sequence[Floats]) -> tuple[list[Any], list[float]]:
    results, times = [], []
    for query in queries:
        began = time.perf_counter()
        results.append(search(query))
        times.append((time.perf_counter() - began) * 1000)
    return results, times


def rows(index: EdgeIndex, prepared: Prepared, facts: dict[str, Any]) -> list[Row]:
    """Rows of recall and speed for the questions, which have targets, and for held-out papers, which have none."""
    what = f"dense top {LIMIT} of {len(prepared.vectors):,} x {DIMENSIONS}"
    beside = "exact search on the same vectors"
    papers = measure(index, list(prepared.held_out.astype(np.float32)))
    real = measure(index, list(prepared.questions.astype(np.float32)))
    numpy_times = _timed(
        lambda q: brute_force(prepared.vectors, q), list(prepared.held_out[:5].astype(np.float32))
    )[1]
    made: list[Row] = []
    for name, measured, targets in (
        ("questions", real, (0.98, 50)),
        ("papers held out", papers, (None, None)),
    ):
        recall = statistics.fmean(measured.recalls)
        here, floor = statistics.median(measured.ours), statistics.median(measured.exact)
        notes = {
            "queries": len(measured.recalls),
            "lowest": min(measured.recalls),
            "below_0.9": sum(value < 0.9 for value in measured.recalls),
            **facts,
        }
        times = {
            "ms": summary(measured.ours),
            "exact_ms": summary(measured.exact),
            "numpy_from_float16_ms": statistics.median(numpy_times),
        }
        bound: Bound | None = "at least" if targets[0] else None
        both = f"{what}, {name}"
        made += [
            Row(PART, f"{both}: recall", beside, recall, 1.0, "", recall, bound, targets[0], notes),
            Row(PART, f"{both}: speed", beside, here, floor, "ms", floor / here, bound, targets[1], times),
        ]
    return made

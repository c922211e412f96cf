"""Dense search: the graph's recall against exact search on the same vectors, and how much faster it is.

The vectors have 1024 dimensions and the geometry of real texts: BM25's term weights times idf, a truncated SVD to 256
(Halko, Martinsson and Tropp, arXiv:0909.4061), an orthogonal lift to 1024, unit length. The questions go the same way.
A paper that repeats another's text, as copies of one snapshot do, loses a third of its terms at random: no collection
has each paper four times, and equal vectors would make the true top 100 a matter of ties.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.utils.extmath import randomized_svd

from benchmarks.rows import Row, Setting
from scholarbase.evaluation.formats import read_queries
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
QUESTIONS: Final = 200
LIMIT: Final = 100
BLOCK: Final = 20
"""Questions that one way of searching is asked before the other takes its turn."""
ROUNDS: Final = 3
CHECKED: Final = 10
KEPT: Final = 2 / 3
SEED: Final = 4
TOLERANCE: Final = 1e-4
"""Cosines nearer than this are ties: float16 rounds each of 1024 components."""

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Prepared:
    """``vectors`` (papers x 1024) and ``questions`` (questions x 1024), float16, unit length, memory-mapped."""

    folder: Path
    vectors: npt.NDArray[np.float16]
    questions: npt.NDArray[np.float16]


def run(setting: Setting) -> list[Row]:
    """Rows: recall at 100 of the default search, and its speed, beside exact search on the same shard.

    Raises:
        RuntimeError: Edge's exact search does not find what comparing with every vector finds.
    """
    prepared = prepare(setting)
    facts = build(prepared)
    index = EdgeIndex.open(prepared.folder / "shard")
    try:
        check_exact(index, prepared)
        return measure(index, prepared, facts)
    finally:
        index.close()


def prepare(setting: Setting) -> Prepared:
    """The vectors, made once: ``vectors.npy`` and ``questions.npy`` in the work folder."""
    count = min(setting.papers, PAPERS)
    folder = setting.work / f"dense-{count}"
    if not (folder / "questions.npy").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        matrix, terms = term_weights(setting.library, count)
        asked = question_weights(setting, terms)
        project(matrix, asked, folder)
    vectors = np.load(folder / "vectors.npy", mmap_mode="r")
    return Prepared(folder, vectors, np.load(folder / "questions.npy"))


def term_weights(library: Path, count: int) -> tuple[sparse.csr_matrix, dict[int, int]]:
    """BM25's weights of ``count`` papers over the most frequent terms, and the column of each term.

    A library with fewer papers is read again: then every paper repeats one.
    """
    chance = np.random.default_rng(SEED)
    seen: set[bytes] = set()
    indices: list[npt.NDArray[np.uint32]] = []
    values: list[Floats] = []
    for vector in _papers(library, count):
        terms, weights = np.asarray(vector.indices, np.uint32), np.asarray(vector.values, np.float32)
        key = hashlib.blake2b(terms.tobytes() + weights.tobytes(), digest_size=8).digest()
        if key in seen:
            kept = chance.random(len(terms)) < KEPT
            kept[0] = True
            terms, weights = terms[kept], weights[kept]
        seen.add(key)
        indices.append(terms)
        values.append(weights)
    flat = np.concatenate(indices)
    names, columns, frequencies = np.unique(flat, return_inverse=True, return_counts=True)
    starts = np.concatenate([[0], np.cumsum([len(terms) for terms in indices])])
    whole = sparse.csr_matrix((np.concatenate(values), columns, starts), shape=(len(indices), len(names)))
    common = np.sort(np.argsort(-frequencies, kind="stable")[:VOCABULARY])
    matrix = whole[:, common]
    held = np.flatnonzero(np.diff(matrix.indptr))
    return matrix[held], {int(name): column for column, name in enumerate(names[common])}


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
        if len(rows) == QUESTIONS:
            break
    starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    flat = np.concatenate(rows)
    return sparse.csr_matrix((np.ones(len(flat), np.float32), flat, starts), shape=(len(rows), len(terms)))


def project(matrix: sparse.csr_matrix, asked: sparse.csr_matrix, folder: Path) -> None:
    """Write both as unit vectors of 1024 dimensions; the questions last, so that their file says all is done."""
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
    np.save(folder / "questions.new.npy", lifted(asked))
    (folder / "questions.new.npy").rename(folder / "questions.npy")


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
    for question in prepared.questions[:CHECKED].astype(np.float32):
        scores = brute_force(prepared.vectors, question)
        expected = np.sort(scores)[::-1][:LIMIT]
        hits = index.search_dense(question, LIMIT, NO_FILTERS, exact=True)
        found = scores[[hit.id - 1 for hit in hits]]
        if len(hits) != len(expected) or np.abs(found - expected).max() > TOLERANCE:
            raise RuntimeError(
                f"Exact search found {len(hits)} papers whose cosines differ from the true top {LIMIT}'s by up to "
                f"{np.abs(found - expected[: len(found)]).max():.5f}: the shard does not hold the vectors it was given."
            )


def measure(index: EdgeIndex, prepared: Prepared, facts: dict[str, Any]) -> list[Row]:
    """Both ways of searching, block by block in turns, each warmed by a block that does not count."""
    questions = list(prepared.questions.astype(np.float32))
    ours, exact, found, true = [], [], [], []
    for question in questions[:BLOCK]:
        index.search_dense(question, LIMIT, NO_FILTERS)
        index.search_dense(question, LIMIT, NO_FILTERS, exact=True)
    for start in range(0, len(questions), BLOCK):
        block = questions[start : start + BLOCK]
        for _ in range(ROUNDS):
            hits, times = _timed(lambda q: index.search_dense(q, LIMIT, NO_FILTERS), block)
            ours += times
        found += hits
        hits, times = _timed(lambda q: index.search_dense(q, LIMIT, NO_FILTERS, exact=True), block)
        exact += times
        true += hits
    recalls = [
        len({hit.id for hit in a} & {hit.id for hit in b}) / len(b) for a, b in zip(found, true, strict=True)
    ]
    numpy_times = _timed(lambda q: brute_force(prepared.vectors, q), questions[:5])[1]
    return rows(ours, exact, recalls, numpy_times, prepared, facts)


def _timed(ask: Callable[[Floats], Any], questions: list[Floats]) -> tuple[list[Any], list[float]]:
    answers, times = [], []
    for question in questions:
        began = time.perf_counter()
        answers.append(ask(question))
        times.append((time.perf_counter() - began) * 1000)
    return answers, times


def rows(
    ours: list[float],
    exact: list[float],
    recalls: list[float],
    numpy_times: list[float],
    prepared: Prepared,
    facts: dict[str, Any],
) -> list[Row]:
    """Times are milliseconds, one for each search; ``recalls`` are of each question."""
    count = len(prepared.vectors)
    here, floor = statistics.median(ours), statistics.median(exact)
    recall = statistics.fmean(recalls)
    what = f"dense top {LIMIT} of {count:,} x {DIMENSIONS}"
    notes = {
        "questions": len(recalls),
        "lowest_recall": min(recalls),
        "questions_below_0.9": sum(value < 0.9 for value in recalls),
        **facts,
    }
    speeds = {
        "mean_ms": statistics.fmean(ours),
        "p95_ms": float(np.percentile(ours, 95)),
        "exact_mean_ms": statistics.fmean(exact),
        "numpy_ms": statistics.median(numpy_times),
    }
    return [
        Row(
            PART,
            f"{what}: recall",
            "exact search on the same vectors",
            recall,
            1.0,
            "of the true top 100",
            recall,
            "at least",
            0.98,
            notes,
        ),
        Row(
            PART,
            f"{what}: speed",
            "exact search on the same vectors",
            here,
            floor,
            "ms",
            floor / here,
            "at least",
            50,
            speeds,
        ),
    ]

"""Recall and speed of a static encoder alone: exact cosines over a whole library, without an index.

Searches the arXiv library for the AutoScholarQuery questions, and SciFact for its claims. Questions with even line
numbers are for choosing between encoders, those with odd ones for reporting.

    scholarbase ingest ../shared/data/arxiv --library arxiv-library --encoder none
    scholarbase ingest ../shared/data/scifact --library scifact-library --keep title --encoder none
    python benchmarks/static_encoder.py --data ../shared/data --arxiv arxiv-library --scifact scifact-library ENCODER...
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

# The folder above this script's is not on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import ir_measures
import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from scholarbase.databases import open_immutable
from scholarbase.encoders import Encoder, document_text, open_encoder
from scholarbase.encoders.static import StaticEncoder
from scholarbase.identifiers import parse
from scholarbase.indexes.catalog import FILE_NAME, find
from scholarbase_research.evaluation.formats import read_queries
from scholarbase_research.evaluation.queries import Query

AUTOSCHOLAR: Final = ("R@20", "R@100", "R@1000")
SCIFACT: Final = ("nDCG@10", "R@100")
DEPTH: Final = 1_000
TIMED: Final = 20_000
"""Papers whose encoding is timed."""


def measure(
    encoder: Encoder, library: Path, queries: Sequence[Query], measures: Sequence[str]
) -> npt.NDArray[np.float64]:
    """The measures of each query, of shape (queries, measures). Answers that the library lacks count as missed."""
    with closing(open_immutable(library / FILE_NAME)) as db:
        rows = db.execute(
            "SELECT id, title, abstract FROM papers LEFT JOIN abstracts ON paper_id = id ORDER BY id"
        ).fetchall()
        answers = {a.id: parse(a.id) for query in queries for a in query.answers if a.id}
        known = find(db, answers.values())
    ids = np.array([row[0] for row in rows])
    weight = encoder.spec.title_weight
    papers = encoder.encode_documents(
        [document_text(title, abstract, weight) for _, title, abstract in rows]
    ).dense
    query_vectors = encoder.encode_queries([query.text for query in queries]).dense
    judged, run = [], []
    for query, vector in zip(queries, query_vectors, strict=True):
        for a in query.answers:
            if a.id:
                name = str(known.get(answers[a.id], f"absent {a.id}"))
                judged.append(ir_measures.Qrel(query.id, name, a.grade))
        cosines = papers @ vector
        best = np.argpartition(-cosines, DEPTH)[:DEPTH]
        run += [ir_measures.ScoredDoc(query.id, str(ids[row]), float(cosines[row])) for row in best]
    parsed = [ir_measures.parse_measure(name) for name in measures]
    values = {
        (metric.query_id, metric.measure): metric.value
        for metric in ir_measures.iter_calc(parsed, judged, run)
    }
    return np.array(
        [[values.get((query.id, parsed_measure), 0.0) for parsed_measure in parsed] for query in queries]
    )


def speed(encoder: StaticEncoder, library: Path) -> tuple[float, float]:
    """Papers per second, encoded and only tokenized."""
    with closing(open_immutable(library / FILE_NAME)) as db:
        rows = db.execute(
            "SELECT title, abstract FROM papers JOIN abstracts ON paper_id = id LIMIT ?", (TIMED,)
        )
        weight = encoder.spec.title_weight
        texts = [document_text(title, abstract, weight) for title, abstract in rows]
    seconds = []
    for run in (encoder.encode_documents, encoder.token_ids):
        run(texts[:1_000])
        start = time.perf_counter()
        run(texts)
        seconds.append(time.perf_counter() - start)
    return len(texts) / seconds[0], len(texts) / seconds[1]


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure static encoders.")
    parser.add_argument(
        "--data", type=Path, required=True, help="a folder with autoscholar/ and scifact/ in it"
    )
    parser.add_argument("--arxiv", type=Path, required=True, help="the library of arxiv/")
    parser.add_argument("--scifact", type=Path, required=True, help="the library of scifact/")
    parser.add_argument("encoders", nargs="+", help="names or folders")
    options = parser.parse_args()
    questions = read_queries(options.data / "autoscholar" / "queries.jsonl").queries
    claims = read_queries(options.data / "scifact").queries
    table = Table(
        "encoder",
        "questions",
        *AUTOSCHOLAR,
        *(f"SciFact {name}" for name in SCIFACT),
        "papers/s",
        "tokenizing",
    )
    for name in options.encoders:
        with closing(open_encoder(name)) as encoder:
            recall = measure(encoder, options.arxiv, questions, AUTOSCHOLAR)
            scifact = [
                f"{value:.3f}" for value in measure(encoder, options.scifact, claims, SCIFACT).mean(axis=0)
            ]
            rates = speed(encoder, options.arxiv) if isinstance(encoder, StaticEncoder) else ()
        shown: list[Any] = [*scifact, *(f"{rate:,.0f}" for rate in rates)]
        # Lines are numbered from 1, so the second question is the first with an even number.
        for part, values in (("all", recall), ("even", recall[1::2]), ("odd", recall[::2])):
            table.add_row(name, part, *(f"{value:.3f}" for value in values.mean(axis=0)), *shown)
            shown = []
    Console().print(table)


if __name__ == "__main__":
    main()

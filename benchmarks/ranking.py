"""Recall and time of the ways to search, and of hybrid search without each of its rules, with paired tests.

- AutoScholarQuery over the library of arxiv/;
- SciFact;
- citations: 500 papers of s2ag-citations/, each a question by its title as of its date; its references are the answers.

    scholarbase ingest ../shared/data/arxiv --library arxiv-library
    scholarbase ingest ../shared/data/scifact --library scifact-library --keep title
    scholarbase ingest ../shared/data/s2ag-citations --library citations-library --keep arxiv
    python benchmarks/ranking.py --data ../shared/data --arxiv arxiv-library --scifact scifact-library \\
        --citations citations-library

With ``--arxiv-reranker`` or ``--scifact-reranker``, the folder of a reranker, more rows have its order of the first 20,
50 and 100 papers:

    scholarbase encoder store arxiv-library --encoder MODEL --out arxiv-vectors
    python benchmarks/ranking.py --data ../shared/data --arxiv arxiv-library --arxiv-reranker arxiv-vectors \\
        --ways "hybrid (default)"

Each figure has its difference from the first row, and the p of a paired randomisation test.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, Final, NamedTuple
from unittest.mock import patch

# The folder above this script's is not on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from scholarbase.databases import open_immutable
from scholarbase.identifiers import parse
from scholarbase.indexes.catalog import FILE_NAME, find
from scholarbase.models.requests import SearchRequest
from scholarbase.search import fusion, legs, plan
from scholarbase.search.library import Library
from scholarbase.settings import load_settings
from scholarbase_research.evaluation.formats import read_queries
from scholarbase_research.evaluation.statistics import paired_test

WAYS: Final[dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "hybrid (default)": ({}, {}),
    "hybrid, bm25": ({}, {"engine": "bm25"}),
    "hybrid, no floor": ({"similarity_floor": False}, {}),
    "hybrid, exact": ({}, {"exact": True}),
    "hybrid, rrf": ({"fusion": "rrf"}, {}),
    "sparse, bm25": ({}, {"mode": "sparse"}),
    "sparse, feedback": ({}, {"mode": "sparse", "engine": "feedback"}),
    "sparse, fts5": ({}, {"mode": "sparse", "engine": "fts5"}),
    "dense": ({}, {"mode": "dense"}),
    "scholarquest": ({"profile": "scholarquest"}, {}),
    "prefer recent": ({}, {"prefer": "recent"}),
    "without the graph": ({"graph_weight": 0}, {}),
    "without the graph, prefer cited": ({"graph_weight": 0}, {"prefer": "cited"}),
}
"""By name: settings, and arguments of the search."""
RERANKED: Final[dict[str, dict[str, Any]]] = {
    f"first {depth} by the reranker{name}": {"rerank": "one", "rerank_depth": depth, **weight}
    for depth in (20, 50, 100)
    for name, weight in {"": {}, " alone": {"rerank_weight": 1.0}}.items()
}
"""By name of a row: arguments of a search with the reranker."""
RULES: Final[dict[str, tuple[Any, str, Any]]] = {
    "no first papers": (legs, "DENSE_FEEDBACK_WEIGHT", 0.0),
    "no rule for results that stand out": (fusion, "STANDOUT", math.inf),
    "equal weights": (fusion, "WEIGHTS", (0.5, 0.5)),
    "from 1,000 results of each leg": (plan, "FIRST", 1000),
}
"""By name of a row: the constant that turns a rule of the default off."""
MEASURES: Final = ("nDCG@10", "R@20", "R@100", "R@1000")
CITATION_QUESTIONS: Final = 500
REFERENCES: Final = 5
"""The least number of references of a question, in the library and not later than it."""


class Question(NamedTuple):
    text: str
    answers: frozenset[int]
    """Catalogue ids; negative ones are answers that the library lacks."""
    arguments: dict[str, Any]


def judged(library: Path, queries: Path, *, dated: bool = False) -> list[Question]:
    """The questions of a query file, with ``dated`` as of their dates."""
    read = read_queries(queries).queries
    ids = {answer.id: parse(answer.id) for query in read for answer in query.answers if answer.id}
    with open_immutable(library / FILE_NAME) as db:
        known = find(db, ids.values())
    absent = {name: -number for number, name in enumerate(ids, 1)}
    return [
        Question(
            query.text,
            frozenset(
                known.get(ids[answer.id], absent[answer.id])
                for answer in query.answers
                if answer.id and answer.grade > 0
            ),
            {"as_of": query.date} if dated else {},
        )
        for query in read
    ]


def citing(library: Path) -> list[Question]:
    """Titles of papers with references, drawn at random, without the paper itself among the results."""
    with open_immutable(library / FILE_NAME) as db:
        papers = db.execute(
            "SELECT p.id, p.title, p.last_day, p.arxiv_id FROM edges JOIN papers AS p ON p.id = edges.citing "
            "WHERE p.last_day IS NOT NULL GROUP BY p.id HAVING count(*) >= ? ORDER BY p.id",
            (2 * REFERENCES,),
        ).fetchall()
        random.Random(0).shuffle(papers)
        questions: list[Question] = []
        for number, title, day, arxiv_id in papers:
            cited = db.execute(
                "SELECT p.id FROM edges JOIN papers AS p ON p.id = edges.cited "
                "WHERE edges.citing = ? AND p.last_day <= ?",
                (number, day),
            ).fetchall()
            if len(cited) >= REFERENCES:
                as_of = f"{str(day)[:4]}-{str(day)[4:6]}-{str(day)[6:]}"
                arguments = {"as_of": as_of, "exclude_ids": (f"arXiv:{arxiv_id}",)}
                questions.append(Question(title, frozenset(row[0] for row in cited), arguments))
            if len(questions) == CITATION_QUESTIONS:
                break
    return questions


def measure(ranked: Sequence[int], answers: frozenset[int]) -> list[float]:
    """The values of :data:`MEASURES`."""
    gains = (1 / math.log2(rank + 1) for rank, paper in enumerate(ranked[:10], 1) if paper in answers)
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(10, len(answers)) + 1))
    recalls = [len(answers.intersection(ranked[:depth])) / len(answers) for depth in (20, 100, 1000)]
    return [sum(gains) / ideal, *recalls]


def run(
    path: Path, questions: Sequence[Question], settings: dict[str, Any], way: dict[str, Any]
) -> tuple[npt.NDArray[np.float64], float]:
    """The measures of each question, and the median milliseconds of a search, without reading its papers."""
    values, times = [], []
    with Library.open(path, settings=load_settings(timeout=60, known_items=False, **settings)) as library:
        for question in questions:
            request = SearchRequest(
                q=question.text, syntax="plain", limit=1000, timeout=60, **question.arguments, **way
            )
            start = perf_counter()
            ranking = library._ranker.rank(library._plan(request)[0])
            times.append(perf_counter() - start)
            values.append(measure([hit.id for hit in ranking.hits], question.answers))
    return np.array(values), 1000 * float(np.median(times))


def cell(ours: list[float], theirs: list[float]) -> str:
    """The mean of a row; its difference from the mean of the first row; and the p value of this difference."""
    mean = f"{np.mean(ours):.4f}"
    if ours == theirs:
        return mean
    return f"{mean} {np.mean(ours) - np.mean(theirs):+.4f} p {paired_test(ours, theirs).p:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the ways to search.")
    parser.add_argument(
        "--data", type=Path, required=True, help="a folder with autoscholar/ and scifact/ in it"
    )
    for name in ("arxiv", "scifact", "citations"):
        parser.add_argument(f"--{name}", type=Path, help=f"the library of {name}; left out if missing")
        parser.add_argument(f"--{name}-reranker", help=f"a reranker for the library of {name}")
    parser.add_argument("--dated", action="store_true", help="arxiv's questions as of their dates")
    parser.add_argument(
        "--half", choices=("even", "odd"), help="only every second question: the first is odd"
    )
    parser.add_argument(
        "--ways", nargs="+", choices=[*WAYS, *RULES], default=[*WAYS, *RULES], help="only these rows"
    )
    options = parser.parse_args()
    families: dict[str, Callable[[], list[Question]]] = {
        "arxiv": lambda: judged(
            options.arxiv, options.data / "autoscholar" / "queries.jsonl", dated=options.dated
        ),
        "scifact": lambda: judged(options.scifact, options.data / "scifact"),
        "citations": lambda: citing(options.citations),
    }
    for family, read in families.items():
        path: Path | None = getattr(options, family)
        if path is None:
            continue
        questions = read()[
            {None: slice(None), "even": slice(1, None, 2), "odd": slice(0, None, 2)}[options.half]
        ]
        table = Table(f"{family}: {len(questions)} questions", *MEASURES, "ms")
        first: npt.NDArray[np.float64] | None = None
        reranker = getattr(options, f"{family}_reranker")
        settings = {"rerankers": f"one={reranker}"} if reranker else {}
        for name in [*options.ways, *(RERANKED if reranker else ())]:
            if name in RERANKED:
                values, milliseconds = run(path, questions, settings, RERANKED[name])
            elif name in RULES:
                module, constant, off = RULES[name]
                with patch.object(module, constant, off):
                    values, milliseconds = run(path, questions, {}, {})
            else:
                values, milliseconds = run(path, questions, *WAYS[name])
            first = values if first is None else first
            columns = zip(values.T.tolist(), first.T.tolist(), strict=True)
            table.add_row(name, *(cell(ours, theirs) for ours, theirs in columns), f"{milliseconds:.1f}")
        Console(width=150).print(table)


if __name__ == "__main__":
    main()

"""How often the intervals of docs/completeness.md hold: questions with known answers, half of them hidden.

A random half of the answers is the list that is known; the other answers count as seen if a search returns them.
*Only searches* has no known papers: what they returned and what that cites counts as seen. Without ``--queries`` the
questions are titles of papers of a library with citations, and the answers their references, or the papers that cite
them (``benchmarks/graph.py``). The prior was chosen on ``--answers citing --fewest 4`` of the citations and of the
sample, and on the references of the sample.

    python benchmarks/completeness.py --library my-library --queries ../shared/data/autoscholar/queries.jsonl
    python benchmarks/completeness.py --library citations-library
    python benchmarks/completeness.py --library sample-library --fewest 4
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from time import perf_counter
from typing import Final, NamedTuple

# The folder above this script's is not on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scholarbase.search.library import Library
from scholarbase.settings import load_settings
from scholarbase_research.completeness.checking import RecallBody, linked_papers, search_samples
from scholarbase_research.completeness.samples import FEWEST, Sample, Unseen, estimates, new_by_rank
from scholarbase_research.evaluation.answers import resolve_answers
from scholarbase_research.evaluation.formats import read_queries

HALVINGS: Final = 5
"""Random halves of the answers of each question, over which the figures are means."""
GROUPS: Final = (3, 4, 6, 11, 21, 1000)


class Question(NamedTuple):
    id: str
    text: str
    answers: tuple[str, ...]


class Outcome(NamedTuple):
    """An estimate for a question with ``answers``, of which ``unseen`` were not seen."""

    answers: int
    estimate: Unseen
    unseen: int

    @property
    def holds(self) -> bool:
        return self.estimate.low <= self.unseen <= self.estimate.high


def read(library: Library, queries: Path | None, answers: str, fewest: int) -> list[Question]:
    """The questions of a file, with those of their answers that the library has, or of the citations of papers."""
    if queries is not None:
        judged = resolve_answers(library, read_queries(queries)).queries
        return [
            Question(query.id, query.text, tuple(answer.paper_id for answer in query.relevant if answer.held))
            for query in judged
        ]
    from benchmarks.graph import MOST, Graph

    graph = Graph(library.path)
    linked = graph.citing if answers == "citing" else graph.references
    questions = graph.questions(lambda paper: linked[paper], fewest=fewest)[:200]
    return [
        Question(
            str(number), question.text, tuple(graph.papers[paper].id for paper in sorted(question.answers))
        )
        for number, question in enumerate(questions)
        if len(question.answers) <= MOST
    ]


def outcomes(library: Library, question: Question, depth: int) -> Iterator[tuple[str, Outcome]]:
    answers = frozenset(question.answers)
    request = RecallBody.of(q=question.text, relevant=[*answers], depth=depth)
    samples = search_samples(library, request)
    returned = answers.intersection(*[frozenset(paper for sample in samples for paper in sample.ids)])
    for halving in range(HALVINGS):
        generator = random.Random(f"{halving} {question.id}")
        known = frozenset(generator.sample(sorted(answers), len(answers) // 2))
        yield from _outcomes(library, samples, answers, known, returned | known)
    yield from _outcomes(library, samples, answers, frozenset(), returned)


def _outcomes(
    library: Library,
    samples: Sequence[Sample],
    answers: frozenset[str],
    known: frozenset[str],
    seen: frozenset[str],
) -> Iterator[tuple[str, Outcome]]:
    samples, steps = [*samples], new_by_rank(samples, seen)
    if not known:
        linked = linked_papers(library, seen, None).values()
        samples.append(
            Sample("citations", "", tuple(dict.fromkeys(paper for ids in linked for paper in ids)))
        )
        seen |= answers.intersection(samples[-1].ids)
    for estimate in estimates(samples, seen, known, steps):
        if (estimate.method == "known") == bool(known):
            method = "half is known" if known else f"only searches: {estimate.method}, {estimate.samples}"
            yield method, Outcome(len(answers), estimate, len(answers - seen))


def show(method: str, rows: Sequence[Outcome], halvings: int) -> None:
    for low, high in (GROUPS[0], GROUPS[-1]), *pairwise(GROUPS):
        chosen = [row for row in rows if low <= row.answers < high]
        if chosen:
            print(
                f"{method:50} {low:3} to {high - 1:3} answers: {len(chosen) / halvings:5.1f} questions, "
                f"holds {fmean(row.holds for row in chosen):.3f}, low end holds "
                f"{fmean(row.estimate.low <= row.unseen for row in chosen):.3f}, unseen "
                f"{fmean(row.unseen for row in chosen):4.1f}, "
                f"estimate {fmean(row.estimate.unseen for row in chosen):4.1f}, interval "
                f"{fmean(row.estimate.low for row in chosen):.1f} to "
                f"{fmean(row.estimate.high for row in chosen):.1f}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how often estimates of unseen papers hold.")
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--queries", type=Path, help="questions with answers")
    parser.add_argument("--answers", choices=("references", "citing"), default="references")
    parser.add_argument("--fewest", type=int, default=10, help="answers of a question, without --queries")
    parser.add_argument("--depth", type=int, default=100)
    options = parser.parse_args()
    rows: defaultdict[str, list[Outcome]] = defaultdict(list)
    seconds = []
    with Library.open(options.library, settings=load_settings(timeout=60)) as library:
        every = read(library, options.queries, options.answers, options.fewest)
        questions = [question for question in every if len(question.answers) >= FEWEST]
        print(f"{len(every)} questions, {len(questions)} with at least {FEWEST} answers in the library")
        for question in questions:
            begin = perf_counter()
            for method, outcome in outcomes(library, question, options.depth):
                rows[method].append(outcome)
            seconds.append(perf_counter() - begin)
    for method, of_method in rows.items():
        show(method, of_method, HALVINGS if method == "half is known" else 1)
    print(f"{1000 * fmean(seconds):.0f} ms a question")


if __name__ == "__main__":
    main()

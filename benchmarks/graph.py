"""What the citation graph adds to hybrid search, over a library with citations.

A question is the title or the abstract of a paper, and the paper itself is taken out. What is right comes from its
citations: its references, the papers that cite it, or those that are cited together with it. Settings were chosen on
the first 200 papers; the next 200 report. *Known* asks for a paper by the last sentence of its abstract, and only this
paper is right: its R@1 shows what the graph costs such questions. *Contexts* are sentences that cite papers of the
library, which are right: those of abstracts that name papers by their arXiv ids and, with ``--data``, of unarXive's
full texts.

    scholarbase ingest ../shared/data/s2ag-citations --library citations-library
    python benchmarks/graph.py --library citations-library --data ../shared/data
    python benchmarks/graph.py --library citations-library --copies 211

With ``--copies`` it measures only the time of reading the edges of 50 seeds: the library's own, and those of so many
copies of its graph, whose papers are numbered at random.
"""

from __future__ import annotations

import argparse
import random
import re
import sqlite3
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final, NamedTuple

# The folder above this script's is not on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from benchmarks.claims import cited_papers, citing_sentences
from scholarbase.databases import open_immutable
from scholarbase.documents.sentences import sentence_spans
from scholarbase.indexes import citations
from scholarbase.indexes.catalog import FILE_NAME, canonical_id, id_columns
from scholarbase.indexes.schema import open_for_building
from scholarbase.models.requests import SearchRequest
from scholarbase.search import fusion
from scholarbase.search.library import Library
from scholarbase.settings import load_settings
from scholarbase_research.evaluation.statistics import paired_test

DEPTHS: Final = (1, 20, 100, 1000)
FEWEST, MOST = 10, 60
"""References of a paper that is a question."""
CHOSEN, REPORTED = 200, 200
TOGETHER: Final = 3
"""The least number of papers that cite two papers which are called cited together."""
LONGEST: Final = 3000
"""Characters of an abstract that are searched for."""
SHORTEST: Final = 8
"""Words of a sentence that is a question."""
_MENTIONED: Final = re.compile(
    r"\b((?:hep-(?:th|ph|lat|ex)|gr-qc|(?:astro|math)-ph|nucl-(?:th|ex)|cond-mat|quant-ph|math|alg-geom|dg-ga|q-alg"
    r"|physics|solv-int)(?:\.[A-Z]{2})?)[/ ]\s?(\d{7})((?:(?:,? and|,|;)\s*\d{7}\b)*)"
)
"""An arXiv id of before 2007, and the numbers of others in a list."""


class Paper(NamedTuple):
    id: str
    title: str
    abstract: str
    year: int | None


class Question(NamedTuple):
    text: str
    excluded: str | None
    answers: frozenset[int]
    year: int | None


class Graph:
    """The papers and edges of a library."""

    def __init__(self, path: Path) -> None:
        with open_immutable(path / FILE_NAME) as db:
            self.papers = {
                row[0]: Paper(canonical_id(row[1], row[2], row[3]), *row[4:])
                for row in db.execute(
                    f"SELECT p.id, {id_columns('p')}, p.title, coalesce(a.abstract, ''), p.year FROM papers AS p "
                    "LEFT JOIN abstracts AS a ON a.paper_id = p.id"
                )
            }
            self.references: defaultdict[int, set[int]] = defaultdict(set)
            self.citing: defaultdict[int, set[int]] = defaultdict(set)
            for citing, cited in db.execute("SELECT citing, cited FROM edges"):
                self.references[citing].add(cited)
                self.citing[cited].add(citing)

    def together(self, paper: int) -> set[int]:
        """Up to 40 papers that are cited together with a paper most often."""
        counts = Counter(
            cited
            for other in self.citing.get(paper, ())
            for cited in self.references[other]
            if cited != paper
        )
        return {cited for cited, count in counts.most_common(40) if count >= TOGETHER}

    def drawn(self, fewest: int = FEWEST) -> list[int]:
        """The papers with enough references, in an order drawn at random."""
        papers = sorted(paper for paper, cited in self.references.items() if fewest <= len(cited) <= MOST)
        random.Random(43).shuffle(papers)
        return papers

    def questions(
        self, answers: Callable[[int], Iterable[int]], *, by: str = "title", fewest: int = FEWEST
    ) -> list[Question]:
        """Questions whose answers are related to a paper, ``fewest`` at least."""
        chosen = []
        for number in self.drawn(fewest):
            paper, right = self.papers[number], frozenset(answers(number))
            if len(right) >= fewest:
                text = (paper.abstract or paper.title)[:LONGEST] if by == "abstract" else paper.title
                chosen.append(Question(text, paper.id, right, paper.year))
        return chosen[: CHOSEN + REPORTED]

    def contexts(self) -> list[Question]:
        """The sentences of abstracts that name other papers of the library, without their ids."""
        numbers = {paper.id: number for number, paper in self.papers.items()}
        chosen = []
        for number, paper in sorted(self.papers.items()):
            for start, end in sentence_spans(paper.abstract):
                sentence = paper.abstract[start:end]
                names = {
                    f"arXiv:{mention[1]}/{digits}"
                    for mention in _MENTIONED.finditer(sentence)
                    for digits in (mention[2], *re.findall(r"\d{7}", mention[3]))
                }
                right = frozenset(numbers[name] for name in names if name in numbers) - {number}
                text = " ".join(_MENTIONED.sub(" ", sentence).split())
                if right and len(text.split()) >= SHORTEST:
                    chosen.append(Question(text, paper.id, right, paper.year))
        return chosen

    def citing_sentences(self, library: Library, data: Path) -> list[Question]:
        """The sentences of unarXive's full texts that cite papers of the library."""
        numbers = {paper.id: number for number, paper in self.papers.items()}
        sentences = list(citing_sentences(data))
        cited = cited_papers(library, sorted({entry for _, _, entry in sentences}))
        right: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
        for citing, sentence, entry in sentences:
            if entry in cited:
                right[citing, sentence].add(numbers[cited[entry].id])
        return [
            Question(sentence, None, frozenset(answers), None) for (_, sentence), answers in right.items()
        ]

    def known(self) -> list[Question]:
        """The last sentences of abstracts, whose only answer is their paper."""
        numbers = sorted(self.papers)
        random.Random(7).shuffle(numbers)
        chosen = []
        for number in numbers:
            sentences = re.split(r"(?<=[.!?])\s+", self.papers[number].abstract)
            if len(sentences) >= 3 and 9 <= len(sentences[-1].split()) <= 30:
                chosen.append(Question(sentences[-1], None, frozenset([number]), self.papers[number].year))
        return chosen[: CHOSEN + REPORTED]


def run(
    library: Library, questions: Iterable[Question], weight: float | None
) -> tuple[npt.NDArray[np.float64], float]:
    """The recall of each question at :data:`DEPTHS`, and the median milliseconds of a search."""
    values, times = [], []
    for question in questions:
        request = SearchRequest(
            q=question.text,
            syntax="plain",
            negation="off",
            limit=1000,
            graph_weight=weight,
            exclude_ids=(question.excluded,) if question.excluded else (),
        )
        start = perf_counter()
        ranked = [hit.id for hit in library._ranker.rank(library._plan(request)[0]).hits]
        times.append(perf_counter() - start)
        values.append(
            [len(question.answers.intersection(ranked[:depth])) / len(question.answers) for depth in DEPTHS]
        )
    return np.array(values), 1000 * float(np.median(times))


def groups(questions: list[Question]) -> Mapping[str, npt.NDArray[np.bool_]]:
    """Questions by the year of their paper and by the number of answers, in thirds."""
    parts = {}
    for name, values in (
        ("year", [question.year or 0 for question in questions]),
        ("answers", [len(question.answers) for question in questions]),
    ):
        low, high = np.percentile(values, (33, 67)).astype(int)
        array = np.array(values)
        for label, mask in (
            (f"to {low}", array <= low),
            (f"{low + 1} to {high}", (array > low) & (array <= high)),
            (f"from {high + 1}", array > high),
        ):
            if mask.any():
                parts[f"{name} {label}"] = mask
    return parts


def similar(path: Path, graph: Graph) -> dict[str, npt.NDArray[np.float64]]:
    """R@20 and R@100 of similar papers as of the end of 1998, by the legs that are fused: right are those that at least
    three later papers cite together with the paper."""
    with open_immutable(path / FILE_NAME) as db:
        known = {row[0] for row in db.execute("SELECT id FROM papers WHERE last_day < 19990101")}
    papers = sorted(known)
    random.Random(5).shuffle(papers)
    chosen: list[tuple[int, set[int]]] = []
    for paper in papers:
        later = graph.citing.get(paper, set()) - known
        counts = Counter(cited for citing in later for cited in graph.references[citing] if cited != paper)
        right = {cited for cited, count in counts.items() if count >= TOGETHER and cited in known}
        if len(later) >= 5 <= len(right):
            chosen.append((paper, right))
    values: defaultdict[str, list[list[float]]] = defaultdict(list)
    numbers = {paper.id: number for number, paper in graph.papers.items()}
    with Library.open(path, settings=load_settings(timeout=60)) as library:
        for paper, right in chosen[:300]:
            request = {"as_of": "1998-12-31", "limit": 1000, "explain": True, "fields": ["id"]}
            results = library.similar(graph.papers[paper].id, **request).results  # type: ignore[arg-type]
            for legs in (("dense",), ("dense", "cocitation"), ("dense", "cocitation", "graph")):
                scores = {
                    numbers[hit.paper.id]: sum(leg.share for leg in hit.explain or () if leg.leg in legs)
                    for hit in results
                }
                ranked = sorted(
                    (number for number in scores if scores[number]), key=lambda number: -scores[number]
                )
                values[", ".join(legs)].append([len(right & set(ranked[:k])) / len(right) for k in (20, 100)])
    return {legs: np.array(rows) for legs, rows in values.items()}


def read_edges(path: Path, copies: int) -> None:
    """Print the time of reading the edges of 50 first results, from the library and from copies of its edges."""
    with Library.open(path, settings=load_settings(timeout=60, known_items=False)) as library:
        graph = Graph(path)
        questions = graph.questions(lambda paper: graph.references[paper])
        seeds = [
            [hit.id for hit in library._ranker.rank(library._plan(request)[0]).hits[: fusion.SEEDS]]
            for request in (
                SearchRequest(q=question.text, syntax="plain", graph_weight=0, limit=fusion.SEEDS)
                for question in questions
            )
        ]
    with open_immutable(path / FILE_NAME) as db, TemporaryDirectory() as folder:
        edges = np.array(db.execute("SELECT citing, cited FROM edges").fetchall(), dtype=np.int64)
        print(f"{len(edges):,} edges: {milliseconds(db, seeds)}")
        ids, places = np.unique(edges, return_inverse=True)
        numbers = np.random.default_rng(0).permutation(copies * len(ids)) + 1
        everywhere = numbers.reshape(copies, len(ids))[:, places.reshape(-1, 2)].reshape(-1, 2)
        with open_for_building(Path(folder) / FILE_NAME) as large:
            # In their order, and the index of the other direction afterwards: else each row is written to another page.
            large.execute("DROP INDEX edges_by_cited")
            for part in np.array_split(everywhere[np.lexsort(everywhere.T[::-1])], copies):
                large.executemany("INSERT INTO edges(citing, cited) VALUES (?, ?)", part.tolist())
        with open_for_building(Path(folder) / FILE_NAME) as large:
            known = dict(zip(ids.tolist(), numbers.tolist(), strict=False))
            seeds = [[known[seed] for seed in of_question if seed in known] for of_question in seeds]
            print(f"{copies * len(edges):,} edges: {milliseconds(large, seeds)}")


def milliseconds(db: sqlite3.Connection, seeds: list[list[int]]) -> str:
    """The median and the 95th percentile of reading the edges of each list of seeds, once all were read."""
    for _ in range(2):
        times = []
        for of_question in seeds:
            start = perf_counter()
            citations.linked(db, of_question, fusion.MOST_LINKS)
            times.append(1000 * (perf_counter() - start))
    return f"{np.median(times):.2f} ms, 95% within {np.percentile(times, 95):.2f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the citation graph in hybrid search.")
    parser.add_argument("--library", type=Path, required=True, help="a library with citations")
    parser.add_argument("--weight", type=float, help="of the graph; by default the setting")
    parser.add_argument("--data", type=Path, help="a folder with unarxive-sample/ in it")
    parser.add_argument("--copies", type=int, help="only the time of reading edges, of so many copies too")
    options = parser.parse_args()
    if options.copies:
        read_edges(options.library, options.copies)
        return
    graph = Graph(options.library)
    families = {
        "references, by title": graph.questions(lambda paper: graph.references[paper]),
        "references, by abstract": graph.questions(lambda paper: graph.references[paper], by="abstract"),
        "citing papers, by title": graph.questions(lambda paper: graph.citing.get(paper, ())),
        "cited together, by title": graph.questions(graph.together),
        "known, by a sentence": graph.known(),
        "contexts, in abstracts": graph.contexts(),
    }
    table = Table("questions", "n", *(f"R@{depth} without, with" for depth in DEPTHS), "ms")
    with Library.open(options.library, settings=load_settings(timeout=60, known_items=False)) as library:
        if options.data:
            families["contexts, in full texts"] = graph.citing_sentences(library, options.data)
        for name, questions in families.items():
            without, before = run(library, questions, 0)
            added, after = run(library, questions, options.weight)
            parts = {
                "chosen": np.arange(len(questions)) < CHOSEN,
                "reported": np.arange(len(questions)) >= CHOSEN,
            }
            if name.startswith("contexts"):
                parts = {"all": np.ones(len(questions), dtype=np.bool_)}
            if name.startswith("references, by title"):
                parts |= groups(questions)
            for part, mask in parts.items():
                cells = []
                for column in range(len(DEPTHS)):
                    old, new = without[mask, column], added[mask, column]
                    p = 1.0 if (old == new).all() else paired_test(new.tolist(), old.tolist()).p
                    cells.append(f"{old.mean():.3f} {new.mean():.3f} (p {p:.3f})" if len(old) else "")
                times = f"{before:.1f} {after:.1f}"
                table.add_row(f"{name}: {part}", str(int(mask.sum())), *cells, times)
    Console(width=200).print(table)
    for legs, rows in similar(options.library, graph).items():
        chosen, reported = rows[:150].mean(axis=0).round(3), rows[150:].mean(axis=0).round(3)
        print(f"similar, {legs}: R@20 and R@100 {chosen} chosen, {reported} reported")


if __name__ == "__main__":
    main()

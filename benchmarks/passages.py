"""The quality of searches with full texts, on those of the unarXive sample.

    scholarbase ingest ../shared/data/arxiv --documents ../shared/data/unarxive-sample --library texts
    python -m benchmarks.passages texts

Questions are sentences of the texts, each without its first three words; a search finds one if the passage that holds
the sentence is among its first five. Sentences are drawn with a fixed seed from paragraphs that are no captions. They
have twelve words or more, so that some are left, and the same three quarters of letters and spaces as prose: a sentence
of formulas is no question.

Then citations: each citation mark whose cited paper the library holds is a question, the sentence without its marks, as
of the day of the citing paper and without it; the answer is the cited paper. Beside the search of papers there is one
with the contexts of the other full texts: the papers that they cite are ranked by the best BM25 score of a context, and
fused with the others by reciprocal rank, with a small weight.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from statistics import fmean
from typing import Final, NamedTuple, get_args

from scholarbase.databases import open_immutable
from scholarbase.documents.ranking import rank_passages
from scholarbase.documents.schema import FILE_NAME
from scholarbase.documents.sentences import sentence_spans
from scholarbase.documents.store import read_document
from scholarbase.indexes.catalog import Catalog
from scholarbase.indexes.vectors.base import ScoredId
from scholarbase.models.document_requests import InPaperEngine
from scholarbase.models.document_responses import PassageHit
from scholarbase.models.limits import Mode
from scholarbase.search.fusion import fuse
from scholarbase.search.library import Library
from scholarbase_research.evaluation.statistics import paired_test

SEED: Final = 19
QUESTIONS: Final = 500
LEFT_OUT: Final = 3
"""First words of a sentence that a question lacks."""
LEAST_WORDS: Final = 12
PROSE: Final = 0.75
FIRST: Final = 5
CITED_DEPTH: Final = 20
CONTEXT_WEIGHT: Final = 0.5
LEAST_CITING: Final = 4
MAX_TEXT: Final = 2000
_MARK: Final = re.compile(r"\[\d+\](?:\s*[,;-]\s*(?=\[))?")


class Question(NamedTuple):
    """A question, and the paper and the offsets of the sentence that it is made of."""

    text: str
    paper: str
    start: int
    end: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", type=Path, help="a library with the full texts")
    options = parser.parse_args()
    questions = random.Random(SEED).sample(sorted(_questions(options.library)), QUESTIONS)
    with Library.open(options.library) as library:
        print(f"{len(questions)} questions, snapshot {library.snapshot_id}")
        for mode in get_args(Mode):
            _print(f"over all, {mode}", questions, _search(library, mode))
        for engine in get_args(InPaperEngine):
            _print(f"in its paper, {engine}", questions, _read(library, engine))
        _cite(library, options.library)


def _search(library: Library, mode: Mode) -> Callable[[Question], Sequence[PassageHit]]:
    return lambda question: (
        library.search_passages(question.text, syntax="plain", mode=mode, limit=FIRST).results
    )


def _read(library: Library, engine: InPaperEngine) -> Callable[[Question], Sequence[PassageHit]]:
    return lambda question: (
        library.passages(question.paper, question.text, engine=engine, limit=FIRST).results
    )


def _print(
    name: str, questions: Sequence[Question], search: Callable[[Question], Sequence[PassageHit]]
) -> None:
    ranks = [_rank(question, search(question)) for question in questions]
    first = sum(rank == 1 for rank in ranks) / len(ranks)
    print(
        f"{name}: {sum(rank is not None for rank in ranks) / len(ranks):.1%} in the first {FIRST}, {first:.1%} first"
    )


def _rank(question: Question, hits: Sequence[PassageHit]) -> int | None:
    """The rank of a passage that holds most of the sentence: a passage may end inside it."""
    middle = (question.start + question.end) // 2
    for rank, hit in enumerate(hits, 1):
        if hit.paper.id == question.paper and hit.passage.start <= middle < hit.passage.end:
            return rank
    return None


def _questions(library: Path) -> Iterator[Question]:
    with (
        closing(open_immutable(library / FILE_NAME)) as db,
        closing(Catalog(library / "catalog.sqlite")) as papers,
    ):
        for number, paper in db.execute("SELECT id, paper FROM documents WHERE is_main").fetchall():
            document = read_document(db, number)
            [record] = papers.papers([paper], ("id",))
            for paragraph in document.paragraphs:
                if paragraph.kind != "paragraph":
                    continue
                text = document.text[paragraph.start : paragraph.end]
                for start, end in sentence_spans(text):
                    words = text[start:end].split()
                    prose = sum(char.isalpha() or char.isspace() for char in text[start:end])
                    if len(words) >= LEAST_WORDS and prose >= PROSE * (end - start):
                        question = " ".join(words[LEFT_OUT:])
                        yield Question(question, record.id, paragraph.start + start, paragraph.start + end)


class Cited(NamedTuple):
    """A citation mark: the sentence without marks, its paper with the day, and the cited paper."""

    text: str
    citing: str
    day: str
    cited: str


def _cite(library: Library, path: Path) -> None:
    marks = list(_marks(library, path))
    for mode in get_args(Mode):
        rankings = [_papers(library, mark, mode) for mark in marks]
        with_contexts = [_fused(papers, mark, marks) for papers, mark in zip(rankings, marks, strict=True)]
        before, after = (
            [float(mark.cited in papers[:CITED_DEPTH]) for papers, mark in zip(ranked, marks, strict=True)]
            for ranked in (rankings, with_contexts)
        )
        test = paired_test(before, after)
        print(
            f"citations, {mode}: R@{CITED_DEPTH} of {len(marks)} marks {fmean(before):.3f}, with the contexts of other "
            f"texts {fmean(after):.3f}, p = {test.p:.2f}"
        )


def _papers(library: Library, mark: Cited, mode: Mode) -> list[str]:
    hits = library.search(
        mark.text,
        syntax="plain",
        mode=mode,
        limit=100,
        as_of=mark.day,
        exclude_ids=[mark.citing],
        fields=["id"],
    ).results
    return [hit.paper.id for hit in hits]


def _fused(papers: Sequence[str], mark: Cited, marks: Sequence[Cited]) -> list[str]:
    others = [other for other in marks if other.citing != mark.citing]
    ranked = rank_passages([other.text for other in others], mark.text)
    evidence = list(dict.fromkeys(others[position].cited for position, _ in ranked))
    numbers = {paper: number for number, paper in enumerate(dict.fromkeys([*papers, *evidence]))}
    legs = {
        name: [ScoredId(numbers[p], 0.0) for p in leg]
        for name, leg in (("papers", papers), ("contexts", evidence))
    }
    names = list(numbers)
    return [names[hit.id] for hit in fuse(legs, weights={"contexts": CONTEXT_WEIGHT})[0]]


def _marks(library: Library, path: Path) -> Iterator[Cited]:
    """The marks of each sentence once for each cited paper. Several marks of one entry in a sentence are one."""
    with closing(open_immutable(path / FILE_NAME)) as db, closing(Catalog(path / "catalog.sqlite")) as papers:
        rows = db.execute(
            """
            SELECT DISTINCT d.id, d.paper FROM documents d JOIN bibliography b ON b.document = d.id
            WHERE d.is_main AND b.paper != d.paper ORDER BY d.paper
            """
        ).fetchall()
        seen: set[tuple[str, str]] = set()
        for _, paper in rows:
            [citing] = papers.papers([paper], ("id", "publication_date"))
            offset: int | None = 0
            while offset is not None:
                page = library.citation_contexts(citing.id, direction="references", limit=100, offset=offset)
                offset = page.next_offset
                for context in page.results:
                    text = " ".join(_MARK.sub(" ", context.passage.text).split())
                    if (
                        context.paper is None
                        or context.paper.id == citing.id
                        or (text, context.paper.id) in seen
                    ):
                        continue
                    seen.add((text, context.paper.id))
                    if len(text.split()) >= LEAST_CITING and citing.publication_date:
                        yield Cited(text[:MAX_TEXT], citing.id, citing.publication_date, context.paper.id)


if __name__ == "__main__":
    main()

"""The quality of searches of passages, on the full texts of the unarXive sample: ``python -m benchmarks.passages``.

Questions are sentences of the texts, each without its first three words; a search finds one if the passage that holds
the sentence is among its first five. Sentences are drawn with a fixed seed from paragraphs that are no captions. They
have twelve words or more, so that some are left, and the same three quarters of letters and spaces as prose: a sentence
of formulas is no question.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple, get_args

from scholarbase.databases import open_immutable
from scholarbase.documents.schema import FILE_NAME
from scholarbase.documents.sentences import sentence_spans
from scholarbase.documents.store import read_document
from scholarbase.indexes.catalog import Catalog
from scholarbase.models.document_requests import InPaperEngine
from scholarbase.models.document_responses import PassageHit
from scholarbase.models.limits import Mode
from scholarbase.search.library import Library

SEED: Final = 19
QUESTIONS: Final = 500
LEFT_OUT: Final = 3
"""First words of a sentence that a question lacks."""
LEAST_WORDS: Final = 12
PROSE: Final = 0.75
FIRST: Final = 5


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


def _search(library: Library, mode: Mode) -> Callable[[Question], Sequence[PassageHit]]:
    return lambda one: library.search_passages(one.text, syntax="plain", mode=mode, limit=FIRST).results


def _read(library: Library, engine: InPaperEngine) -> Callable[[Question], Sequence[PassageHit]]:
    return lambda one: library.passages(one.paper, one.text, engine=engine, limit=FIRST).results


def _print(
    name: str, questions: Sequence[Question], search: Callable[[Question], Sequence[PassageHit]]
) -> None:
    found = [_rank(one, search(one)) for one in questions]
    first = sum(rank == 1 for rank in found) / len(found)
    print(
        f"{name}: {sum(rank is not None for rank in found) / len(found):.1%} in the first {FIRST}, {first:.1%} first"
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
            [found] = papers.papers([paper], ("id",))
            for paragraph in document.paragraphs:
                if paragraph.kind != "paragraph":
                    continue
                text = document.text[paragraph.start : paragraph.end]
                for start, end in sentence_spans(text):
                    words = text[start:end].split()
                    prose = sum(char.isalpha() or char.isspace() for char in text[start:end])
                    if len(words) >= LEAST_WORDS and prose >= PROSE * (end - start):
                        question = " ".join(words[LEFT_OUT:])
                        yield Question(question, found.id, paragraph.start + start, paragraph.start + end)


if __name__ == "__main__":
    main()

"""Draw judged papers for an audit, the same number of each score, and write them as a sheet."""

from __future__ import annotations

import csv
import hashlib
import heapq
import io
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from scholarbase.databases import open_for_reading
from scholarbase.errors import InvalidRequest, PaperNotFound, QueryFileError, RunExists
from scholarbase.files import atomic_write, storage_errors
from scholarbase.models.checks import check_path, check_whole, shown
from scholarbase.models.limits import MAX_IDS
from scholarbase.models.source import Source
from scholarbase_research.construction.audit.scales import Scale

FIELDS: Final = ("question", "paper", "title", "abstract", "score")
ANNOTATORS: Final = 3
COLUMNS: Final = ("item", *FIELDS, *(f"annotator_{n}" for n in range(1, ANNOTATORS + 1)), "bias")
MAX_PER_SCORE: Final = 10_000
DATABASE: Final = "construction.sqlite"
"""The database in the folder of a construction."""


class Judged(NamedTuple):
    """A paper and the score that the judges gave it for a question."""

    question: str
    paper: str
    title: str
    abstract: str
    score: float


@dataclass(frozen=True, slots=True)
class Sample:
    """The drawn items in the order of the sheet, and how many there are and were drawn of each score."""

    items: tuple[Judged, ...]
    available: Mapping[float, int]
    drawn: Mapping[float, int]


def read_judged(run: Path, scale: Scale) -> list[Judged]:
    """The graded papers of a construction, by its folder or database, without title and abstract.

    A grade is the place of a label in the rubric, the highest that is not above the score. So grade and score together
    tell whether the scale is the rubric's.

    Raises:
        QueryFileError: the run cannot be read, or has scores that do not fit the scale.
    """
    database = check_path(run, "run")
    database = database / DATABASE if database.is_dir() else database
    if not database.is_file():
        raise QueryFileError(f"No run at {database}: give the folder of a construction.")
    try:
        with closing(open_for_reading(database)) as connection:
            decisions = connection.execute(
                "SELECT questions.text, decisions.paper, decisions.score, decisions.grade FROM decisions "
                "JOIN questions USING (question) WHERE decisions.grade IS NOT NULL "
                "ORDER BY decisions.question, decisions.paper"
            ).fetchall()
    except sqlite3.DatabaseError as error:
        raise QueryFileError(f"{database} is not the database of a construction ({error}).") from error
    for _, paper, score, grade in decisions:
        if scale.place(score) != grade:
            raise QueryFileError(
                f"{database}: the score {shown(score, 80)} of {paper} is label {grade + 1} of its rubric, and not of "
                f"the scale {', '.join(scale.shown)}: give --scale with all labels of the rubric."
            )
    return [Judged(question, paper, "", "", scale.labels[grade]) for question, paper, _, grade in decisions]


def draw(items: Iterable[Judged], per_score: int, seed: int) -> Sample:
    """Draw ``per_score`` items of each score at random, or all if there are fewer.

    The items of the lowest hashes of seed, question and paper are drawn, so that the order of ``items`` does not
    matter, and a larger sample contains a smaller one. The sheet's order is another hash's: it does not tell the
    scores apart.

    Raises:
        InvalidRequest: an argument is out of range, there are no items, or a paper was judged twice for a question.
    """
    check_whole(per_score, "per_score", 1, MAX_PER_SCORE)
    check_whole(seed, "seed", 0)
    available: Counter[float] = Counter()
    kept: dict[float, list[tuple[int, int, Judged]]] = {}
    for number, item in enumerate(items):
        available[item.score] += 1
        heap = kept.setdefault(item.score, [])
        entry = (-_hash(seed, "draw", item), -number, item)
        if len(heap) < per_score:
            heapq.heappush(heap, entry)
        else:
            heapq.heappushpop(heap, entry)
    drawn = [item for heap in kept.values() for _, _, item in heap]
    if not drawn:
        raise InvalidRequest("There are no judged papers: give a run with some.")
    (question, paper), count = Counter((item.question, item.paper) for item in drawn).most_common(1)[0]
    if count > 1:
        raise InvalidRequest(
            f"The paper {paper} was judged {count} times for the question {shown(question, 80)}: give each pair once."
        )
    drawn.sort(key=lambda item: _hash(seed, "order", item))
    return Sample(
        tuple(drawn), dict(sorted(available.items())), {score: len(kept[score]) for score in sorted(kept)}
    )


def _hash(seed: int, purpose: str, item: Judged) -> int:
    key = "\0".join((str(seed), purpose, item.question, item.paper))
    return int.from_bytes(hashlib.sha256(key.encode(errors="surrogatepass")).digest()[:16])


def with_texts(items: Sequence[Judged], source: Source) -> list[Judged]:
    """Add titles and abstracts from a library.

    Raises:
        PaperNotFound: the library does not hold a paper.
    """
    described = []
    for start in range(0, len(items), MAX_IDS):
        batch = items[start : start + MAX_IDS]
        for item, paper in zip(batch, source.papers([item.paper for item in batch]), strict=True):
            if paper is None:
                raise PaperNotFound(f"The library does not hold {item.paper}: give the library of the run.")
            described.append(item._replace(title=paper.title or "", abstract=paper.abstract or ""))
    return described


def write_sheet(items: Sequence[Judged], path: Path) -> None:
    """Write the items as CSV (RFC 4180, UTF-8) with empty columns for the annotators.

    Raises:
        RunExists: the file exists; it may have annotations.
        StorageError: it cannot be written.
    """
    if path.exists():
        raise RunExists(f"{path} already exists, and may have annotations: give another file.")
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for number, item in enumerate(items, 1):
        texts = (item.question, item.paper, item.title, item.abstract, f"{item.score:g}")
        writer.writerow([number, *texts, *[""] * ANNOTATORS, ""])
    with storage_errors(path), atomic_write(path) as file:
        file.write(out.getvalue().encode())

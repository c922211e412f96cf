"""Candidate pools of a fixed size for each question, as AIM-SciQA (section 4.3) makes them.

A pool has the target, then papers that share keywords with the source, then random papers that do not.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import orjson

from scholarbase.errors import InvalidRequest, QueryFileError, RunExists
from scholarbase.files import atomic_write, storage_errors
from scholarbase.models.checks import check_whole, shown
from scholarbase_research.construction.rows import paper_field, rows, text_field

SIZE: Final = 30
MAX_SIZE: Final = 1_000
MAX_KEYWORDS: Final = 1_000
DETAILS: Final = (
    *("source_question", "target_question", "source_section", "target_section", "similarity", "score"),
    *("sentence", "mark", "section", "start", "end", "reference"),
)
"""What ``construct relations`` writes about a relation beside the fields of :class:`Relation`."""
_SEPARATOR: Final = re.compile(r"[;|]")


class Relation(NamedTuple):
    """A question whose answer is the target, found from the source. It is empty until it is chosen with the pool."""

    query_id: str
    query: str
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Pool:
    """``papers`` are in random order. ``overlapping`` of them share a keyword with the source, ``padded`` do not."""

    relation: Relation
    papers: tuple[str, ...]
    overlapping: int
    padded: int


def make_pools(
    relations: Sequence[Relation], keywords: Mapping[str, frozenset[str]], *, size: int = SIZE, seed: int = 0
) -> Iterator[Pool]:
    """Make a pool of exactly ``size`` papers for each relation.

    Papers that share the most keywords with the source come first, equal ones at random. The source is never in its
    pool. The same seed gives the same pools, in whatever order the files are.

    Raises:
        InvalidRequest: an argument is out of range, a source or target has no keywords, or there are too few papers.
    """
    check_whole(size, "size", 2, MAX_SIZE)
    check_whole(seed, "seed", 0)
    papers = sorted(keywords)
    by_keyword: dict[str, list[str]] = {}
    for paper in papers:
        for keyword in sorted(keywords[paper]):
            by_keyword.setdefault(keyword, []).append(paper)
    for relation in relations:
        for name in ("source", "target"):
            paper = getattr(relation, name)
            if paper not in keywords:
                raise InvalidRequest(
                    f"The {name} {paper} of the question {shown(relation.query_id, 80)} is not among the papers: "
                    "add it."
                )
        # The source is left out.
        if len(papers) - 1 < size:
            raise InvalidRequest(
                f"There are {len(papers):,} papers: pools of {size} need {size + 1:,} or more."
            )
        yield _pool(relation, keywords[relation.source], papers, by_keyword, size, seed)


def _pool(
    relation: Relation,
    keywords: Iterable[str],
    papers: Sequence[str],
    by_keyword: Mapping[str, Sequence[str]],
    size: int,
    seed: int,
) -> Pool:
    shared = Counter(paper for keyword in keywords for paper in by_keyword[keyword])
    excluded = {relation.source, relation.target}

    def order(paper: str) -> bytes:
        return hashlib.sha256("\0".join((str(seed), relation.query_id, paper)).encode()).digest()

    candidates = [paper for paper in shared if paper not in excluded]
    overlapping = sorted(candidates, key=lambda paper: (-shared[paper], order(paper)))[: size - 1]
    chosen = [relation.target, *overlapping]
    missing = size - len(chosen)
    if missing:
        # All candidates are chosen already, so the others are those that share no keyword.
        taken = excluded | set(chosen)
        numbers = random.Random(f"{seed} {relation.query_id}")
        if len(papers) > 4 * (len(taken) + missing):
            drawn: dict[str, None] = {}
            while len(drawn) < missing:
                paper = papers[numbers.randrange(len(papers))]
                if paper not in taken:
                    drawn[paper] = None
            chosen += drawn
        else:
            chosen += numbers.sample([paper for paper in papers if paper not in taken], missing)
    return Pool(relation, tuple(sorted(chosen, key=order)), len(overlapping), missing)


# -- files ----------------------------------------------------------------------------------------------


def read_relations(path: Path) -> list[Relation]:
    """Read CSV, TSV or JSON lines with ``query_id``, ``source``, ``target`` and, unless it is chosen later, ``query``.

    Raises:
        QueryFileError: the file cannot be read, or a line is invalid.
    """
    relations = []
    places: dict[str, str] = {}
    for where, row in rows(path, ("query_id", "source", "target"), ("query", *DETAILS)):
        query_id = text_field(row, "query_id", where)
        query = "" if row.get("query") is None else text_field(row, "query", where)
        if query_id in places:
            raise QueryFileError(f"{where} has the query_id {query_id!r} of {places[query_id]} again.")
        places[query_id] = where
        source, target = (paper_field(row, name, where) for name in ("source", "target"))
        if source == target:
            raise QueryFileError(f"{where}: source and target are both {source}: they must differ.")
        relations.append(Relation(query_id, query, source, target))
    if not relations:
        raise QueryFileError(f"{path} has no questions: give one in each line.")
    return relations


def read_keywords(path: Path) -> dict[str, frozenset[str]]:
    """Read CSV, TSV or JSON lines with ``paper`` and ``keywords``: a list, or a text with ``;`` between them.

    Keywords are compared in lower case, without blanks at their ends. Raises as :func:`read_relations`.
    """
    by_paper: dict[str, frozenset[str]] = {}
    for where, row in rows(path, ("paper", "keywords")):
        paper = paper_field(row, "paper", where)
        if paper in by_paper:
            raise QueryFileError(f"{where} has the paper {paper} again: give each paper once.")
        value = row["keywords"]
        keywords = _SEPARATOR.split(value) if isinstance(value, str) else value
        if not isinstance(keywords, list) or not all(isinstance(keyword, str) for keyword in keywords):
            raise QueryFileError(f"{where}: keywords is {shown(value, 80)}, and must be a list or a text.")
        if len(keywords) > MAX_KEYWORDS:
            raise QueryFileError(f"{where} has {len(keywords):,} keywords: at most {MAX_KEYWORDS:,}.")
        by_paper[paper] = frozenset(" ".join(keyword.split()).lower() for keyword in keywords) - {""}
    return by_paper


def write_pools(pools: Iterable[Pool], path: Path) -> tuple[int, int, int]:
    """Write the questions with their answers and pools as a query file for ``eval run --pool``.

    Returns: the number of pools, of papers that share keywords, and of random ones.

    Raises:
        RunExists: the file exists.
        StorageError: it cannot be written.
    """
    if path.exists():
        raise RunExists(f"{path} already exists: give another file.")
    count = overlapping = padded = 0
    with storage_errors(path), atomic_write(path) as file:
        for pool in pools:
            relation = pool.relation
            row = {
                "query_id": relation.query_id,
                "query": relation.query,
                "answers": [relation.target],
                "pool": pool.papers,
            }
            file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
            count, overlapping, padded = count + 1, overlapping + pool.overlapping, padded + pool.padded
    return count, overlapping, padded

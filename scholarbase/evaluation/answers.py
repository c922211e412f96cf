"""Which papers of a library the answers of a query set are: by their ids, and by their titles where ids don't help."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from scholarbase.errors import QueryFileError
from scholarbase.evaluation.papers import resolve
from scholarbase.identifiers import parse
from scholarbase.models import check_title_match
from scholarbase.models.queries import Answer, Query, QuerySet
from scholarbase.models.runs import Found, JudgedAnswer, JudgedQuery
from scholarbase.models.source import Source

MIN_SCORE: Final = 0.95
"""How alike the titles of an answer and of a paper must be: one or two characters of a usual title may differ."""
_TITLES: Final = 100
"""Titles in one call: one that no paper has takes 24 ms among 330,000 papers, and a server must answer in time."""
_LIKE: Final = 3
"""Titles like one that are looked at."""
_NUMBER: Final = re.compile(r"\d+|\b(?:i{1,3}|iv|vi{0,3}|ix)\b")
_SHOWN: Final = 3


class Judged(NamedTuple):
    """Queries with their answers resolved, and what came of it.

    ``counts`` has ``queries``; ``answers``, those with a grade above zero, which are ``by_id`` + ``by_title`` +
    ``absent`` + ``duplicates`` (further names of a paper that is an answer already); ``not_relevant``, papers judged
    with grade zero or less; ``pool_papers`` held and ``pool_absent``; ``queries_without_held_answers``.
    """

    queries: tuple[JudgedQuery, ...]
    counts: dict[str, int]


class _Papers(NamedTuple):
    """What the library holds: canonical ids as they were asked for, and casefolded titles, to its papers' ids."""

    by_id: Mapping[str, str | None]
    by_title: Mapping[str, str | None]


def judge(source: Source, queries: QuerySet, *, min_title_score: float = MIN_SCORE) -> Judged:
    """Look every answer and every paper of a pool up in the library.

    An answer is found by its id; where the library does not hold that, by its title, where a paper's title is as
    like it as ``min_title_score`` and has the same numbers. Two answers that are one paper count once, with the
    better grade. Papers of a pool that the library does not hold are left out of it.

    Raises:
        QueryFileError: the library holds not one of the answers.
        InvalidRequest: ``min_title_score`` is not above 0 and at most 1, or an id has no known form.
        ScholarBaseError: the library or its server fails.
    """
    check_title_match(1, min_title_score)
    canonical = _canonical(queries.queries)
    held = resolve(source, set(canonical.values()))
    by_id = {given: held.get(name) for given, name in canonical.items()}
    titles = {
        _folded(answer.title): answer.title
        for query in queries.queries
        for answer in query.answers
        if answer.title and (answer.id is None or by_id[answer.id] is None)
    }
    papers = _Papers(by_id, _match(source, titles, min_title_score))
    judged = tuple(_judged(query, papers, canonical) for query in queries.queries)
    pool_absent = sum(
        len({canonical[name] for name in query.pool or () if by_id[name] is None})
        for query in queries.queries
    )
    counts = _counts(queries.queries, judged, pool_absent)
    if counts["answers"] and not counts["by_id"] + counts["by_title"]:
        raise _another_world(source, queries, judged, counts["answers"])
    return Judged(judged, counts)


def _canonical(queries: Iterable[Query]) -> dict[str, str]:
    """Every id that the queries name, to its canonical form."""
    given = {answer.id for query in queries for answer in query.answers if answer.id is not None}
    given.update(name for query in queries for name in query.pool or ())
    return {name: str(parse(name)) for name in given}


def _match(source: Source, titles: Mapping[str, str], min_score: float) -> dict[str, str | None]:
    """Each casefolded title to the id of the paper whose title is most like it, None where none is."""
    found: dict[str, str | None] = {}
    wanted = sorted(titles)
    for first in range(0, len(wanted), _TITLES):
        batch = wanted[first : first + _TITLES]
        answers = source.match_titles(
            [titles[folded] for folded in batch], limit=_LIKE, min_score=min_score, fields=["id", "title"]
        )
        for folded, answer in zip(batch, answers, strict=True):
            like = (
                hit.paper for hit in answer.results if _numbers(hit.paper.title or "") == _numbers(folded)
            )
            found[folded] = next((paper.id for paper in like), None)
    return found


def _numbers(title: str) -> str:
    """The numbers of a title: papers that differ by them, such as parts I and II, are different papers."""
    return "".join(_NUMBER.findall(_folded(title)))


def _folded(title: str) -> str:
    return " ".join(title.split()).casefold()


def _judged(query: Query, papers: _Papers, canonical: Mapping[str, str]) -> JudgedQuery:
    merged: dict[str, JudgedAnswer] = {}
    for answer in query.answers:
        found = _resolved(answer, papers, canonical)
        before = merged.get(found.paper_id)
        if before is not None:
            way: Found = "id" if "id" in (before.found, found.found) else found.found
            found = JudgedAnswer(found.paper_id, way, max(before.grade, found.grade))
        merged[found.paper_id] = found
    pool = None
    if query.pool is not None:
        held = (papers.by_id[name] for name in query.pool)
        pool = tuple(dict.fromkeys(paper_id for paper_id in held if paper_id is not None))
    return JudgedQuery(
        query.id, query.text, tuple(merged.values()), query.intent, query.category, query.date, pool
    )


def _resolved(answer: Answer, papers: _Papers, canonical: Mapping[str, str]) -> JudgedAnswer:
    if answer.id is not None:
        held = papers.by_id[answer.id]
        if held is not None:
            return JudgedAnswer(held, "id", answer.grade)
    if answer.title:
        held = papers.by_title[_folded(answer.title)]
        if held is not None:
            return JudgedAnswer(held, "title", answer.grade)
    if answer.id is not None:
        return JudgedAnswer(canonical[answer.id], "absent", answer.grade)
    title = hashlib.sha1(_folded(answer.title or "").encode(), usedforsecurity=False).hexdigest()
    return JudgedAnswer(f"title:{title[:12]}", "absent", answer.grade)


def _counts(given: Sequence[Query], judged: Sequence[JudgedQuery], pool_absent: int) -> dict[str, int]:
    answers = sum(answer.grade > 0 for query in given for answer in query.answers)
    relevant = [answer for query in judged for answer in query.relevant]
    found = [answer.found for answer in relevant]
    pool_held = sum(len(query.pool or ()) for query in judged)
    return {
        "queries": len(judged),
        "answers": answers,
        "by_id": found.count("id"),
        "by_title": found.count("title"),
        "absent": found.count("absent"),
        "duplicates": answers - len(relevant),
        "not_relevant": sum(len(query.answers) for query in judged) - len(relevant),
        "pool_papers": pool_held,
        "pool_absent": pool_absent,
        "queries_without_held_answers": sum(
            not any(answer.held for answer in query.relevant) for query in judged
        ),
    }


def _another_world(
    source: Source, queries: QuerySet, judged: Sequence[JudgedQuery], count: int
) -> QueryFileError:
    about = source.snapshot()
    papers = about["manifest"]["counts"]["papers"]
    first = [answer.paper_id for query in judged for answer in query.relevant][:_SHOWN]
    end = ", ..." if count > len(first) else "."
    whose = (
        f"None of the {count:,} answers of {queries.name}"
        if count > 1
        else f"The one answer of {queries.name}"
    )
    verb = "is" if count > 1 else "is not"
    return QueryFileError(
        f"{whose} {verb} in this library (snapshot {about['snapshot']}, {papers:,} papers): is it the library that "
        f"these queries are about? The first answers are {', '.join(first)}{end}"
    )

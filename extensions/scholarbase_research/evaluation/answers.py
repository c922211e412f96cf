"""Resolve the answers of a query set to papers of a library, by id and then by title."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from scholarbase.errors import QueryFileError
from scholarbase.identifiers import parse
from scholarbase.models.papers import Paper
from scholarbase.models.source import Source
from scholarbase_research.evaluation.papers import BY_TITLE, resolve
from scholarbase_research.evaluation.queries import Answer, Query, QuerySet
from scholarbase_research.evaluation.run_data import Found, JudgedAnswer, JudgedQuery

MIN_SCORE: Final = 0.95
"""Minimum similarity of titles: one or two characters of a title of usual length may differ."""
_BATCH: Final = 100
"""Titles per call. An unknown title takes 24 ms among 330,000 papers, and a server has a time limit."""
_CANDIDATES: Final = 3
"""Matches to check for each title."""
_NUMBER: Final = re.compile(r"\d+|\b(?:i{1,3}|iv|vi{0,3}|ix)\b")
_EXAMPLES: Final = 3


class Judged(NamedTuple):
    """Queries with resolved answers.

    ``counts`` has ``queries``; ``answers``, those with a grade above zero, which is ``by_id`` + ``by_title`` +
    ``absent`` + ``duplicates`` (second ids of an answer); ``not_relevant``, papers judged with grade zero or less;
    ``pool_papers`` held and ``pool_absent``; ``queries_without_held_answers``.
    """

    queries: tuple[JudgedQuery, ...]
    counts: dict[str, int]


class AnswerPapers(NamedTuple):
    """Ids of the query set, and casefolded titles, to ids of the library's papers; and the ids in canonical form."""

    by_id: Mapping[str, str | None]
    by_title: Mapping[str, str | None]
    canonical: Mapping[str, str]


def resolve_answers(source: Source, queries: QuerySet) -> Judged:
    """Look up every answer and every pool paper in the library.

    An answer is looked up by its id, then by its title: a title matches with a score of at least
    :data:`MIN_SCORE` and the same numbers. Two answers that are one paper count once, with the higher grade. Pool
    papers that the library does not hold are dropped.

    Raises:
        QueryFileError: the library holds none of the answers.
        InvalidRequest: an id has an unknown form.
        ScholarBaseError: the library or its server fails.
    """
    papers = find_papers(source, queries)
    judged = tuple(_judged(query, papers) for query in queries.queries)
    pool_absent = sum(
        len({papers.canonical[name] for name in query.pool or () if papers.by_id[name] is None})
        for query in queries.queries
    )
    counts = counts_of(queries.queries, judged, pool_absent)
    if counts["answers"] and not counts["by_id"] + counts["by_title"]:
        raise none_held(source, queries, judged, counts["answers"])
    return Judged(judged, counts)


def find_papers(source: Source, queries: QuerySet) -> AnswerPapers:
    """Look up the papers of all answers and pools. Raises as :func:`resolve_answers`."""
    canonical = _canonical(queries.queries)
    library_ids = resolve(source, set(canonical.values()))
    by_id = {written: library_ids.get(paper_id) for written, paper_id in canonical.items()}
    titles = {
        folded_title(answer.title): answer.title
        for query in queries.queries
        for answer in query.answers
        if answer.title and (answer.id is None or by_id[answer.id] is None)
    }
    matches = title_candidates(source, titles, ("id", "title"))
    by_title = {folded: papers[0].id if papers else None for folded, papers in matches.items()}
    return AnswerPapers(by_id, by_title, canonical)


def _canonical(queries: Iterable[Query]) -> dict[str, str]:
    """Every id of the queries to its canonical form."""
    ids = {answer.id for query in queries for answer in query.answers if answer.id is not None}
    ids.update(paper_id for query in queries for paper_id in query.pool or ())
    return {paper_id: str(parse(paper_id)) for paper_id in ids}


def title_candidates(
    source: Source, titles: Mapping[str, str], fields: Sequence[str]
) -> dict[str, list[Paper]]:
    """Each casefolded title to the papers with this title, the most similar first. ``fields`` include the title."""
    by_title: dict[str, list[Paper]] = {}
    ordered = sorted(titles)
    for first in range(0, len(ordered), _BATCH):
        batch = ordered[first : first + _BATCH]
        responses = source.match_titles(
            [titles[folded] for folded in batch],
            limit=_CANDIDATES,
            min_score=MIN_SCORE,
            fields=fields,
        )
        for folded, response in zip(batch, responses, strict=True):
            by_title[folded] = [
                hit.paper for hit in response.results if _numbers(hit.paper.title or "") == _numbers(folded)
            ]
    return by_title


def _numbers(title: str) -> str:
    """The numbers of a title. Papers that differ by them, such as parts I and II, are different papers."""
    return "".join(_NUMBER.findall(folded_title(title)))


def folded_title(title: str) -> str:
    return " ".join(title.split()).casefold()


def _judged(query: Query, papers: AnswerPapers) -> JudgedQuery:
    merged: dict[str, JudgedAnswer] = {}
    for answer in query.answers:
        judged = resolved(answer, papers)
        first = merged.get(judged.paper_id)
        if first is not None:
            found_by: Found = "id" if "id" in (first.found, judged.found) else judged.found
            judged = JudgedAnswer(judged.paper_id, found_by, max(first.grade, judged.grade))
        merged[judged.paper_id] = judged
    pool = None
    if query.pool is not None:
        library_ids = (papers.by_id[paper_id] for paper_id in query.pool)
        pool = tuple(dict.fromkeys(paper_id for paper_id in library_ids if paper_id is not None))
    return JudgedQuery(
        query.id, query.text, tuple(merged.values()), query.intent, query.category, query.date, pool
    )


def resolved(answer: Answer, papers: AnswerPapers) -> JudgedAnswer:
    """The paper of an answer."""
    if answer.id is not None:
        paper_id = papers.by_id[answer.id]
        if paper_id is not None:
            return JudgedAnswer(paper_id, "id", answer.grade)
    if answer.title:
        paper_id = papers.by_title[folded_title(answer.title)]
        if paper_id is not None:
            return JudgedAnswer(paper_id, "title", answer.grade)
    if answer.id is not None:
        return JudgedAnswer(papers.canonical[answer.id], "absent", answer.grade)
    return JudgedAnswer(absent_title(answer.title or ""), "absent", answer.grade)


def absent_title(title: str) -> str:
    """The id in a run of a paper that the library lacks, and of which only the title is known."""
    return BY_TITLE + hashlib.sha1(folded_title(title).encode(), usedforsecurity=False).hexdigest()[:12]


def counts_of(
    queries: Sequence[Query], judged: Sequence[JudgedQuery], pool_absent: int = 0
) -> dict[str, int]:
    """The counts of :class:`Judged`."""
    answers = sum(answer.grade > 0 for query in queries for answer in query.answers)
    relevant = [answer for query in judged for answer in query.relevant]
    outcomes = [answer.found for answer in relevant]
    pool_held = sum(len(query.pool or ()) for query in judged)
    return {
        "queries": len(judged),
        "answers": answers,
        "by_id": outcomes.count("id"),
        "by_title": outcomes.count("title"),
        "absent": outcomes.count("absent"),
        "duplicates": answers - len(relevant),
        "not_relevant": sum(len(query.answers) for query in judged) - len(relevant),
        "pool_papers": pool_held,
        "pool_absent": pool_absent,
        "queries_without_held_answers": sum(
            not any(answer.held for answer in query.relevant) for query in judged
        ),
    }


def none_held(source: Source, queries: QuerySet, judged: Sequence[JudgedQuery], count: int) -> QueryFileError:
    """The error of a library that holds none of the answers."""
    info = source.snapshot()
    papers = info["manifest"]["counts"]["papers"]
    first = [answer.paper_id for query in judged for answer in query.relevant][:_EXAMPLES]
    end = ", ..." if count > len(first) else "."
    subject = (
        f"None of the {count:,} answers of {queries.name} is"
        if count > 1
        else (f"The only answer of {queries.name} is not")
    )
    return QueryFileError(
        f"{subject} in this library (snapshot {info['snapshot']}, {papers:,} papers): search the library that these "
        f"queries were written for. The first answers are {', '.join(first)}{end}"
    )

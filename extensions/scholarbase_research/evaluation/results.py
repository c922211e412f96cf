"""Read the results of another system, JSON lines with ids or titles alone.

    {"query": "the question's text", "results": [{"title": "...", "year": 2019}, {"link": "https://arxiv.org/abs/..."}]}

A line may have ``query_id`` in place of ``query``. A result has any of ``id``, ``link`` or ``url``, and ``title``, and
may have ``year`` or ``date``; other fields, such as snippets, are ignored. Results are in rank order.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from scholarbase.errors import InvalidRequest, QueryFileError
from scholarbase.identifiers import parse
from scholarbase.models.checks import check_title, shown
from scholarbase.models.papers import Paper
from scholarbase.models.source import Source
from scholarbase_research.evaluation.answers import absent_title, folded_title, title_candidates
from scholarbase_research.evaluation.formats import streams
from scholarbase_research.evaluation.imports import Imported
from scholarbase_research.evaluation.papers import resolve
from scholarbase_research.evaluation.queries import QuerySet
from scholarbase_research.evaluation.run_data import JudgedQuery, PaperNote, RankedId

MAX_RESULTS: Final = 10_000
"""Results of a query."""
YEARS_APART: Final = 1
"""A preprint and its publication may differ by a year."""
_YEAR: Final = re.compile(r"(?<!\d)(?:1[5-9]|20)\d\d(?!\d)")


class Result(NamedTuple):
    """A result as the other system has it, with its id in canonical form."""

    id: str | None
    title: str | None
    year: int | None


def is_results(path: Path) -> bool:
    """Whether a file is JSON rather than a TREC run. Raises QueryFileError: it cannot be read."""
    return _shape(path) in ("lines", "array")


def read_results(path: Path, source: Source, queries: QuerySet, judged: Sequence[JudgedQuery]) -> Imported:
    """Read results, and match them to the library's papers.

    A result is matched by its id, then by its title: with a similarity of at least 0.95, the same numbers and, where
    both have a year, years at most one apart; of several papers the one of the nearest year. A result that the library
    lacks keeps its rank: as the absent answer with its id or title, else under an id of its own. A paper that is
    returned twice counts at its first rank.

    Raises:
        QueryFileError: the file is missing, empty or damaged, or a line is invalid.
    """
    by_query, sha256 = _read(path, queries)
    every = [result for results in by_query.values() for result in results]
    library_ids = resolve(source, {result.id for result in every if result.id is not None})
    titles = {folded_title(r.title): r.title for r in every if r.title and r.id not in library_ids}
    candidates = title_candidates(source, titles, ("id", "title", "year"))
    absent = _absent_answers(queries, judged)
    facts = Counter(
        results=0, by_id=0, by_title=0, other_year=0, absent=0, duplicates=0, queries_without_results=0
    )
    rankings: dict[str, tuple[RankedId, ...]] = {}
    notes: dict[str, PaperNote] = {}
    for query in judged:
        papers: dict[str, None] = {}
        for result in by_query.get(query.id, ()):
            paper, how = _matched(result, library_ids, candidates)
            facts.update(("results", how, *(["absent"] if how == "other_year" else [])))
            if paper is None:
                paper = _absent(result, absent.get(query.id, {}))
                notes.setdefault(paper, PaperNote(result.title, result.year))
            facts["duplicates"] += paper in papers
            papers.setdefault(paper)
        facts["queries_without_results"] += not papers
        rankings[query.id] = tuple(RankedId(p, float(len(papers) - n)) for n, p in enumerate(papers))
    search = {"file": path.name, "sha256": sha256, **facts}
    return Imported("import", search, rankings, notes=notes)


# -- reading --------------------------------------------------------------------------------------------


def _read(path: Path, queries: QuerySet) -> tuple[dict[str, list[Result]], str]:
    """The results of each query, and a hash of the records."""
    ids = {query.id for query in queries.queries}
    by_text: dict[str, list[str]] = {}
    for query in queries.queries:
        by_text.setdefault(folded_title(query.text), []).append(query.id)
    records = streams.json_array(path) if _shape(path) == "array" else streams.json_lines(path)
    digest = hashlib.sha256()
    by_query: dict[str, list[Result]] = {}
    for record in records:
        where = f"{path}, {record.where}"
        if record.problem is not None:
            raise QueryFileError(f"{where}: {record.problem}")
        query_id = _query_id(record.fields, ids, by_text, where)
        if query_id in by_query:
            raise QueryFileError(
                f"{where} has results of the query {query_id!r} again: give them in one line."
            )
        results = record.fields.get("results")
        if not isinstance(results, list) or len(results) > MAX_RESULTS:
            raise QueryFileError(
                f"{where}: results must be a list of at most {MAX_RESULTS:,} objects with an id, a link or a title."
            )
        by_query[query_id] = [_result(row, f"{where}, result {n}") for n, row in enumerate(results, 1)]
        digest.update(repr((query_id, by_query[query_id])).encode())
    if not by_query:
        raise QueryFileError(
            f"{path} contains no results: it has a line with query and results for each query."
        )
    return by_query, digest.hexdigest()


def _shape(path: Path) -> streams.Shape:
    return streams.shape_of(streams.start_of(path))


def _query_id(
    fields: Mapping[str, Any], ids: set[str], by_text: Mapping[str, Sequence[str]], where: str
) -> str:
    written = fields.get("query_id")
    if written is not None:
        if isinstance(written, bool) or not isinstance(written, str | int) or str(written).strip() not in ids:
            raise QueryFileError(
                f"{where} has the query_id {shown(written, 80)}, which is not in the query set: give the query file "
                "that these results were made with."
            )
        return str(written).strip()
    text = fields.get("query")
    if not isinstance(text, str):
        raise QueryFileError(f"{where} has no query_id and no query: each line has one of them, and results.")
    matches = by_text.get(folded_title(text), ())
    if len(matches) != 1:
        what = "are several queries" if matches else "is not a query"
        raise QueryFileError(f"{where}: {shown(text, 80)} {what} of the query set: give its query_id.")
    return matches[0]


def _result(row: Any, where: str) -> Result:
    if not isinstance(row, dict):
        raise QueryFileError(
            f"{where} is {shown(row, 80)}, and must be an object with an id, a link or a title."
        )
    ids = [_canonical(row[key]) for key in ("id", "link", "url") if isinstance(row.get(key), str)]
    known = next(
        (paper_id for paper_id in ids if paper_id is not None and not paper_id.startswith("URL:")), None
    )
    title = row.get("title")
    title = " ".join(title.split()) if isinstance(title, str) else ""
    if title:
        try:
            check_title(title)
        except InvalidRequest as error:
            raise QueryFileError(f"{where}: {error}") from error
    if known is None and not title:
        raise QueryFileError(f"{where} has no id of a paper and no title: give one of them.")
    return Result(known, title or None, _year(row.get("year")) or _year(row.get("date")))


def _canonical(text: str) -> str | None:
    """A paper's id; None for another text, such as a link to a page that is not a paper."""
    try:
        return str(parse(text))
    except InvalidRequest:
        return None


def _year(value: Any) -> int | None:
    """The year in a number or a text."""
    match = _YEAR.search(str(value)) if isinstance(value, str | int) and not isinstance(value, bool) else None
    return int(match[0]) if match else None


# -- matching -------------------------------------------------------------------------------------------


def _matched(
    result: Result, library_ids: Mapping[str, str], candidates: Mapping[str, Sequence[Paper]]
) -> tuple[str | None, str]:
    """The library's paper, and ``by_id``, ``by_title``, ``other_year`` (only a paper of another year) or ``absent``."""
    if result.id is not None and result.id in library_ids:
        return library_ids[result.id], "by_id"
    papers = candidates.get(folded_title(result.title), ()) if result.title else ()
    if not papers:
        return None, "absent"

    def apart(paper: Paper) -> int:
        return 0 if result.year is None or paper.year is None else abs(paper.year - result.year)

    nearest = min(papers, key=apart)
    return (nearest.id, "by_title") if apart(nearest) <= YEARS_APART else (None, "other_year")


def _absent_answers(queries: QuerySet, judged: Iterable[JudgedQuery]) -> dict[str, dict[str, str]]:
    """For each query, the titles of the answers that the library lacks, to their ids in the run."""
    lacking = {query.id: {answer.paper_id for answer in query.answers if not answer.held} for query in judged}
    absent: dict[str, dict[str, str]] = {}
    for query in queries.queries:
        for answer in query.answers:
            if answer.title:
                paper = absent_title(answer.title) if answer.id is None else _canonical(answer.id)
                if paper is not None and paper in lacking.get(query.id, ()):
                    absent.setdefault(query.id, {})[folded_title(answer.title)] = paper
    return absent


def _absent(result: Result, answers: Mapping[str, str]) -> str:
    """The id of a result that the library lacks."""
    by_title = answers.get(folded_title(result.title)) if result.title else None
    return by_title or result.id or absent_title(result.title or "")

"""Papers of a run, looked up in the library in batches: their ids, titles, years and categories."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from scholarbase.models.papers import Paper
from scholarbase.models.runs import JudgedQuery, PaperNote, RankedId
from scholarbase.models.source import Source

NOTED_RESULTS: Final = 20
"""First results of each query whose title and year a run keeps."""
BATCH: Final = 1000
BY_TITLE: Final = "title:"
"""The start of the ids that runs give papers of which only the title is known, and which the library lacks."""


def resolve(source: Source, ids: Iterable[str]) -> dict[str, str]:
    """Map ids in canonical form to the ids of the library's papers, without those that the library lacks."""
    return {requested: paper.id for requested, paper in _papers(source, ids, ["id"])}


def noted_papers(judged: Sequence[JudgedQuery], rankings: Mapping[str, Sequence[RankedId]]) -> set[str]:
    """The papers whose title and year a run keeps: first results, and answers that the library holds."""
    ids = {result.id for ranking in rankings.values() for result in ranking[:NOTED_RESULTS]}
    ids.update(answer.paper_id for query in judged for answer in query.answers if answer.held)
    return ids


def paper_notes(source: Source, ids: Iterable[str]) -> dict[str, PaperNote]:
    """Title, year and primary category of those papers that the library holds."""
    return {
        requested: PaperNote(paper.title, paper.year, next(iter(paper.categories or ()), None))
        for requested, paper in _papers(source, ids, ["title", "year", "categories"])
    }


def _papers(source: Source, ids: Iterable[str], fields: Sequence[str]) -> Iterator[tuple[str, Paper]]:
    ordered = sorted(paper_id for paper_id in ids if not paper_id.startswith(BY_TITLE))
    for first in range(0, len(ordered), BATCH):
        batch = ordered[first : first + BATCH]
        papers = zip(batch, source.papers(batch, fields=fields), strict=True)
        yield from ((requested, paper) for requested, paper in papers if paper is not None)

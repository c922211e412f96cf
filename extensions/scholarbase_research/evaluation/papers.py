"""Papers of a run, looked up in the library in batches: their ids, titles, years and categories."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from scholarbase.models.papers import Paper
from scholarbase.models.source import Source
from scholarbase_research.evaluation.evidence import span_of
from scholarbase_research.evaluation.run_data import JudgedQuery, PaperNote, RankedId

NOTED_RESULTS: Final = 20
"""First results of each query whose title and year a run keeps."""
BATCH: Final = 1000
BY_TITLE: Final = "title:"
"""The start of the ids that runs give papers of which only the title is known, and which the library lacks."""


def resolve(source: Source, ids: Iterable[str]) -> dict[str, str]:
    """Map ids in canonical form to the ids of the library's papers, without those that the library lacks."""
    return {requested: paper.id for requested, paper in _papers(source, ids, ["id"])}


def paper_notes(
    source: Source,
    judged: Sequence[JudgedQuery],
    rankings: Mapping[str, Sequence[RankedId]],
    known: Mapping[str, PaperNote] | None = None,
    *,
    passages: bool = False,
) -> dict[str, PaperNote]:
    """Title, year and primary category of a run's first results, and of the answers that the library holds.

    ``known`` describes papers that the library lacks. With ``passages`` the ids are those of passages.

    Raises:
        EvaluationError: a paper is neither in the library nor known.
    """
    ids = {result.id for ranking in rankings.values() for result in ranking[:NOTED_RESULTS]}
    ids.update(answer.paper_id for query in judged for answer in query.answers if answer.held)
    notes = {name: known[name] for name in ids if name in known} if known else {}
    spans = {name: span_of(name) if passages else None for name in ids.difference(notes)}
    papers = {name: name if span is None else span.paper for name, span in spans.items()}
    by_paper = {
        requested: PaperNote(paper.title, paper.year, next(iter(paper.categories or ()), None))
        for requested, paper in _papers(source, set(papers.values()), ["title", "year", "categories"])
    }
    return notes | {name: by_paper[paper] for name, paper in papers.items() if paper in by_paper}


def _papers(source: Source, ids: Iterable[str], fields: Sequence[str]) -> Iterator[tuple[str, Paper]]:
    ordered = sorted(paper_id for paper_id in ids if not paper_id.startswith(BY_TITLE))
    for first in range(0, len(ordered), BATCH):
        batch = ordered[first : first + BATCH]
        papers = zip(batch, source.papers(batch, fields=fields), strict=True)
        yield from ((requested, paper) for requested, paper in papers if paper is not None)

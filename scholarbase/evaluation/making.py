"""What every run that is made has in common, however its rankings came about: how its papers are found in the library,
what it notes of them, and the facts of its manifest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from scholarbase import __version__
from scholarbase.models import Paper
from scholarbase.models.queries import QuerySet
from scholarbase.models.runs import JudgedQuery, Kind, PaperNote, RankedId, RunManifest
from scholarbase.models.source import Source

NOTED_RESULTS: Final = 20
"""First results of each query whose title and year a run keeps."""
PAPERS_AT_ONCE: Final = 1000


def manifest_of(
    about: Mapping[str, Any],
    queries: QuerySet,
    counts: Mapping[str, int],
    kind: Kind,
    name: str,
    command: str,
    search: dict[str, Any],
) -> RunManifest:
    """The manifest of a run that is not written yet.

    Args:
        about: what the library or its server says of itself (``snapshot()``).
        counts: how the answers were found.
        search: what every search was told, or what is known of a run made elsewhere.
    """
    return RunManifest(
        name=name,
        kind=kind,
        snapshot=about["snapshot"],
        papers=about["manifest"]["counts"]["papers"],
        version=__version__,
        queries={
            "name": queries.name,
            "format": queries.format,
            "sha256": queries.sha256,
            "count": len(queries.queries),
            "notes": list(queries.notes),
        },
        search=search,
        answers=dict(counts),
        command=command,
    )


def resolve(source: Source, ids: Iterable[str]) -> dict[str, str]:
    """Ids in canonical form to the ids of the library's papers, without those that it does not hold."""
    return {given: paper.id for given, paper in _papers(source, ids, ["id"])}


def noted(judged: Sequence[JudgedQuery], rankings: Mapping[str, Sequence[RankedId]]) -> set[str]:
    """The papers of which a run keeps title and year: the first results, and the answers that the library holds."""
    ids = {result.id for ranking in rankings.values() for result in ranking[:NOTED_RESULTS]}
    ids.update(answer.paper_id for query in judged for answer in query.answers if answer.held)
    return ids


def paper_notes(source: Source, ids: Iterable[str]) -> dict[str, PaperNote]:
    """Title and year of these papers, of those that the library holds."""
    return {
        given: PaperNote(paper.title, paper.year) for given, paper in _papers(source, ids, ["title", "year"])
    }


def _papers(source: Source, ids: Iterable[str], fields: Sequence[str]) -> Iterator[tuple[str, Paper]]:
    wanted = sorted(ids)
    for first in range(0, len(wanted), PAPERS_AT_ONCE):
        some = wanted[first : first + PAPERS_AT_ONCE]
        papers = zip(some, source.papers(some, fields=fields), strict=True)
        yield from ((given, paper) for given, paper in papers if paper is not None)

"""Runs made by hand: queries with their answers, and the ranking of each."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from scholarbase.models.calls import Call
from scholarbase_research.evaluation.run_data import (
    JudgedAnswer,
    JudgedQuery,
    PaperNote,
    RankedId,
    Run,
    RunManifest,
)


def a_query(name: str, answers: Iterable[str] | Mapping[str, int], **facts: Any) -> JudgedQuery:
    """A query with these answers, or answers to grades. The library lacks papers whose ids begin with ``gone``."""
    grades = answers if isinstance(answers, Mapping) else dict.fromkeys(answers, 1)
    judged = tuple(
        JudgedAnswer(paper, "absent" if paper.startswith("gone") else "id", grade)
        for paper, grade in grades.items()
    )
    return JudgedQuery(**{"id": name, "text": f"question {name}", "answers": judged} | facts)


def a_run(
    name: str,
    queries: Sequence[JudgedQuery],
    found: Mapping[str, Iterable[str | RankedId]],
    /,
    *,
    calls: tuple[Call, ...] = (),
    **facts: Any,
) -> Run:
    """A run that found these papers, best first; ``facts`` are those of its manifest."""
    about: dict[str, Any] = {
        "kind": "search",
        "snapshot": "0" * 32,
        "papers": 2440,
        "version": "0.1.0",
        "queries": {
            "name": "small",
            "format": "scholarquest",
            "sha256": "ab" * 32,
            "count": len(queries),
            "notes": [],
        },
        "search": {"mode": name, "limit": 100},
        "answers": {"given": 1},
        "command": f"scholarbase eval run small.jsonl --mode {name}",
    }
    rankings = {
        query: tuple(
            one if isinstance(one, RankedId) else RankedId(one, 10.0 - place)
            for place, one in enumerate(ranking)
        )
        for query, ranking in found.items()
    }
    papers = {
        one.id: PaperNote(f"Title of {one.id}", 2020) for ranking in rankings.values() for one in ranking
    }
    seconds = {query.id: 0.01 * place for place, query in enumerate(queries, 1)}
    return Run(RunManifest(name, **about | facts), tuple(queries), rankings, papers, seconds, calls)

"""Queries with their answers and the first results of each run, as JSON for the page.

    {"runs": [label], "measure": name, "depth": n,
     "papers": [[id, title, year]],
     "queries": [{"id", "text", "date", "intent", "category", "recall": [value of each run],
                  "answers": [[paper, found, grade, [rank in each run, 0 where not found]]],
                  "results": [[paper, ...] of each run]}]}

Papers are indexes into ``papers``, so that each title appears once.
"""

from __future__ import annotations

from typing import Any

import orjson

from scholarbase_research.evaluation.measured import Measured
from scholarbase_research.evaluation.measures import ranked_ids
from scholarbase_research.evaluation.run_data import PaperNote


def drilldown(measured: Measured, depth: int) -> bytes:
    """The JSON of the queries with the first ``depth`` results of each run."""
    papers: dict[str, int] = {}
    queries = [_query(measured, number, papers, depth) for number in range(len(measured.runs[0].queries))]
    known = {name: note for run in reversed(measured.runs) for name, note in run.papers.items()}
    notes = ((paper_id, known.get(paper_id, PaperNote(None, None))) for paper_id in papers)
    return orjson.dumps(
        {
            "runs": measured.labels,
            "measure": measured.heading(measured.recall),
            "depth": depth,
            "papers": [[paper_id, note.title, note.year] for paper_id, note in notes],
            "queries": queries,
        }
    )


def _query(measured: Measured, number: int, papers: dict[str, int], depth: int) -> dict[str, Any]:
    query = measured.runs[0].queries[number]
    orders = [ranked_ids(run.rankings.get(query.id, ())) for run in measured.runs]
    ranks = [{paper_id: rank for rank, paper_id in enumerate(order, 1)} for order in orders]

    def index(paper_id: str) -> int:
        return papers.setdefault(paper_id, len(papers))

    values = [evaluation.values(measured.recall).get(query.id) for evaluation in measured.evaluations]
    out: dict[str, Any] = {
        "id": query.id,
        "text": query.text,
        "recall": [None if value is None else round(value, 4) for value in values],
        "answers": [
            [index(paper_id), found, grade, [rank.get(paper_id, 0) for rank in ranks]]
            for paper_id, found, grade in _answers(measured, number)
        ],
        "results": [[index(paper_id) for paper_id in order[:depth]] for order in orders],
    }
    for name in ("date", "intent", "category"):
        if (value := getattr(query, name)) is not None:
            out[name] = value
    return out


def _answers(measured: Measured, number: int) -> list[tuple[str, str, int]]:
    """Paper id, ``found`` and grade of each answer, from the first run whose library holds it, if any."""
    answers: dict[str, tuple[str, str, int]] = {}
    for run in measured.runs:
        for answer in run.queries[number].answers:
            known = answers.get(answer.paper_id)
            if known is None or (known[1] == "absent" and answer.held):
                answers[answer.paper_id] = (answer.paper_id, answer.found, answer.grade)
    return list(answers.values())


def script_json(data: bytes) -> str:
    """JSON for a script element, with ``<`` escaped so that no text can end the element."""
    return data.decode().replace("<", "\\u003c")

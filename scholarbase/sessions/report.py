"""The cost of a session and, where the answers to its question are known, its recall: after each call, and in all.

The figures are those of :mod:`scholarbase.trajectories.figures`, which ScholarQuest (arXiv:2606.20235) reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

import orjson

from scholarbase.errors import NothingLeft
from scholarbase.identifiers import parse
from scholarbase.models.calls import Call
from scholarbase.models.checks import check_ids
from scholarbase.sessions.session import Session
from scholarbase.trajectories.figures import figures, recall_after_each

if TYPE_CHECKING:
    from scholarbase.search.library import Library


def call_of(row: Mapping[str, Any]) -> Call:
    """The call in a line of a trajectory, which has more keys."""
    values = {field.name: row[field.name] for field in fields(Call) if field.name in row}
    return Call(**values | {"ids": tuple(row["ids"])})


def held_answers(library: Library, answers: Sequence[str], as_of: str | None = None) -> dict[str, str | None]:
    """Each answer's canonical id, and the library's id of it, None where the library lacks it, or had it later.

    Raises:
        InvalidRequest: an answer is not a valid id.
    """
    listed = check_ids(answers, "answers")
    forms = [str(parse(answer, keys=True)) for answer in listed]
    try:
        papers = library.papers(listed, fields=("id",), as_of=as_of)
    except NothingLeft:
        papers = [None] * len(forms)
    ids = [None if paper is None else paper.to_dict(("id",))["id"] for paper in papers]
    return dict(zip(forms, ids, strict=True))


def report(
    session: Session, lines: Iterable[bytes], answers: Mapping[str, str | None] | None = None
) -> dict[str, Any]:
    """The report of a recorded trajectory, with the figures of a query of an evaluation. ``calls`` are the lines of the
    trajectory, as in a list and a replay. ``recall_after`` is the recall over all answers after each call, None without
    answers; ``answers_absent`` are those that the library lacks.

    Args:
        answers: each answer's canonical id, to the library's id of it, None where the library lacks it. Such an answer
            counts as one that was not found.
    """
    calls = [call_of(orjson.loads(line)) for line in lines]
    relevant = frozenset(library_id or answer for answer, library_id in (answers or {}).items())
    named = asdict(figures(session.query_id, calls, relevant))
    del named["query_id"]
    return {
        **session.to_dict(),
        "calls": len(calls),
        **named,
        "recall_after": recall_after_each(calls, relevant) if relevant else None,
        "answers": len(relevant),
        "answers_absent": [answer for answer, library_id in (answers or {}).items() if library_id is None],
    }

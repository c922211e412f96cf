"""How complete what a session has found is: its calls are the samples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import orjson
from pydantic import Field

from scholarbase.errors import InvalidRequest
from scholarbase.models.requests import Request
from scholarbase.models.values import Strings
from scholarbase.search.library import Library
from scholarbase.sessions.report import call_of
from scholarbase.sessions.session import Session
from scholarbase_research.completeness.checking import Papers, Recall, linked_papers, recall
from scholarbase_research.completeness.samples import new_by_sample, samples_of


class SessionRecallBody(Request):
    kind = "key"

    relevant: Strings = Field(
        default=(),
        description="Papers that were judged relevant; by default the last answer of the session.",
        examples=[["arXiv:hep-th/9301068"]],
    )
    known: Strings = Field(
        default=(),
        description="Relevant papers that were known before the session, or come from elsewhere.",
        examples=[["arXiv:hep-th/9303046"]],
    )


def session_recall(
    library: Library, session: Session, lines: Iterable[bytes], relevant: Sequence[str], known: Sequence[str]
) -> Recall:
    """What the calls of a session say about the papers that were judged relevant, or its last answer.

    Args:
        lines: of its trajectory.

    Raises:
        InvalidRequest: an id is invalid, no paper is named and the session has no answer, or the library has none of
            them.
    """
    calls = [call_of(orjson.loads(line)) for line in lines]
    answers = [call.ids for call in calls if call.kind == "answer" and call.error is None]
    if not relevant and not known:
        if not answers:
            raise InvalidRequest(
                f"The session {session.id!r} has no answer: name the relevant papers with relevant, in a command "
                "--relevant ID."
            )
        relevant = answers[-1]
    papers = Papers.of(library, relevant, known, session.as_of)
    samples = samples_of(calls)
    new = new_by_sample(samples, papers.relevant)
    return recall(library, papers, samples, new, linked_papers(library, papers.relevant, session.as_of))

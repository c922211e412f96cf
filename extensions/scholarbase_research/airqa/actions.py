"""Requests of the tool set ``airqa``: AirQA's actions (arXiv:2509.16952, appendices B and C.4)."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final

from pydantic import AfterValidator, BeforeValidator, Field

from scholarbase.errors import ScholarBaseError
from scholarbase.models.checks import check_whole
from scholarbase.models.document_requests import PassageLimit, Question
from scholarbase.models.limits import MAX_TOKENS, MIN_TOKENS
from scholarbase.models.requests import ResponseOptions, Timed
from scholarbase.models.values import AsOf, PaperId

OBSERVATION_TOKENS: Final = 5_000
"""AirQA: the most tokens that a turn retrieves (C.2)."""
RETRIEVED: Final = 5


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


Tokens = Annotated[
    int | None,
    AfterValidator(
        lambda value: None if value is None else check_whole(value, "max_tokens", MIN_TOKENS, MAX_TOKENS)
    ),
]
"""Checked with the other arguments, so that a number out of range is an observation."""


class Action(ResponseOptions, Timed):
    """An action. Its observation has ``max_tokens`` tokens at most. The answer ends the episode, and no action
    follows."""

    ends_with_answer: ClassVar[bool] = True
    max_tokens: Tokens = OBSERVATION_TOKENS
    as_of: AsOf = None

    def refused(self, error: ScholarBaseError) -> Refused:
        return Refused(reason=str(error), error_type=error.slug, format=self.format)


class RetrieveAction(Action):
    """Passages for a text."""

    query: Question
    limit: PassageLimit = RETRIEVED


class QueryAction(Action):
    """A SQL statement."""

    uses_sql: ClassVar[bool] = True
    sql: str


class ViewAction(Action):
    """An image of a page."""

    max_tokens: Tokens = None
    paper_id: PaperId
    page_number: Annotated[int, AfterValidator(lambda value: check_whole(value, "page_number", 1, 1_000_000))]
    bounding_box: Annotated[
        tuple[Annotated[float, BeforeValidator(_number)], ...],
        BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value),
    ] = ()


class AnswerAction(Action):
    """The end of an episode."""

    answer: Annotated[Any, Field(json_schema_extra={"type": "string"})]


class Refused(Action):
    """An action that is invalid or refused: its observation is why."""

    reason: str
    error_type: str

"""Requests and observations of the tool set ``airqa``: AirQA's actions (arXiv:2509.16952, appendices B and C.4)."""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import Meta
from pydantic import AfterValidator, BeforeValidator, Field

from scholarbase.models.checks import check_whole
from scholarbase.models.document_requests import PassageLimit, Question
from scholarbase.models.limits import MAX_TOKENS, MIN_TOKENS
from scholarbase.models.requests import ResponseOptions, Timed
from scholarbase.models.responses import Response, Snapshot
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
    """An action. Its observation has ``max_tokens`` tokens at most."""

    max_tokens: Tokens = OBSERVATION_TOKENS
    as_of: AsOf = None


class RetrieveAction(Action):
    """Passages for a text."""

    query: Question
    limit: PassageLimit = RETRIEVED


class QueryAction(Action):
    """A SQL statement."""

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
    """An action whose arguments are invalid: its observation is why."""

    reason: str
    error_type: str


class Observation(Response, frozen=True):
    """What ``view`` and ``answer`` give, and why an action failed."""

    snapshot: Snapshot
    observation: Annotated[str, Meta(description="What the agent reads.")]
    id: Annotated[str | None, Meta(description="The paper of an image.")] = None
    image: Annotated[str | None, Meta(description="An image in Base64.")] = None
    media_type: str | None = None
    answer: Any = None
    done: Annotated[bool | None, Meta(description="True: the answer ended the episode.")] = None
    error_type: Annotated[
        str | None, Meta(description="The type of the error, if the action failed: a name of docs/errors.md.")
    ] = None

    def selected(self) -> Any:
        content = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: value for name, value in content.items() if value is not None}

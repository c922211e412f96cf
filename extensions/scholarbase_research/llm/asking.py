"""Asks a model for something that a function can parse. A malformed reply is retried once."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec
import orjson

from scholarbase_research.llm.base import Completion, LanguageModel, Message, ModelRequest, Usage

T = TypeVar("T")

_FENCE: Final = re.compile(r"\s*```(?:json)?\s*\n(.*?)\n\s*```\s*", re.S | re.I)


class Malformed(Exception):
    """A reply that cannot be parsed. The message completes "The reply ..."."""


class Asked(NamedTuple, Generic[T]):
    """What was parsed; None with the ``error`` of the second reply. ``usage`` counts every reply."""

    value: T | None
    error: str | None
    usage: Usage


def ask(model: LanguageModel, request: ModelRequest, parse: Callable[[Completion], T]) -> Asked[T]:
    """Ask a model. ``parse`` raises Malformed.

    Raises:
        ModelError: the model fails.
    """
    usage = Usage()
    problem = ""
    for _ in range(2):
        completion = model.complete(request)
        usage += completion.usage
        try:
            return Asked(parse(completion), None, usage)
        except Malformed as error:
            cut = ", and was cut at the limit of tokens" if completion.is_cut else ""
            problem = f"The reply {error}{cut}."
        correction = Message("user", f"{problem} Reply again, in the requested form.")
        messages = (*request.messages, Message("assistant", completion.text), correction)
        request = msgspec.structs.replace(request, messages=messages)
    return Asked(None, problem, usage)


def json_request(prompt: str, properties: Mapping[str, Any]) -> ModelRequest:
    """A request for a JSON object with these properties."""
    return ModelRequest((Message("user", prompt),), object_schema(properties), temperature=0.0)


def object_schema(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def json_object(completion: Completion) -> dict[str, Any]:
    """The JSON object of a reply, which may be in a fenced block. Raises Malformed: it is not one."""
    text = completion.text
    if fenced := _FENCE.fullmatch(text):
        text = fenced[1]
    try:
        reply: Any = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Malformed(f"is {shortened(text)}, not a JSON object ({error})") from error
    if not isinstance(reply, dict):
        raise Malformed(f"is {shortened(text)}, not a JSON object")
    return reply


def shortened(text: str) -> str:
    text = " ".join(text.split())
    return repr(text if len(text) <= 60 else text[:60] + "...")

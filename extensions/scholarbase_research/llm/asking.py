"""Asks a model for something that a function can parse. A malformed reply is retried once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

import msgspec

from scholarbase_research.llm.base import Completion, LanguageModel, Message, ModelRequest, Usage
from scholarbase_research.llm.parsing import Malformed

T = TypeVar("T")


class Asked(NamedTuple, Generic[T]):
    """What was parsed; None with the ``error`` of the second reply. ``usage`` counts every reply."""

    value: T | None
    error: str | None
    usage: Usage


def ask(model: LanguageModel, request: ModelRequest, parse: Callable[[Completion], T]) -> Asked[T]:
    """Ask a model. ``parse`` raises Malformed, whose message completes "The reply ...".

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
            problem = f"The reply {error}."
        correction = Message("user", f"{problem} Reply again, in the requested form.")
        messages = (*request.messages, Message("assistant", completion.text), correction)
        request = msgspec.structs.replace(request, messages=messages)
    return Asked(None, problem, usage)

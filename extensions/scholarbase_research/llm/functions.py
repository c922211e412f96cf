"""Functions as language models, for tests and baselines."""

from __future__ import annotations

from collections.abc import Callable

from scholarbase_research.llm.base import Completion, ModelRequest, Usage


class FunctionModel:
    """A model whose replies are those of ``function``, which returns a text or a :class:`Completion`."""

    def __init__(self, name: str, function: Callable[[ModelRequest], str | Completion]) -> None:
        self._name = name
        self._function = function

    @property
    def name(self) -> str:
        return self._name

    def complete(self, request: ModelRequest) -> Completion:
        reply = self._function(request)
        return reply if isinstance(reply, Completion) else Completion(reply, usage=Usage(1))

    def close(self) -> None:
        pass

"""What agents share: the calls of one question, as lines of a trajectory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import orjson

from scholarbase.errors import ScholarBaseError
from scholarbase.responses.sizing import estimate_tokens
from scholarbase.sessions.recording import returned_papers
from scholarbase.tools.calling import Tools
from scholarbase.trajectories.kinds import TOOLS
from scholarbase_research.evaluation.queries import Query
from scholarbase_research.llm.base import Usage


class Observed(NamedTuple):
    """The response to a call, or the error of one that failed."""

    content: dict[str, Any] | None
    ids: tuple[str, ...]
    error: str | None


@dataclass
class Trace:
    """The calls of an agent for one question."""

    query: Query
    snapshot: str
    lines: list[dict[str, Any]] = field(default_factory=list)
    """The lines of a trajectory (docs/trajectories.md)."""
    usage: Usage = field(default_factory=Usage)
    stop: str = ""
    response_tokens: int = 0
    """The size of all responses, by the estimate of docs/agents.md."""

    def call(self, tools: Tools, tool: str, arguments: Mapping[str, Any], turn: int, **more: Any) -> Observed:
        """Call a tool, and add the call. Errors of the call itself are observed, not raised.

        Raises:
            ScholarBaseError: the library or its server fails.
        """
        try:
            content = tools.call(tool, arguments)
        except ScholarBaseError as error:
            if error.status >= 500:
                raise
            return self.failed(tool, arguments, turn, str(error), error.slug, **more)
        size = estimate_tokens(orjson.dumps(content))
        papers = returned_papers(content, size)
        self.response_tokens += size
        self._add(tool, arguments, turn, papers.ids, scores=papers.scores, **more)
        return Observed(content, papers.ids, None)

    def failed(
        self, tool: str, arguments: Mapping[str, Any], turn: int, error: str, error_type: str, **more: Any
    ) -> Observed:
        """Add a call that failed."""
        self._add(tool, arguments, turn, (), error=error, error_type=error_type, **more)
        return Observed(None, (), error)

    def answer(self, ids: tuple[str, ...], turn: int, **more: Any) -> None:
        """Add the agent's own ranking."""
        self._add("answer", {}, turn, ids, **more)

    def _add(
        self, tool: str, arguments: Mapping[str, Any], turn: int, ids: tuple[str, ...], **more: Any
    ) -> None:
        line = {
            "query_id": self.query.id,
            "call": len(self.lines) + 1,
            "tool": tool,
            "kind": None if tool in TOOLS else "inspect",
            "arguments": dict(arguments) or None,
            "ids": list(ids),
            "round": turn,
            "query": self.query.text,
            "snapshot": self.snapshot,
            **more,
        }
        self.lines.append({key: value for key, value in line.items() if value is not None})


class Policy(Protocol):
    """An agent. Safe to share between threads."""

    @property
    def name(self) -> str: ...

    @property
    def identity(self) -> dict[str, Any]:
        """What its calls depend on, besides the library and the questions."""
        ...

    def run(self, tools: Tools, trace: Trace, to: str | None) -> None:
        """Answer the question of ``trace``; ``to`` is the latest date of papers.

        Raises:
            ModelError: the model fails.
            ScholarBaseError: the library or its server fails.
        """
        ...

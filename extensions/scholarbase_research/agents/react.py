"""A language model that calls the tools, turn by turn: thought, action, observation.

The prompt of a turn has the question and the last ``window`` turns. A wrong action stays in the history with its error.
The last turn ends the question, answered or not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from scholarbase.errors import InvalidRequest
from scholarbase.identifiers import parse
from scholarbase.models.checks import check_whole
from scholarbase.models.limits import MAX_LIMIT, MIN_TOKENS
from scholarbase.responses.text import as_text
from scholarbase.tools.calling import Tools
from scholarbase.tools.definitions import tool_named
from scholarbase_research.agents.base import Observed, Trace
from scholarbase_research.llm.base import LanguageModel, Message, ModelRequest, ToolCall

ANSWERED, TURNS = "answered", "turn limit"
MAX_TURNS: Final = 1000
SYSTEM: Final = (
    "You find the papers that answer a question, with the tools of a scholarly library. In each turn write one short "
    "thought and call one tool. Search in several ways, expand from papers that fit, and call answer with the ids of "
    "all papers that fit, best first, when further calls would find nothing new."
)
ANSWER_TOOL: Final[dict[str, Any]] = {
    "type": "function",
    "function": {
        "name": "answer",
        "description": "Give the final answer: the ids of all papers that answer the question, best first.",
        "parameters": {
            "type": "object",
            "properties": {"ids": {"type": "array", "items": {"type": "string"}}},
            "required": ["ids"],
        },
    },
}


@dataclass
class _Turn:
    """A turn as later prompts show it."""

    thought: str
    calls: list[tuple[ToolCall, str]]
    """Each call and its observation."""
    without_action: str | None = None
    """What is said to a reply without an action."""


class ReactPolicy:
    """A model in a loop over the tools.

    Args:
        turns: the last turn ends the question.
        window: earlier turns in each prompt.
        observation_tokens: the most tokens of an observation, by the estimate of docs/agents.md.
    """

    name = "react"

    def __init__(
        self, model: LanguageModel, *, turns: int = 20, window: int = 5, observation_tokens: int = 2000
    ) -> None:
        check_whole(turns, "turns", 1, MAX_TURNS)
        check_whole(window, "window", 1, MAX_TURNS)
        check_whole(observation_tokens, "observation_tokens", MIN_TOKENS)
        self._model = model
        self._turns = turns
        self._window = window
        self._observation_tokens = observation_tokens

    @property
    def identity(self) -> dict[str, Any]:
        limits = {
            "turns": self._turns,
            "window": self._window,
            "observation_tokens": self._observation_tokens,
        }
        return {"policy": self.name, "model": self._model.name, **limits}

    def run(self, tools: Tools, trace: Trace, to: str | None) -> None:
        schemas = [*tools.schemas("openai"), ANSWER_TOOL]
        history: deque[_Turn] = deque(maxlen=self._window)
        trace.stop = TURNS
        for number in range(1, self._turns + 1):
            request = ModelRequest(
                (*self._prompt(trace.query.text, number), *_messages(history)),
                tools=tuple(schemas),
                temperature=0.0,
            )
            completion = self._model.complete(request)
            trace.usage += completion.usage
            used = completion.usage
            turn = _Turn(completion.text.strip(), [])
            calls = completion.tool_calls
            for position, call in enumerate(calls):
                details = {
                    "thought": turn.thought or None,
                    "tokens": used.input_tokens + used.output_tokens if position == 0 else None,
                }
                observed, observation = self._act(tools, trace, call, number, to, details)
                if observed.error is None and call.name == "answer":
                    trace.stop = ANSWERED
                    return
                turn.calls.append((call, observation))
            if not calls:
                turn.without_action = "Your reply has no action: call one of the tools, or answer."
                tokens = used.input_tokens + used.output_tokens
                thought = turn.thought or None
                trace.failed(
                    "none", {}, number, turn.without_action, "no-action", thought=thought, tokens=tokens
                )
            history.append(turn)

    def _prompt(self, question: str, number: int) -> tuple[Message, Message]:
        left = self._turns - number + 1
        said = "This is the last turn: call answer." if left == 1 else f"{left} turns are left."
        return Message("system", f"{SYSTEM}\n{said}"), Message("user", question)

    def _act(
        self, tools: Tools, trace: Trace, call: ToolCall, number: int, to: str | None, details: dict[str, Any]
    ) -> tuple[Observed, str]:
        """Run an action. Returns what was observed, and its text."""
        arguments, problem = _arguments(call)
        if problem is None and call.name == "answer":
            ids, problem = answer_ids(arguments)
            if problem is None:
                trace.answer(ids, number, **details)
                return Observed({}, ids, None), ""
        if problem is not None:
            failed = trace.failed(call.name, arguments, number, problem, "invalid-request", **details)
            return failed, problem
        try:
            arguments = self._limited(call.name, arguments, to)
        except InvalidRequest as error:
            return trace.failed(call.name, arguments, number, str(error), error.slug, **details), str(error)
        observed = trace.call(tools, call.name, arguments, number, **details)
        if observed.content is None:
            return observed, str(observed.error)
        return observed, as_text(observed.content, offset=_whole(arguments.get("offset")))

    def _limited(self, name: str, arguments: dict[str, Any], to: str | None) -> dict[str, Any]:
        """The arguments with the limit of an observation, and the latest date where the tool has one.

        Raises:
            InvalidRequest: no tool has this name, or an argument is unknown.
        """
        tool = tool_named(name)
        known = {key for _, key, _ in tool.arguments}
        limited = dict(tool.canonical(arguments))
        if "max_tokens" in known:
            given = limited.get("max_tokens")
            most = self._observation_tokens
            limited["max_tokens"] = min(given, most) if type(given) is int else most
        if to is not None and "to" in known:
            limited["to"] = min(str(limited.get("to") or to), to)
        return limited


def _arguments(call: ToolCall) -> tuple[dict[str, Any], str | None]:
    """The arguments of a call, and what is wrong with them."""
    try:
        arguments = orjson.loads(call.arguments or "{}")
    except orjson.JSONDecodeError as error:
        return {}, f"The arguments of {call.name} are not valid JSON ({error})."
    if not isinstance(arguments, dict):
        return {}, f"The arguments of {call.name} must be an object."
    return arguments, None


def answer_ids(arguments: Mapping[str, Any]) -> tuple[tuple[str, ...], str | None]:
    """The ids of an answer in canonical form, and what is wrong with them."""
    ids = arguments.get("ids")
    if (
        not isinstance(ids, list)
        or not all(isinstance(paper_id, str) for paper_id in ids)
        or len(ids) > MAX_LIMIT
    ):
        return (), f"answer needs ids, a list of at most {MAX_LIMIT:,} ids of papers."
    try:
        return tuple(dict.fromkeys(str(parse(paper_id)) for paper_id in ids)), None
    except InvalidRequest as error:
        return (), str(error)


def _whole(value: Any) -> int:
    return value if type(value) is int and value >= 0 else 0


def _messages(history: deque[_Turn]) -> list[Message]:
    """Earlier turns as a prompt has them."""
    messages = []
    for turn in history:
        if turn.without_action is not None:
            messages += [
                Message("assistant", turn.thought or "(no reply)"),
                Message("user", turn.without_action),
            ]
            continue
        messages.append(Message("assistant", turn.thought, tuple(call for call, _ in turn.calls)))
        messages += [Message("tool", observation, tool_call_id=call.id) for call, observation in turn.calls]
    return messages

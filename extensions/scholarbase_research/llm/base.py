"""The protocol of language models: messages in; text, tool calls and token counts out."""

from __future__ import annotations

import hashlib
from typing import Any, Literal, NamedTuple, Protocol

import msgspec
import orjson

Role = Literal["system", "user", "assistant", "tool"]


class ToolCall(msgspec.Struct, frozen=True):
    """A call of a tool. ``arguments`` are as the model wrote them, which may not be valid JSON."""

    id: str
    name: str
    arguments: str


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message. ``tool_calls`` are an assistant's; ``tool_call_id`` is the call that a tool's message answers."""

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None


class ModelRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """One request to a model.

    ``schema`` is the JSON schema of the wanted reply. ``tools`` are function schemas in the form of OpenAI's chat
    completions.
    """

    messages: tuple[Message, ...]
    schema: dict[str, Any] | None = None
    tools: tuple[dict[str, Any], ...] = ()
    max_tokens: int | None = None
    temperature: float | None = None
    seed: int | None = None


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens of one reply, or of several. ``uncounted`` replies came without token counts."""

    replies: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    uncounted: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.replies + other.replies,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.uncounted + other.uncounted,
        )


class Completion(msgspec.Struct, frozen=True, omit_defaults=True):
    """A reply. ``is_cut`` if it ended at the limit of tokens. ``model`` is the name in the response."""

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    is_cut: bool = False
    model: str | None = None


class Price(NamedTuple):
    """The price of a million tokens, in any currency."""

    input: float = 0.0
    output: float = 0.0

    def cost(self, usage: Usage) -> float:
        return (usage.input_tokens * self.input + usage.output_tokens * self.output) / 1e6


class LanguageModel(Protocol):
    """A language model. Safe to share between threads."""

    @property
    def name(self) -> str:
        """The model's name. Recorded replies are found by it."""
        ...

    def complete(self, request: ModelRequest) -> Completion:
        """Reply to a request.

        Raises:
            ModelError: the model's service fails, or a cassette has no reply to this request.
        """
        ...

    def close(self) -> None:
        """Close the connections. A second call does nothing."""
        ...


def request_hash(model: str, request: ModelRequest) -> str:
    """The SHA-256 of a request to a model, without its address."""
    content = {"model": model, "request": msgspec.to_builtins(request)}
    return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()

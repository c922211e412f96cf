"""Language models behind OpenAI's ``POST /v1/chat/completions``.

Format: https://platform.openai.com/docs/api-reference/chat, which vLLM, llama.cpp and Ollama also have.
"""

from __future__ import annotations

import logging
from threading import BoundedSemaphore
from typing import Any, Final, Literal

import httpx
import orjson

from scholarbase.errors import ModelError
from scholarbase.services import Endpoint, ModelService, ResponseTooLarge
from scholarbase_research.llm.base import Completion, LanguageModel, Message, ModelRequest, ToolCall, Usage
from scholarbase_research.llm.cassette import Cassette

log = logging.getLogger("scholarbase_research.llm")

API_KEY_VARIABLE: Final = "SCHOLARBASE_MODEL_API_KEY"
DEFAULT_TIMEOUT: Final = 120.0
"""Seconds for one attempt."""
DEFAULT_RETRIES: Final = 4
DEFAULT_CONCURRENCY: Final = 8
MAX_RESPONSE_BYTES: Final = 16_000_000
_ROUTE: Final = "/chat/completions"

Structured = Literal["schema", "object", "none"]
"""How a reply's JSON schema is sent: as ``json_schema``, as ``json_object`` (any object), or not at all."""

_ADVICE: Final = {
    400: "check the model's name, and whether it accepts JSON schemas and tools (--structured none).",
    404: "check the URL and the model's name.",
}


class HttpModel:
    """A chat completions service as a language model.

    Args:
        url: such as ``https://host/v1#model-name``, with or without ``/chat/completions``.
        timeout: seconds for one attempt.
        retries: how often a request is retried after a connection error, a timeout or a status of 429 or 5xx.
        backoff: longest wait before the first retry, in seconds.
        concurrency: the most requests at once; others wait.
        structured: how the schema of a reply is sent.

    Raises:
        ModelError: the URL is not valid, or names no model.
    """

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        retries: int = DEFAULT_RETRIES,
        backoff: float = 0.5,
        concurrency: int = DEFAULT_CONCURRENCY,
        structured: Structured = "schema",
    ) -> None:
        endpoint, self.name = parse_url(url)
        self._structured = structured
        self._places = BoundedSemaphore(concurrency)
        self._service = ModelService(
            "language model",
            endpoint,
            error=ModelError,
            activity=("Asking the language model", "retry later"),
            advice=_ADVICE,
            api_key=api_key,
            key_setting=API_KEY_VARIABLE,
            timeout=timeout,
            retries=retries,
            backoff=backoff,
            log=log,
        )

    def complete(self, request: ModelRequest) -> Completion:
        """See :meth:`LanguageModel.complete`. A response of status 200 that is not a completion is retried once."""
        if self._service.is_closed:
            raise ModelError(f"The language model {self.name} is closed: open it again.")
        content = orjson.dumps(self._body(request))
        with self._places, self._service.errors():
            try:
                return self._read(self._send(content))
            except _Unreadable as error:
                log.warning("%s %s; asking once more", self._service, error)
            try:
                return self._read(self._send(content))
            except _Unreadable as error:
                raise ModelError(
                    f"{self._service} {error}, twice: check that the URL is that of a chat completions service."
                ) from error

    def close(self) -> None:
        self._service.close()

    def _send(self, content: bytes) -> httpx.Response:
        def post() -> httpx.Response:
            try:
                return self._service.post(content, MAX_RESPONSE_BYTES)
            except ResponseTooLarge as error:
                raise _Unreadable(str(error)) from error

        return self._service.send(post)

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.name,
            "messages": [_message(message) for message in request.messages],
        }
        if request.tools:
            body["tools"] = list(request.tools)
        if request.schema is not None and self._structured == "schema":
            described = {"name": "reply", "strict": True, "schema": request.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": described}
        elif request.schema is not None and self._structured == "object":
            body["response_format"] = {"type": "json_object"}
        for name in ("max_tokens", "temperature", "seed"):
            if (value := getattr(request, name)) is not None:
                body[name] = value
        return body

    def _read(self, response: httpx.Response) -> Completion:
        """Raises _Unreadable: it is not a chat completion."""
        try:
            content = orjson.loads(response.content)
        except orjson.JSONDecodeError as error:
            raise _Unreadable(f"returned content that is not JSON ({error})") from error
        try:
            choice = content["choices"][0]
            message = choice["message"]
            text = message.get("content")
            calls = tuple(
                ToolCall(str(call["id"]), str(call["function"]["name"]), str(call["function"]["arguments"]))
                for call in message.get("tool_calls") or ()
            )
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise _Unreadable(f"returned JSON that is not a chat completion ({error!r})") from error
        if text is not None and not isinstance(text, str):
            raise _Unreadable("returned a message whose content is not a text")
        name = content.get("model")
        return Completion(
            text or "",
            calls,
            _usage(content.get("usage")),
            choice.get("finish_reason") == "length",
            name if isinstance(name, str) else None,
        )


def open_model(
    url: str, api_key: str | None = None, *, cassette: Cassette | None = None, **options: Any
) -> LanguageModel:
    """Open the model at ``https://host/v1#model-name``.

    Args:
        cassette: recorded replies. The service is asked only if the cassette records, for what it lacks.
        options: those of :class:`HttpModel`.

    Raises:
        ModelError: the URL is not valid, or names no model.
    """
    if cassette is None:
        return HttpModel(url, api_key, **options)
    _, name = parse_url(url)
    return cassette.model(name, HttpModel(url, api_key, **options) if cassette.records else None)


class _Unreadable(Exception):
    """A response that is not a chat completion."""


def parse_url(url: str) -> tuple[Endpoint, str]:
    """The route, and the model's name.

    Raises:
        ModelError: not a URL, or without the name of a model.
    """
    example = "use one such as https://host/v1#model-name."
    try:
        endpoint = Endpoint.parse(url, _ROUTE)
    except ValueError as error:
        raise ModelError(f"The language model's URL is not valid ({error}): {example}") from error
    if endpoint.model is None:
        raise ModelError(f"The language model's URL names no model: {example}")
    return endpoint, endpoint.model


def _message(message: Message) -> dict[str, Any]:
    fields: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        fields["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        fields["tool_call_id"] = message.tool_call_id
    return fields


def _usage(usage: Any) -> Usage:
    counts = [
        usage.get(key) if isinstance(usage, dict) else None for key in ("prompt_tokens", "completion_tokens")
    ]
    if all(isinstance(count, int) and count >= 0 for count in counts):
        return Usage(1, int(counts[0] or 0), int(counts[1] or 0))
    return Usage(1, uncounted=1)

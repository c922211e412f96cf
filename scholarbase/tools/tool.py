"""A tool: its native request, the schema that a model sees, and its arguments."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, TypeAlias, get_args

from scholarbase.errors import ToolNotFound
from scholarbase.indexes import query_syntax
from scholarbase.models.calls import CallKind
from scholarbase.models.checks import shown
from scholarbase.models.limits import MODES, Mode, Syntax
from scholarbase.models.papers import PAPER_FIELDS, Paper
from scholarbase.models.requests import Request
from scholarbase.models.responses import PaperBatchResponse, Response
from scholarbase.responses.text import as_text
from scholarbase.search.library import Library
from scholarbase.tools import arguments as written


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool.

    ``request`` is its native request, ``defaults`` override those of the request, and ``run`` runs it on a library.
    With ``is_cached``, equal requests may share a response. ``kind`` is that of an extension's recorded calls, which
    otherwise inspect papers.
    """

    name: str
    description: str
    request: type[Request]
    run: Callable[[Library, Any], Response]
    shown: Mapping[str, str]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    is_cached: bool = True
    kind: CallKind | None = None
    arguments: tuple[tuple[str, str, Any], ...] = field(init=False)
    """For each argument: field name, argument name, default in this tool."""
    kinds: Mapping[str, Mapping[str, Any]] = field(init=False)
    """For each argument its type in JSON Schema."""
    required: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        properties = self.request.model_json_schema()["properties"]
        object.__setattr__(self, "kinds", {name: _plain_type(kind) for name, kind in properties.items()})
        fields = [(name, f.alias or name, f.default) for name, f in self.request.model_fields.items()]
        arguments = tuple((name, key, self.defaults.get(key, default)) for name, key, default in fields)
        object.__setattr__(self, "arguments", arguments)
        required = tuple(name for name, f in self.request.model_fields.items() if f.is_required())
        object.__setattr__(self, "required", required)

    def canonical(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """A model's arguments with the names and types of this tool (:mod:`scholarbase.tools.arguments`).

        Raises:
            InvalidRequest: an argument is unknown.
        """
        return written.canonical(arguments, self.kinds, self.name, self.shown, self.required)

    def parse(self, arguments: Mapping[str, Any]) -> Request:
        """Build the request of ``canonical`` arguments.

        Raises:
            InvalidRequest: an argument is missing or invalid.
        """
        return self.request.parse({**self.defaults, **arguments}, kind="argument")

    def run_for_model(self, library: Library, request: Any) -> Response:
        """Run a request of a model, for which a batch of ids without a paper is an error.

        Raises:
            PaperNotFound, InvalidRequest: no id is in the library. Other errors of ``run``.
        """
        response = self.run(library, request)
        if isinstance(response, PaperBatchResponse) and not any(
            isinstance(result, Paper) for result in response.results
        ):
            library.lookup.ids(request.ids, request.as_of)
        return response

    def texts(self, content: Mapping[str, Any], offset: int) -> list[str]:
        """The JSON of a response as the texts that a model reads over MCP."""
        return [as_text(content, offset=offset)]

    def arguments_for(self, request: Request, **also: Any) -> dict[str, Any]:
        """The arguments of this tool that return the same papers as a native request.

        ``also`` overrides arguments that the request has in another form.
        """
        values = vars(request)
        arguments: dict[str, Any] = {}
        for name, key, default in self.arguments:
            value = also[key] if key in also else values.get(name)
            if key == "syntax" and value in get_args(Syntax) and not query_syntax.MARKS.search(values["q"]):
                continue  # read alike with and without query syntax
            if key == "fields":
                # Fields change the papers only if the response is limited in size.
                if values.get("max_tokens") is None:
                    continue
                value = PAPER_FIELDS if value is None else value
            value = _as_list(value)
            if value is not None and value != _as_list(default):
                arguments[key] = value
        return arguments

    def schema(
        self, *, modes: Sequence[Mode] = MODES, in_session: bool = True, strict: bool = False
    ) -> dict[str, Any]:
        """The JSON schema of the arguments that a model sees.

        Args:
            modes: the search modes that the library has.
            in_session: whether calls are recorded in a session, which ``exclude_seen`` needs.
            strict: require every argument, with null for one that is left out.
        """
        properties = {
            name: {**self.kinds[name], "description": description}
            for name, description in self.shown.items()
            if in_session or name != "exclude_seen"
        }
        if len(modes) == 1:
            properties.pop("mode", None)
        if not strict:
            return {"type": "object", "properties": properties, "required": [*self.required]}
        properties = {
            name: kind if name in self.required else _nullable(kind) for name, kind in properties.items()
        }
        return {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }


class ToolSet(tuple[Tool, ...]):
    """The tools that an agent has, in the order in which they are listed. A subclass overrides what follows."""

    instructions: str = "A local library of papers."
    """The instructions that MCP clients get."""

    def unknown(self, name: str, reason: str) -> Tool:
        """The tool that runs a call of a name that none of them has.

        Raises:
            ToolNotFound: none does; ``reason`` is its message.
        """
        raise ToolNotFound(reason)


NativeCall: TypeAlias = "Callable[[str, dict[str, Any]], Awaitable[Mapping[str, Any]]]"
"""Calls one of the nine tools: its name and arguments to the JSON of the response."""


@dataclass(frozen=True, slots=True)
class McpTool:
    """A tool that only MCP clients see. Sessions record the calls of the nine tools that it makes.

    ``schema`` is the tool as MCP lists it, without its name. ``run`` makes the JSON of its result from native calls,
    the arguments, and the names of the nine tools that the library has.
    """

    schema: Mapping[str, Any]
    run: Callable[[NativeCall, Mapping[str, Any], Set[str]], Awaitable[dict[str, Any]]]


class McpToolSet(dict[str, McpTool]):
    """Such tools by their names, in the order in which they are listed."""

    instructions: str = ToolSet.instructions

    def named(self, name: str) -> McpTool:
        """The tool of this name, or raise ToolNotFound."""
        if name not in self:
            raise ToolNotFound(f"There is no tool {shown(name)}: the tools are {', '.join(self)}.")
        return self[name]


def _as_list(value: Any) -> Any:
    """A value as JSON gives it, which has no tuples."""
    return list(value) if isinstance(value, tuple) else value


def _plain_type(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The type and choices of a property, without its other keys."""
    options = [option for option in schema.get("anyOf", [schema]) if option.get("type") != "null"]
    kept = {key: value for key, value in options[0].items() if key in ("type", "enum", "items")}
    if "items" in kept:
        kept["items"] = _plain_type(kept["items"])
    return kept


def _nullable(kind: Mapping[str, Any]) -> dict[str, Any]:
    """A type that also accepts null."""
    nullable = {**kind, "type": [kind["type"], "null"]}
    if "enum" in kind:
        nullable["enum"] = [*kind["enum"], None]
    return nullable

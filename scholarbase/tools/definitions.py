"""The six tools: the schema that a model sees, and the native request of each.

A tool accepts every argument of its native request. The schema has only ``shown``, with short descriptions, because a
model reads the whole list with every question. Arguments that the operator of an agent sets, such as ``as_of`` and
``within``, are not shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from scholarbase.errors import InvalidRequest, ToolNotFound
from scholarbase.models.papers import PAPER_FIELDS
from scholarbase.models.requests import (
    EdgeBody,
    ExpandBody,
    PaperBatchBody,
    Request,
    SearchBody,
    TitleBatchBody,
)
from scholarbase.models.responses import Response
from scholarbase.search.library import Library

SchemaForm = Literal["openai", "anthropic", "mcp"]

SCHEMA_FORMS: Final[tuple[SchemaForm, ...]] = get_args(SchemaForm)

_LISTED: Final = ["id", "title", "authors", "year", "venue", "citation_count"]
"""The default fields of papers in lists."""
_FOUND: Final = ["id", "title", "abstract", "authors", "year", "venue", "citation_count"]
_READ: Final = [
    *("id", "title", "abstract", "tldr", "authors", "year", "publication_date", "venue", "categories"),
    *("citation_count", "reference_count"),
]

_ID: Final = "arXiv:1706.03762, DOI:..., CorpusId:... or a link"
_MAX_TOKENS: Final = "Caps the response"


def never_short(library: Library, request: Any) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool.

    ``request`` is its native request, ``defaults`` override those of the request, ``run`` runs it on a library, and
    ``is_short`` whether that is fast enough for the event loop (see :class:`Library`).
    """

    name: str
    description: str
    request: type[Request]
    run: Callable[[Library, Any], Response]
    shown: Mapping[str, str]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    is_short: Callable[[Library, Any], bool] = never_short
    arguments: tuple[tuple[str, str, Any], ...] = field(init=False)
    """For each argument: field name, argument name, default in this tool."""

    def __post_init__(self) -> None:
        fields = [(name, f.alias or name, f.default) for name, f in self.request.model_fields.items()]
        arguments = tuple((name, key, self.defaults.get(key, default)) for name, key, default in fields)
        object.__setattr__(self, "arguments", arguments)

    def parse(self, arguments: Mapping[str, Any]) -> Request:
        """Build the request of a model's arguments; null means omitted.

        Raises:
            InvalidRequest: an argument is unknown, missing or invalid.
        """
        if not isinstance(arguments, Mapping):
            raise InvalidRequest(f"The arguments of {self.name} are not a JSON object: send an object.")
        known = [key for _, key, _ in self.arguments]
        values = {name: value for name, value in arguments.items() if value is not None}
        for name in values:
            if name not in known:
                raise InvalidRequest(f"Unknown argument {name!r}: {self.name} takes {', '.join(self.shown)}.")
        return self.request.parse({**self.defaults, **values}, kind="argument")

    def arguments_for(self, request: Request, **also: Any) -> dict[str, Any]:
        """The arguments of this tool that return the same papers as a native request.

        ``also`` overrides arguments that the request has in another form.
        """
        values = vars(request)
        arguments: dict[str, Any] = {}
        for name, key, default in self.arguments:
            value = also[key] if key in also else values.get(name)
            if key == "fields":
                # Fields change the papers only if the response is limited in size.
                if values.get("max_tokens") is None:
                    continue
                value = list(PAPER_FIELDS) if value is None else list(value)
            if value is not None and value != default:
                arguments[key] = list(value) if isinstance(value, tuple) else value
        return arguments

    def schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments that a model sees."""
        properties = self.request.model_json_schema()["properties"]
        return {
            "type": "object",
            "properties": {
                name: {**_plain_type(properties[name]), "description": what}
                if what
                else _plain_type(properties[name])
                for name, what in self.shown.items()
            },
            "required": [name for name, f in self.request.model_fields.items() if f.is_required()],
        }


def _plain_type(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The type and choices of a property, without its other keys."""
    options = [option for option in schema.get("anyOf", [schema]) if option.get("type") != "null"]
    kept = {key: value for key, value in options[0].items() if key in ("type", "enum", "items")}
    if "items" in kept:
        kept["items"] = _plain_type(kept["items"])
    return kept


_EDGE_ARGUMENTS: Final = {
    "paper_id": _ID,
    "limit": "Default 25",
    "offset": "",
    "sort": "",
    "from": "",
    "to": "",
    "max_tokens": "",
}
_EDGE_DEFAULTS: Final = {"limit": 25, "fields": _LISTED}

TOOLS: Final[tuple[Tool, ...]] = (
    Tool(
        "search_papers",
        "Search titles and abstracts by words and meaning. Returns papers best first with total and next_offset; an "
        "empty list means nothing matched.",
        SearchBody,
        Library.run,
        {
            "q": 'A question or words; "phrases", AND, OR, NOT, prefix* and title:word work too',
            "mode": "",
            "limit": "Default 10, at most 1000",
            "offset": "The last next_offset",
            "from": "YYYY[-MM[-DD]]",
            "to": "",
            "category": "Such as cs.CL, or cs",
            "min_citations": "",
            "exclude": "Phrases that must not be the topic",
            "exclude_seen": "Leave out papers already returned",
            "max_tokens": _MAX_TOKENS,
        },
        {"fields": _FOUND},
        Library.is_short_search,
    ),
    Tool(
        "match_titles",
        "Find papers by their titles, exact or with typing errors: for each title the best matches, score 1 if the "
        "same, an empty list if nothing matches.",
        TitleBatchBody,
        Library.run_titles,
        {"titles": "", "limit": "Matches for each title; default 1", "max_tokens": ""},
        {"fields": _LISTED},
    ),
    Tool(
        "get_papers",
        "Read papers: abstract, authors, date, venue, counts. null is a paper that is not in the library.",
        PaperBatchBody,
        Library.run_papers,
        {"ids": _ID, "fields": "Such as title, abstract, external_ids", "max_tokens": ""},
        {"fields": _READ},
        Library.is_short_batch,
    ),
    Tool(
        "get_citations",
        "Papers that cite a paper, most cited first.",
        EdgeBody,
        Library.run_citations,
        _EDGE_ARGUMENTS,
        _EDGE_DEFAULTS,
        Library.has_few_citations,
    ),
    Tool(
        "get_references",
        "Papers that a paper cites, most cited first.",
        EdgeBody,
        Library.run_references,
        _EDGE_ARGUMENTS,
        _EDGE_DEFAULTS,
        Library.has_few_references,
    ),
    Tool(
        "expand_papers",
        "Citation neighbours of several papers, each once; those that most seeds reach come first.",
        ExpandBody,
        Library.run_expand,
        {
            "seeds": "Paper ids",
            "direction": "Default both",
            "hops": "1 (default) or 2",
            "limit": "Default 25",
            "offset": "",
            "from": "",
            "to": "",
            "category": "",
            "min_citations": "",
            "exclude": "",
            "exclude_seen": "",
            "max_tokens": "",
        },
        {"limit": 25, "fields": _LISTED},
    ),
)

_BY_NAME: Final = {tool.name: tool for tool in TOOLS}


def tool_named(name: str) -> Tool:
    """Return the tool of this name, or raise ToolNotFound."""
    try:
        return _BY_NAME[name]
    except KeyError:
        raise ToolNotFound(f"There is no tool {name!r}: the tools are {', '.join(_BY_NAME)}.") from None


def schemas(form: SchemaForm) -> list[dict[str, Any]]:
    """All tools as function schemas: ``openai`` (https://platform.openai.com/docs/guides/function-calling),
    ``anthropic`` (https://docs.anthropic.com/en/docs/agents-and-tools/tool-use) or ``mcp``
    (https://modelcontextprotocol.io/specification).

    Raises:
        InvalidRequest: another form.
    """
    if form not in SCHEMA_FORMS:
        raise InvalidRequest(f"Unknown format {form!r}: use one of {', '.join(SCHEMA_FORMS)}.")
    return [_in_form(tool, form) for tool in TOOLS]


def _in_form(tool: Tool, form: SchemaForm) -> dict[str, Any]:
    about = {"name": tool.name, "description": tool.description}
    if form == "openai":
        return {"type": "function", "function": {**about, "parameters": tool.schema()}}
    return {**about, "input_schema" if form == "anthropic" else "inputSchema": tool.schema()}

"""The six tools, each defined once: what a model is told of it, and which call of the native API it is.

A tool takes every argument of its native request; ``shown`` are those that a model is told of, in few words, since a
model reads the whole list with every question it is asked. What is for who runs the agent is not among them: ``as_of``
and ``within``, say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal, get_args

from pydantic import BaseModel, ValidationError

from scholarbase.errors import InvalidRequest, ToolNotFound
from scholarbase.models import PAPER_FIELDS, check_fields
from scholarbase.models.schemas import (
    EdgeBody,
    ExpandBody,
    PaperBatchBody,
    SearchBody,
    SearchParameters,
    TitleBatchBody,
    check_unseen,
    sentence,
)
from scholarbase.search.library import Library

SchemaForm = Literal["openai", "anthropic", "mcp"]

SCHEMA_FORMS: Final[tuple[SchemaForm, ...]] = get_args(SchemaForm)

_LISTED: Final = ["id", "title", "authors", "year", "venue", "citation_count"]
"""What a tool says of each paper of a list, unless it is asked for other fields."""
_FOUND: Final = ["id", "title", "abstract", "authors", "year", "venue", "citation_count"]
_READ: Final = [
    *("id", "title", "abstract", "tldr", "authors", "year", "publication_date", "venue", "categories"),
    *("citation_count", "reference_count"),
]

_ID: Final = "arXiv:1706.03762, DOI:..., CorpusId:... or a link"
_MAX_TOKENS: Final = "Caps the answer"


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool. ``request`` is its native request; ``defaults`` go before that one's own; ``run`` gives the answer's
    JSON."""

    name: str
    description: str
    request: type[BaseModel]
    run: Callable[[Library, Any], dict[str, Any]]
    shown: Mapping[str, str]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    arguments: tuple[tuple[str, str, Any], ...] = field(init=False)
    """Each argument: its field's name, its own, and its default here."""

    def __post_init__(self) -> None:
        fields = [(name, f.alias or name, f.default) for name, f in self.request.model_fields.items()]
        arguments = tuple((name, key, self.defaults.get(key, default)) for name, key, default in fields)
        object.__setattr__(self, "arguments", arguments)

    def parse(self, arguments: Mapping[str, Any]) -> BaseModel:
        """The request that a model's arguments make. One that is null is one that was not given.

        Raises:
            InvalidRequest: an argument that the tool does not take, lacks, or that is of another type.
        """
        if not isinstance(arguments, Mapping):
            raise InvalidRequest(f"The arguments of {self.name} are no JSON object: give one.")
        known = [key for _, key, _ in self.arguments]
        asked = {name: value for name, value in arguments.items() if value is not None}
        for name in asked:
            if name not in known:
                raise InvalidRequest(f"Unknown argument {name!r}: {self.name} takes {', '.join(self.shown)}.")
        try:
            return self.request.model_validate({**self.defaults, **asked})
        except ValidationError as error:
            first = error.errors()[0]
            raise InvalidRequest(sentence({**first, "loc": ("argument", *first["loc"])})) from error

    def given(self, request: BaseModel, **also: Any) -> dict[str, Any]:
        """The arguments of this tool that ask for the same as a native request, whose defaults may be others; ``also``
        are those that it has in other forms. ``parse`` of them makes a request that gives the same papers."""
        values = vars(request)
        arguments: dict[str, Any] = {}
        for name, key, default in self.arguments:
            value = also[key] if key in also else values.get(name)
            if key == "fields":
                # They change no paper unless the answer is cut to a size.
                if values.get("max_tokens") is None:
                    continue
                value = list(PAPER_FIELDS) if value is None else value
            if value is not None and value != default:
                arguments[key] = value
        return arguments

    def schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments that a model is told of."""
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
    """A property's type and choices, without what pydantic says besides."""
    options = [option for option in schema.get("anyOf", [schema]) if option.get("type") != "null"]
    kept = {key: value for key, value in options[0].items() if key in ("type", "enum", "items")}
    if "items" in kept:
        kept["items"] = _plain_type(kept["items"])
    return kept


def run_search(library: Library, request: SearchParameters) -> dict[str, Any]:
    return library.run(request.to_request()).to_dict()


def run_titles(library: Library, request: TitleBatchBody) -> dict[str, Any]:
    found = library.match_titles(
        request.titles,
        limit=request.limit,
        min_score=request.min_score,
        fields=request.fields,
        as_of=request.as_of,
    )
    return {"snapshot": library.snapshot_id, "results": [answer.to_dict()["results"] for answer in found]}


def run_papers(library: Library, request: PaperBatchBody) -> dict[str, Any]:
    wanted = check_fields(request.fields)
    if request.missing == "error":
        for paper_id in request.ids:
            library.paper(paper_id, fields=("id",), as_of=request.as_of)
    found = library.papers(request.ids, fields=wanted, as_of=request.as_of)
    results = [None if paper is None else paper.to_dict(wanted) for paper in found]
    return {"snapshot": library.snapshot_id, "results": results}


def run_edges(library: Library, request: EdgeBody, *, name: str) -> dict[str, Any]:
    return walk(library, name, arguments_of(request))


def walk(library: Library, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON of a page of citations or references; ``name`` is the tool's."""
    method = library.citations if name == "get_citations" else library.references
    return method(**{key: value for key, value in arguments.items() if key not in _OPTIONS}).to_dict()


def run_expand(library: Library, request: ExpandBody) -> dict[str, Any]:
    return library.expand(**arguments_of(request)).to_dict()


def arguments_of(request: BaseModel) -> dict[str, Any]:
    """A request as the arguments of the library's method.

    Raises:
        InvalidRequest: it leaves out what a session has been given, and has none.
    """
    check_unseen(getattr(request, "exclude_seen", False))
    return {name: value for name, value in vars(request).items() if name not in _OPTIONS}


_OPTIONS: Final = frozenset({"exclude_seen", "max_tokens", "format"})
"""What a request has besides the arguments of the library's method."""
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
        run_search,
        {
            "q": 'A question or words; "phrases", AND, OR, NOT, prefix* and title:word work too',
            "mode": "",
            "limit": "Default 10, at most 1000",
            "offset": "The next_offset of before",
            "from": "YYYY[-MM[-DD]]",
            "to": "",
            "category": "Such as cs.CL, or cs",
            "min_citations": "",
            "exclude": "Phrases that must not be the topic",
            "exclude_seen": "Leave out papers already returned",
            "max_tokens": _MAX_TOKENS,
        },
        {"fields": _FOUND},
    ),
    Tool(
        "match_titles",
        "Find papers by their titles, exact or with typing errors: for each title the best matches, score 1 if the "
        "same, an empty list if there is none.",
        TitleBatchBody,
        run_titles,
        {"titles": "", "limit": "Matches for each title; default 1", "max_tokens": ""},
        {"fields": _LISTED},
    ),
    Tool(
        "get_papers",
        "Read papers: abstract, authors, date, venue, counts. null stands for one that is not in the library.",
        PaperBatchBody,
        run_papers,
        {"ids": _ID, "fields": "Such as title, abstract, external_ids", "max_tokens": ""},
        {"fields": _READ},
    ),
    Tool(
        "get_citations",
        "Papers that cite a paper, most cited first.",
        EdgeBody,
        partial(run_edges, name="get_citations"),
        _EDGE_ARGUMENTS,
        _EDGE_DEFAULTS,
    ),
    Tool(
        "get_references",
        "Papers that a paper cites, most cited first.",
        EdgeBody,
        partial(run_edges, name="get_references"),
        _EDGE_ARGUMENTS,
        _EDGE_DEFAULTS,
    ),
    Tool(
        "expand_papers",
        "Citation neighbours of several papers, each once; those that most seeds reach come first.",
        ExpandBody,
        run_expand,
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
    """Raises ToolNotFound: there is none of this name."""
    try:
        return _BY_NAME[name]
    except KeyError:
        raise ToolNotFound(f"There is no tool {name!r}: there are {', '.join(_BY_NAME)}.") from None


def schemas(form: SchemaForm) -> list[dict[str, Any]]:
    """All tools as function schemas: ``openai`` (https://platform.openai.com/docs/guides/function-calling),
    ``anthropic`` (https://docs.anthropic.com/en/docs/agents-and-tools/tool-use) or ``mcp``
    (https://modelcontextprotocol.io/specification).

    Raises:
        InvalidRequest: another form.
    """
    if form not in SCHEMA_FORMS:
        raise InvalidRequest(f"Unknown format {form!r}: it is one of {', '.join(SCHEMA_FORMS)}.")
    return [_in_form(tool, form) for tool in TOOLS]


def _in_form(tool: Tool, form: SchemaForm) -> dict[str, Any]:
    about = {"name": tool.name, "description": tool.description}
    if form == "openai":
        return {"type": "function", "function": {**about, "parameters": tool.schema()}}
    return {**about, "input_schema" if form == "anthropic" else "inputSchema": tool.schema()}

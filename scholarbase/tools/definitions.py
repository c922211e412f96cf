"""The nine tools: the schema that a model sees, and the native request of each.

A tool accepts every argument of its native request. The schema has only ``shown``, with short descriptions, because a
model reads the whole list with every question. Arguments that the operator of an agent sets, such as ``as_of`` and
``within``, are not shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast, get_args

from scholarbase.errors import InvalidRequest, ToolNotFound
from scholarbase.identifiers import parse
from scholarbase.indexes import query_syntax
from scholarbase.models.check_requests import CheckBody
from scholarbase.models.checks import check_type, shown
from scholarbase.models.document_requests import (
    ContextBody,
    FindBody,
    PaperPassagesBody,
    PassageSearchBody,
    ReadBody,
    TextBody,
)
from scholarbase.models.limits import (
    DEFAULT_EDGES,
    DEFAULT_RESULTS,
    MAX_LIMIT,
    MODES,
    SCHEMA_FORMS,
    Mode,
    SchemaForm,
    Syntax,
)
from scholarbase.models.papers import PAPER_FIELDS, Paper
from scholarbase.models.requests import (
    EdgeBody,
    ExpandBody,
    PaperBatchBody,
    Request,
    SearchBody,
    SimilarBody,
    TitleBatchBody,
)
from scholarbase.models.responses import InvalidId, PaperBatchResponse, Response
from scholarbase.models.sql import SqlBody
from scholarbase.search.library import Library
from scholarbase.tools import arguments as written

_LISTED: Final = ["id", "title", "authors", "year", "venue", "status", "citation_count"]
"""The default fields of papers in lists."""
_CHECKED: Final = ["id", "title", "authors", "year", "venue", "status"]
_FOUND: Final = ["id", "title", "abstract", "authors", "year", "venue", "status", "citation_count"]
_READ: Final = [
    *(
        "id",
        "title",
        "abstract",
        "tldr",
        "authors",
        "year",
        "publication_date",
        "venue",
        "status",
        "categories",
    ),
    *("citation_count", "reference_count"),
]

_ID: Final = "arXiv:1706.03762, DOI:..., CorpusId:... or a link"
_MAX_TOKENS: Final = "size"


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool.

    ``request`` is its native request, ``defaults`` override those of the request, and ``run`` runs it on a library.
    """

    name: str
    description: str
    request: type[Request]
    run: Callable[[Library, Any], Response]
    shown: Mapping[str, str]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    arguments: tuple[tuple[str, str, Any], ...] = field(init=False)
    """For each argument: field name, argument name, default in this tool."""
    kinds: Mapping[str, Mapping[str, Any]] = field(init=False)
    """For each argument its type in JSON Schema."""

    def __post_init__(self) -> None:
        properties = self.request.model_json_schema()["properties"]
        object.__setattr__(self, "kinds", {name: _plain_type(kind) for name, kind in properties.items()})
        fields = [(name, f.alias or name, f.default) for name, f in self.request.model_fields.items()]
        arguments = tuple((name, key, self.defaults.get(key, default)) for name, key, default in fields)
        object.__setattr__(self, "arguments", arguments)

    def canonical(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """A model's arguments with the names and types of this tool (:mod:`scholarbase.tools.arguments`).

        Raises:
            InvalidRequest: an argument is unknown.
        """
        return written.canonical(arguments, self.kinds, self.name, self.shown)

    def parse(self, arguments: Mapping[str, Any]) -> Request:
        """Build the request of ``canonical`` arguments.

        Raises:
            InvalidRequest: an argument is missing or invalid.
        """
        return self.request.parse({**self.defaults, **arguments}, kind="argument")

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
        required = [name for name, f in self.request.model_fields.items() if f.is_required()]
        properties = {
            name: {**self.kinds[name], "description": description}
            for name, description in self.shown.items()
            if in_session or name != "exclude_seen"
        }
        if len(modes) == 1:
            properties.pop("mode", None)
        if not strict:
            return {"type": "object", "properties": properties, "required": required}
        properties = {
            name: kind if name in required else _nullable(kind) for name, kind in properties.items()
        }
        return {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }


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


def _read_papers(library: Library, request: PaperBatchBody) -> PaperBatchResponse:
    """The papers of a batch; an id that is malformed has its own error, unless a missing one fails the call."""
    if request.needs_all:
        return library.run_papers(request)
    errors: dict[str, InvalidId] = {}
    for paper_id in request.ids:
        try:
            parse(paper_id)
        except InvalidRequest as error:
            errors[paper_id] = InvalidId(paper_id, str(error))
    valid = tuple(paper_id for paper_id in request.ids if paper_id not in errors)
    response = library.run_papers(request.model_copy(update={"ids": valid}))
    found = iter(response.results)
    results = tuple(errors[paper_id] if paper_id in errors else next(found) for paper_id in request.ids)
    return PaperBatchResponse(response.snapshot, cast(tuple[Paper | None, ...], results), response.fields)


_LIMIT: Final = f"default {DEFAULT_EDGES}"
_OFFSET: Final = "next_offset"
_FROM: Final = "YYYY[-MM[-DD]]"
_DATE: Final = "date"
_TO: Final = "as from"
_EDGE_ARGUMENTS: Final = {
    "paper_id": "any id form",
    "limit": _LIMIT,
    "offset": _OFFSET,
    "sort": "- descends",
    "from": _DATE,
    "to": _TO,
    "max_tokens": _MAX_TOKENS,
}
_EDGE_DEFAULTS: Final = {"fields": _LISTED}

TOOLS: Final[tuple[Tool, ...]] = (
    Tool(
        "search_papers",
        "Search titles and abstracts by words and meaning, best first; empty if nothing matched.",
        SearchBody,
        Library.run,
        {
            "q": "a question, words, title, id or link",
            "syntax": 'query for "phrases", AND, OR, NOT, prefix*, title:word; default plain',
            "mode": "words, meaning or both",
            "limit": f"default {DEFAULT_RESULTS}, to {MAX_LIMIT}",
            "offset": _OFFSET,
            "from": _FROM,
            "to": _TO,
            "category": "cs.CL or cs",
            "min_citations": "worldwide",
            "exclude": "unwanted phrases",
            "exclude_seen": "unseen only",
            "max_tokens": _MAX_TOKENS,
        },
        {"fields": _FOUND, "syntax": "plain"},
    ),
    Tool(
        "match_titles",
        "Find papers by titles, exact or misspelt; score 1 if the same, empty if none.",
        TitleBatchBody,
        Library.run_titles,
        {"titles": "titles", "limit": "default 1", "max_tokens": _MAX_TOKENS},
        {"fields": _LISTED},
    ),
    Tool(
        "check_references",
        "Check references: held with differences, near, withdrawn, retracted, not_in_snapshot or unreadable.",
        CheckBody,
        Library.run_check,
        {"references": "BibTeX, RIS, CSL or lines", "max_tokens": _MAX_TOKENS},
        {"fields": _CHECKED},
    ),
    Tool(
        "get_papers",
        "Read papers: abstract, authors, date, venue, counts; null if not held.",
        PaperBatchBody,
        _read_papers,
        {"ids": _ID, "fields": "e.g. external_ids", "max_tokens": _MAX_TOKENS},
        {"fields": _READ},
    ),
    Tool(
        "get_citations",
        "Papers citing a paper, most cited first.",
        EdgeBody,
        Library.run_citations,
        _EDGE_ARGUMENTS,
        _EDGE_DEFAULTS,
    ),
    Tool(
        "get_references",
        "Papers a paper cites, most cited first.",
        EdgeBody,
        Library.run_references,
        _EDGE_ARGUMENTS,
        _EDGE_DEFAULTS,
    ),
    Tool(
        "expand_papers",
        "Papers citing or cited by seeds, most linked first.",
        ExpandBody,
        Library.run_expand,
        {
            "seeds": "paper ids",
            "direction": "default both",
            "hops": "1 or 2",
            "citations_per_seed": "most cited",
            "references_per_seed": "default all",
            "limit": _LIMIT,
            "offset": _OFFSET,
            "from": _DATE,
            "to": _TO,
            "category": "cs.CL",
            "min_citations": "worldwide",
            "exclude": "phrases",
            "exclude_seen": "unseen only",
            "max_tokens": _MAX_TOKENS,
        },
        {"fields": _LISTED},
    ),
    Tool(
        "search_passages",
        "Search full texts: passages for a question, with paper, section and offset.",
        PassageSearchBody,
        Library.run_passage_search,
        {
            "q": "a question or words",
            "syntax": "as in search_papers",
            "limit": f"default {DEFAULT_RESULTS}",
            "offset": _OFFSET,
            "within": "only these papers",
            "per_paper": "most of a paper",
            "from": _DATE,
            "to": _TO,
            "max_tokens": _MAX_TOKENS,
        },
        {"syntax": "plain"},
    ),
    Tool(
        "read_paper",
        "Read a full text: the outline; a section; from an offset on; where it has find; or its passages for q.",
        ReadBody,
        Library.run_read,
        {
            "paper_id": "any id form",
            "section": "number, title or #place",
            "offset": "next_offset",
            "find": "a word or phrase",
            "q": "a question",
            "max_tokens": _MAX_TOKENS,
        },
    ),
)
_OF_TEXTS: Final = ("search_passages", "read_paper")
"""The tools that need full texts."""

TEXT: Final = Tool("paper_text", "Read a text.", TextBody, Library.run_text, {"paper_id": _ID})
FIND: Final = Tool(
    "find_in_paper", "Find places.", FindBody, Library.run_find, {"paper_id": _ID, "q": "text"}
)
PAPER_PASSAGES: Final = Tool(
    "paper_passages",
    "Passages.",
    PaperPassagesBody,
    Library.run_paper_passages,
    {"paper_id": _ID, "q": "text"},
)
CONTEXTS: Final = Tool(
    "citation_contexts", "Citation marks.", ContextBody, Library.run_contexts, {"paper_id": _ID}
)
SIMILAR: Final = Tool(
    "similar_papers",
    "Papers similar to a paper.",
    SimilarBody,
    Library.run_similar,
    {"paper_id": _ID},
    {"fields": _LISTED},
)

SQL: Final = Tool(
    "sql",
    "Run one SELECT in SQLite's dialect.",
    SqlBody,
    Library.run_sql,
    {"query": "one SELECT"},
)

RECORDED: Final = (SIMILAR, TEXT, FIND, PAPER_PASSAGES, CONTEXTS, SQL)
"""Not tools for models: what sessions record native calls as that have no tool."""

_BY_NAME: Final = {tool.name: tool for tool in TOOLS}


def tool_named(name: str) -> Tool:
    """Return the tool of this name, or raise ToolNotFound."""
    try:
        return _BY_NAME[name]
    except (KeyError, TypeError):
        raise ToolNotFound(f"There is no tool {shown(name)}: the tools are {', '.join(_BY_NAME)}.") from None


def schemas(
    form: SchemaForm = "openai",
    *,
    modes: Sequence[Mode] = MODES,
    full_texts: bool = True,
    in_session: bool = True,
    strict: bool = False,
    tools: Sequence[Tool] = TOOLS,
) -> list[dict[str, Any]]:
    """The tools as function schemas.

    Args:
        form: ``openai`` (chat completions) or ``openai-responses``
            (https://platform.openai.com/docs/guides/function-calling), ``anthropic``
            (https://docs.anthropic.com/en/docs/agents-and-tools/tool-use), ``gemini``
            (https://ai.google.dev/gemini-api/docs/function-calling) or ``mcp``
            (https://modelcontextprotocol.io/specification).
        modes, in_session: as for :meth:`Tool.schema`.
        full_texts: whether the library has some, which two of the tools need.
        strict: for OpenAI's strict mode.
        tools: those of another set.

    Raises:
        InvalidRequest: another form, or ``strict`` in a form without it.
    """
    if not isinstance(form, str) or form not in SCHEMA_FORMS:
        raise InvalidRequest(f"Unknown format {shown(form)}: use one of {', '.join(SCHEMA_FORMS)}.")
    check_type(strict, bool, "strict", "true or false")
    if strict and not form.startswith("openai"):
        raise InvalidRequest(
            f"The format {form!r} has no strict schemas: leave strict out, or use an openai format."
        )
    return [
        _in_form(tool, form, tool.schema(modes=modes, in_session=in_session, strict=strict), strict)
        for tool in tools
        if full_texts or tool.name not in _OF_TEXTS
    ]


def _in_form(tool: Tool, form: SchemaForm, schema: dict[str, Any], strict: bool) -> dict[str, Any]:
    about = {"name": tool.name, "description": tool.description}
    match form:
        case "openai":
            options = {"strict": True} if strict else {}
            return {"type": "function", "function": {**about, "parameters": schema, **options}}
        case "openai-responses":
            # Strict is the default of this API.
            return {"type": "function", **about, "parameters": schema, "strict": strict}
        case "gemini":
            return {**about, "parameters": schema}
        case "anthropic":
            return {**about, "input_schema": schema}
        case "mcp":
            return {**about, "inputSchema": schema}

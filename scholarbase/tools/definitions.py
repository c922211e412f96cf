"""All tools by their sets: the nine tools, and those of extensions; and their schemas.

A tool accepts every argument of its native request. The schema has only ``shown``, with short descriptions, because a
model reads the whole list with every question. Arguments that the operator of an agent sets, such as ``as_of`` and
``within``, are not shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from scholarbase.errors import InvalidRequest
from scholarbase.extensions import added_names, added_tool
from scholarbase.identifiers import parse
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
)
from scholarbase.models.papers import Paper
from scholarbase.models.requests import (
    EdgeBody,
    ExpandBody,
    PaperBatchBody,
    SearchBody,
    SimilarBody,
    TitleBatchBody,
)
from scholarbase.models.responses import InvalidId, PaperBatchResponse
from scholarbase.models.sql import SqlBody
from scholarbase.search.library import Library
from scholarbase.tools.tool import McpToolSet, Tool, ToolSet

_LISTED: Final = ["id", "title", "authors", "year", "venue", "status", "citation_count"]
"""The default fields of papers in lists."""
_CHECKED: Final = ["id", "title", "authors", "year", "venue", "status"]
_FOUND: Final = ["id", "title", "abstract", "authors", "year", "venue", "status", "citation_count"]
_READ: Final = [
    *("id", "title", "abstract", "tldr", "authors", "year", "publication_date", "venue", "status"),
    *("categories", "citation_count", "reference_count"),
]

_ID: Final = "arXiv:1706.03762, DOI:..., CorpusId:... or a link"
_MAX_TOKENS: Final = "size"


def _read_papers(library: Library, request: PaperBatchBody) -> PaperBatchResponse:
    """The papers of a batch; an id that is malformed has its own error, unless a missing one fails the call."""
    if request.needs_all:
        return library.run_papers(request)
    errors: dict[str, InvalidId] = {}
    for paper_id in request.ids:
        try:
            if parse(paper_id, keys=True).scheme == "Key":
                library.lookup.find([paper_id], library.lookup.day(request.as_of))
        except InvalidRequest as error:
            errors[paper_id] = InvalidId(paper_id, str(error))
    valid = tuple(paper_id for paper_id in request.ids if paper_id not in errors)
    response = library.run_papers(request.model_copy(update={"ids": valid}))
    papers = iter(response.results)
    results = tuple(errors[paper_id] if paper_id in errors else next(papers) for paper_id in request.ids)
    return PaperBatchResponse(response.snapshot, cast(tuple[Paper | None, ...], results), response.fields)


_LEGS: Final = "by words, meaning and citations"
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
        f"Search titles and abstracts {_LEGS}, best first; empty if nothing matched.",
        SearchBody,
        Library.run,
        {
            "q": "a question, words, title, id or link; reads: but not X",
            "syntax": 'query for "phrases", AND, OR, NOT, prefix*, title:word; default plain',
            "mode": "both, words or meaning",
            "fusion": "of hybrid",
            "limit": f"default {DEFAULT_RESULTS}, to {MAX_LIMIT}",
            "offset": _OFFSET,
            "from": _FROM,
            "to": _TO,
            "category": "cs.CL or cs",
            "type": "Review; -Review leaves out",
            "author": "a name or id",
            "min_citations": "worldwide",
            "exclude": "unwanted phrases",
            "exclude_seen": "unseen only",
            "prefer": "rank recent or much cited papers higher",
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
        {"ids": _ID, "fields": "e.g. external_ids, notices (dated retractions)", "max_tokens": _MAX_TOKENS},
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


class _Nine(ToolSet):
    instructions = (
        "A local library of papers. Every response names its snapshot, and an empty list means that nothing matched. "
        "Search with search_papers, then follow citations with expand_papers. Set max_tokens to limit the size of "
        "responses."
    )


_NINE: Final = _Nine(TOOLS)


def tools_in(tool_set: str) -> ToolSet:
    """The tools of a set. Raises InvalidRequest: there is no such set."""
    if tool_set == "scholarbase":
        return _NINE
    added = added_names("tool_sets")
    if not isinstance(tool_set, str) or tool_set not in added:
        names = ", ".join(("scholarbase", *added))
        raise InvalidRequest(f"Unknown set of tools {shown(tool_set)}: use one of {names}.")
    tools = added[tool_set]
    return tools if isinstance(tools, ToolSet) else ToolSet(tools)


def mcp_tool_set(name: str) -> McpToolSet | None:
    """The set of this name that only MCP clients see, if an extension adds it."""
    return None if name == "scholarbase" else added_names("mcp_tool_sets").get(name)


def tool_named(name: str, tool_set: str = "scholarbase") -> Tool:
    """The tool of this name in a set, or what the set runs for a name that is unknown.

    Raises:
        ToolNotFound: the set has no such tool.
        InvalidRequest: there is no such set.
    """
    tools = tools_in(tool_set)
    for tool in tools:
        if tool.name == name:
            return tool
    names = ", ".join(tool.name for tool in tools if tool.name not in _OF_TEXTS)
    of_texts = f"; for full texts also {', '.join(_OF_TEXTS)}" if tools is _NINE else ""
    return tools.unknown(name, f"There is no tool {shown(name)}: the tools are {names}{of_texts}.")


def recorded_tool(name: str) -> Tool:
    """The tool that a session records calls under. Raises ToolNotFound: it records none so."""
    for tool in (*TOOLS, *RECORDED):
        if tool.name == name:
            return tool
    return added_tool(name) or tool_named(name)


def sets_of(names: Iterable[str]) -> list[str]:
    """The sets whose schemas an agent read that called these tools, by default the first one. An ``answer`` may also be
    what a session's owner recorded."""
    called = set(names) - {"answer"}
    sets = {"scholarbase": TOOLS, **added_names("tool_sets")}
    return [name for name, tools in sets.items() if called & {tool.name for tool in tools}] or ["scholarbase"]


def schemas(
    form: SchemaForm = "openai",
    *,
    modes: Sequence[Mode] = MODES,
    graph: bool = True,
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
        graph: whether the citation graph is part of its searches (:attr:`.Library.has_graph`).
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
    legs = "by words" if len(modes) == 1 else _LEGS if graph else "by words and meaning"
    return [
        _in_form(
            replace(tool, description=tool.description.replace(_LEGS, legs)),
            form,
            tool.schema(modes=modes, in_session=in_session, strict=strict),
            strict,
        )
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

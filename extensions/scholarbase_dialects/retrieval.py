"""The MCP tools ``search`` and ``fetch``, which chat products and deep research expect of an MCP server.

Their form is OpenAI's: https://platform.openai.com/docs/mcp. They are calls of the nine tools in other words, and
sessions record them as those: ``search`` is ``search_papers``, and ``fetch`` is ``get_papers``, with ``read_paper`` if
the library has full texts.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Set
from typing import Any, Final

from scholarbase.bibliographies.facts import link_of
from scholarbase.documents.model import arxiv_version
from scholarbase.errors import DocumentNotFound, InvalidRequest
from scholarbase.identifiers import parse
from scholarbase.indexes.passages import heading
from scholarbase.models.checks import check_filled, shown
from scholarbase.models.limits import DEFAULT_RESULTS, MAX_QUERY_LENGTH
from scholarbase.models.papers import Paper
from scholarbase.tools.arguments import canonical
from scholarbase.tools.tool import McpTool, McpToolSet, NativeCall

SEARCH_FIELDS: Final = ["title", "external_ids", "url"]
FETCH_FIELDS: Final = [
    *("title", "abstract", "authors", "year", "publication_date", "venue", "categories", "citation_count"),
    *("external_ids", "url"),
]
FETCH_TOKENS: Final = 3_500
"""The size of a text in one response, about 12,000 characters."""
MAX_SECTIONS: Final = 50
"""Sections that the end of a cut text names."""
_METADATA: Final = ("authors", "year", "publication_date", "venue", "citation_count")
_TEXT: Final = {"type": "string"}
_PART: Final = re.compile(r"(?P<id>(?!\w+://).+?)#(?:from=(?P<offset>\d{1,9})|(?P<section>#\d+|[^#]+))")
"""An id with the part to read: ``arXiv:1706.03762#3.2``, ``#Results``, ``##4`` for a place, ``#from=30000``.
A link has no part."""

Run = Callable[[NativeCall, str, bool], Awaitable[dict[str, Any]]]
"""Makes the result of a tool from native calls, its text, and whether the library has full texts."""


def _tool(
    name: str, description: str, argument: str, meaning: str, run: Run, result: Mapping[str, Any]
) -> McpTool:
    """A tool with one text as its argument."""
    schema = {
        "description": description,
        "inputSchema": _object({argument: {**_TEXT, "description": meaning}}, argument),
        "outputSchema": result,
    }

    async def run_on_text(call: NativeCall, arguments: Mapping[str, Any], tools: Set[str]) -> dict[str, Any]:
        text = canonical(arguments, {argument: _TEXT}, name, {argument: meaning}, (argument,)).get(argument)
        if not isinstance(text, str) or not text.strip():
            raise InvalidRequest(f"{argument} is {shown(text)}: {name} needs a text, {meaning.lower()}.")
        text = check_filled(text, argument, MAX_QUERY_LENGTH, meaning)
        return await run(call, text, "read_paper" in tools)

    return McpTool(schema, run_on_text)


async def _search(call: NativeCall, text: str, full_texts: bool) -> dict[str, Any]:
    response = await call("search_papers", {"q": text, "limit": DEFAULT_RESULTS, "fields": SEARCH_FIELDS})
    papers = [hit["paper"] for hit in response["results"]]
    return {
        "results": [
            {"id": paper["id"], "title": paper["title"] or "", "url": _link(paper)} for paper in papers
        ]
    }


async def _fetch(call: NativeCall, text: str, full_texts: bool) -> dict[str, Any]:
    """A paper, or the part of its text that the id names."""
    match = _PART.fullmatch(text)
    paper_id, part = (text, {}) if match is None else (match["id"], match.groupdict())
    response = await call("get_papers", {"ids": [paper_id], "fields": FETCH_FIELDS, "missing": "error"})
    document = _document(response)
    if not full_texts and match is None:
        return document
    section, offset = part.get("section"), int(part.get("offset") or 0)
    version = arxiv_version(paper_id)
    name = document["id"] if version is None else f"{parse(paper_id)}v{version}"
    reading: dict[str, Any] = {"paper_id": name, "max_tokens": FETCH_TOKENS}
    reading |= {"offset": offset} if section is None else {"section": section}
    try:
        read = await call("read_paper", reading)
    except DocumentNotFound:
        if match is not None or (version is not None and await _has_text(call, document["id"])):
            raise
        return document
    end, following = read["end"], read["next_offset"]
    document["text"] = f"{document['title']}\n\n{read['text']}".strip()
    document["metadata"]["full_text"] = (
        f"{read['start']} to {end} of {read['document']['characters']} characters"
    )
    if read["document"].get("version") is not None:
        document["metadata"]["version"] = str(read["document"]["version"])
    if following is not None:
        outline = await call("read_paper", {"paper_id": name})
        document["text"] += f"\n\n{_rest(name, following, outline)}"
    return document


async def _has_text(call: NativeCall, paper_id: str) -> bool:
    """Whether the library has the text of any version."""
    try:
        await call("read_paper", {"paper_id": paper_id, "max_tokens": FETCH_TOKENS})
    except DocumentNotFound:
        return False
    return True


def _rest(paper_id: str, following: int, outline: Mapping[str, Any]) -> str:
    """How to read what a cut text lacks."""
    sections = [section for section in outline["sections"] if section["title"]][:MAX_SECTIONS]
    rest = f"[The text is cut here. To read on, fetch {paper_id}#from={following}"
    if not sections:
        return f"{rest}]"
    example = sections[-1].get("number") or sections[-1]["title"]
    names = "; ".join(heading(section.get("number"), section["title"]) or "" for section in sections)
    return f"{rest} or a section by its number or title, such as {paper_id}#{example}. Sections: {names}]"


def _document(response: Mapping[str, Any]) -> dict[str, Any]:
    [paper] = response["results"]
    texts = [paper["title"], paper["abstract"]]
    facts = {
        **{name: paper[name] for name in _METADATA},
        "categories": " ".join(paper["categories"]),
        **paper["external_ids"],
    }
    return {
        "id": paper["id"],
        "title": paper["title"] or "",
        "text": "\n\n".join(text for text in texts if text),
        "url": _link(paper),
        "metadata": {name: str(value) for name, value in facts.items() if value not in (None, "")},
    }


def _link(paper: Mapping[str, Any]) -> str:
    return link_of(Paper(paper["id"], external_ids=paper["external_ids"], url=paper["url"]))


def _object(properties: Mapping[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


_FACTS: Final = {"id": _TEXT, "title": _TEXT, "url": _TEXT}


class Retrieval(McpToolSet):
    """The tools ``search`` and ``fetch``."""

    instructions = (
        "A local library of papers. Find papers with search, then read them with fetch. An empty list means that "
        "nothing matched."
    )


RETRIEVAL: Final = Retrieval(
    search=_tool(
        "search",
        "Search the titles and abstracts of scholarly papers by words and meaning. Returns papers best first; "
        "an empty list means nothing matched. Read one with fetch.",
        "query",
        "A question, words, title, id or link",
        _search,
        _object({"results": {"type": "array", "items": _object(_FACTS, *_FACTS)}}, "results"),
    ),
    fetch=_tool(
        "fetch",
        "Read a paper that search returned: facts about it, and its full text if the library has it, else its "
        "abstract. A long text is cut, and its end says how to fetch the rest.",
        "id",
        "The id of a paper; ID#SECTION for a section of its text",
        _fetch,
        _object(
            {**_FACTS, "text": _TEXT, "metadata": {"type": "object", "additionalProperties": _TEXT}},
            *("id", "title", "text", "url", "metadata"),
        ),
    ),
)

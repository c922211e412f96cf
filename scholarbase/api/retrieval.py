"""The tools ``search`` and ``fetch``, which chat products and deep research expect of an MCP server.

Their form is OpenAI's: https://platform.openai.com/docs/mcp. Each is a call of one of the nine tools in other words,
and sessions record it as that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from scholarbase.bibliographies.facts import link_of
from scholarbase.errors import InvalidRequest, ToolNotFound
from scholarbase.models.checks import check_text, shown
from scholarbase.models.limits import DEFAULT_RESULTS, MAX_QUERY_LENGTH
from scholarbase.models.papers import Paper
from scholarbase.tools.arguments import canonical

SEARCH_FIELDS: Final = ["title", "external_ids", "url"]
FETCH_FIELDS: Final = [
    *("title", "abstract", "authors", "year", "publication_date", "venue", "categories", "citation_count"),
    *("external_ids", "url"),
]
_METADATA: Final = ("authors", "year", "publication_date", "venue", "citation_count")
_TEXT: Final = {"type": "string"}


@dataclass(frozen=True, slots=True)
class RetrievalTool:
    """A tool with one text as its argument.

    ``native`` is the tool that runs it, ``arguments`` has those of that tool for a text, and ``content`` makes the
    result from its response.
    """

    name: str
    description: str
    argument: str
    meaning: str
    native: str
    arguments: Callable[[str], dict[str, Any]]
    content: Callable[[Mapping[str, Any]], dict[str, Any]]
    result: Mapping[str, Any]

    def schema(self) -> dict[str, Any]:
        """The tool as MCP lists it."""
        properties = {self.argument: {**_TEXT, "description": self.meaning}}
        return {
            "name": self.name,
            "description": self.description,
            "inputSchema": {"type": "object", "properties": properties, "required": [self.argument]},
            "outputSchema": self.result,
        }

    def native_arguments(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of the native tool.

        Raises:
            InvalidRequest: the text is missing or invalid, or there are other arguments.
        """
        name = self.argument
        text = canonical(arguments, {name: _TEXT}, self.name, {name: self.meaning}, (name,)).get(name)
        if not isinstance(text, str) or not text.strip():
            raise InvalidRequest(
                f"{name} is {shown(text)}: {self.name} needs a text, {self.meaning.lower()}."
            )
        if len(text) > MAX_QUERY_LENGTH:
            raise InvalidRequest(f"{name} has {len(text)} characters: the maximum is {MAX_QUERY_LENGTH}.")
        check_text(text, name)
        return self.arguments(text)


def _found(response: Mapping[str, Any]) -> dict[str, Any]:
    papers = [hit["paper"] for hit in response["results"]]
    return {"results": [{"id": one["id"], "title": one["title"] or "", "url": _link(one)} for one in papers]}


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
RETRIEVAL_TOOLS: Final[Mapping[str, RetrievalTool]] = {
    tool.name: tool
    for tool in (
        RetrievalTool(
            "search",
            "Search the titles and abstracts of scholarly papers by words and meaning. Returns papers best first; "
            "an empty list means nothing matched. Read one with fetch.",
            "query",
            "A question, words, title, id or link",
            "search_papers",
            lambda text: {"q": text, "limit": DEFAULT_RESULTS, "fields": SEARCH_FIELDS},
            _found,
            _object({"results": {"type": "array", "items": _object(_FACTS, *_FACTS)}}, "results"),
        ),
        RetrievalTool(
            "fetch",
            "Read a paper that search returned: its title and abstract, and facts about it.",
            "id",
            "The id of a paper",
            "get_papers",
            lambda text: {"ids": [text], "fields": FETCH_FIELDS, "missing": "error"},
            _document,
            _object(
                {**_FACTS, "text": _TEXT, "metadata": {"type": "object", "additionalProperties": _TEXT}},
                *("id", "title", "text", "url", "metadata"),
            ),
        ),
    )
}


def retrieval_tool(name: str) -> RetrievalTool:
    """The tool of this name, or raise ToolNotFound."""
    tool = RETRIEVAL_TOOLS.get(name)
    if tool is None:
        raise ToolNotFound(f"There is no tool {shown(name)}: the tools are {', '.join(RETRIEVAL_TOOLS)}.")
    return tool

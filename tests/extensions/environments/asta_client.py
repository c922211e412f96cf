"""AstaBench's own client of Asta's tools, unmodified, behind the proxy (``scholarbase proxy``).

The first argument is the date before which papers were published, the second the number of searches, the third the file
for what the calls returned, as JSON.
"""

# /// script
# requires-python = ">=3.11"
# dependencies = ["astabench==0.5.4"]
#
# [tool.uv]
# exclude-newer = "2026-11-26T00:00:00Z"
# ///

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from astabench.tools.asta_tools import async_make_asta_mcp_tools
from inspect_ai.tool import ToolDef

PAPER = "ARXIV:hep-th/9301068"
WORDS = (
    "string theory", "QCD", "black holes", "duality", "language models", "gauge fields", "matter", "loops",
)  # fmt: skip


async def call(tools: dict[str, Any], tool: str, /, **arguments: Any) -> Any:
    """What a model reads: the items of the answer, or the error."""
    try:
        return [json.loads(part.text) for part in await tools[tool](**arguments)]
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        return f"{type(error).__name__}: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


async def main(before: str, searches: int) -> Any:
    tools = {
        ToolDef(tool).name: tool for tool in await async_make_asta_mcp_tools("any-key", insertion_date=before)
    }
    authors = await call(tools, "search_authors_by_name", name="Witten", fields="name,papers.title")
    found = {
        "names": sorted(tools),
        "paper": await call(tools, "get_paper", paper_id=PAPER),
        "batch": await call(tools, "get_paper_batch", ids=[PAPER, "ARXIV:hep-th/9303046"]),
        "citations": await call(tools, "get_citations", paper_id=PAPER, limit=3),
        "authors": authors,
        "author_papers": await call(tools, "get_author_papers", author_id=authors[0]["authorId"], limit=3),
        "title": await call(tools, "search_paper_by_title", title="Two Dimensional QCD is a String Theory"),
        "relevance": await call(tools, "search_papers_by_relevance", keyword="QCD string", limit=3),
        "snippets": await call(tools, "snippet_search", query="QCD string", limit=3),
        "bad": {
            "unknown paper": await call(tools, "get_paper", paper_id="ARXIV:0000.00000"),
            "later paper": await call(tools, "get_paper", paper_id="ARXIV:2302.13971"),
            "unknown field": await call(tools, "get_citations", paper_id=PAPER, fields="nonsense"),
            "unknown title": await call(tools, "search_paper_by_title", title="zzz qqq"),
            "limit": await call(tools, "search_papers_by_relevance", keyword="QCD", limit=0),
        },
    }
    fields = "title,year,publicationDate"
    dates = []
    for number in range(searches):
        name = ("search_papers_by_relevance", "get_author_papers", "search_paper_by_title", "snippet_search")[
            number % 4
        ]
        words = WORDS[number // 4 % len(WORDS)]
        if name == "search_papers_by_relevance":
            papers = await call(tools, name, keyword=words, limit=20, fields=fields)
        elif name == "get_author_papers":
            papers = await call(tools, name, author_id=authors[0]["authorId"], paper_fields=fields)
        elif name == "search_paper_by_title":
            [answer] = await call(tools, name, title=words, fields=fields)
            papers = answer["data"]
        else:
            [answer] = await call(tools, name, query=words, limit=20)
            ids = [one["paper"]["paperId"] for one in answer["data"]]
            papers = await call(tools, "get_paper_batch", ids=ids, fields=fields) if ids else []
        assert isinstance(papers, list), papers
        dates += [one.get("publicationDate") or str(one["year"]) for one in papers]
    return {**found, "dates": dates}


if __name__ == "__main__":
    Path(sys.argv[3]).write_text(json.dumps(asyncio.run(main(sys.argv[1], int(sys.argv[2])))), "utf-8")

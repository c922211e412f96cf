"""Calls of clients, as agents make them. The first argument names the client; the standard input has Python that points
it at a server, as docs/dialects.md shows it. What the calls return is written as JSON into the file of the second.

All clients share an environment. Left out are packages that their searches do not need: 1 GB of GPT Researcher's, 5 GB
of STORM's. camel-ai needs mcp below 2, and LangChain's arXiv wrapper arxiv below 3.
"""

# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "agno==3.1.10", "camel-ai==0.2.90", "gpt-researcher==0.15.1", "knowledge-storm==1.1.1",
#     "langchain-community==0.4.2", "paper-qa==2026.8.12", "semanticscholar==0.12.0", "arxiv<3", "mcp<2",
# ]
#
# [tool.uv]
# exclude-newer = "2026-11-26T00:00:00Z"
#
# [[tool.uv.dependency-metadata]]
# name = "gpt-researcher"
# version = "0.15.1"
# requires-dist = ["arxiv", "requests"]
#
# [[tool.uv.dependency-metadata]]
# name = "knowledge-storm"
# version = "1.1.1"
# requires-dist = [
#     "backoff", "dspy-ai==2.4.9", "httpx", "langchain-text-splitters", "litellm[caching]", "regex", "requests", "toml",
#     "tqdm", "trafilatura", "transformers",
# ]
#
# [[tool.uv.dependency-metadata]]
# name = "dspy-ai"
# version = "2.4.9"
# requires-dist = [
#     "backoff", "datasets", "joblib", "openai", "pandas", "pydantic", "regex", "requests", "structlog", "tqdm",
#     "ujson",
# ]
# ///

import asyncio
import json
import sys
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import Any

QUERY = "string theory"
TITLE = "Two Dimensional QCD is a String Theory"
PAPER = "arXiv:hep-th/9301068"
DOI = "10.1142/s0217751x95000401"


def without_init(package: str) -> None:
    """Make the modules of a package importable without what its ``__init__`` imports."""
    spec = find_spec(package)
    assert spec is not None
    sys.modules[package] = module_from_spec(spec)


def agno(names: dict[str, Any]) -> Any:
    articles = json.loads(names["arxiv"].search_arxiv_and_return_articles('ti:"string theory"', 3))
    return {
        "arxiv": [one["title"] for one in articles],
        "searxng": [one["title"] for one in json.loads(names["searxng"].science_search(QUERY, 3))["results"]],
    }


def camel(names: dict[str, Any]) -> Any:
    scholar = names["scholar"]
    return {
        "searxng": [one["title"] for one in names["searxng"].search(QUERY, 3)],
        "title": scholar.fetch_paper_data_title(TITLE),
        "paper": scholar.fetch_paper_data_id(PAPER),
        "bulk": scholar.fetch_bulk_paper_data("+string +theory", year="1993-"),
        "author": scholar.fetch_author_data(["name:edward witten"]),
    }


def gpt_researcher(names: dict[str, Any]) -> Any:
    from gpt_researcher.retrievers import (
        ArxivSearch,
        CustomRetriever,
        SearxSearch,
        SemanticScholarSearch,
        SerperSearch,
    )

    return {
        "searx": SearxSearch(QUERY).search(3),
        "custom": CustomRetriever(QUERY).search(),
        "arxiv": ArxivSearch(f'ti:"{QUERY}"').search(3),
        "semantic_scholar": SemanticScholarSearch(QUERY).search(3),
        "serper": SerperSearch(QUERY).search(3),
    }


def knowledge_storm(names: dict[str, Any]) -> Any:
    return names["rm"](QUERY)


def langchain_community(names: dict[str, Any]) -> Any:
    return {
        "searx": names["searx"].results(QUERY, num_results=3),
        "arxiv": names["papers"].run('ti:"string theory"'),
        "scholar": names["scholar"].run(QUERY),
    }


def paperqa(names: dict[str, Any]) -> Any:
    from paperqa.clients import DocMetadataClient
    from paperqa.clients.crossref import CrossrefProvider
    from paperqa.clients.openalex import OpenAlexProvider
    from paperqa.clients.semantic_scholar import SemanticScholarProvider

    async def look_up() -> Any:
        found = {}
        for provider in (CrossrefProvider, OpenAlexProvider, SemanticScholarProvider):
            client = DocMetadataClient(metadata_clients=[provider])
            details = [await client.query(**query) for query in ({"title": TITLE}, {"doi": DOI})]
            found[provider.__name__] = [
                one and [one.title, one.authors, one.year, one.citation_count, one.bibtex] for one in details
            ]
        return found

    return asyncio.run(look_up())


if __name__ == "__main__":
    client = globals()[sys.argv[1]]
    if client in (gpt_researcher, knowledge_storm):
        without_init(client.__name__)
    names: dict[str, Any] = {}
    exec(sys.stdin.read(), names)
    Path(sys.argv[2]).write_text(json.dumps(client(names)), encoding="utf-8")

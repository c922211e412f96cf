"""Calls and tokens of agents beside one search with the citation graph, over a library with citations.

A question is the title of a paper, as of the day before it; right are its references that had appeared by then.
``react`` has a script in place of the model: after one search it reads the references of the first results, and fuses
the search's ranks with those by how many of these results cite a paper.

    scholarbase ingest ../shared/data/s2ag-citations --library citations-library
    python benchmarks/agents.py --library citations-library
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final

# The folder above this script's is not on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import msgspec
import numpy as np
import orjson
from rich.console import Console
from rich.table import Table

from benchmarks.graph import CHOSEN, FEWEST, Graph
from scholarbase.databases import open_immutable
from scholarbase.indexes.catalog import FILE_NAME
from scholarbase.responses.sizing import estimate_tokens
from scholarbase.search.library import Library
from scholarbase.settings import load_settings
from scholarbase.tools import Tools
from scholarbase_research.agents.base import Policy, Trace
from scholarbase_research.agents.policies import SearchExpandPolicy, SearchPolicy, fused
from scholarbase_research.agents.react import ReactPolicy
from scholarbase_research.evaluation.queries import Query
from scholarbase_research.llm.base import Completion, ModelRequest, ToolCall, Usage

QUESTIONS: Final = 100
LIMIT: Final = 100
_IDS: Final = re.compile(r"^(?:\d+\.|  ) *((?:arXiv|CorpusId):\S+)$", re.MULTILINE)


class Script:
    """Stands in for a model: it reads the references of the first ``papers`` results of one search, and answers."""

    def __init__(self, papers: int) -> None:
        self.name = f"script-{papers}"
        self._papers = papers

    def complete(self, request: ModelRequest) -> Completion:
        """The next call, read off the observations in the prompt."""
        listed = [_IDS.findall(message.content) for message in request.messages if message.role == "tool"]
        arguments: dict[str, Any]
        if not listed:
            name, arguments = "search_papers", {"q": request.messages[1].content, "limit": LIMIT}
        elif len(listed) <= min(self._papers, len(listed[0])):
            name, arguments = "get_references", {"paper_id": listed[0][len(listed) - 1], "limit": LIMIT}
        else:
            citing = Counter(paper for references in listed[1:] for paper in references)
            by_count = [paper for paper, _ in citing.most_common()]
            name, arguments = "answer", {"ids": fused([(1.0, listed[0]), (1.0, by_count)])[:LIMIT]}
        if name != "answer":
            arguments["fields"] = ["id", "title"]
        prompt = estimate_tokens(orjson.dumps(msgspec.to_builtins(request.messages)))
        return Completion(
            "", (ToolCall("call", name, orjson.dumps(arguments).decode()),), Usage(1, input_tokens=prompt)
        )

    def close(self) -> None:
        """Nothing is open."""


def questions(path: Path) -> Iterator[tuple[Query, str, frozenset[str]]]:
    """Titles of the papers after the first :data:`CHOSEN`, the day before each, and the ids of the references."""
    graph = Graph(path)
    with open_immutable(path / FILE_NAME) as db:
        days = dict(db.execute("SELECT id, last_day FROM papers WHERE last_day IS NOT NULL"))
    number = 0
    for paper in graph.drawn()[CHOSEN:]:
        if paper in days and number < QUESTIONS:
            day = date.fromisoformat(str(days[paper])) - timedelta(1)
            right = [
                cited for cited in graph.references[paper] if days.get(cited, 1e8) <= int(f"{day:%Y%m%d}")
            ]
            if len(right) >= FEWEST:
                number += 1
                ids = frozenset(graph.papers[cited].id for cited in right)
                yield Query(graph.papers[paper].id, graph.papers[paper].title, ()), day.isoformat(), ids


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure agents beside one search with the citation graph.")
    parser.add_argument("--library", type=Path, required=True, help="a library with citations")
    options = parser.parse_args()
    asked = list(questions(options.library))
    agents: dict[str, Policy] = {"search": SearchPolicy(LIMIT), "search-expand": SearchExpandPolicy(LIMIT)}
    for papers in (9, 24):
        agents[f"react by a script, {papers} papers"] = ReactPolicy(
            Script(papers), turns=papers + 2, window=papers + 2
        )
    table = Table("agent", "calls", "tokens of responses", "tokens of prompts", "R@20", "R@100")
    for weight in (0.0, None):
        graph = {} if weight is None else {"graph_weight": weight}
        with Library.open(options.library, settings=load_settings(timeout=60, **graph)) as library:
            tools = Tools(library)
            for name, policy in agents.items():
                rows = []
                for query, day, right in asked:
                    trace = Trace(query, library.snapshot_id)
                    policy.run(tools, trace, day)
                    calls = len(trace.lines) - 1
                    answer = trace.lines[-1]["ids"]
                    found = [len(right.intersection(answer[:depth])) / len(right) for depth in (20, 100)]
                    rows.append([calls, trace.response_tokens, trace.usage.input_tokens, *found])
                mean = np.mean(rows, axis=0)
                texts = [f"{mean[0]:.1f}", *(f"{value:,.0f}" for value in mean[1:3])]
                recalls = [f"{value:.3f}" for value in mean[3:]]
                table.add_row(f"{name}{', without the graph' if graph else ''}", *texts, *recalls)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()

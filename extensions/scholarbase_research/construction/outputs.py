"""The files of a construction: a query file in ScholarQuest's form, graded qrels, a manifest, a report."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from scholarbase.files import atomic_write
from scholarbase_research.construction.report import report
from scholarbase_research.construction.store import FORMAT, Store
from scholarbase_research.evaluation.queries import QuerySet
from scholarbase_research.llm.base import Price

QUERIES: Final = "queries.jsonl"
METADATA: Final = "query_metadata.jsonl"
QRELS: Final = "qrels.tsv"
REPORT: Final = "report.json"
PAGE: Final = "report.md"
MANIFEST: Final = "manifest.json"
OUTPUTS: Final = (MANIFEST, QUERIES, METADATA, QRELS, REPORT, PAGE)


def write_outputs(
    folder: Path, store: Store, queries: QuerySet, identity: Mapping[str, Any], prices: Mapping[str, Price]
) -> dict[str, Any]:
    """Write all files, the manifest last. Returns the report. Equal rows give equal files.

    Raises:
        OSError: a file cannot be written.
    """
    figures = report(store, prices)
    answers: dict[str, list[str]] = defaultdict(list)
    for question, paper in store.rows(
        "SELECT question, paper FROM decisions WHERE answer ORDER BY question, paper"
    ):
        answers[question].append(paper)
    contents = {
        QUERIES: _lines(
            {
                "query_id": query.id,
                "final_query": query.text,
                "answer_arxiv_ids": [paper.removeprefix("arXiv:") for paper in answers[query.id]],
                "final_answer_count": len(answers[query.id]),
                **({"date": query.date} if query.date else {}),
            }
            for query in queries.queries
            if answers[query.id]
        ),
        QRELS: b"".join(
            f"{question}\t0\t{paper}\t{grade}\n".encode()
            for question, paper, grade in store.rows(
                "SELECT question, paper, grade FROM decisions JOIN questions USING (question) WHERE grade IS NOT NULL "
                "ORDER BY number, paper"
            )
        ),
        REPORT: orjson.dumps(figures, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE),
        PAGE: page(figures).encode(),
    }
    if any(query.intent or query.category for query in queries.queries):
        contents[METADATA] = _lines(
            {
                "query_id": query.id,
                "final_query": query.text,
                "category": query.intent,
                "domain": query.category,
            }
            for query in queries.queries
        )
    for name, content in contents.items():
        with atomic_write(folder / name) as file:
            file.write(content)
    manifest = {
        "format": FORMAT,
        "queries": {"name": queries.name, "count": len(queries.queries), "notes": queries.notes},
        "identity": dict(identity),
        "counts": figures["questions"],
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in sorted(contents.items())},
    }
    with atomic_write(folder / MANIFEST) as file:
        file.write(orjson.dumps(manifest, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    return figures


def _lines(rows: Any) -> bytes:
    return b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)


# -- the page -------------------------------------------------------------------------------------------


def page(figures: Mapping[str, Any]) -> str:
    """The report as Markdown: of each part a table of its numbers, and one of each list and mapping in it."""
    parts = ["# Answer sets"]
    for title, content in figures.items():
        tables = {name: value for name, value in content.items() if value and isinstance(value, dict | list)}
        numbers = {name: value for name, value in content.items() if not isinstance(value, dict | list)}
        parts += [f"## {_cell(title).capitalize()}", _table((title, ""), numbers.items())]
        for name, value in tables.items():
            if isinstance(value, dict):
                parts.append(_table((name, ""), value.items()))
            else:
                parts += [
                    f"### {_cell(name).capitalize()}",
                    _table(value[0], (row.values() for row in value)),
                ]
    return "\n\n".join(parts) + "\n"


def _table(header: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    lines = [list(map(_cell, row)) for row in (header, *rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.4f}"
    return f"{value:,}" if isinstance(value, int) else str(value).replace("_", " ").replace("|", "\\|")

"""Scores of answers as a table for a terminal, as JSON, and row by row."""

from __future__ import annotations

from typing import Any

import orjson

from scholarbase.terminal import escape
from scholarbase_research.evaluation.measured import cell
from scholarbase_research.evaluation.qa.scoring import Group, Scores
from scholarbase_research.evaluation.tables import Cell, Table
from scholarbase_research.evaluation.terminal import interval_json, open_console, print_table

SHOWN_ERRORS = 5


def show_scores(scores: Scores) -> None:
    """One row for all examples, then one for each group."""
    output = open_console()
    names = list(scores.overall.values)
    rows: list[list[Cell | str | int | None]] = []
    previous = ""
    for group in (scores.overall, *scores.groups):
        first = "" if group.dimension == previous else group.dimension
        previous = group.dimension
        values = (cell(group.values[name]) if name in group.values else None for name in names)
        counts = (group.n, group.missing, group.unreadable, group.errors)
        rows.append([first, "" if first == "all" else group.label, *counts, *values])
    caption = "Means over the examples without an error"
    headings = ["Examples", "Missing", "Unreadable", "Errors", *names]
    print_table(output, Table.of("scores", caption, ["By", ""], headings, rows, scores.notes))
    errors = list(scores.errors.items())
    for name, error in errors[:SHOWN_ERRORS]:
        output.print(f"[dim]{escape(name)}: {escape(error)}[/dim]")
    if len(errors) > SHOWN_ERRORS:
        output.print(f"[dim]and {len(errors) - SHOWN_ERRORS:,} more, in --rows and --json[/dim]")


def scores_json(scores: Scores) -> dict[str, Any]:
    """All figures, and why examples could not be scored."""
    return {
        "overall": _group(scores.overall),
        "groups": [_group(group) for group in scores.groups],
        "errors": scores.errors,
        "notes": list(scores.notes),
    }


def _group(group: Group) -> dict[str, Any]:
    return {
        **{
            name: getattr(group, name)
            for name in ("dimension", "label", "n", "missing", "unreadable", "errors")
        },
        "measures": {name: interval_json(interval) for name, interval in group.values.items()},
    }


def rows_jsonl(scores: Scores) -> bytes:
    """One JSON line for each example: its status and values, or its error."""
    rows = (
        {
            "id": row.example.id,
            "status": row.status,
            **row.values,
            **({"error": row.error} if row.error else {}),
        }
        for row in scores.rows
    )
    return b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)

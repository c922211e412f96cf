"""Scores of answers as a table for a terminal, as JSON, and row by row."""

from __future__ import annotations

from typing import Any

import orjson
from rich.markup import escape

from scholarbase.evaluation.terminal import (
    interval_cell,
    interval_json,
    names_column,
    new_table,
    open_console,
)
from scholarbase_research.evaluation.qa.scoring import Group, Scores

SHOWN_ERRORS = 5


def show_scores(scores: Scores) -> None:
    """One row for all examples, then one for each group."""
    output = open_console()
    names = list(scores.overall.values)
    counts = ("examples", "missing", "unreadable", "errors")
    table = new_table(names_column("by"), names_column(""), *counts, *map(names_column, names))
    previous = ""
    for group in (scores.overall, *scores.groups):
        first = "" if group.dimension == previous else group.dimension
        previous = group.dimension
        values = (interval_cell(group.values[name]) if name in group.values else "–" for name in names)
        numbers = (f"{n:,}" for n in (group.n, group.missing, group.unreadable, group.errors))
        table.add_row(first, "" if first == "all" else escape(group.label), *numbers, *values)
    output.print(table)
    output.print("[dim]Means over the examples without an error, with 95% bootstrap intervals.[/dim]")
    for note in scores.notes:
        output.print(f"[dim]{escape(note)}[/dim]")
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

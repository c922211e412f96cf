"""The figures of an audit for a terminal and for JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from scholarbase.terminal import escape
from scholarbase_research.construction.audit.report import Audit, Figure
from scholarbase_research.construction.audit.sheets import Item, shown_item
from scholarbase_research.evaluation.terminal import names_column, new_table, open_console

NAMES: Final = {
    "hit_rate": "hit rate",
    "strict_precision": "strict precision",
    "relaxed_precision": "relaxed precision",
    "pearson": "Pearson",
    "spearman": "Spearman",
    "kappa_linear": "kappa, linear",
    "kappa_quadratic": "kappa, quadratic",
    "gwet_ac1": "Gwet's AC1",
    "agreement": "agreement",
}
SHOWN_ITEMS: Final = 10


def show_audit(audit: Audit) -> None:
    """The table of scores and labels, the figures, and the items without a majority."""
    console = open_console()
    labels = audit.scale.shown
    counts = new_table("score", *(f"label {label}" for label in labels), "total", "hit rate")
    for label, score, row in zip(labels, audit.scale.labels, audit.table, strict=True):
        rate = audit.hit_rates.get(score)
        counts.add_row(label, *(f"{n:,}" for n in row), f"{sum(row):,}", _cell(rate) if rate else "–")
    columns = [sum(row[i] for row in audit.table) for i in range(len(labels))]
    counts.add_row("total", *(f"{n:,}" for n in (*columns, sum(columns))), _cell(audit.figures["hit_rate"]))
    console.print(counts)
    figures = new_table(names_column("scores and majority labels"), "", "items")
    for name in NAMES:
        if name in audit.figures:
            figures.add_row(NAMES[name], _cell(audit.figures[name]), f"{audit.figures[name].n:,}")
    console.print(figures)
    if audit.annotators:
        among = new_table(names_column(f"among {len(audit.names)} annotators"), "", "items")
        for name, figure in audit.annotators.items():
            among.add_row(NAMES[name], _cell(figure), f"{figure.n:,}")
        console.print(among)
    if audit.biases:
        biases = new_table(names_column("bias"), "items")
        for bias, count in audit.biases.items():
            biases.add_row(escape(bias), f"{count:,}")
        console.print(biases)
    console.print("[dim]95% bootstrap intervals, resampled within each score.[/dim]")
    for items, what in ((audit.ties, "have no majority label"), (audit.unlabelled, "have no label")):
        if items:
            shown = ", ".join(shown_item(item) for item in items[:SHOWN_ITEMS])
            rest = f", and {len(items) - SHOWN_ITEMS:,} more" if len(items) > SHOWN_ITEMS else ""
            console.print(f"[dim]{len(items):,} of {audit.items:,} items {what}: {escape(shown)}{rest}[/dim]")


def _cell(figure: Figure) -> str:
    if figure.value is None:
        return "–"
    if figure.low is None or figure.high is None:
        return f"{figure.value:.3f}"
    return f"{figure.value:.3f} [dim]{figure.low:.3f}–{figure.high:.3f}[/dim]"


def audit_json(audit: Audit) -> dict[str, Any]:
    """All figures. ``table`` has a row for each score and a column for each majority label."""
    return {
        "scale": list(audit.scale.labels),
        "items": audit.items,
        "annotators": list(audit.names),
        "table": [list(row) for row in audit.table],
        "figures": _figures(audit.figures),
        "hit_rates": _figures({f"{score:g}": figure for score, figure in audit.hit_rates.items()}),
        "among_annotators": _figures(audit.annotators),
        "ties": [_item(item) for item in audit.ties],
        "unlabelled": [_item(item) for item in audit.unlabelled],
        "biases": dict(audit.biases),
    }


def _figures(figures: Mapping[str, Figure]) -> dict[str, dict[str, float | int | None]]:
    return {name: figure._asdict() for name, figure in figures.items()}


def _item(item: Item) -> dict[str, Any]:
    return {
        "item": item.name,
        "question": item.question,
        "paper": item.paper,
        "score": item.score,
        "labels": item.labels,
    }

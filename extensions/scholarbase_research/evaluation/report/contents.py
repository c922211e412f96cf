"""Tables and curves of a report, as data without layout, besides those of ``eval show``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scholarbase_research.evaluation.breakdown import dimensions
from scholarbase_research.evaluation.measured import DIMENSIONS, OVER, Measured, crossed, depths, grouped
from scholarbase_research.evaluation.measures import (
    OVERS,
    recall_curve,
)
from scholarbase_research.evaluation.report.plots import MAX_PANELS, Curve, Panel
from scholarbase_research.evaluation.report.published import published
from scholarbase_research.evaluation.tables import MISSING, Cell, Table

# -- runs and query set ---------------------------------------------------------------------------------


def query_set(measured: Measured) -> Table:
    """The query set: its name, format, hash and count."""
    facts = measured.runs[0].manifest.queries
    shown = {"name": "Name", "format": "Format", "sha256": "SHA-256", "count": "Queries"}
    rows = [[heading, _fact(facts[key])] for key, heading in shown.items() if key in facts]
    rows += [["Notes" if i == 0 else "", str(note)] for i, note in enumerate(facts.get("notes", ()))]
    return Table.of("query-set", "The query set", ["Fact", "Value"], [], rows)


def settings(measured: Measured) -> Table:
    """The settings of each run: a row for each setting, a column for each run."""
    manifests = [run.manifest for run in measured.runs]
    rows: dict[str, list[Any]] = {
        "Kind": [m.kind for m in manifests],
        "Snapshot": [m.snapshot for m in manifests],
        "Papers": [m.papers for m in manifests],
        "ScholarBase": [m.version for m in manifests],
        "Identity": [m.identity for m in manifests],
    }
    for key in dict.fromkeys(key for m in manifests for key in m.search or {}):
        rows[f"search: {key}"] = [(m.search or {}).get(key, MISSING) for m in manifests]
    for key in dict.fromkeys(key for m in manifests for key in m.answers):
        # Counts that are 0 in all runs are left out, except for absent answers.
        if key == "absent" or any(m.answers.get(key) for m in manifests):
            rows[f"answers: {key}"] = [m.answers.get(key, MISSING) for m in manifests]
    rows["Deepest ranking"] = [run.depth for run in measured.runs]
    rows["Queries without results"] = [
        sum(not run.rankings.get(query.id) for query in run.queries) for run in measured.runs
    ]
    return Table.of(
        "settings",
        "How each run was made",
        ["Fact", *measured.labels],
        [],
        [[name, *map(_fact, values)] for name, values in rows.items()],
    )


def _fact(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_fact(fact)}" for key, fact in sorted(value.items())) or MISSING
    if isinstance(value, list | tuple):
        return ", ".join(map(_fact, value)) or MISSING
    return MISSING if value is None else str(value)


def timing(measured: Measured) -> Table | None:
    """The times of the searches, None if no run has them."""
    if not any(run.seconds for run in measured.runs):
        return None
    rows: list[list[Cell | str | int]] = []
    for label, run in zip(measured.labels, measured.runs, strict=True):
        seconds = np.array(list(run.seconds.values()))
        total = float(seconds.sum())
        rate = seconds.size / total if total > 0 else None
        p50, p95 = np.percentile(seconds, [50, 95]).tolist() if seconds.size else (None, None)
        figures = (rate, p50 and p50 * 1000, p95 and p95 * 1000)
        rows.append([label, int(seconds.size), *(Cell(value=figure, digits=1) for figure in figures)])
    return Table.of(
        "timing",
        "How long the searches took, cold: the vectors of each query computed anew",
        ["Run"],
        ["Queries timed", "Queries/s, one at a time", "p50, ms", "p95, ms"],
        rows,
        [
            "A repeated query is warm: its vectors are cached, which saves the encoder's time. A server's cache may "
            "hold queries of earlier runs.",
            "Times vary between machines and repetitions. They are not part of a run's identity.",
        ],
    )


def published_comparison(measured: Measured) -> Table | None:
    """The runs' figures beside published ones with their sources; None without published figures."""
    collection = published(measured.runs[0].manifest.queries, measured.runs[0].queries[0].id)
    if collection is None:
        return None
    measures = [m for m in measured.measures if any(m in figure.values for figure in collection.figures)]
    if not measures:
        return None
    rows: list[list[Cell | str | float | None]] = [
        [label, "this report", *map(evaluation.mean, measures)]
        for label, evaluation in zip(measured.labels, measured.evaluations, strict=True)
    ]
    rows += [
        [figure.system, Cell(figure.source, url=figure.url), *map(figure.values.get, measures)]
        for figure in collection.figures
    ]
    return Table.of(
        "published",
        f"Beside published figures for {collection.shown}",
        ["System", "Source"],
        [measured.heading(m) if m != "R@All" else m for m in measures],
        rows,
        [
            "Published figures are from other indexes, and from other corpora if the snapshot differs: they give an "
            f"orientation, not a ranking. {MISSING}: not reported.",
            *([depths(measured)] if "R@All" in measures else []),
        ],
    )


# -- by group -------------------------------------------------------------------------------------------


def by_group(measured: Measured) -> list[Table]:
    """A table for each property of the queries with several groups, and of the numbers of answers and intents."""
    shown = {by for run in measured.runs for by in dimensions(run)}
    tables = [grouped(measured, by) for by in DIMENSIONS if by in shown]
    if {"answers", "intent"} <= shown:
        names = dict.fromkeys((measured.recall, *(["R@All"] if "R@All" in measured.measures else [])))
        tables += [crossed(measured, "answers", "intent", name) for name in names]
    return tables


# -- curves ---------------------------------------------------------------------------------------------


def depth_panels(measured: Measured) -> list[Panel]:
    """Recall against depth, over all answers, and over held answers if they differ."""
    panels = []
    for over in OVERS[:1] if measured.all_held else OVERS:
        curves = []
        for index, (label, run) in enumerate(zip(measured.labels, measured.runs, strict=True)):
            if over == "held" and not measured.evaluations[index].held[measured.measures[0]]:
                continue
            depths, recall = recall_curve(run, over)
            curves.append(Curve(index, label, depths.tolist(), recall.tolist()))
        if curves:
            panels.append(Panel(f"over {OVER[over]}", tuple(curves)))
    return panels


def distribution_panels(measured: Measured) -> list[Panel]:
    """The distribution of recall over all queries and over those of each intent, up to ``MAX_PANELS`` panels."""
    groups = {"": {query.id for query in measured.runs[0].queries}}
    intents = Counter(query.intent for query in measured.runs[0].queries if query.intent is not None)
    if len(intents) > 1 or (intents and intents.total() < len(measured.runs[0].queries)):
        kept = {intent for intent, _ in intents.most_common(MAX_PANELS - 1)}
        groups = {"all queries": groups[""]} | {
            intent: {query.id for query in measured.runs[0].queries if query.intent == intent}
            for intent in intents
            if intent in kept
        }
    panels = []
    for title, ids in groups.items():
        curves = []
        for index, (label, evaluation) in enumerate(zip(measured.labels, measured.evaluations, strict=True)):
            values = [v for query_id, v in evaluation.values(measured.recall).items() if query_id in ids]
            curves.append(Curve(index, label, *at_least(values)))
        if any(curve.x for curve in curves):
            count = len([i for i in measured.evaluations[0].values(measured.recall) if i in ids])
            panels.append(Panel(f"{title} ({count:,})" if title else "", tuple(curves)))
    return panels


def at_least(values: Sequence[float]) -> tuple[list[float], list[float]]:
    """The share of values that are at least x, at every x from 0 to 1 where it changes; at 0 the share above 0."""
    if not values:
        return [], []
    sample = np.sort(np.asarray(values))
    x = np.unique(np.concatenate([[0.0, 1.0], sample]))
    share = 1 - np.searchsorted(sample, x, side="left") / sample.size
    share[0] = np.mean(sample > 0)
    return x.tolist(), share.tolist()

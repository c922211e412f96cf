"""Draw the plots of the results in benchmarks/results/, and write docs/measurements.md.

python benchmarks/page.py
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import Any, Final

# The folder above this script's is not on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from benchmarks.measurements import PAGE, page, read_all, records_of
from benchmarks.speed import RESULTS, Result, number

BAD_USE: Final = 2

REACHED, SHORT, NEUTRAL, INK = "#1a7f5a", "#c0392b", "#7a8288", "#24292f"
HERE, FLOOR = "#2f6fb0", "#b9c4cc"
PATCH: Final = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
"""Background of a text that lines cross."""
STYLE: Final[dict[Any, Any]] = {
    "svg.hashsalt": "scholarbase",  # the same results give the same bytes
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


# -- the plots ------------------------------------------------------------------------------------------


def plots(results: Sequence[Result], folder: Path) -> None:
    """Draw the plots."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = records_of(results)
    judged = [row for row in rows if row["reached"] is not None]
    if judged:
        save(ratios(judged), folder / "ratios.svg")
    for row in rows:
        if "floor_parts" in row["notes"]:
            save(ingest_stages(row), folder / "ingest.svg")
        if "timeline" in row["notes"]:
            save(latencies(row), folder / "latency.svg")


def save(figure: Figure, path: Path) -> None:
    figure.savefig(path, format="svg", facecolor="white", metadata={"Date": None}, bbox_inches="tight")


def ratios(rows: Sequence[dict[str, Any]]) -> Figure:
    """A dot for each row: how its ratio compares with its target, so that right of 1 is reached in every row."""
    figure = Figure(figsize=(9, 0.6 + 0.62 * len(rows)))
    axes = figure.subplots()
    for position, row in enumerate(rows):
        color = REACHED if row["reached"] else SHORT
        share = row["ratio"] / row["target"]
        better = share if row["bound"] == "at least" else 1 / share
        axes.plot([1, better], [position, position], color=color, alpha=0.35, linewidth=3)
        axes.plot(1, position, marker="|", color=INK, markersize=16, markeredgewidth=2)
        axes.plot(better, position, marker="o", color=color, markersize=7)
        text = f"{number(row['ratio'])}: {'reached' if row['reached'] else 'short'} ({row['bound']} {row['target']:g})"
        axes.annotate(
            text,
            (1.01, position),
            xycoords=("axes fraction", "data"),
            va="center",
            color=color,
            annotation_clip=False,
        )
    labels = [fill(f"{row['what']}, beside {row['beside']}", 72) for row in rows]
    axes.set_yticks(range(len(rows)), labels)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xscale("log")
    plain(axes)
    axes.set_xticks(
        [tick for tick in (0.1, 0.2, 0.5, 1, 2, 5, 10) if axes.get_xlim()[0] < tick < axes.get_xlim()[1]]
    )
    axes.grid(axis="x", color="#e5e8ea")
    axes.set_axisbelow(True)
    axes.set_xlabel("times better than the target: right of 1 is reached")
    return figure


def plain(axes: Axes) -> None:
    """Label a logarithmic axis with plain numbers: 0.5, 1, 50."""
    formatter = FuncFormatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_major_formatter(formatter)
    low, high = axes.get_xlim()
    axes.set_xlim(low / 1.15, high * 1.15)
    axes.xaxis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:g}" if high / low < 12 else ""))


def ingest_stages(row: dict[str, Any]) -> Figure:
    """When each stage ran, some beside others, and below them the parts of the bare sum, one after the other."""
    stages: dict[str, list[tuple[float, float]]] = {}
    for stage in sorted(row["notes"]["stages"], key=lambda stage: float(stage["began"])):
        stages.setdefault(stage["name"], []).append((stage["began"], stage["seconds"]))
    parts, ran = {}, 0.0
    for name, seconds in row["notes"]["floor_parts"].items():
        parts[name] = [(ran, seconds)]
        ran += seconds
    bars = [(*stage, HERE) for stage in stages.items()] + [(*part, FLOOR) for part in parts.items()]
    figure = Figure(figsize=(9, 0.8 + 0.3 * len(bars)))
    axes = figure.subplots()
    whole = max(row["notes"]["seconds"], row["notes"]["floor_seconds"])
    for position, (_, times, color) in enumerate(bars):
        axes.broken_barh(times, (position - 0.35, 0.7), color=color)
        beside = sum(times[-1]) + whole * 0.006
        total = sum(seconds for _, seconds in times)
        axes.text(beside, position, f"{total:,.1f} s", va="center", fontsize=8, bbox=PATCH)
    axes.set_yticks(range(len(bars)), [bar[0] for bar in bars])
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.set_xlim(0, whole * 1.1)
    axes.axhline(len(stages) - 0.5, color=INK, linewidth=0.8)
    for position, name, seconds in (
        (0, "ingest", row["notes"]["seconds"]),
        (len(stages), "bare sum", row["notes"]["floor_seconds"]),
    ):
        axes.axvline(seconds, color=HERE if position == 0 else NEUTRAL, linestyle=":", linewidth=1.2)
        axes.text(whole * 1.11, position, f"{name}: {seconds:,.1f} s", va="center", fontweight="bold")
    axes.set_xlabel("seconds since the start")
    return figure


def latencies(row: dict[str, Any]) -> Figure:
    """Percentiles as bars, and latency and memory by minute if the run has a timeline."""
    percentiles, timeline = row["notes"]["percentiles"], row["notes"].get("timeline") or []
    figure = Figure(figsize=(9, 6 if timeline else 2.6), layout="constrained")
    panels = figure.subplots(3 if timeline else 1, 1, squeeze=False)[:, 0]
    names = list(percentiles)
    panels[0].barh(names, list(percentiles.values()), color=HERE, height=0.7)
    for position, value in enumerate(percentiles.values()):
        panels[0].text(value, position, f" {number(value)} ms", va="center", fontsize=8)
    panels[0].invert_yaxis()
    panels[0].set_xlim(0, max(percentiles.values()) * 1.12)
    panels[0].set_xlabel("latency, ms")
    if timeline:
        minutes = [point["minute"] for point in timeline]
        for key, color in (("p50", HERE), ("p99", SHORT)):
            panels[1].plot(minutes, [point[key] for point in timeline], color=color, marker=".", label=key)
        panels[1].set_ylim(0, max(point["p99"] for point in timeline) * 1.15)
        panels[1].set_ylabel("latency, ms")
        panels[1].legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
        memory = [point["rss_mb"] for point in timeline]
        panels[2].plot(minutes, memory, color=REACHED, marker=".")
        panels[2].set_ylim(0, max(memory) * 1.15)
        panels[2].set_ylabel("memory, MB")
        panels[2].set_xlabel("minute")
    return figure


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Draw the plots, and write the page of measurements.")
    parser.add_argument("--results", type=Path, default=RESULTS, help="a folder of results of `make bench`")
    parser.add_argument(
        "--page", type=Path, default=PAGE, help="the page to write, and beside it the folder of plots"
    )
    options = parser.parse_args(arguments)
    try:
        results = read_all(options.results)
    except (json.JSONDecodeError, KeyError) as error:
        print(
            f"The results in {options.results} cannot be read ({error!r}): run them again.", file=sys.stderr
        )
        return BAD_USE
    if not results:
        print(f"No results in {options.results}: run `make bench` first, or give --results.", file=sys.stderr)
        return BAD_USE
    with matplotlib.rc_context(STYLE):
        plots(results, options.page.with_suffix(""))
    options.page.write_text(page(results), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

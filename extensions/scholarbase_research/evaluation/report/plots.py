"""Plots of a report, drawn by matplotlib: SVG for the page, and SVG and PDF files.

Runs differ by colour (the colour-blind safe palette of Okabe and Ito), line style and marker, which also work in grey
print. Letters are drawn as paths, so plots do not depend on installed fonts. Files have no dates or random ids: the
same values give the same bytes.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from scholarbase.extras import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""https://jfly.uni-koeln.de/color/, without yellow, which is hard to see on paper, and black, the colour of text."""
LINES: Final = ("-", (0, (5, 1.6)), (0, (1.2, 1.4)), (0, (6, 1.5, 1.2, 1.5)), (0, (3, 1.2)))
MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X")
INK: Final = "#1c1d20"
RULE: Final = "#d3d5da"
PAPER: Final = "#ffffff"
WIDTH: Final = 6.4
"""Inches; the width of text on a page."""
MAX_PANELS: Final = 12


@dataclass(frozen=True, slots=True)
class Curve:
    """A curve: the run's index, which determines the style, its label, and the points."""

    place: int
    label: str
    x: Sequence[float]
    y: Sequence[float]


@dataclass(frozen=True, slots=True)
class Panel:
    """Curves on one pair of axes."""

    title: str
    curves: tuple[Curve, ...]


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot. ``svg`` is the content of a file, ``pdf`` draws one."""

    name: str
    caption: str
    svg: bytes
    pdf: Callable[[], bytes]

    @property
    def url(self) -> str:
        """The SVG as an address within the page."""
        return f"data:image/svg+xml;base64,{base64.b64encode(self.svg).decode()}"


def recall_by_depth(panels: Sequence[Panel], deepest: int) -> Plot:
    """Mean recall of the first k results against k, over all and over held answers."""
    with _style():
        figure, axes = _panels(panels, columns=2)
        ticks = [tick for tick in (1, 2, 5, 10, 25, 50, 100, 200, 500, 1000) if tick <= deepest]
        for ax, panel in zip(axes, panels, strict=True):
            ax.set_xscale("log")
            ax.set_xticks(ticks, [str(tick) for tick in ticks])
            ax.set_xticks([], minor=True)
            ax.set_xlim(0.9, max(deepest, 2) * 1.1)
            for curve in panel.curves:
                _line(ax, curve, [i for i, k in enumerate(curve.x) if k in ticks])
            ax.set_xlabel("results k")
            _share(ax, panel.curves)
        axes[0].set_ylabel("recall of the first k")
        _legend(figure, axes[0], panels[0].curves)
        return _drawn(
            figure,
            "recall-by-depth",
            "Recall against depth: the share of a query's answers among the first k results, mean over queries.",
        )


def recall_distribution(panels: Sequence[Panel], measure: str, by: str) -> Plot:
    """The share of queries whose recall is at least x, against x: a panel for each intent."""
    with _style():
        figure, axes = _panels(panels, columns=min(3, max(2, len(panels))) if len(panels) > 1 else 1)
        for ax, panel in zip(axes, panels, strict=True):
            for curve in panel.curves:
                _line(ax, curve, range(0, len(curve.x), max(1, len(curve.x) // 6)), steps=True)
            ax.set_xlim(-0.02, 1.02)
            ax.set_ylim(-0.02, 1.02)
            ax.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
        figure.supxlabel(f"{measure} of at least x", fontsize=9, color=INK)
        figure.supylabel("share of queries", fontsize=9, color=INK)
        _legend(figure, axes[0], panels[0].curves)
        return _drawn(
            figure,
            "recall-distribution",
            f"The distribution of {measure} over queries{by}: the share of queries with a value of at least x. "
            "Higher curves are better. The left end is the share of queries with any answer found, the right end with "
            "all answers found.",
        )


def recall_by_call(curves: Sequence[Curve]) -> Plot:
    """Mean recall after each tool call."""
    panel = Panel("", tuple(curves))
    with _style():
        figure, axes = _panels([panel], columns=1)
        longest = max((len(curve.x) for curve in curves), default=1)
        for curve in curves:
            _line(axes[0], curve, range(0, len(curve.x), max(1, longest // 10)))
        axes[0].set_xlabel("tool calls")
        axes[0].set_ylabel("recall of papers seen")
        axes[0].set_xlim(0.5, max(longest, 2) + 0.5)
        axes[0].xaxis.set_major_locator(
            require("matplotlib.ticker", "evaluation", "The evaluation").MaxNLocator(integer=True)
        )
        _share(axes[0], panel.curves)
        _legend(figure, axes[0], panel.curves)
        return _drawn(
            figure,
            "recall-by-call",
            "Recall against tool calls: the share of a query's answers seen after each call, mean over queries. "
            "Queries with fewer calls keep their last value.",
        )


# -- style ----------------------------------------------------------------------------------------------


@contextmanager
def _style() -> Iterator[None]:
    matplotlib = require("matplotlib", "evaluation", "The evaluation")
    with matplotlib.rc_context(
        {
            "svg.hashsalt": "scholarbase",
            "svg.fonttype": "path",
            "pdf.fonttype": 42,
            "font.family": "DejaVu Sans",
            "font.size": 8.5,
            "axes.titlesize": 9,
            "axes.labelsize": 9,
            "text.color": INK,
            "axes.labelcolor": INK,
            "xtick.color": INK,
            "ytick.color": INK,
            "axes.edgecolor": INK,
            "axes.linewidth": 0.6,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.color": RULE,
            "grid.linewidth": 0.5,
            "axes.facecolor": "none",
            "figure.facecolor": PAPER,
            "legend.frameon": False,
            "text.parse_math": False,
        }
    ):
        yield


def _panels(panels: Sequence[Panel], columns: int) -> tuple[Figure, list[Axes]]:
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    height = 0.75 + rows * (2.7 if columns == 1 else 2.35 if columns == 2 else 1.85)
    figure: Figure = require("matplotlib.figure", "evaluation", "The evaluation").Figure(
        figsize=(WIDTH, height), layout="constrained"
    )
    grid = figure.subplots(rows, columns, sharey=True, squeeze=False)
    axes: list[Axes] = [ax for row in grid for ax in row]
    for ax in axes[len(panels) :]:
        ax.remove()
    for ax, panel in zip(axes, panels, strict=False):
        ax.set_title(drawable(panel.title), loc="left")
        ax.tick_params(length=2.5, width=0.6, labelleft=True)
    return figure, axes[: len(panels)]


def _line(ax: Axes, curve: Curve, marks: Sequence[int], *, steps: bool = False) -> None:
    style = curve.place
    ax.plot(
        curve.x,
        curve.y,
        color=COLOURS[style % len(COLOURS)],
        linestyle=LINES[style % len(LINES)],
        linewidth=1.5,
        marker=MARKERS[style % len(MARKERS)],
        markersize=3.6,
        markevery=list(marks),
        drawstyle="steps-pre" if steps else "default",
        clip_on=False,
        zorder=3,
    )


def _share(ax: Axes, curves: Sequence[Curve]) -> None:
    """Start the y axis at zero: a cropped axis would exaggerate small differences."""
    top = max((max(curve.y, default=0.0) for curve in curves), default=0.0)
    ax.set_ylim(0, min(1.0, top * 1.12) if top > 0 else 1.0)


def _legend(figure: Figure, ax: Axes, curves: Sequence[Curve]) -> None:
    """The runs' labels above the panels. They are set afterwards, as matplotlib omits labels that begin with ``_``."""
    handles: list[Line2D] = list(ax.lines)
    longest = max((len(curve.label) for curve in curves), default=1)
    columns = max(1, min(len(curves), 84 // (longest + 8)))
    legend = figure.legend(
        handles,
        [f"run {i}" for i in range(len(handles))],
        loc="outside upper left",
        ncols=columns,
        handlelength=3.4,
        fontsize=8.5,
        borderpad=0,
    )
    for text, curve in zip(legend.get_texts(), curves, strict=True):
        text.set_text(drawable(curve.label))


def drawable(text: str, longest: int = 60) -> str:
    """The text in one line, with ``□`` for letters missing from the plots' font.

    It is shortened in the middle, as the names of runs often differ only at the end.
    """
    manager = require("matplotlib.font_manager", "evaluation", "The evaluation")
    font = manager.get_font(manager.findfont("DejaVu Sans"))
    line = " ".join(text.split())
    if len(line) > longest:
        tail = (longest - 1) // 2
        line = f"{line[: longest - 1 - tail]}…{line[-tail:]}"
    return "".join(letter if font.get_char_index(ord(letter)) else "□" for letter in line)


# -- files ----------------------------------------------------------------------------------------------


def _drawn(figure: Figure, name: str, caption: str) -> Plot:
    svg = _saved(figure, "svg", {"Date": None, "Creator": None})

    def pdf() -> bytes:
        with _style():
            return _saved(figure, "pdf", {"CreationDate": None, "Creator": None, "Producer": None})

    return Plot(name, caption, svg, pdf)


def _saved(figure: Figure, kind: str, metadata: Mapping[str, Any]) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format=kind, metadata=dict(metadata))
    return file.getvalue()

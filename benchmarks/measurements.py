"""Write docs/measurements.md from result files: ``python benchmarks/measurements.py``.

The rows of `make bench` are in ``benchmarks/results/*.json``, those of `make torture` in ``torture/results/*.json``,
and figures of other programs in ``benchmarks/results/*.toml``: a table with its command and the day on which it was
recorded. Tables with ``shown = false`` are not on the page.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

# The folder above this script's is not on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.parts import PARTS
from benchmarks.speed import RESULTS, Result, number, read
from torture.parts import PARTS as ATTACKS

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs" / "measurements.md"
TORTURE: Final = ROOT / "torture" / "results"
SUBJECTS: Final = (
    "costs",
    "quality",
    "ranking",
    "vectors",
    "encoders",
    "texts",
    "checks",
    "agents",
    "servers",
)
"""The TOML files of results, in the order of the page."""
IMAGES: Final = (
    (
        "ratios.svg",
        "Each row's ratio compared with its target, on a logarithmic scale: right of 1 is reached",
    ),
    ("ingest.svg", "The stages of an ingest, and below them the parts of the bare sum"),
    ("latency.svg", "Latency percentiles under load, and latency and memory over time"),
)
"""The plots that benchmarks/page.py draws into docs/measurements/, and what they show."""

HEAD: Final = """# Measurements

All figures in one place, written by `python benchmarks/measurements.py` from result files; other pages link here.
Each table has its command and the day it was recorded. Times were measured on two cores, mostly beside other work:
compare them within a table only. R@20 is the share of the right papers among the first 20.

`benchmarks/results/*.toml` have {hidden} more tables (`shown = false`), most of them of variants that were not taken.
"""
SPEED: Final = """## Overhead over the engines

`make bench` compares each part with its floor, the engine's bare work on the same input in the same run: a ratio of 1
is no overhead. It needs the data folder, 20 GB of disk and an hour and a half (`PAPERS=100000` for a smaller run,
`PARTS="serving hybrid"` for some parts). `python benchmarks/page.py` draws the plots again.
"""
MISSED: Final = """Why targets are missed:

- **Ingest** also keeps and compresses each source record, merges repeated ones, indexes authors and hashes all rows.
- **bm25s** keeps all impacts in memory, a copy in each process, and has no filters. Qdrant reads compressed lists in
  mapped files that processes share, and filters while it reads.
- **Dense**: nearly all of the time is the traversal of some thousands of graph nodes, spread over memory.
- **Citations and references** read rows of the catalogue; the constant reads nothing. Equal requests, which the
  [response cache](operations.md#the-response-cache) answers sooner, are computed again here.
- **Hybrid by ranks**: the parts of the floor are measured separately and warm.
"""


def records_of(results: Iterable[Result]) -> list[dict[str, Any]]:
    return [row for result in results for row in result.rows]


def machines(results: Sequence[Result]) -> str:
    """One line for each kind of machine."""
    lines: dict[str, set[str]] = {}
    for result in results:
        facts = result.machine
        line = f"{facts['cores']} cores ({facts['cpu']}), {facts['memory_gb']:g} GB, Python {facts['python']}"
        lines.setdefault(line, set()).add(result.began)
    return "".join(f"- {line}: {', '.join(sorted(days))}\n" for line, days in lines.items())


def speed_table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows of `make bench` that have a target; a ratio that misses it is bold."""
    lines = []
    for row in (row for row in rows if row["bound"]):
        target = f" ({row['bound']} {row['target']:g})"
        ratio = f"{number(row['ratio'])}{target}"
        here, floor = (f"{number(row[side])} {row['unit']}".strip() for side in ("here", "floor"))
        lines.append(
            [row["what"], row["beside"], here, floor, f"**{ratio}**" if row["reached"] is False else ratio]
        )
    return table(["what", "beside", "here", "floor", "ratio (target)"], lines)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [f"| {' | '.join(columns)} |".replace("  ", " "), f"|{'---|' * len(columns)}"]
    lines += [
        f"| {' | '.join(cell.replace('<', '&lt;').replace(' / ', ', ') for cell in row)} |".replace("  ", " ")
        for row in rows
    ]
    return "\n".join(lines) + "\n"


def speed(results: Sequence[Result], images: Sequence[tuple[str, str]]) -> str:
    """The section of `make bench`. ``images`` are links and descriptions."""
    papers = " and ".join(sorted({f"{result.papers:,}" for result in results}))
    rows = records_of(results)
    judged = [row["reached"] for row in rows if row["reached"] is not None]
    head = f"{papers} arXiv records. {sum(judged)} of {len(judged)} targets reached; others are bold.\n\n"
    pictures = "".join(f"\n![{shows}]({link})\n" for link, shows in images)
    return f"{SPEED}\n{head}{machines(results)}\n{speed_table(rows)}\n{MISSED}{pictures}"


def attacks(folder: Path) -> str:
    """The section of `make torture`: the promises of each part, and how many tests kept them."""
    rows, days = [], set()
    for part in ATTACKS:
        if not (folder / f"{part}.json").is_file():
            continue
        result = json.loads((folder / f"{part}.json").read_text("utf-8"))
        days.add(result["began"])
        kept = [row["kept"] is True for row in result["rows"]]
        state = f"{sum(kept)} of {len(kept)}"
        promises = len({row["promise"] for row in result["rows"]})
        rows.append([f"`{part}`", str(promises), state if all(kept) else f"**{state}**"])
    head = f"`make torture` ([reliability](reliability.md)), on {' and '.join(sorted(days))}."
    inventory = table(["part", "promises", "tests that keep them"], rows)
    return f"## Attacks\n\n{head} `torture/results/` has each test with its figure.\n\n{inventory}"


def subjects(folder: Path) -> list[dict[str, Any]]:
    """The TOML files.

    Raises:
        KeyError: a table lacks its name, command, day, columns or rows.
    """
    documents = [tomllib.loads((folder / f"{name}.toml").read_text("utf-8")) for name in SUBJECTS]
    for subject in documents:
        for entry in subject["table"]:
            _ = entry["name"], entry["command"], entry["recorded"], entry["columns"]
            if any(len(row) != len(entry["columns"]) for row in entry["rows"]):
                raise ValueError(f"{entry['name']}: a row has not as many cells as there are columns.")
    return documents


def subject_section(subject: dict[str, Any]) -> str:
    parts = [f"## {subject['title']}\n"]
    for entry in subject["table"]:
        if entry.get("shown", True):
            about = f"`{entry['command']}`, {entry['recorded']}. {entry.get('about', '')}".rstrip()
            parts.append(f"### {entry['name']}\n\n{about}\n\n{table(entry['columns'], entry['rows'])}")
    return "\n".join(parts)


def page(results: Sequence[Result]) -> str:
    """The whole page."""
    documents = subjects(RESULTS)
    hidden = sum(not entry.get("shown", True) for subject in documents for entry in subject["table"])
    head = HEAD.format(hidden=hidden)
    images = [(f"measurements/{name}", shows) for name, shows in IMAGES]
    sections = [*map(subject_section, documents), speed(results, images), attacks(TORTURE)]
    return "\n".join([head, *sections])


def read_all(folder: Path) -> list[Result]:
    """The results of all parts of `make bench` that have some."""
    return [result for part in PARTS if (result := read(folder, part)) is not None]


def write() -> None:
    """Write the page from the result files of the repository."""
    PAGE.write_text(page(read_all(RESULTS)), encoding="utf-8")


if __name__ == "__main__":
    write()

"""Reports of runs: a self-contained page, and the same tables and plots as files.

    folder/
      report.html     tables, plots and every query, in one file that loads nothing
      report.md       the tables
      tables/         each table as CSV (full precision)
      figures/        each plot as SVG and PDF

The same runs give the same bytes. ``contents`` computes the tables and curves, ``tables``
and ``plots`` render them, ``drilldown`` lists the queries, ``published`` has published figures.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from scholarbase.errors import InvalidRequest, RunExists, StorageError
from scholarbase.files import atomic_write, temporary_files, unhidden
from scholarbase.models.checks import check_whole
from scholarbase_research.evaluation.evidence import check_papers
from scholarbase_research.evaluation.measured import Measured
from scholarbase_research.evaluation.measures import DEFAULT_MEASURES
from scholarbase_research.evaluation.report.page import Report, build, to_html, to_markdown
from scholarbase_research.evaluation.report.tables import to_csv
from scholarbase_research.evaluation.run_data import Run
from scholarbase_research.evaluation.runs import check_comparable

__all__ = ["write_report"]

PAGE: Final = "report.html"
OWN: Final = frozenset({PAGE, "report.md", "tables", "figures"})
"""Everything in a report's folder."""
MAX_DRILL_DOWN: Final = 1000


def write_report(
    runs: Sequence[Run],
    folder: Path,
    *,
    title: str | None = None,
    measures: Sequence[str] = DEFAULT_MEASURES,
    drill_down: int = 10,
    across_snapshots: bool = False,
) -> Path:
    """Write the report of runs of one query set to ``folder`` and return the page's path.

    An earlier report at ``folder`` is replaced. The other runs are tested against the first one. The page lists the
    first ``drill_down`` results of each run for each query.

    Raises:
        InvalidRequest: no runs, or an invalid argument.
        RunMismatch: runs of different query sets, or of different snapshots without ``across_snapshots``.
        RunExists: ``folder`` has other files.
        EvaluationError: nothing can be measured, or a package of the ``evaluation`` extra is missing.
        StorageError: the folder cannot be written.
    """
    _check(runs, drill_down, across_snapshots)
    folder = Path(folder).absolute()
    _check_place(folder)
    report = build(Measured.of(runs, measures), title, drill_down)
    try:
        _write(report, folder)
    except OSError as error:
        raise StorageError(f"The report cannot be written to {folder}: {error}.") from error
    return folder / PAGE


def _check(runs: Sequence[Run], drill_down: int, across_snapshots: bool) -> None:
    if not runs:
        raise InvalidRequest("No runs: a report needs at least one.")
    check_whole(drill_down, "drill_down", 0, MAX_DRILL_DOWN)
    for run in runs:
        check_papers(run, "a report")
    for run in runs[1:]:
        check_comparable(runs[0], run, across_snapshots=across_snapshots)


def _check_place(folder: Path) -> None:
    """Raise RunExists if the folder is anything but a report or empty."""
    if not folder.exists():
        return
    names = unhidden(folder) if folder.is_dir() else {folder.name}
    if names and (PAGE not in names or names - OWN):
        raise RunExists(f"{folder} is not a report, and only reports are replaced: give another folder.")


def _write(report: Report, folder: Path) -> None:
    # The page is the first file and is never removed: by it the folder is known as a report.
    files: dict[str, bytes] = {PAGE: to_html(report).encode(), "report.md": to_markdown(report).encode()}
    for table in report.tables:
        files[f"tables/{table.name}.csv"] = to_csv(table).encode()
    for plot in report.plots:
        files[f"figures/{plot.name}.svg"] = plot.svg
        files[f"figures/{plot.name}.pdf"] = plot.pdf()
    for name in ("tables", "figures"):
        shutil.rmtree(folder / name, ignore_errors=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        for left in temporary_files(path):  # of a killed process
            left.unlink()
        with atomic_write(path) as file:
            file.write(content)

"""Assemble a report and render it as an HTML page and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scholarbase.extensions import added_list
from scholarbase.extras import require
from scholarbase_research.evaluation.measured import Measured, query_count, results
from scholarbase_research.evaluation.report import contents, plots, tables
from scholarbase_research.evaluation.report.drilldown import drilldown, script_json
from scholarbase_research.evaluation.report.plots import Plot
from scholarbase_research.evaluation.tables import Table

TEMPLATES: Final = Path(__file__).parent / "templates"
FOLDED: Final = 15
"""A table of single queries with more rows is collapsed on the page."""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with its tables, plots and paragraphs."""

    anchor: str
    heading: str
    parts: tuple[Table | Plot | str, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """A computed report. ``data`` is the JSON of its queries; ``commands`` has labels and the commands of the runs."""

    title: str
    lead: str
    sections: tuple[Section, ...]
    commands: tuple[tuple[str, str], ...]
    data: bytes

    @property
    def tables(self) -> Iterator[Table]:
        return (part for section in self.sections for part in section.parts if isinstance(part, Table))

    @property
    def plots(self) -> Iterator[Plot]:
        return (part for section in self.sections for part in section.parts if isinstance(part, Plot))


def build(measured: Measured, title: str | None, drill_down: int) -> Report:
    """Compute the tables, plots and data of a report."""
    facts = measured.runs[0].manifest.queries
    return Report(
        title=title or f"Recall on {facts['name']}",
        lead=_lead(measured),
        sections=tuple(section for section in _sections(measured) if section.parts),
        commands=tuple((", ".join(labels), command) for command, labels in _commands(measured).items()),
        data=drilldown(measured, drill_down),
    )


def _lead(measured: Measured) -> str:
    manifest = measured.runs[0].manifest
    count = len(measured.runs[0].queries)
    papers = sorted({run.manifest.papers for run in measured.runs})
    library = " and ".join(f"{number:,}" for number in papers)
    runs = "one run" if len(measured.runs) == 1 else f"{len(measured.runs)} runs"
    return f"{query_count(count)} of {manifest.queries['name']}, {runs}, a library of {library} papers."


def _sections(measured: Measured) -> Iterator[Section]:
    over_held = (
        "The library holds every answer, so recall over held answers is the same."
        if measured.all_held
        else results(measured, "held")
    )
    yield Section("results", "Results", (results(measured, "all"), over_held))
    yield Section(
        "measured", "What was measured", (contents.query_set(measured), contents.settings(measured))
    )
    yield Section(
        "published", "Published figures", tuple(filter(None, [contents.published_comparison(measured)]))
    )
    yield Section("groups", "By kind of query", tuple(contents.by_group(measured)))
    yield Section("curves", "Where recall comes from", tuple(_curves(measured)))
    for sections_of in added_list("report_sections"):
        yield from sections_of(measured)
    yield Section("timing", "Timing", tuple(filter(None, [contents.timing(measured)])))


def _curves(measured: Measured) -> Iterator[Plot | str]:
    panels = contents.depth_panels(measured)
    deepest = max((run.depth for run in measured.runs), default=0)
    if deepest:
        yield plots.recall_by_depth(panels, deepest)
    else:
        yield "No run found any paper, so there is no recall to plot."
    distribution = contents.distribution_panels(measured)
    if distribution:
        by = " by intent" if len(distribution) > 1 else ""
        yield plots.recall_distribution(distribution, measured.heading(measured.recall), by)


# -- HTML -----------------------------------------------------------------------------------------------


def _commands(measured: Measured) -> dict[str, list[str]]:
    """Each command to the labels of its runs."""
    commands: dict[str, list[str]] = {}
    for label, run in zip(measured.labels, measured.runs, strict=True):
        commands.setdefault(run.manifest.command, []).append(label)
    return commands


def to_html(report: Report) -> str:
    """The page: one file with its style, script, plots and data."""
    jinja2 = require("jinja2", "evaluation", "The evaluation")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.tests["table"] = lambda part: isinstance(part, Table)
    environment.tests["plot"] = lambda part: isinstance(part, Plot)
    page: str = environment.get_template("report.html.j2").render(
        report=report,
        folded=FOLDED,
        data=require("markupsafe", "evaluation", "The evaluation").Markup(script_json(report.data)),
    )
    return page


# -- Markdown -------------------------------------------------------------------------------------------


def to_markdown(report: Report) -> str:
    """The tables, with the plots as images from the ``figures`` folder."""
    text = tables.markdown_text
    lines = [f"# {text(report.title)}", "", text(report.lead), ""]
    for section in report.sections:
        lines += [f"## {text(section.heading)}", ""]
        for part in section.parts:
            if isinstance(part, Table):
                lines.append(tables.to_markdown(part))
            elif isinstance(part, Plot):
                lines += [f"![{text(part.caption)}](figures/{part.name}.svg)", "", text(part.caption), ""]
            else:
                lines += [text(part), ""]
        if section.anchor == "measured":
            lines += ["The commands that made the runs:", ""]
            for label, command in report.commands:
                lines += [f"{text(label)}:", "", *(f"    {line}" for line in command.splitlines()), ""]
    return "\n".join(lines).rstrip("\n") + "\n"

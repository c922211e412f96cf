"""Reports: the same numbers in every format, escaped texts, and reproducible bytes."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
from lxml import etree, html

from scholarbase.errors import InvalidRequest, RunExists, RunMismatch
from scholarbase_research.evaluation.measured import OVER, Measured, grouped, results
from scholarbase_research.evaluation.measures import DEFAULT_MEASURES, Over
from scholarbase_research.evaluation.report import write_report
from scholarbase_research.evaluation.report.page import build, to_html, to_markdown
from scholarbase_research.evaluation.report.published import collections, published
from scholarbase_research.evaluation.report.tables import to_csv
from scholarbase_research.evaluation.run_data import PaperNote, Run
from scholarbase_research.evaluation.tables import holm
from tests.extensions.research.evaluation.made import a_query, a_run

NASTY = "</script><script>window.hurt = 1</script><img src=x onerror=hurt()> & | _x_ $y$ \\z `q` {{ 7 * 7 }} 量子 ü"


QUERIES = (
    a_query("q1", ["a", "b"], intent="method", date="2021-03"),
    a_query("q2", ["c", "gone1"], intent="method", date="2022"),
    a_query("q3", ["d", "e", "f", "g"], intent="scope", date="2022-01-01", category="cs.CL"),
    a_query("q4", ["h"], intent=None),
)
FIRST = {"q1": ["a", "x", "b"], "q2": ["y", "c"], "q3": ["z", "d", "w", "e"], "q4": ["x", "y"]}
SECOND = {"q1": ["x", "a"], "q2": ["c"], "q3": ["d", "e", "f"], "q4": ["h"]}
R_ALL = {"first": [1.0, 0.5, 0.5, 0.0], "second": [0.5, 0.5, 0.75, 1.0]}
"""Recall of each query's whole ranking, counted by hand."""
R_HELD = {"first": [1.0, 1.0, 0.5, 0.0], "second": [0.5, 1.0, 0.75, 1.0]}


@pytest.fixture(scope="module")
def two() -> list[Run]:
    return [a_run("first", QUERIES, FIRST), a_run("second", QUERIES, SECOND)]


@pytest.fixture(scope="module")
def written(two: list[Run], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a report of both runs."""
    return write_report(two, tmp_path_factory.mktemp("reports") / "written").parent


def page_of(runs: Sequence[Run], *, title: str | None = None, drill_down: int = 10) -> Page:
    """The page without the other files, which take longer."""
    return Page(to_html(build(Measured.of(runs, DEFAULT_MEASURES), title, drill_down)))


class Page:
    """A parsed page: its tables by id, its links, elements and ids, and the JSON of its queries."""

    def __init__(self, source: str) -> None:
        elements = list(html.fromstring(source).iter(etree.Element))
        self.source = source
        self.elements = [one.tag for one in elements]
        self.ids = [one.get("id") for one in elements if one.get("id") is not None]
        self.links = [one.get("href", "") for one in elements if one.tag == "a"]
        self.loads = [
            (one.tag, address)
            for one in elements
            if one.tag != "a"
            for name in ("src", "href", "xlink:href", "srcset", "action", "poster", "data")
            if (address := one.get(name)) is not None
        ]
        self.data = "".join(one.text for one in elements if one.tag == "script" and one.get("id") == "data")
        self.tables = {
            one.get("id").removeprefix("table-"): [
                [cell.text_content() for cell in row.iter("td", "th")] for row in one.iter("tr")
            ]
            for one in elements
            if one.tag == "figure" and one.get("class") == "table"
        }


def csv_rows(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / "tables" / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(("over", "by_hand"), [("all", R_ALL), ("held", R_HELD)])
def test_every_format_has_the_numbers_counted_by_hand(
    written: Path, over: Over, by_hand: dict[str, list[float]]
) -> None:
    page = Page((written / "report.html").read_text())
    markdown = (written / "report.md").read_text().partition(f"over {OVER[over]}")[2]
    column = page.tables[f"results-{over}"][0].index("R@All")
    rows = csv_rows(written, f"results-{over}")
    for row, (name, recalls) in zip(rows, by_hand.items(), strict=True):
        mean = fmean(recalls)
        assert float(row["R@All"]) == pytest.approx(mean, abs=1e-12)
        low, high = (float(row[f"R@All {end}"]) for end in ("low", "high"))
        assert min(recalls) <= low <= mean <= high <= max(recalls)
        interval = f"[{low:.3f}, {high:.3f}]"
        in_html = next(cells for cells in page.tables[f"results-{over}"] if cells[0] == name)
        assert in_html[column] == f"{mean:.3f} {interval}"
        best = mean == max(map(fmean, by_hand.values()))
        in_markdown = next(line for line in markdown.splitlines() if line.startswith(f"| {name} | 4 |"))
        assert (
            in_markdown.split(" | ")[column]
            == (f"**{mean:.3f}**" if best else f"{mean:.3f}") + f" {interval}"
        )


def test_every_table_is_the_same_on_the_page_and_in_its_file(written: Path) -> None:
    page = Page((written / "report.html").read_text())
    files = {path.stem for path in (written / "tables").glob("*.csv")}
    assert files == set(page.tables)
    assert {
        "results-all",
        "results-held",
        "settings",
        "by-intent",
        "by-year",
        "timing",
    } <= files
    for name in files:
        with (written / "tables" / f"{name}.csv").open(newline="") as file:
            header, *rows = csv.reader(file)
        kept = [
            i
            for i, h in enumerate(header)
            if not (h.endswith((" low", " high", " p", " URL")) and h.rsplit(" ", 1)[0] in header)
        ]
        assert [header[i] for i in kept] == page.tables[name][0]
        assert len(rows) == len(page.tables[name]) - 1
        for row, shown in zip(rows, page.tables[name][1:], strict=True):
            for i, cell in zip(kept, shown, strict=True):
                text = re.sub(r"[†‡]?( \[.*\])?$", "", cell)
                assert same(row[i], text), (name, header[i])


def same(exact: str, shown: str) -> bool:
    if shown == "–":
        return exact in ("", "–")
    if exact == shown:
        return True
    digits = len(shown.partition(".")[2])
    return shown == f"{float(exact):,.{digits}f}"


def test_groups_are_counted_by_hand(written: Path) -> None:
    rows = csv_rows(written, "by-intent")
    got = [(r["Intent"], r["Run"], r["Queries"], float(r["R@All"])) for r in rows]
    assert got == [
        ("method", "first", "2", 0.75),
        ("", "second", "2", 0.5),
        ("scope", "first", "1", 0.5),
        ("", "second", "1", 0.75),
        ("(none)", "first", "1", 0.0),
        ("", "second", "1", 1.0),
    ]


@pytest.mark.slow
def test_the_same_runs_give_the_same_bytes(two: list[Run], written: Path, tmp_path: Path) -> None:
    again = write_report(two, tmp_path / "again").parent
    files = sorted(path.relative_to(written) for path in written.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(again) for path in again.rglob("*") if path.is_file())
    assert {p.suffix for p in files} == {".html", ".md", ".csv", ".svg", ".pdf"}
    for path in files:
        assert (written / path).read_bytes() == (again / path).read_bytes(), path


def test_the_page_loads_nothing_and_ids_are_unique(two: list[Run]) -> None:
    queries = {"name": "scifact", "format": "beir", "sha256": "cd" * 32, "count": 300, "notes": []}
    runs = [replace(run, manifest=replace(run.manifest, queries=queries)) for run in two]
    page = page_of(runs)
    assert all(address.startswith(("#", "data:")) for _, address in page.loads), page.loads
    assert not re.search(r"@import|url\((?!#)", page.source)
    assert len(page.ids) == len(set(page.ids))
    outside = [link for link in page.links if not link.startswith("#")]
    assert set(outside) <= {figure.url for c in collections() for figure in c.figures}
    assert outside
    assert "published" in page.tables


@pytest.mark.slow
def test_markup_in_texts_is_escaped() -> None:
    query = a_query("q1", ["a"], text=NASTY, intent=NASTY)
    other = a_query("q2", ["b"], intent="plain")
    run = a_run(NASTY, [query, other], {"q1": ["a"], "q2": ["c"]}, command=f"run {NASTY}\nsecond line")
    run = replace(run, papers={"a": PaperNote(NASTY, 2020)})
    page = page_of([run, run], title=NASTY)
    assert page.elements.count("script") == 2
    assert page.elements.count("img") == page.source.count('<img src="data:image/svg+xml;base64,') > 0
    assert "window.hurt = 1</script>" not in page.source
    data = json.loads(page.data)
    assert data["queries"][0]["text"] == NASTY
    assert data["papers"][0][1] == NASTY
    assert [row[0] for row in page.tables["results-all"][1:]] == [f"{NASTY} (1)", f"{NASTY} (2)"]
    report = build(Measured.of([run, run], DEFAULT_MEASURES), NASTY, 10)
    prose = [line for line in to_markdown(report).splitlines() if not line.startswith("    ")]
    assert "<script" not in "".join(prose)
    made = {each.name: each for each in report.tables}
    for name in ("results-all", "by-intent"):
        assert list(csv.reader(to_csv(made[name]).splitlines(keepends=True)))[1][0] in (f"{NASTY} (1)", NASTY)


def test_a_run_that_found_nothing_is_reported_as_zero() -> None:
    page = page_of([a_run("empty", QUERIES, {})])
    assert [cell.split(" ")[0] for cell in page.tables["results-all"][1][2:]] == ["0.000"] * 6
    assert "No run found any paper" in page.source
    assert ["Queries without results", "4"] in page.tables["settings"]


def test_a_query_without_an_answer_is_left_out_and_counted() -> None:
    queries = [*QUERIES, a_query("q5", [])]
    page = page_of([a_run("first", queries, FIRST)])
    assert page.tables["results-all"][1][1] == "4"
    assert "Left out: 1 query without a relevant answer." in page.source
    assert json.loads(page.data)["queries"][4]["recall"] == [None]


def test_every_query_is_listed_with_the_ranks_of_its_answers(two: list[Run]) -> None:
    data = json.loads(page_of(two, drill_down=2).data)
    ids = [paper[0] for paper in data["papers"]]
    third = data["queries"][2]
    assert third["recall"] == [0.5, 0.75]
    answers = {ids[place]: ranks for place, _, _, ranks in third["answers"]}
    assert answers == {"d": [2, 1], "e": [4, 2], "f": [0, 3], "g": [0, 0]}
    assert [[ids[place] for place in results] for results in third["results"]] == [["z", "d"], ["d", "e"]]
    assert [found for _, found, _, _ in data["queries"][1]["answers"]] == ["id", "absent"]


@pytest.mark.slow
def test_runs_that_are_not_comparable_are_an_error(two: list[Run], tmp_path: Path) -> None:
    other = replace(two[1], manifest=replace(two[1].manifest, snapshot="1" * 32))
    with pytest.raises(RunMismatch, match="--across-snapshots"):
        write_report([two[0], other], tmp_path / "r")
    other_queries = replace(two[1].manifest, queries=two[1].manifest.queries | {"sha256": "ef" * 32})
    with pytest.raises(RunMismatch, match="the same queries"):
        write_report([two[0], replace(two[1], manifest=other_queries)], tmp_path / "r", across_snapshots=True)
    with pytest.raises(InvalidRequest, match="No runs"):
        write_report([], tmp_path / "r")
    with pytest.raises(InvalidRequest, match="drill_down is -1"):
        write_report(two, tmp_path / "r", drill_down=-1)
    assert list(tmp_path.iterdir()) == []
    page = write_report([two[0], other], tmp_path / "r", across_snapshots=True, measures=["R@25"])
    assert ("1" * 32) in page.read_text()


@pytest.mark.slow
def test_only_reports_are_replaced(two: list[Run], written: Path, tmp_path: Path) -> None:
    notes = tmp_path / "notes" / "mine.txt"
    notes.parent.mkdir()
    notes.write_text("kept")
    with pytest.raises(RunExists, match="is not a report"):
        write_report(two, notes.parent)
    assert notes.read_text() == "kept"
    shutil.copytree(written, tmp_path / "r")
    (tmp_path / "r" / "tables" / "old.csv").write_text("")
    (
        tmp_path / "r" / ".report.html.0123abcd.tmp"
    ).touch()  # of a killed process: it was not a report any more
    write_report(two[:1], tmp_path / "r", title="After", measures=["R@25"])
    assert "After" in (tmp_path / "r" / "report.html").read_text()
    assert not (tmp_path / "r" / "tables" / "old.csv").exists()
    assert not list((tmp_path / "r").glob(".*"))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["notes", "r"]


def test_published_figures_are_shown_only_for_the_same_query_set() -> None:
    whole = {"name": "scifact", "count": 300}
    found = published(whole, "1")
    assert found is not None
    assert found.figures[0].values == {"nDCG@10": 0.679, "R@100": 0.925}
    assert published(whole | {"count": 299}, "1") is None
    assert published({"name": "autoscholar", "count": 659, "format": "scholarquest"}, "q") is None
    agents = published({"name": "test", "count": 1111}, "BQ_000002")
    assert agents is not None
    assert agents.shown == "ScholarQuest"
    assert all(figure.source and figure.url for c in collections() for figure in c.figures)


def test_p_values_are_corrected_by_holms_method() -> None:
    # By hand: 0.01 * 3, then max(0.03, 0.03 * 2), then max(0.06, 0.04).
    assert holm([0.03, 0.01, 0.04]) == pytest.approx([0.06, 0.03, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_a_significant_difference_is_marked() -> None:
    queries = [a_query(f"q{i}", [f"a{i}"]) for i in range(12)]
    good = a_run("good", queries, {q.id: [q.answers[0].paper_id] for q in queries})
    bad = a_run("bad", queries, {q.id: ["x"] for q in queries})
    rows = results(Measured.of([bad, good, bad], ["R@All"]), "all").rows
    # All 12 differences are 1: 2 of the 2^12 sign assignments are as extreme, and two runs are tested.
    assert rows[1][2].p == pytest.approx(2 * 2 / 2**12)
    assert [row[2].mark for row in rows] == ["", "‡", ""]
    assert [row[2].best for row in rows] == [False, True, False]


def test_a_group_that_only_one_of_two_libraries_has_is_shown_for_it_alone() -> None:
    """If a library merges two ids into one paper, a query has fewer answers there: a report across snapshots then
    failed with a KeyError, or omitted the group."""
    five = a_query("q1", ["a", "b", "c", "d", "e"])
    four = a_query("q1", ["a", "b", "c", "d"])
    runs = [
        a_run("merged", [four, a_query("q2", ["x"])], {"q1": ["a"]}),
        a_run("apart", [five, a_query("q2", ["x"])], {"q1": ["a", "b"]}, snapshot="1" * 32),
        a_run("too", [five, a_query("q2", ["x"])], {"q1": ["b"]}, snapshot="2" * 32),
    ]
    rows = grouped(Measured.of(runs, ["R@All"]), "answers").rows
    assert [(row[1].shown, row[2].shown, row[3].shown) for row in rows] == [
        ("merged", "2", "0.125"),
        ("apart", "1", "0.000"),
        ("too", "1", "0.000"),
        ("merged", "0", "–"),
        ("apart", "1", "0.400"),
        ("too", "1", "0.200"),
    ]

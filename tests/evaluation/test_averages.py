"""Means and spreads of several runs of one system, computed by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from scholarbase.errors import InvalidRequest, RunMismatch
from scholarbase.evaluation.averages import average, chosen
from scholarbase.evaluation.measures import evaluate
from scholarbase.evaluation.report import write_report
from scholarbase.evaluation.runs import write_run
from scholarbase.models.runs import Call, Run
from tests.conftest import run_cli
from tests.evaluation.test_report import a_query, a_run, csv_rows

ANSWERS = {"answers": 3, "by_id": 3, "by_title": 0, "absent": 0, "duplicates": 0}
QUERIES = (a_query(1, ["a", "b"]), a_query(2, ["c"]))


def agent(name: str, *found: list[str], tokens: int | None = None) -> Run:
    """A run of an agent with one search for each query."""
    calls = tuple(
        Call(query.id, 1, "search", "search", {"q": "x"}, tuple(ids), 1, tokens=tokens)
        for query, ids in zip(QUERIES, found, strict=True)
    )
    return a_run(
        name,
        QUERIES,
        dict(zip(("q1", "q2"), found, strict=True)),
        kind="trajectory",
        calls=calls,
        search={},
        answers=ANSWERS,
    )


# Recall of the two queries: 1 and 1; 0.5 and 1; 0.5 and 0. Their means: 1, 0.75, 0.25.
THREE = [
    agent("react-1", ["a", "b"], ["c"], tokens=100),
    agent("react-2", ["a", "x", "y"], ["c"], tokens=200),
    agent("react-3", ["b", "x"], ["y"], tokens=600),
]


def averaged(runs: list[Run]) -> dict[str, tuple[float, ...]]:
    return dict(average("react", runs, [evaluate(run, ["R@All", "RR"]) for run in runs]).figures)


def test_the_mean_and_deviation_of_three_runs() -> None:
    figures = averaged(THREE)
    # Deviations from 2/3: 1/3, 1/12 and -5/12, so the variance is (16 + 1 + 25) / 144 / 2.
    assert figures["R@All"] == pytest.approx((2 / 3, (42 / 288) ** 0.5, 0.25, 1.0))
    assert figures["RR"] == pytest.approx((5 / 6, (1 / 12) ** 0.5, 0.5, 1.0))
    assert figures["tokens"] == pytest.approx((300, 70_000**0.5, 100, 600))
    assert figures["candidates"] == pytest.approx((5 / 3, (1 / 12) ** 0.5, 1.5, 2.0))
    assert figures["search calls"] == (1, 0, 1, 1)
    assert "seconds" not in figures


def test_a_figure_that_one_run_lacks_is_left_out() -> None:
    assert "tokens" not in averaged([*THREE[:2], agent("react-4", ["a"], ["c"])])
    plain = a_run("plain", QUERIES, {"q1": ["a"]})
    assert set(averaged([THREE[0], plain])) == {"R@All", "RR"}


def test_runs_are_chosen_by_their_names() -> None:
    assert chosen(["react=react-3, react-1"], THREE) == {"react": (THREE[2], THREE[0])}
    for spec, message in (
        ("react", "is not NAME=RUN,RUN"),
        ("react=react-1", "two or more"),
        ("=react-1,react-2", "is not NAME=RUN,RUN"),
        ("react=react-1,react-1", "twice"),
        ("react=react-1,react-9", "No run has the name 'react-9'"),
    ):
        with pytest.raises(InvalidRequest, match=message):
            chosen([spec], THREE)
    with pytest.raises(InvalidRequest, match="Several runs have the name 'react-1'"):
        chosen(["react=react-1,react-2"], [*THREE, THREE[0]])
    with pytest.raises(InvalidRequest, match="given twice"):
        chosen(["react=react-1,react-2"] * 2, THREE)


def test_runs_of_other_snapshots_are_not_averaged() -> None:
    other = replace(THREE[1], manifest=replace(THREE[1].manifest, snapshot="1" * 32))
    with pytest.raises(RunMismatch, match="snapshot"):
        averaged([THREE[0], other])


def test_the_command_shows_averages(tmp_path: Path) -> None:
    for run in THREE:
        (tmp_path / "runs").mkdir(exist_ok=True)
        write_run(tmp_path / "runs" / run.name, run)
    paths = [tmp_path / "runs" / run.name for run in THREE]
    shown = run_cli(
        "eval", "show", *paths, "--average", "react=react-1,react-2,react-3", "--measure", "R@All"
    )
    assert shown.returncode == 0, shown.stderr
    row = next(line for line in shown.stdout.splitlines() if line.startswith("react "))
    assert row.split() == ["react", "R@All", "3", "0.667", "0.382", "0.250", "1.000"]
    as_json = run_cli(
        *("eval", "show", *paths, "--average", "react=react-1,react-3", "--measure", "R@All", "--json")
    )
    [found] = json.loads(as_json.stdout)["averages"]
    assert (found["runs"], found["figures"]["R@All"]["mean"]) == (["react-1", "react-3"], 0.625)
    wrong = run_cli("eval", "show", *paths, "--average", "react=react-1,other")
    assert wrong.returncode == 2
    assert "'other'" in wrong.stderr


@pytest.mark.slow
def test_the_report_has_averages(tmp_path: Path) -> None:
    folder = write_report(THREE, tmp_path / "report", averages={"react": THREE[::2]}).parent
    recall = next(row for row in csv_rows(folder, "averages") if row["Figure"] == "R@25")
    assert (recall["System"], float(recall["Runs"]), float(recall["Mean"])) == ("react", 2, 0.625)


def test_a_run_outside_the_report_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="'react-3' is not among the runs"):
        write_report(THREE[:2], tmp_path / "report", averages={"react": THREE[1:]})

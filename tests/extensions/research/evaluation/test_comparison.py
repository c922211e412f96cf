"""Two runs side by side, counted by hand."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from scholarbase.errors import RunMismatch
from scholarbase_research.evaluation.comparison import compare
from scholarbase_research.evaluation.display import show_comparison
from scholarbase_research.evaluation.run_data import RankedId, Run
from scholarbase_research.evaluation.runs import check_comparable
from tests.extensions.research.evaluation.made import a_query, a_run

QUERIES = tuple(a_query(f"q{number}", "xy") for number in range(1, 5))


def made(name: str, rankings: Mapping[str, str], **facts: Any) -> Run:
    """A run of single-letter papers: ``{"q1": "xy"}`` ranks x, then y."""
    about = {
        "snapshot": "snap-1",
        "queries": {"name": "questions", "sha256": "a" * 64, "count": 4},
        "search": {"mode": "sparse", "limit": 10},
        "answers": dict.fromkeys(("answers", "by_id", "by_title", "absent", "duplicates"), 0),
    }
    return a_run(name, QUERIES, rankings, **about | facts)


A = made("a", {"q1": "abx", "q2": "xya", "q3": "x", "q4": ""})
B = made(
    "b",
    {"q1": "xya", "q2": "abc", "q3": "x", "q4": "ax"},
    search={"mode": "hybrid", "limit": 10, "weights": [1, 2]},
)


def test_queries_that_gained_and_lost_come_with_the_greatest_change_first() -> None:
    recall = compare(A, B, ["R@10"]).measures[0]
    assert [(c.query_id, c.text, c.a, c.b, c.difference) for c in recall.lost] == [
        ("q2", "question q2", 1.0, 0.0, -1.0)
    ]
    assert [(c.query_id, c.difference) for c in recall.gained] == [("q1", 0.5), ("q4", 0.5)]
    assert [c.query_id for c in recall.same] == ["q3"]
    assert (recall.a, recall.b) == (0.5, 0.5)
    reciprocal = compare(A, B, ["MRR@10"]).measures[0]
    assert [c.query_id for c in reciprocal.gained] == ["q1", "q4"]
    assert [c.difference for c in reciprocal.gained] == pytest.approx([2 / 3, 1 / 2])


def test_settings_that_differ_are_listed() -> None:
    comparison = compare(A, B, ["R@10"])
    assert comparison.differing == {"mode": ("sparse", "hybrid"), "weights": (None, [1, 2])}
    assert compare(A, A, ["R@10"]).differing == {}


def test_runs_of_other_query_sets_are_always_an_error() -> None:
    other = made("b", {}, queries={"name": "others", "sha256": "b" * 64})
    with pytest.raises(RunMismatch, match=r"'questions' \(aaaaaaaaaaaa\).*'others' \(bbbbbbbbbbbb\)"):
        compare(A, other, ["R@10"], across_snapshots=True)


def test_runs_of_other_snapshots_are_an_error_unless_allowed() -> None:
    other = replace(B, manifest=replace(B.manifest, snapshot="snap-2"))
    with pytest.raises(RunMismatch, match=r"snap-1 .*snap-2.*--across-snapshots"):
        compare(A, other, ["R@10"])
    check_comparable(A, other, across_snapshots=True)
    comparison = compare(A, other, ["R@10"], across_snapshots=True)
    assert comparison.measures[0].test.n == 4


def test_queries_with_answers_in_one_run_only_are_left_out_with_a_note() -> None:
    other = replace(B, queries=(replace(QUERIES[0], answers=()), *QUERIES[1:]))
    comparison = compare(A, other, ["R@10"])
    assert comparison.measures[0].test.n == 3
    assert any(
        note.startswith("Queries with a relevant answer in only one of the runs are left out: 1.")
        for note in comparison.notes
    )
    assert any(
        note.startswith("Queries whose answers differ between the runs: 1.") for note in comparison.notes
    )


def test_rankings_of_different_depth_have_a_note() -> None:
    deeper = replace(B, rankings={**B.rankings, "q4": tuple(RankedId(c, 0.0) for c in "abcdefg")})
    (note,) = (note for note in compare(A, deeper, ["R@All"]).notes if "depth" in note)
    assert note == "R@All is to depth 3 in 'a' and to depth 7 in 'b'."
    assert not any("depth" in note for note in compare(A, deeper, ["R@10"]).notes)


def test_a_runs_name_is_not_markup_when_it_is_compared(capsys: pytest.CaptureFixture[str]) -> None:
    """A run named ``b[bold]`` was shown in the table's head as ``b``."""
    show_comparison(compare(made("a[/]", {"q1": "x"}), made("b[bold]", {"q1": "y"}), ["R@5"]), top=0)
    _, *rows = capsys.readouterr().out.splitlines()
    head = next(row for row in rows if row.startswith("measure"))
    assert "a[/]" in head
    assert "b[bold]" in head

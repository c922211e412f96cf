"""Two properties of queries at once, by hand."""

import pytest

from scholarbase.errors import InvalidRequest
from scholarbase_research.evaluation.breakdown import parse_pair
from scholarbase_research.evaluation.measured import Measured, crossed
from scholarbase_research.evaluation.run_data import JudgedAnswer, JudgedQuery, RankedId, Run, RunManifest


def a_run(name: str, queries: list[JudgedQuery], found: dict[str, int]) -> Run:
    """A run that finds the first ``found`` answers of each query."""
    facts = {"name": "made", "sha256": "0", "count": len(queries)}
    manifest = RunManifest(name, "search", "s", 9, "1", facts, {"limit": 100}, {}, "scholarbase eval run")
    rankings = {i: tuple(RankedId(f"a{n}", -float(n)) for n in range(count)) for i, count in found.items()}
    return Run(manifest, tuple(queries), rankings)


def query(name: str, answers: int, intent: str | None) -> JudgedQuery:
    return JudgedQuery(name, name, tuple(JudgedAnswer(f"a{n}", "id") for n in range(answers)), intent=intent)


def test_cells_are_counted_by_hand() -> None:
    queries = [
        query("q1", 2, "x"),
        query("q2", 4, "x"),
        query("q3", 10, "x"),
        query("q4", 10, None),
        query("q5", 0, "y"),
    ]
    run = a_run("one", queries, {"q1": 1, "q2": 1, "q3": 1, "q4": 5, "q5": 3})
    table = crossed(Measured.of([run], ["R@All"]), "answers", "intent", "R@All")
    assert list(table.columns) == ["Number of answers", "Run", "Queries", "x", "y", "(none)", "Overall"]
    assert [[cell.shown for cell in row] for row in table.rows] == [
        ["1-4", "one", "2", "0.375", "–", "–", "0.375"],
        ["5-25", "one", "2", "0.100", "–", "0.500", "0.300"],
        ["(none)", "one", "0", "–", "–", "–", "–"],
        ["Overall", "one", "4", "0.283", "–", "0.500", "0.338"],
    ]


def test_pairs_of_dimensions() -> None:
    assert parse_pair("answers,intent") == ("answers", "intent")
    assert parse_pair("year , category") == ("year", "category")
    assert parse_pair("intent") is None
    for text in ("intent,intent", "intent,size", "intent,", "intent,year,answers"):
        with pytest.raises(InvalidRequest, match="two different dimensions"):
            parse_pair(text)

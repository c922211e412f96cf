"""Two properties of queries at once: ScholarQuest's tables 2, 3 and 7."""

import csv

import pytest

from scholarbase.errors import InvalidRequest
from scholarbase_research.evaluation.breakdown import parse_pair
from scholarbase_research.evaluation.measured import Measured, crossed
from scholarbase_research.evaluation.report.contents import by_group
from scholarbase_research.evaluation.report.tables import to_csv
from scholarbase_research.evaluation.run_data import JudgedAnswer, JudgedQuery, RankedId, Run, RunManifest

TABLE_3 = {
    "5-25": (457, 25),
    "26-50": (218, 50),
    "51-100": (225, 100),
    "101-150": (130, 150),
    "151-200": (81, 200),
}
"""The queries of each number of answers, and the number of answers that each is given here."""
TABLE_7 = {
    "PaSa": (0.338, 0.295, 0.229, 0.214, 0.176),
    "SPAR": (0.327, 0.288, 0.215, 0.202, 0.164),
    "PaperScout": (0.387, 0.337, 0.251, 0.209, 0.181),
}
"""R@100 of each agent by number of answers, over all intents."""
TABLE_2 = {"PaSa": 0.281, "SPAR": 0.270, "PaperScout": 0.314}
"""Their R@100 over all queries."""
INTENTS = ("method-oriented", "setting-anchored", "scope-controlled", "comparison-based")


def a_run(name: str, queries: list[JudgedQuery], found: dict[str, int]) -> Run:
    """A run that finds the first ``found`` answers of each query."""
    facts = {"name": "made", "sha256": "0", "count": len(queries)}
    manifest = RunManifest(name, "search", "s", 9, "1", facts, {"limit": 100}, {}, "scholarbase eval run")
    rankings = {i: tuple(RankedId(f"a{n}", -float(n)) for n in range(count)) for i, count in found.items()}
    return Run(manifest, tuple(queries), rankings)


@pytest.fixture(scope="module")
def agents() -> list[Run]:
    """Runs with table 3's numbers of queries and table 7's means: the answers found are spread evenly."""
    queries = []
    found: dict[str, dict[str, int]] = {name: {} for name in TABLE_7}
    for place, (bucket, (count, answers)) in enumerate(TABLE_3.items()):
        judged = tuple(JudgedAnswer(f"a{n}", "id") for n in range(answers))
        for number in range(count):
            query = JudgedQuery(f"{bucket} {number}", "?", judged, intent=INTENTS[number % 4])
            queries.append(query)
            for name, means in TABLE_7.items():
                total = round(means[place] * count * answers)
                found[name][query.id] = total // count + (number < total % count)
    return [a_run(name, queries, found[name]) for name in TABLE_7]


@pytest.mark.slow
def test_table_3_weighs_table_7_to_table_2(agents: list[Run]) -> None:
    measured = Measured.of(agents, ["R@100"])
    table = by_group(measured)[-1]
    rows = list(csv.DictReader(to_csv(table).splitlines()))
    assert {row["Number of answers"]: int(row["Queries"]) for row in rows[::3]} == {
        **{bucket: count for bucket, (count, _) in TABLE_3.items()},
        "Overall": 1111,
    }
    for name, means in TABLE_7.items():
        found = [round(float(row["Overall"]), 3) for row in rows if row["Run"] == name]
        assert found == [*means, TABLE_2[name]]


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

"""Two properties of queries at once, by hand."""

import pytest

from scholarbase.errors import InvalidRequest
from scholarbase_research.evaluation.breakdown import parse_pair
from scholarbase_research.evaluation.measured import Measured, crossed
from tests.extensions.research.evaluation.made import a_query, a_run


def papers(count: int) -> list[str]:
    return [f"a{number}" for number in range(count)]


def test_cells_are_counted_by_hand() -> None:
    queries = [
        a_query(f"q{number}", papers(answers), intent=intent)
        for number, (answers, intent) in enumerate([(2, "x"), (4, "x"), (10, "x"), (10, None), (0, "y")], 1)
    ]
    found = {f"q{number}": papers(count) for number, count in enumerate([1, 1, 1, 5, 3], 1)}
    run = a_run("one", queries, found)
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

"""Groups of queries, counted by hand."""

from dataclasses import replace
from typing import Any

import pytest

from scholarbase.errors import InvalidRequest
from scholarbase_research.evaluation.breakdown import DIMENSIONS, dimensions, group_label, groups
from scholarbase_research.evaluation.run_data import JudgedAnswer, JudgedQuery, PaperNote, Run
from tests.extensions.research.evaluation.made import a_query, a_run


def query(name: str, answers: int = 1, **facts: Any) -> JudgedQuery:
    """A query with answers ``a0``, ``a1``, ..."""
    return a_query(name, [f"a{number}" for number in range(answers)], **facts)


def made(*queries: JudgedQuery) -> Run:
    return a_run("made", queries, {query.id: ["a0"] for query in queries})


def test_the_largest_group_comes_first_and_equal_ones_by_name() -> None:
    run = made(*(query(f"q{i}", intent=intent) for i, intent in enumerate(["b", "a", "c", "c"])), query("q9"))
    assert list(groups(run, "intent")) == ["c", "a", "b", "(none)"]


def test_the_classes_of_answer_set_size() -> None:
    ends = {"1-4": (1, 4), "5-25": (5, 25), "26-50": (26, 50), "51-100": (51, 100), "101-150": (101, 150)}
    for label, counts in (ends | {"151-200": (151, 200), "201+": (201, 999), "(none)": (0,)}).items():
        for count in counts:
            assert group_label(query("q", count), "answers", {}) == label


def test_answers_judged_wrong_do_not_make_a_set_larger() -> None:
    right = JudgedAnswer("a", "id")
    wrong = tuple(JudgedAnswer(f"w{number}", "id", 0) for number in range(30))
    assert group_label(JudgedQuery("q", "q", (right, *wrong)), "answers", {}) == "1-4"


def test_years_are_those_of_the_dates_in_order() -> None:
    run = made(
        query("q1", date="2024-01-31"), query("q2", date="2019"), query("q3"), query("q4", date="2024-05")
    )
    counts = {label: len(queries) for label, queries in groups(run, "year").items()}
    assert list(counts.items()) == [("2019", 1), ("2024", 2), ("(none)", 1)]


def test_dimensions_of_one_group_are_not_listed() -> None:
    alike = made(query("q1", 1), query("q2", 2))
    assert dimensions(alike) == []
    assert dimensions(made(query("q1", 1, date="2020"), query("q2", 7, date="2020"))) == ["answers"]
    assert dimensions(made(query("q1", intent="a"), query("q2"))) == ["intent"]
    categories = made(replace(query("q1"), category="cs.CL"), replace(query("q2"), category="cs.IR"))
    assert dimensions(categories) == ["category"]


def test_a_query_belongs_to_the_category_that_most_of_its_answers_have() -> None:
    run = made(query("q1", 3), query("q2", 2), query("q3", 4), query("q4", 0), a_query("q5", ["gone0"]))
    # a0 has no category, a1 cs.CV, a2 and a3 cs.CL: q1 has one of both, so the alphabet decides.
    categories = {"a1": "cs.CV", "a2": "cs.CL", "a3": "cs.CL", "other": "math.CO"}
    notes = {name: PaperNote(None, None, category) for name, category in categories.items()}
    run = replace(run, papers=notes | {"a0": PaperNote(None, None)})
    members = {label: [q.id for q in queries] for label, queries in groups(run, "answer-category").items()}
    assert list(members.items()) == [("cs.CL", ["q1", "q3"]), ("cs.CV", ["q2"]), ("(none)", ["q4", "q5"])]
    assert dimensions(run) == ["answers", "answer-category"]


def test_an_unknown_dimension_is_an_error() -> None:
    run = made(query("q1"))
    with pytest.raises(
        InvalidRequest, match=f"Unknown dimension 'venue': it is one of {', '.join(DIMENSIONS)}"
    ):
        groups(run, "venue")

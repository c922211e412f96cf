"""AirQA's 19 functions: its published listings, tables 1 and 8, FuzzyWuzzy's successor, and properties."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scholarbase_research.evaluation.qa.functions import Outcome, read_evaluator
from scholarbase_research.evaluation.qa.judging import Judge, read_verdict
from scholarbase_research.evaluation.qa.matching import FUZZ_METHODS
from scholarbase_research.llm.base import Message, ModelRequest
from tests import tables
from tests.extensions.research.llm.model_server import FunctionModel

LISTING_3 = """{
  "eval_func": "eval_disjunction",
  "eval_kwargs": {
    "eval_func_list": ["eval_string_exact_match", "eval_reference_answer_with_llm"],
    "eval_kwargs_list": [
      {"gold": "role-oriented routing", "lowercase": true},
      {
        "reference_answer": "It routes messages, requests, or tasks based on the roles or responsibilities of the recipients, rather than simply by their identity or static attributes.",
        "question": "What's the most important idea of role-oriented routing?"
      }
    ]
  }
}"""  # noqa: E501


class Scripted(Judge):
    """A judge with one reply after the other, which keeps what it was asked."""

    def __init__(self, *replies: str) -> None:
        self.replies = list(replies)
        self.asked: list[tuple[Message, ...]] = []
        super().__init__(FunctionModel("scripted", self._reply))

    def _reply(self, request: ModelRequest) -> str:
        self.asked.append(request.messages)
        return self.replies.pop(0)


RIGHT, WRONG = "Both say so.\n```txt\nTrue\n```", "They differ.\n```txt\nFalse\n```"


def run(name: str, answer: Any, judge: Judge | None = None, **arguments: Any) -> Outcome:
    return read_evaluator(name, arguments).score(answer, judge)


def passes(name: str, answer: Any, **arguments: Any) -> bool:
    outcome = run(name, answer, **arguments)
    assert outcome.error is None
    assert outcome.passed is not None
    return outcome.passed


def listing(text: str, answer: Any, judge: Judge | None = None) -> Outcome:
    evaluator = json.loads(text)
    return read_evaluator(evaluator["eval_func"], evaluator["eval_kwargs"]).score(answer, judge)


# -- the published listings -----------------------------------------------------------------------------


def test_listing_3_passes_by_either_function() -> None:
    judge = Scripted(WRONG)
    assert listing(LISTING_3, "Role-Oriented Routing", judge) == Outcome(True)
    assert not judge.asked  # the exact match decides
    assert listing(LISTING_3, "Requests go to whoever has the role for them", Scripted(RIGHT)) == Outcome(
        True
    )
    assert listing(LISTING_3, "It broadcasts", Scripted(WRONG)) == Outcome(False)


# -- match ----------------------------------------------------------------------------------------------


def test_single_values() -> None:
    for name, answer, arguments, expected in tables.rows("qa-values"):
        assert passes(name, answer, **arguments) is expected


def test_structured_objects() -> None:
    for answer, gold, options, expected in tables.rows("qa-objects"):
        assert passes("eval_structured_object_exact_match", answer, gold=gold, **options) is expected


def test_the_order_of_lists_is_ignored_where_sorting_as_text_would_pair_the_wrong_items() -> None:
    # Sorted as texts these are [A, b] and [B, a].
    arguments = {"gold": ["a", "B"], "ignore_order": True, "lowercase": True}
    assert passes("eval_structured_object_exact_match", ["b", "A"], **arguments)
    # Greedily, 1.0 would take the gold 1.04 that only 1.08 can have.
    arguments = {"gold": [1.04, 0.99], "ignore_order": True, "tolerance": 0.04}
    assert passes("eval_structured_object_exact_match", [1.01, 1.08], **arguments)


JSON_VALUES = st.recursive(
    st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.text("abc ", max_size=4),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=4)
    ),
    max_leaves=8,
)


@settings(deadline=None, max_examples=25)
@given(JSON_VALUES)
def test_every_value_equals_itself_also_as_text(gold: Any) -> None:
    assert passes("eval_structured_object_exact_match", gold, gold=gold)
    if isinstance(gold, list | dict):
        assert passes("eval_structured_object_exact_match", repr(gold), gold=gold)
        assert passes("eval_structured_object_exact_match", json.dumps(gold), gold=gold)


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(st.text(max_size=20), st.text(max_size=20), st.sampled_from(list(FUZZ_METHODS)))
def test_ratios_are_those_of_thefuzz(a: str, b: str, method: str) -> None:
    fuzz = pytest.importorskip("thefuzz.fuzz")
    expected = getattr(fuzz, method)(a.strip(), b.strip())
    arguments = {"gold": b, "fuzz_method": method}
    assert passes("eval_string_fuzzy_match", a, threshold=expected, **arguments)
    if expected < 100:
        assert not passes("eval_string_fuzzy_match", a, threshold=expected + 1, **arguments)


# -- sets and retrieval ---------------------------------------------------------------------------------


def test_sets_and_titles() -> None:
    for name, answer, arguments, expected in tables.rows("qa-sets"):
        assert passes(name, answer, **arguments) is expected


# -- judges ---------------------------------------------------------------------------------------------

JUDGED = {
    "eval_reference_answer_with_llm": {"reference_answer": "R1"},
    "eval_candidate_reference_answer_with_llm": {"candidate_reference_answers": ["R1", "R2"]},
    "eval_scoring_points_with_llm": {"scoring_points": ["R1", "R2"]},
    "eval_partial_scoring_points_with_llm": {"scoring_points": ["R1", "R2"], "count": 1},
    "eval_reference_answer_and_scoring_points_with_llm": {"reference_answer": "R1", "scoring_points": ["R2"]},
    "eval_complex_math_formula_with_llm": {"formulas": ["R1", "R2"]},
    "eval_m3sciqa": {"reference_answer": "R1"},
}


@pytest.mark.parametrize("name", JUDGED)
def test_a_judge_sees_question_references_and_answer(name: str) -> None:
    judge = Scripted(RIGHT)
    arguments = {**JUDGED[name], "question": "Why?"}
    assert run(name, "because", judge, **arguments) == Outcome(True)
    content = judge.asked[0][0].content
    assert "Why?" in content
    assert "because" in content
    assert all(reference in content for reference in ("R1", "R2") if reference in json.dumps(arguments))
    assert run(name, "because", Scripted(WRONG), **arguments) == Outcome(False)


def test_prose_instead_of_a_verdict_is_asked_for_once_more() -> None:
    judge = Scripted("I think it is fine.", RIGHT)
    arguments = {"reference_answer": "a", "question": "?"}
    assert run(BY_JUDGE, "x", judge, **arguments) == Outcome(True)
    assert [message.role for message in judge.asked[1]] == ["user", "assistant", "user"]
    outcome = run(BY_JUDGE, "x", Scripted("Fine.", "```txt\nCorrect\n```"), **arguments)
    assert outcome.passed is None
    assert "without a verdict" in str(outcome.error)


def test_verdicts() -> None:
    for reply, expected in (
        ("```txt\nTrue\n```", True),
        ("```\nfalse\n```", False),
        ("```True```", True),
        ("```txt\nFalse\n```\nOn reflection:\n```txt\nTrue\n```", True),
        ("True", True),
        ("False.", False),
        ("The answer is True", None),
        ("```txt\nTrue, mostly\n```", None),
        ("```txt\nTrue", None),
        ("", None),
    ):
        assert read_verdict(reply) is expected


# -- logic ----------------------------------------------------------------------------------------------

EXACT = "eval_string_exact_match"
BY_JUDGE = "eval_reference_answer_with_llm"


def pair(*, first: str = EXACT, second: str = EXACT) -> dict[str, Any]:
    golds = [
        {"gold": gold} if name == EXACT else {"reference_answer": gold, "question": "?"}
        for name, gold in ((first, "a"), (second, "b"))
    ]
    return {"eval_func_list": [first, second], "eval_kwargs_list": golds}


@pytest.mark.parametrize("a", ["a", "x"])
@pytest.mark.parametrize("b", ["b", "x"])
def test_logic_has_pythons_truth_table(a: str, b: str) -> None:
    assert passes("eval_conjunction", [a, b], **pair()) is (a == "a" and b == "b")
    assert passes("eval_disjunction", repr([a, b]), **pair()) is (a == "a" or b == "b")
    assert passes("eval_negation", a, eval_func=EXACT, eval_kwargs={"gold": "a"}) is (a != "a")


def test_what_decides_needs_no_judge() -> None:
    arguments = pair(first=BY_JUDGE)
    assert run("eval_conjunction", ["?", "x"], **arguments) == Outcome(False)
    assert run("eval_disjunction", ["?", "b"], **arguments) == Outcome(True)
    for name, answer in (("eval_conjunction", ["?", "b"]), ("eval_disjunction", ["?", "x"])):
        outcome = run(name, answer, **arguments)
        assert outcome.passed is None
        assert f"{BY_JUDGE}: This function needs a judge" in str(outcome.error)
    negation = {"eval_func": BY_JUDGE, "eval_kwargs": {"reference_answer": "a", "question": "?"}}
    assert run("eval_negation", "a", **negation).passed is None
    assert run("eval_negation", "a", Scripted(WRONG), **negation) == Outcome(True)


# -- SciDQA in NeuSym-RAG's form ------------------------------------------------------------------------


def test_an_answer_to_scidqa_gets_the_grade_of_the_judge() -> None:
    """NeuSym-RAG reports the mean of the grades from 1 to 10 as a percentage: 8.25 is 82.5."""
    judge = Scripted("Relevance 9, accuracy 8, completeness 7, conciseness 9.\n```txt\n8.25\n```")
    arguments = {"question": "Why?", "reference_answer": "A: because", "model": "gpt-4o-mini"}
    assert run("eval_scidqa", "since", judge, **arguments) == Outcome(True, grade=0.825)
    assert "conciseness" in judge.asked[0][0].content
    assert run("eval_scidqa", "?", Scripted("```\n2\n```"), **arguments) == Outcome(False, grade=0.2)
    assert run("eval_scidqa", "?", Scripted("```\n11\n```", "good"), **arguments).passed is None


# -- values of other types, as in AirQA's file ----------------------------------------------------------


def test_what_airqas_functions_accept_is_converted_or_ignored_with_a_note() -> None:
    for name, arguments, right, wrong, note in tables.rows("qa-accepted"):  # fmt: skip
        evaluator = read_evaluator(name, arguments)
        assert evaluator.score(right) == Outcome(True)
        assert evaluator.score(wrong) == Outcome(False)
        [sentence] = evaluator.notes
        assert note in sentence


@pytest.mark.parametrize(
    ("name", "arguments", "problem"),
    tables.rows("qa-refused"),
)
def test_what_airqas_functions_raise_an_error_for_is_wrong_whatever_the_answer(
    name: str, arguments: Any, problem: str
) -> None:
    evaluator = read_evaluator(name, arguments)
    assert problem in str(evaluator.problem)
    assert evaluator.score("a", Scripted()) == Outcome(False)


def test_a_disjunction_passes_by_the_part_that_can_be_applied() -> None:
    arguments = {"eval_func_list": [EXACT, "eval_magic"], "eval_kwargs_list": [{"gold": "a"}, {}]}
    evaluator = read_evaluator("eval_disjunction", arguments)
    assert evaluator.problem is None
    assert "eval_magic" in evaluator.notes[0]
    assert [evaluator.score(answer).passed for answer in ("a", "b")] == [True, False]
    assert "eval_magic" in str(read_evaluator("eval_conjunction", arguments).problem)


# -- any answer -----------------------------------------------------------------------------------------


def test_the_question_of_the_example_serves_its_functions() -> None:
    judge = Scripted(RIGHT)
    arguments = {"eval_func": BY_JUDGE, "eval_kwargs": {"reference_answer": "a"}}
    assert read_evaluator("eval_negation", arguments, question="Who?").score("a", judge) == Outcome(False)
    assert "Who?" in judge.asked[0][0].content

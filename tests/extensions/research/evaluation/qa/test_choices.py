"""Boxed answers: the forms of ElaipBench's prompts and of LaTeX."""

from typing import Any

import pytest

from scholarbase_research.evaluation.qa.choices import chosen, is_right


def test_options() -> None:
    for answer, expected in (
        ("The correct answer is boxed {A}", "A"),
        ("The correct answer is boxed {ACD}", "ACD"),
        (r"So \boxed{BD}.", "BD"),
        (r"$\boxed{\text{A, C}}$", "AC"),
        (r"\boxed{\mathrm{B}}", "B"),
        ("boxed{(A) and (C)}", "AC"),
        ("boxed {a}", "A"),
        ("boxed {A}. Wait, the correct answer is boxed {B}", "B"),
        ("boxed {B. OPT-2.7B}", "B"),
        ("Boxed {D}", "D"),
        ("AC", "AC"),
        (" b ", "B"),
        ("(C)", "C"),
        ("A, B, D", "ABD"),
        (["A", "D"], "AD"),
    ):
        assert chosen(answer) == frozenset(expected)


@pytest.mark.parametrize(
    "answer",
    [
        "The correct answer is boxed {insert answer here}",
        "boxed {AA}",
        "boxed {both}",
        None,
        "\\boxed{" * 1000,
    ],
)
def test_what_cannot_be_read_is_not_guessed(answer: Any) -> None:
    assert chosen(answer) is None
    assert is_right(answer, frozenset("A")) is None


def test_strict_accuracy_wants_every_option_and_no_other() -> None:
    gold = frozenset("AC")
    assert is_right("boxed {AC}", gold)
    assert is_right("boxed {CA}", gold)
    assert is_right("boxed {A}", gold) is False
    assert is_right("boxed {ABC}", gold) is False
    assert is_right("boxed {B}", gold) is False

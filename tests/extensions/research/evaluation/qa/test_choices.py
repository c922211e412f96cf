"""Boxed answers: the forms of ElaipBench's prompts and of LaTeX."""

from typing import Any

import pytest

from scholarbase_research.evaluation.qa.choices import chosen, is_right
from tests import tables


def test_options() -> None:
    for answer, expected in tables.rows("qa-boxed"):
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

"""Boxed answers: the forms of ElaipBench's prompts and of LaTeX."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scholarbase_research.evaluation.qa.choices import chosen, is_right


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
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
    ],
)
def test_options(answer: Any, expected: str) -> None:
    assert chosen(answer) == frozenset(expected)


@pytest.mark.parametrize(
    "answer",
    [
        "The correct answer is boxed {insert answer here}",
        "The correct answer is A",
        "boxed {A",
        "boxed {}",
        "boxed {AA}",
        "A boxed {",
        "boxed {A or maybe B}",
        "boxed {None}",
        "boxed {both}",
        "Neither of these is right",
        "",
        None,
        7,
        [],
        ["A", 2],
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


@settings(deadline=None, max_examples=60)
@given(
    st.sets(st.sampled_from("ABCDEF"), min_size=1),
    st.randoms(),
    st.sampled_from(["", ", ", " and ", "/", " "]),
)
def test_options_in_any_order_and_form(options: set[str], random: Any, between: str) -> None:
    order = sorted(options)
    random.shuffle(order)
    text = between.join(order)
    for form in ("The correct answer is boxed {%s}", r"Therefore \boxed{%s}", r"\boxed{\text{%s}}", "%s"):
        expected = frozenset(options)
        assert chosen(form % text) == expected


@settings(deadline=None, max_examples=60)
@given(st.text(max_size=60))
def test_no_text_raises(text: str) -> None:
    chosen(text)
    chosen(f"boxed {{{text}}}")

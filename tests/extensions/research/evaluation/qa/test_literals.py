"""Literals: Python's own parser and json are the oracles."""

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scholarbase_research.evaluation.qa.literals import (
    NotALiteral,
    number,
    parse_literal,
)
from tests import tables

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


@settings(deadline=None, max_examples=60)
@given(VALUES)
def test_what_python_and_json_write_is_read_back(value: Any) -> None:
    finite = "inf" not in repr(value)
    if finite:
        assert parse_literal(repr(value)) == value
    assert parse_literal(json.dumps(value)) == value


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "'a' * 1000000000",
        "{**{'a': 1}}",
        "-" * 50_000 + "1",
        "\x00",
    ],
)
def test_anything_but_a_literal_is_refused(text: str) -> None:
    with pytest.raises(NotALiteral):
        parse_literal(text)


def test_numbers() -> None:
    for value, expected in (*tables.rows("qa-numbers"), (math.inf, None)):
        assert number(value) == expected
        assert type(number(value)) is type(expected)

"""Whether surnames are the same."""

import pytest

from scholarbase.indexes.agreement import is_among


@pytest.mark.parametrize(
    ("name", "known", "expected"),
    [
        ("berg", ["vanderberg"], True),  # particles
        ("vanderberg", ["berg"], True),
        ("lee", ["whitelee"], False),  # three letters end many names
        ("hernandez", ["hernandes"], True),  # a typing error
        ("chen", ["cheng"], False),  # too short for one
        ("", ["lee"], False),
    ],
)
def test_a_surname_among_others(name: str, known: list[str], expected: bool) -> None:
    assert is_among(name, known) is expected

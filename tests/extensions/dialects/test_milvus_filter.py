"""Filter expressions of Milvus: https://milvus.io/docs/boolean.md"""

import pytest

from scholarbase.errors import InvalidRequest
from scholarbase_dialects.listing.conditions import Either, Every, OneOf, Value, Without
from scholarbase_dialects.milvus_filter import read_filter
from tests import tables

UNTIL = Value("id", "<=", "2404")
FROM = Value("id", ">=", "2301")


def test_expressions() -> None:
    for expression, condition in (
        ("", Every(())),
        ('id <= "2404"', UNTIL),
        ("id<='2404'", UNTIL),
        ('arxiv_id <= "2404"', UNTIL),
        ('"2404" >= id', UNTIL),
        ('"2301" <= id <= "2404"', Every((FROM, UNTIL))),
        ('id >= "2301" and id <= "2404"', Every((FROM, UNTIL))),
        ('id >= "2301" && id <= "2404"', Every((FROM, UNTIL))),
        ('id >= "2301" OR id <= "2404"', Either((FROM, UNTIL))),
        (
            'id == "a" || id == "b" and id == "c"',
            Either(
                (
                    Value("id", "=", "a"),
                    Every((Value("id", "=", "b"), Value("id", "=", "c"))),
                )
            ),
        ),
        ('(id <= "2404")', UNTIL),
        ('not id <= "2404"', Without(UNTIL)),
        ('!(id <= "2404")', Without(UNTIL)),
        ('id != "a"', Without(Value("id", "=", "a"))),
        ("id in [\"a\", 'b']", OneOf("id", ("a", "b"))),
        ("id in []", OneOf("id", ())),
        ('id not in ["a",]', Without(OneOf("id", ("a",)))),
        ('id like "2404%"', Value("id", "starts", "2404")),
        ('title LIKE "%networks"', Value("title", "ends", "networks")),
        ('categories like "%cs.CL%"', Value("categories", "has", "cs.CL")),
        ('id like "%"', Value("id", "has", "")),
        ('id like "a"', Value("id", "=", "a")),
        ('id like "2404_0%"', Value("id", "glob", "2404?0*")),
        ('id like "%24%04"', Value("id", "glob", "*24*04")),
        ('id like "_[*?"', Value("id", "glob", "?[[][*][?]")),
        ('id like "24\\%04%"', Value("id", "starts", "24%04")),
        ('title like "a\\_b"', Value("title", "=", "a_b")),
        ('title == "say \\"no\\" \\\\ yes"', Value("title", "=", 'say "no" \\ yes')),
    ):
        assert read_filter(expression) == condition


LONG = [
    "(" * 300 + 'id == "a"' + ")" * 300,
    "not " * 21 + 'id == "a"',
    "!" * 5000 + 'id == "a"',
    "(" * 9000,
    " or ".join(['id == "a"'] * 101),
    'id == "' + "a" * 10_000 + '"',
]


@pytest.mark.parametrize("expression", [*tables.rows("milvus-invalid"), *LONG])
def test_invalid_expressions(expression: str) -> None:
    with pytest.raises(InvalidRequest, match="filter"):
        read_filter(expression)


@pytest.mark.parametrize("operator", ["or", "and"])
def test_repeated_comparisons_are_one(operator: str) -> None:
    comparison = 'abstract like "%gauge%"'
    assert read_filter(f" {operator} ".join([comparison] * 99)) == read_filter(comparison)


@pytest.mark.parametrize(
    ("field", "most"), [("id", 100), ("update_date", 25), ("abstract", 4), ("authors", 4)]
)
def test_many_conditions_are_an_error_before_the_time_limit(field: str, most: int) -> None:
    each = [f'{field} like "%{number}%"' for number in range(most + 1)]
    read_filter(" or ".join(each[:most]))
    with pytest.raises(InvalidRequest, match="more than 100 comparisons"):
        read_filter(" or ".join(each))

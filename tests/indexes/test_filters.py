"""A filter that a request accepts is a condition everywhere: none can be left out in one place and ignored."""

from dataclasses import Field, fields
from typing import Final

import pytest

from scholarbase.indexes.filters import NO_FILTERS, ResolvedFilters, filter_sql
from scholarbase.indexes.vectors.base import INTEGER_FIELDS, Payload, qdrant_filter
from scholarbase.models.arguments import FilterArguments
from scholarbase.models.requests import Filters

_VALUES: Final = {
    "int | None": 7,
    "tuple[str, ...]": ("x",),
    "frozenset[int] | None": frozenset({7}),
    "frozenset[int]": frozenset({7}),
}


@pytest.mark.parametrize("field", fields(ResolvedFilters), ids=lambda field: field.name)
def test_each_filter_is_a_condition_of_sql_and_of_vectors(field: Field) -> None:
    filters = ResolvedFilters(**{field.name: _VALUES[field.type]})
    assert filters != NO_FILTERS
    assert filter_sql(filters, "p")[0] != "1"
    assert qdrant_filter(filters) is not None


def test_each_filter_is_an_argument_of_the_methods() -> None:
    assert set(FilterArguments.__annotations__) - {"as_of", "timeout"} == set(Filters.model_fields) - {
        "as_of"
    }


def test_numbers_and_only_these_have_an_index_of_integers() -> None:
    assert set(INTEGER_FIELDS) == {field.name for field in fields(Payload) if field.type == "int | None"}

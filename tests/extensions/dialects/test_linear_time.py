"""Parsers of queries take linear time, as those of tests/test_linear_time.py."""

from collections.abc import Callable
from typing import Any

import pytest

from scholarbase_dialects import milvus_filter
from scholarbase_dialects.arxiv_query import read_query
from tests import test_linear_time as core

PARSERS: dict[str, Callable[[str], Any]] = {
    "read_query": read_query,
    "read_filter": milvus_filter.read_filter,
}


@pytest.mark.slow
@pytest.mark.parametrize("parser", PARSERS.values(), ids=PARSERS)
def test_a_text_eight_times_as_long_takes_linear_time(parser: Callable[[str], Any]) -> None:
    core.test_a_text_eight_times_as_long_takes_linear_time(parser)

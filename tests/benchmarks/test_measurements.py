"""docs/measurements.md has what the result files have, and other pages have no measured figures of their own."""

from __future__ import annotations

from benchmarks.measurements import PAGE, RESULTS, page, read_all


def test_the_page_is_what_the_result_files_say() -> None:
    assert PAGE.read_text("utf-8") == page(read_all(RESULTS)), "run `python benchmarks/measurements.py`"

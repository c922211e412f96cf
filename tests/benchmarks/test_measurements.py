"""docs/measurements.md has what the result files have, and other pages have no measured figures of their own."""

from __future__ import annotations

import re
from typing import Final

import pytest

from benchmarks.measurements import PAGE, RESULTS, page, read_all
from tests.conftest import ROOT

pytestmark = pytest.mark.whole

MEASURED: Final = re.compile(
    r"\bon (?:two|2) cores\b"
    r"|\b\d[\d,]* papers (?:a|per) second\b"
    r"|(?:R@\d+|nDCG@\d+)[^.|\n]{0,40}\b0\.\d{2,}"
    r"|\b\d[\d,.]* (?:ms|milliseconds)\b"
    r"|\b[Tt]akes? \d[\d.,]* (?:MB|GB)\b"
)
"""Figures that a program has measured."""
PROMISED: Final = ("take at most 250 ms",)
"""Promises of docs/reliability.md, which are limits."""


def test_the_page_is_what_the_result_files_say() -> None:
    assert PAGE.read_text("utf-8") == page(read_all(RESULTS)), "run `python benchmarks/measurements.py`"


def test_other_pages_have_no_measured_figures() -> None:
    for path in sorted(ROOT.glob("docs/*.md")):
        prose = re.sub(r"^ *```.*?^ *```", "", path.read_text("utf-8"), flags=re.S | re.M)
        for promise in PROMISED:
            prose = prose.replace(promise, "")
        figures = [] if path == PAGE else MEASURED.findall(prose)
        assert not figures, f"docs/{path.name}: put {figures} into a result file, and link to measurements.md"


def test_the_figures_of_the_readme_are_measured() -> None:
    """The table of costs, and shares in its text. The page has the best of a column in bold."""
    text, written = (path.read_text("utf-8").replace("**", "") for path in (ROOT / "README.md", PAGE))
    rows = re.findall(r"^\| (\w.*) \|$", text.partition("## What it costs")[2].partition("\n## ")[0], re.M)
    assert len(rows) >= 5
    assert all(f"| {row} |" in written for row in rows)
    shares = re.findall(r"\b0\.\d{3,}\b", re.sub(r"```.*?```", "", text, flags=re.S))
    assert shares
    assert all(f"| {share} |" in written for share in shares), shares

"""One search passes few modules, each once, and few types."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.conftest import ROOT


@pytest.mark.slow
def test_a_search_enters_nine_modules_once_and_seven_classes_pass() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "trace_search.py"], capture_output=True, text=True, check=True
    )
    modules, again, classes = (
        int(number) for number in re.findall(r"^(\d+) (?:modules|classes)", done.stdout, re.MULTILINE)
    )
    assert modules <= 9, done.stdout
    assert again == 0, done.stdout
    assert classes <= 7, done.stdout

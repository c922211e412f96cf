"""One search passes few modules and few types."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.conftest import ROOT


@pytest.mark.slow
def test_a_search_enters_thirteen_modules_and_nine_classes_pass() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "trace_search.py"], capture_output=True, text=True, check=True
    )
    modules, again, classes = (
        int(number) for number in re.findall(r"^(\d+) (?:modules|classes)", done.stdout, re.MULTILINE)
    )
    assert modules <= 12, done.stdout
    # Admission runs a function of api.responding, which calls the library; ranking checks the deadline; the catalogue
    # is read for document frequencies and for papers.
    assert again <= 5, done.stdout
    assert classes <= 9, done.stdout

"""One search passes few modules and few types."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

TARGET = "/v1/search?q=How+is+two-dimensional+QCD+related+to+string+theory&mode=hybrid"


@pytest.mark.slow
def test_a_hybrid_search_enters_few_modules_and_few_classes_pass(default_library: Path) -> None:
    script = ROOT / "examples" / "trace_search.py"
    done = subprocess.run(
        [sys.executable, script, "--library", default_library, "--target", TARGET],
        capture_output=True,
        text=True,
        check=True,
    )
    modules, again, classes = (
        int(number) for number in re.findall(r"^(\d+) (?:modules|classes)", done.stdout, re.MULTILINE)
    )
    assert modules <= 20, done.stdout
    # The catalogue and its pool are read for titles, for the words of the query, for the edges of the first papers and
    # for the results. The response passes the middleware again, threads and the event loop call admission, and a thread
    # the function that encodes the response.
    assert again <= 5, done.stdout
    assert classes <= 10, done.stdout

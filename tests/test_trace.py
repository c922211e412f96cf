"""One search passes few modules and few types."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.conftest import ROOT


@pytest.mark.slow
def test_a_search_enters_eighteen_modules_and_thirteen_classes_pass() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "trace_search.py"], capture_output=True, text=True, check=True
    )
    modules, again, classes = (
        int(number) for number in re.findall(r"^(\d+) (?:modules|classes)", done.stdout, re.MULTILINE)
    )
    assert modules <= 18, done.stdout
    # Admission runs a function of api.responding, which calls that of the route; ranking checks the deadline. The
    # catalogue is read for a paper with this title, for document frequencies and for the results. The response
    # passes the middleware again, and the event loop calls admission. The library that the request holds is taken at
    # its start, used for the entity tag and the call, and released at its end.
    assert again <= 10, done.stdout
    assert classes <= 13, done.stdout

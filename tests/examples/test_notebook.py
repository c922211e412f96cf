"""The notebook's output is what its cells write."""

import re

import pytest
from nbformat import NotebookNode

from tests.examples import notebook

HOW = "If the change is meant, run `python -m tests.examples.notebook` and commit the difference."


def texts(executed: NotebookNode) -> list[str]:
    """What each code cell writes, and the types of what it shows."""
    return [
        "".join(output.get("text") or f"{sorted(output.data)}" for output in cell.outputs)
        for cell in executed.cells
        if cell.cell_type == "code"
    ]


def test_the_two_tables_agree() -> None:
    """Recall by the command, and as the notebook computes it from the files of the runs."""
    written = "".join(texts(notebook.read()))
    own = dict(re.findall(r"^(sparse|dense|hybrid)((?: +0\.\d{3}){5})$", written, re.M))
    for at, column in (("25", 2), ("100", 4)):
        [block] = re.findall(rf"^R@{at} ((?:.*sample-.*\n){{3}})", written, re.M)
        reported = dict(re.findall(r"sample-(\w+) +40 +([01]\.\d{3})", block))
        assert {mode: row.split()[column] for mode, row in own.items()} == reported
    assert own.keys() == {"sparse", "dense", "hybrid"}


@pytest.mark.slow  # starts a kernel, which ingests the sample and searches: 10 s of CPU time
def test_the_output_is_that_of_the_cells() -> None:
    assert texts(notebook.execute()) == texts(notebook.read()), HOW

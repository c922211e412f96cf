"""Executes examples/recall.ipynb. ``python -m tests.examples.notebook`` writes it with its new output."""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

NOTEBOOK = Path(__file__).parent.parent.parent / "examples" / "recall.ipynb"


def read() -> NotebookNode:
    """The notebook as it is checked in."""
    return nbformat.read(NOTEBOOK, as_version=4)


def execute() -> NotebookNode:
    """The notebook with the output of an execution in its folder. Raises ``CellExecutionError`` where a cell fails."""
    notebook = read()
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))  # the command scholarbase
    # Without times, which differ from run to run.
    client = NotebookClient(
        notebook,
        timeout=300,
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(NOTEBOOK.parent)}},
    )
    with TemporaryDirectory() as folder, patch.dict(os.environ, {"PATH": path, "TMPDIR": folder}):
        client.execute()
    notebook.metadata = read().metadata
    return notebook


if __name__ == "__main__":
    nbformat.write(execute(), NOTEBOOK)

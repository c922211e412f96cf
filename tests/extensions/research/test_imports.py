"""Imports of the extension: public names of the core, no other extension, and what is optional where it is used."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.test_imports import HEAVY, imports

PACKAGE = ROOT / "extensions" / "scholarbase_research"
FILES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_public_names_and_no_other_extension(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module != "__future__":
            names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            assert not [name for name in names if name.startswith("_")], node.module
    ours = {module.split(".")[0] for module in imports(path) if module.startswith("scholarbase")}
    assert ours <= {"scholarbase", PACKAGE.name}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_what_is_optional_is_imported_where_it_is_used(path: Path) -> None:
    assert not {module.split(".")[0] for module in imports(path, at_start=True)} & set(HEAVY)


def test_sweeps_start_without_the_extra_of_evaluation() -> None:
    script = f"""
import sys
from scholarbase_research.evaluation import sweeps
print(*sorted(set(sys.modules) & set({HEAVY!r})))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True
    )
    assert set(done.stdout.split()) <= {"zstandard"}  # httpx takes it where it is installed


def test_a_core_process_imports_no_module_of_it() -> None:
    script = """
import sys
from pathlib import Path
import click
from scholarbase.cli import main
from scholarbase.evaluation import report, searching
from scholarbase.evaluation.formats import read_queries
read_queries(Path("sample/queries.jsonl"))
context = click.Context(main)
evaluation = main.get_command(context, "eval")
evaluation.get_command(click.Context(evaluation, context, info_name="eval"), "run")
print(*sorted(name for name in sys.modules if name.startswith("scholarbase_research")))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True, cwd=ROOT
    )
    assert done.stdout.split() == []

"""Imports: each part from the lines above it in the picture of docs/how-it-works.md, and light ones at start."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "scholarbase"
PICTURE = Path(__file__).parent.parent / "docs" / "how-it-works.md"
LINES = tuple(re.findall(r"^\d  ([a-z ]+)$", PICTURE.read_text(), re.MULTILINE))
"""The lines of the picture. A part imports only from the lines above its own; in the first two lines also from the
parts to its left."""
LEFT_TOO = 2


def allowed() -> dict[str, set[str]]:
    """Part of the package to the parts that it may import, itself apart."""
    above: set[str] = set()
    may: dict[str, set[str]] = {}
    for number, line in enumerate(LINES):
        left: set[str] = set()
        for part in line.split():
            may[part] = above | (left if number < LEFT_TOO else set())
            left.add(part)
        above |= left
    return may


MAY = allowed()
HEAVY = (
    "torch", "transformers", "sentence_transformers", "FlagEmbedding", "pyarrow", "zstandard", "qdrant_client",
    "ir_measures", "pytrec_eval", "scipy", "matplotlib", "jinja2", "ray", "obstore",
)  # fmt: skip


def part(module: str) -> str:
    """``scholarbase.indexes.vectors.edge`` is of the part ``indexes``."""
    return module.split(".")[1] if "." in module else ""


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imports(path: Path, *, at_start: bool = False) -> Iterator[str]:
    """Modules that a file imports; ``at_start``: without those in functions and under ``TYPE_CHECKING``."""
    tree = parsed(path)
    for node in run_at_start(tree) if at_start else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            module = node.module or ""
            yield from (
                f"{module}.{alias.name}" if module == "scholarbase" else module for alias in node.names
            )


def run_at_start(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a module outside functions and ``if TYPE_CHECKING``."""
    yield node
    for child in ast.iter_child_nodes(node):
        typing = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
        if not typing and not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.expr):
            yield from run_at_start(child)


def test_the_picture_has_every_part_once() -> None:
    parts = {
        path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert sorted(" ".join(LINES).split()) == sorted(parts - {"__init__"})


def test_a_part_imports_only_what_it_may() -> None:
    """And no extension."""
    for path in sorted(PACKAGE.rglob("*.py")):
        own = path.relative_to(PACKAGE).with_suffix("").parts[0]
        if own != "__init__":
            assert own in MAY, f"{own} is not in the picture of docs/how-it-works.md: give it a place there"
            modules = [module for module in imports(path) if module.startswith("scholarbase")]
            assert not [module for module in modules if module.startswith("scholarbase_")], path
            outside = {part(module) for module in modules} - {"", own, "__version__"} - MAY[own]
            assert not outside, f"{path} imports {sorted(outside)}"


@pytest.mark.slow
def test_what_is_optional_is_imported_where_it_is_used() -> None:
    for path in sorted(PACKAGE.rglob("*.py")):
        heavy = {module.split(".")[0] for module in imports(path, at_start=True)} & set(HEAVY)
        assert not heavy, path


@pytest.mark.slow
def test_a_library_without_dense_vectors_needs_nothing_heavy(sample_library: Path) -> None:
    script = f"""
import sys
import scholarbase.cli
from scholarbase.api.app import create_app
from scholarbase.search.library import Library
with Library.open({str(sample_library)!r}) as library:
    create_app(library)
    assert library.search("string theory").results
print(*sorted(set(sys.modules) & set({HEAVY!r})))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.split() == []

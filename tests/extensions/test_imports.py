"""What extensions import: the core's public names, no other extension, and what is optional where it is used."""

import ast
import re
import subprocess
import sys
from collections import defaultdict
from importlib import import_module
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.test_imports import HEAVY, imports, parsed

EXTENSIONS = ROOT / "extensions"
PAGE = ROOT / "extensions" / "public-names.md"
FOR_OTHERS = {
    "scholarbase": {"AsyncClient", "Client", "Paper", "SearchRequest", "write_papers"},
    "scholarbase.api.routes": {"problems"},
    "scholarbase.indexes.filters": {"ResolvedFilters"},
    "scholarbase.indexes.vectors.base": {"ScoredId"},
    "scholarbase.indexes.vectors.index": {"VectorIndex"},
    "scholarbase.sessions.storage": {"Storage"},
}
"""Names that docs/extending.md offers and that no extension in this repository imports."""
WITH_RAY = {EXTENSIONS / "scholarbase_cluster" / "encode" / name for name in ("on_ray.py", "ray_cluster.py")}


def files() -> list[Path]:
    return sorted((*EXTENSIONS.rglob("*.py"), *(ROOT / "examples" / "extension").rglob("*.py")))


def used() -> dict[str, set[str]]:
    """The names that extensions import from modules of the core, and those for others."""
    names: dict[str, set[str]] = defaultdict(
        set, {module: set(names) for module, names in FOR_OTHERS.items()}
    )
    for path in files():
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Import):
                assert not [
                    alias.name for alias in node.names if alias.name.split(".")[0] == "scholarbase"
                ], path
            elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "scholarbase":
                names[node.module or ""].update(alias.name for alias in node.names)
    return names


def test_the_page_of_public_names_has_what_extensions_import() -> None:
    rows = re.findall(r"^- `([\w.]+)`: (.+)$", PAGE.read_text(), re.M)
    listed = {module: set(re.findall(r"`(\w+)`", names)) for module, names in rows}
    assert listed == used(), "run python -m tests.refresh_snapshots, and review the difference"


def test_public_names_exist() -> None:
    for module, names in FOR_OTHERS.items():
        found = import_module(module)
        assert all(hasattr(found, name) for name in names), module


def test_no_public_name_begins_with_an_underscore() -> None:
    for module, names in used().items():
        assert not [
            name for name in (*module.split("."), *names) if name.startswith("_") and name != "__version__"
        ], module


PACKAGES = {"verifiers": "scholarbase_verifiers", "openenv": "scholarbase_openenv"}
"""Packages of their own, which need the core's package and take their episodes from ``scholarbase_research``."""


def test_no_extension_imports_another() -> None:
    for path in files():
        own = path.relative_to(EXTENSIONS).parts[0] if path.is_relative_to(EXTENSIONS) else ""
        may = {PACKAGES[own], "scholarbase_research"} if own in PACKAGES else {"scholarbase", own}
        ours = {module.split(".")[0] for module in imports(path) if module.startswith("scholarbase")}
        assert ours <= may, path


@pytest.mark.slow
def test_what_is_optional_is_imported_where_it_is_used() -> None:
    clusters = EXTENSIONS / "scholarbase_cluster" / "qdrant"
    for path in set(files()) - WITH_RAY:
        heavy = {module.split(".")[0] for module in imports(path, at_start=True)} & set(HEAVY)
        assert heavy <= ({"qdrant_client"} if path.is_relative_to(clusters) else set()), path


@pytest.mark.slow
def test_evaluation_starts_without_its_extra() -> None:
    script = f"""
import sys
from scholarbase_research.evaluation import measured, measures, searching
print(*sorted(set(sys.modules) & set({HEAVY!r})))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True
    )
    assert set(done.stdout.split()) <= {"zstandard"}  # httpx takes it where it is installed

"""Tables of cases in ``tests/data``."""

import json
from pathlib import Path
from typing import Any


def rows(name: str) -> list[Any]:
    """The rows of a table: JSON, a row a line, between lines that begin with ``#``."""
    lines = (Path(__file__).parent / "data" / f"{name}.jsonl").read_text("utf-8").split("\n")
    return [json.loads(line) for line in lines if line and not line.startswith("#")]


def cases(name: str, kind: str) -> list[Any]:
    """The rows of a table that begin with this kind, without it."""
    return [row[1:] for row in rows(name) if row[0] == kind]

"""Rows of the table, and the settings of a run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

MOST_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Row:
    """A promise, how it was tested, and what came out. ``kept`` is None where it could not be tested here."""

    part: str
    promise: str
    tested: str
    figure: str
    kept: bool | None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Setting:
    """Settings of all parts.

    ``data`` is the data folder, which may be missing. ``work`` holds files that can be rebuilt. ``is_slice`` selects
    the tiny sizes that the tests run.
    """

    data: Path | None
    work: Path
    is_slice: bool = False

    def count(self, whole: int, part: int) -> int:
        """``part`` in a slice, else ``whole``."""
        return part if self.is_slice else whole

    def seconds(self, limit: float) -> float:
        """A limit of time. In a slice a minute, since no test may depend on the speed of the machine."""
        return max(limit, 60.0) if self.is_slice else limit


def shown(failures: Iterable[str]) -> str:
    """The number of failures and the first of them; an empty text without failures."""
    found = list(failures)
    if not found:
        return ""
    first = "; ".join(" ".join(text.split())[:160] for text in found[:MOST_SHOWN])
    return f"{len(found)}: {first}" + ("; ..." if len(found) > MOST_SHOWN else "")


def say(text: str) -> None:
    """Print a line of progress."""
    print(f"  {text}", flush=True)

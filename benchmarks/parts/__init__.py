"""The parts of `make bench`, in the order in which they run: each a module with ``run(setting) -> list[Row]``."""

from __future__ import annotations

from typing import Final

PARTS: Final = ("ingest", "sparse", "recall", "filters", "dense", "serving", "hybrid", "sessions", "soak")
"""Their names, which are their modules'. The first builds the library that the others open."""

"""The parts of `make bench`: each a module with ``run(setting) -> list[Row]``."""

from __future__ import annotations

from typing import Final

PARTS: Final = (
    "ingest",
    "sparse",
    "recall",
    "filters",
    "shards",
    "dense",
    "serving",
    "hybrid",
    "sessions",
    "nodes",
    "cluster",
    "dialects",
    "rollouts",
    "passages",
    "soak",
    "plan",
)
"""Their modules, in the order in which they run."""
OWN_LIBRARIES: Final = frozenset({"ingest", "shards", "hybrid", "cluster", "rollouts", "passages", "plan"})
"""Parts that build their libraries. The others read the one of the part ``ingest``, which is built for them if it is
missing."""

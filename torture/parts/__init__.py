"""The parts of `make torture`: each a module with ``run(setting)``, which yields rows."""

from __future__ import annotations

from typing import Final

PARTS: Final = (
    "access",
    "contract",
    "parsers",
    "expensive",
    "sharing",
    "clients",
    "health",
    "flips",
    "hostile",
    "kills",
    "crashes",
    "resources",
)
"""Their modules, in the order in which they run."""

"""All dialects by name."""

from __future__ import annotations

from typing import Final

from scholarbase.api.dialects import search_r1, serper
from scholarbase.api.dialects.base import Dialect
from scholarbase.api.dialects.semantic_scholar import graph, legacy, recommendations

DIALECTS: Final[dict[str, Dialect]] = {
    dialect.name: dialect
    for dialect in (serper.DIALECT, search_r1.DIALECT, graph.DIALECT, recommendations.DIALECT, legacy.DIALECT)
}

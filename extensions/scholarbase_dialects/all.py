"""All dialects by name."""

from __future__ import annotations

from typing import Final

from scholarbase_dialects import (
    ar5iv,
    arxiv,
    arxiv_search,
    crossref,
    custom,
    lewen,
    openalex,
    paperscout,
    search_r1,
    searxng,
    serper,
)
from scholarbase_dialects.base import Dialect
from scholarbase_dialects.semantic_scholar import graph, legacy, recommendations

DIALECTS: Final[dict[str, Dialect]] = {
    dialect.name: dialect
    for dialect in (
        graph.DIALECT,
        recommendations.DIALECT,
        legacy.DIALECT,
        arxiv.DIALECT,
        arxiv_search.DIALECT,
        ar5iv.DIALECT,
        openalex.DIALECT,
        crossref.DIALECT,
        lewen.DIALECT,
        serper.DIALECT,
        searxng.DIALECT,
        paperscout.DIALECT,
        search_r1.DIALECT,
        custom.DIALECT,
    )
}

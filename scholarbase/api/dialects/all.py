"""All dialects by name."""

from __future__ import annotations

from typing import Final

from scholarbase.api.dialects import (
    arxiv,
    crossref,
    custom,
    lewen,
    openalex,
    paperscout,
    search_r1,
    searxng,
    serper,
)
from scholarbase.api.dialects.base import Dialect

DIALECTS: Final[dict[str, Dialect]] = {
    dialect.name: dialect
    for dialect in (
        arxiv.DIALECT,
        paperscout.DIALECT,
        lewen.DIALECT,
        serper.DIALECT,
        search_r1.DIALECT,
        searxng.DIALECT,
        custom.DIALECT,
        openalex.DIALECT,
        crossref.DIALECT,
    )
}

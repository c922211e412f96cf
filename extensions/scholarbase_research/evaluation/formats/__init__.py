"""The query files of published benchmarks. docs/query-sets.md shows each format."""

from __future__ import annotations

from typing import Final

from scholarbase.evaluation.formats.reading import Format
from scholarbase_research.evaluation.formats.evidence_formats import AIM_SCIQA, ELAIPBENCH, SCIDQA
from scholarbase_research.evaluation.formats.litsearch import LITSEARCH
from scholarbase_research.evaluation.formats.pasa import PASA
from scholarbase_research.evaluation.formats.scholargym import SCHOLARGYM

FORMATS: Final[tuple[Format, ...]] = (ELAIPBENCH, SCIDQA, AIM_SCIQA, PASA, LITSEARCH, SCHOLARGYM)
"""In the order they are tried."""

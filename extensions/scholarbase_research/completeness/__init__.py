"""How complete a list of papers is: estimates of the relevant ones that have not been seen."""

from __future__ import annotations

from scholarbase_research.completeness.checking import Recall, RecallBody, estimate_recall

__all__ = ["Recall", "RecallBody", "estimate_recall"]

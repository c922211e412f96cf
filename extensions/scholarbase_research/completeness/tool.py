"""The tool ``estimate_recall``."""

from __future__ import annotations

from typing import Final

from scholarbase.tools.tool import Tool
from scholarbase_research.completeness.checking import RecallBody, run_recall

ESTIMATE_RECALL: Final = Tool(
    "estimate_recall",
    "Estimate how many papers that answer a question have not been seen, and what to search next.",
    RecallBody,
    run_recall,
    {
        "q": "the question",
        "relevant": "ids of all papers judged relevant",
        "known": "ids of relevant papers from elsewhere, not from searches",
        "rewrites": "the question in other words",
    },
)

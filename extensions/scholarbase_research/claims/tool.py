"""The tool ``check_claim``."""

from __future__ import annotations

from typing import Final

from scholarbase.tools.tool import Tool
from scholarbase_research.claims.checking import ClaimBody, run_claim

CHECK_CLAIM: Final = Tool(
    "check_claim",
    "Compare a claim with the paper that it cites: nearest sentences, missing words and numbers; supported, "
    "contradicts, or not_found, which does not mean false.",
    ClaimBody,
    run_claim,
    {"claim": "one sentence", "reference": "id, DOI or reference"},
)

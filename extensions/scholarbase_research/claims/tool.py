"""The tools ``check_claim`` and ``check_draft``."""

from __future__ import annotations

from typing import Final

from scholarbase.tools.tool import Tool
from scholarbase_research.claims.checking import ClaimBody, run_claim
from scholarbase_research.claims.draft_checking import DraftBody, run_draft

CHECK_CLAIM: Final = Tool(
    "check_claim",
    "Compare a claim with the paper that it cites: nearest sentences, missing words and numbers; supported, "
    "contradicts, or not_found, which does not mean false.",
    ClaimBody,
    run_claim,
    {"claim": "one sentence", "reference": "id, DOI or reference"},
)

CHECK_DRAFT: Final = Tool(
    "check_draft",
    "Compare each sentence of a draft that cites with the papers that it cites: retracted, wrong or other version of "
    "the reference; supported, contradicts, or not_found, which does not mean false.",
    DraftBody,
    run_draft,
    {
        "draft": "LaTeX or Markdown with citations",
        "bibliography": "BibTeX entries, if the draft has none",
        "date": "day of the draft, YYYY-MM-DD",
        "max_tokens": "maximum size of the response",
    },
)

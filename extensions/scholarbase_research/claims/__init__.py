"""Whether a cited paper says what a claim says: its nearest sentences, and what differs; for one claim or a draft."""

from __future__ import annotations

from scholarbase_research.claims.checking import ClaimBody, ClaimResponse, check_claim
from scholarbase_research.claims.draft_checking import DraftBody, DraftResponse, check_draft

__all__ = ["ClaimBody", "ClaimResponse", "DraftBody", "DraftResponse", "check_claim", "check_draft"]

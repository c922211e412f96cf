"""Whether a cited paper says what a claim says: its nearest sentences, and what differs."""

from __future__ import annotations

from scholarbase_research.claims.checking import ClaimBody, ClaimResponse, check_claim

__all__ = ["ClaimBody", "ClaimResponse", "check_claim"]

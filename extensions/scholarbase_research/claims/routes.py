"""``/v1/claims/check`` and ``/v1/claims/draft``."""

from __future__ import annotations

from typing import Final

from scholarbase.api.responding import Call
from scholarbase.api.routes import resource, route
from scholarbase.errors import LibraryError, ModelError, RerankerError
from scholarbase_research.claims.checking import ClaimBody, ClaimResponse, run_claim
from scholarbase_research.claims.draft_checking import DraftBody, DraftResponse, run_draft
from scholarbase_research.claims.tool import CHECK_CLAIM, CHECK_DRAFT

router: Final = resource("/v1/claims", "claims", LibraryError, ModelError, RerankerError)

route(
    router,
    "POST /check",
    Call(run_claim, ClaimBody, ClaimResponse, CHECK_CLAIM),
    name="check_claim",
    summary="Compare a claim with the cited paper",
    description="The nearest sentences of the cited paper, the words and numbers of the claim that they lack, and a "
    "label where a sentence is evidence. `not_found` never says that a claim is false.",
)

route(
    router,
    "POST /draft",
    Call(run_draft, DraftBody, DraftResponse, CHECK_DRAFT),
    name="check_draft",
    summary="Compare a draft with the papers that it cites",
    description="Each sentence of a text in LaTeX or Markdown that cites, with each of its references: the status of "
    "the reference (retracted before the draft, another version, near another paper, without an entry) and the label "
    "of the claim.",
)

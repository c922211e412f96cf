"""``/v1/claims/check``, and the tool ``check_claim``."""

from __future__ import annotations

from typing import Final

from scholarbase.api.responding import Call
from scholarbase.api.routes import resource, route
from scholarbase.errors import LibraryError
from scholarbase_research.claims.checking import ClaimBody, ClaimResponse, run_claim
from scholarbase_research.claims.tool import CHECK_CLAIM

router: Final = resource("/v1/claims", "claims", LibraryError)

route(
    router,
    "POST /check",
    Call(run_claim, ClaimBody, ClaimResponse, CHECK_CLAIM),
    name="check_claim",
    summary="Compare a claim with the cited paper",
    description="The nearest sentences of the cited paper, the words and numbers of the claim that they lack, and a "
    "label where a sentence is evidence. `not_found` never says that a claim is false.",
)

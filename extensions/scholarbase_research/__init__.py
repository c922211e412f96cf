"""Research on search: answer sets, scoring, agents, judges, training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scholarbase.extensions import Extension


class Research(Extension):
    """Research on search: answer sets, scoring, agents, judges, training."""

    def commands(self) -> Mapping[str, str]:
        return {
            "check-draft": "scholarbase_research.cli.drafts:check_draft",
            "agent": "scholarbase_research.cli.baselines:agent",
            "construct": "scholarbase_research.cli.construction:construction",
            "encoder train": "scholarbase_research.cli.training:train",
            "eval": "scholarbase_research.cli.runs:evaluation",
            "eval compare": "scholarbase_research.cli.evaluation:compare",
            "eval import": "scholarbase_research.cli.imports:import_",
            "eval qa": "scholarbase_research.cli.qa:qa",
            "eval report": "scholarbase_research.cli.evaluation:report",
            "eval trajectory": "scholarbase_research.cli.imports:trajectory",
            "session completeness": "scholarbase_research.cli.sessions:completeness",
            "session export": "scholarbase_research.cli.sessions:export",
            "session replay": "scholarbase_research.cli.sessions:replay",
        }

    def routes(self) -> Sequence[Any]:
        from scholarbase_research.claims import routes as claims
        from scholarbase_research.completeness import routes as completeness
        from scholarbase_research.replay import routes as replay

        return [*claims.router.routes, *completeness.router.routes, *replay.router.routes]

    def tool_sets(self) -> Mapping[str, Sequence[Any]]:
        from scholarbase_research.airqa.tools import ACTIONS
        from scholarbase_research.claims.tool import CHECK_CLAIM, CHECK_DRAFT
        from scholarbase_research.completeness.tool import ESTIMATE_RECALL

        return {
            "airqa": ACTIONS,
            "claims": (CHECK_CLAIM, CHECK_DRAFT),
            "completeness": (ESTIMATE_RECALL,),
        }

    def report_sections(self) -> Sequence[Any]:
        from scholarbase_research.evaluation.agent_tables import sections

        return (sections,)

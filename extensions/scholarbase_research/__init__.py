"""Research on search: answer sets, audits, scoring, sweeps, agents, judges, training."""

from __future__ import annotations

from scholarbase.extensions import Extension


class Research(Extension):
    """Research on search: answer sets, audits, scoring, sweeps, agents, judges, training."""

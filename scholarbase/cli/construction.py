"""The commands that build benchmarks: ``scholarbase construct``."""

from __future__ import annotations

import click

from scholarbase.cli.audit import audit
from scholarbase.cli.pools import pools


@click.group("construct")
def construction() -> None:
    """Build a benchmark: the answers of questions, found and judged."""


construction.add_command(audit)
construction.add_command(pools)

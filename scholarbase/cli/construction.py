"""The commands that build benchmarks: ``scholarbase construct``."""

from __future__ import annotations

import click

from scholarbase.cli.audit import audit


@click.group("construct")
def construction() -> None:
    """Build a benchmark: the answers of questions, found and judged."""


construction.add_command(audit)

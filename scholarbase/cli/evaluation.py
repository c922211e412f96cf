"""The commands of bulk evaluation: ``scholarbase eval``."""

from __future__ import annotations

import click


@click.group("eval")
def evaluation() -> None:
    """Measure how well a library is searched, by us or by an agent."""

"""The command line. ``commands`` has the main group."""

from scholarbase.cli.commands import main

__all__ = ["main"]

"""The command line: ``commands`` has the commands, ``evaluation`` those of bulk evaluation."""

from scholarbase.cli.commands import main

__all__ = ["main"]

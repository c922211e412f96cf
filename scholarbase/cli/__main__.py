"""``python -m scholarbase.cli``."""

from scholarbase.cli.commands import main

main()

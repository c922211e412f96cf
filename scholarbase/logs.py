"""Logging: one plain form, on standard error, for every process of ours."""

from __future__ import annotations

import logging
import sys
from typing import Final

_TALKATIVE: Final = (
    "httpx",
    "httpcore",
    "sentence_transformers",
    "FlagEmbedding",
    "transformers",
    "fontTools",
    "matplotlib",
)
"""Libraries that say at level info what ours says already, or what only their own developers need."""


def configure(level: str) -> None:
    """Log at ``level`` (debug, info, warning, error), and what other libraries say from warnings on."""
    number = getattr(logging, level.upper())
    form = "%(asctime)s %(levelname)s %(message)s"
    logging.basicConfig(level=number, format=form, stream=sys.stderr, force=True)
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(max(number, logging.WARNING))

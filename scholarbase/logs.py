"""Logging: one plain form, on standard error, for every process of ours."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Final, TextIO

_TALKATIVE: Final = (
    "httpx",
    "httpx2",
    "httpcore",
    "httpcore2",
    "mcp",
    "sentence_transformers",
    "FlagEmbedding",
    "transformers",
    "fontTools",
    "matplotlib",
)
"""Libraries that say at level info what ours says already, or what only their own developers need."""


class Lines(logging.StreamHandler[TextIO]):
    """Writes lines at once; those that an event loop logs, together when it has done what was due.

    A write for every line was a quarter of what a short request cost. Warnings and errors never wait.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._lines.append(self.format(record) + self.terminator)
            if record.levelno >= logging.WARNING:
                self.flush()
                return
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                self.flush()
                return
            if len(self._lines) == 1:
                loop.call_soon(self.flush)
        except Exception:
            self.handleError(record)

    def flush(self) -> None:
        self.acquire()
        try:
            lines, self._lines = self._lines, []
            if lines:
                self.stream.write("".join(lines))
            super().flush()
        finally:
            self.release()


def configure(level: str) -> None:
    """Log at ``level`` (debug, info, warning, error), and what other libraries say from warnings on."""
    number = getattr(logging, level.upper())
    form = "%(asctime)s %(levelname)s %(message)s"
    logging.basicConfig(level=number, format=form, handlers=[Lines(sys.stderr)], force=True)
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(max(number, logging.WARNING))

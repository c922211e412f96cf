"""Logging to standard error, in one format for all processes."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Final, TextIO

from scholarbase.terminal import printable

_VERBOSE: Final = (
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
"""Libraries whose messages below warnings repeat ours or help only their own developers."""


class BufferedHandler(logging.StreamHandler[TextIO]):
    """Writes the lines of one event loop iteration together, and all other lines at once.

    One write per line took a quarter of the time of a short request. Warnings and errors are written at once.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._lines.append(printable(self.format(record)) + self.terminator)
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
    """Log at ``level`` (debug, info, warning, error); other libraries from warnings on."""
    number = getattr(logging, level.upper())
    form = "%(asctime)s %(levelname)s %(message)s"
    logging.basicConfig(level=number, format=form, handlers=[BufferedHandler(sys.stderr)], force=True)
    for name in _VERBOSE:
        logging.getLogger(name).setLevel(max(number, logging.WARNING))

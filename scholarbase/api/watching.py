"""Stops a server whose library was written while it is open.

The catalogue and the vectors are mapped files: what is written there can change the results, and reading the missing
part of a truncated one raises SIGBUS, which Python cannot handle. The process then writes its stack and exits.
"""

from __future__ import annotations

import ctypes
import faulthandler
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from scholarbase.errors import LibraryCorrupt

log = logging.getLogger("scholarbase.api")

SECONDS: Final = 1.0
"""Between two checks, each of which takes a few microseconds per file."""


def exit_on_bus_errors() -> None:
    """Let SIGBUS write the stack to standard error and exit with status 7, instead of killing the process."""
    libc = ctypes.CDLL(None)
    libc.signal.argtypes = (ctypes.c_int, ctypes.c_void_p)
    libc.signal(signal.SIGBUS, ctypes.cast(libc._exit, ctypes.c_void_p))
    # It writes the stack and then calls the handler that was there before: _exit with the number of the signal.
    with suppress(OSError, ValueError, RuntimeError):  # standard error is closed or not a file
        faulthandler.enable()


def watch(check: Callable[[], None], stop: Callable[[], None], ended: threading.Event) -> None:
    """Call ``stop`` once when ``check`` finds that a file was written. Returns after that, or when ``ended`` is set."""
    while not ended.wait(SECONDS):
        try:
            check()
        except LibraryCorrupt as error:
            log.error("The server stops, because its library was changed: %s", error)
            stop()
            return


@contextmanager
def watched(check: Callable[[], None], stop: Callable[[], None]) -> Iterator[None]:
    """Run ``check`` every second in a thread during the block.

    Raises:
        LibraryCorrupt: at the end of the block, if a file was written.
    """
    ended = threading.Event()
    thread = threading.Thread(target=watch, args=(check, stop, ended), name="watch-library", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    check()

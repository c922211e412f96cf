"""A process that kills a server which does not end in time after SIGTERM.

A Python signal handler runs when the main thread has Python's lock, for which it may wait for seconds while indexes
search. But Python's C handler writes the number of the signal into a pipe at once, without the lock
(https://docs.python.org/3/library/signal.html#signal.set_wakeup_fd). This process reads it there. The pipe is closed
when the server has ended.

It runs this file alone, without the package.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable


def kill_if_late(seconds: float) -> Callable[[], None]:
    """Start the process that kills this one if it runs ``seconds`` after SIGTERM or SIGINT. For the main thread.

    Returns a function that ends it. Python's handlers of signals run all the same, at the next byte code of the main
    thread: an event loop needs a timer, since no signal wakes it.

    Raises:
        OSError: the system has no room for a process or a pipe.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    command = [sys.executable, "-I", "-S", __file__, str(seconds), str(os.getpid())]
    try:
        process = subprocess.Popen(
            command,
            stdin=reader,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except BaseException:
        os.close(writer)
        raise
    finally:
        os.close(reader)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

    def end() -> None:
        if signal.set_wakeup_fd(-1) not in (-1, writer):
            raise RuntimeError("The signals of this process were redirected meanwhile.")
        os.close(writer)
        process.wait()

    return end


def watch(seconds: float, server: int) -> None:
    """Wait for a signal's number on standard input, then kill the process ``server`` if it runs ``seconds`` later."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(
            number, signal.SIG_IGN
        )  # which a terminal or a service manager may send to all processes
    stops = bytes((signal.SIGTERM, signal.SIGINT))
    end = None
    while end is None or select.select([0], [], [], max(0.0, end - time.monotonic()))[0]:
        received = os.read(0, 64)
        if not received:
            return
        if end is None and any(number in stops for number in received):
            end = time.monotonic() + seconds
    if os.getppid() == server:
        os.kill(server, signal.SIGKILL)


if __name__ == "__main__":
    watch(float(sys.argv[1]), int(sys.argv[2]))

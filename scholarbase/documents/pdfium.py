"""Runs PDFium in a process of its own, which is killed at a time limit and started again."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from scholarbase.documents.pdf_worker import read_message, write_message
from scholarbase.errors import Busy
from scholarbase.extras import is_installed, missing

_SCRIPT: Final = Path(__file__).with_name("pdf_worker.py")


class WorkerFailed(Exception):
    """The process ended or was killed before it answered. ``timed_out``: at the time limit."""

    def __init__(self, timed_out: bool) -> None:
        super().__init__("timed out" if timed_out else "ended")
        self.timed_out = timed_out


class PdfWorker:
    """A process that reads and draws PDFs, one at a time. It starts with the first request.

    Raises:
        MissingExtra: pypdfium2 is not installed.
    """

    def __init__(self) -> None:
        if not is_installed("pypdfium2"):
            raise missing("pypdfium2", "documents", "Reading PDFs")
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()

    def request(
        self, action: str, data: bytes, seconds: float, **fields: Any
    ) -> tuple[dict[str, Any], bytes]:
        """Send a request, and return the answer. Where a process that has answered before ends, as one that was killed
        for its memory, a new one gets the request: only a PDF that ends that one too is to blame.

        Raises:
            WorkerFailed: the process ended, or took more than ``seconds``.
            Busy: other requests took ``seconds``.
        """
        if os.getpid() != self._owner:  # after a fork: the process answers the parent
            self._lock, self._process, self._owner = threading.Lock(), None, os.getpid()
        if not self._lock.acquire(timeout=seconds):
            raise Busy(f"Other pages were being drawn for {seconds:g} s: try again.")
        try:
            is_new = self._process is None
            try:
                return self._answer(action, data, seconds, fields)
            except WorkerFailed as failed:
                if is_new or failed.timed_out:
                    raise
                return self._answer(action, data, seconds, fields)
        finally:
            self._lock.release()

    def _answer(
        self, action: str, data: bytes, seconds: float, fields: dict[str, Any]
    ) -> tuple[dict[str, Any], bytes]:
        process = self._running()
        killed = threading.Event()

        def kill() -> None:
            killed.set()
            process.kill()

        timer = threading.Timer(seconds, kill)
        timer.daemon = True
        timer.start()
        answer = None
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            with suppress(OSError):
                write_message(process.stdin, {"action": action, "seconds": seconds, **fields}, data)  # type: ignore[arg-type]
                answer = read_message(process.stdout)  # type: ignore[arg-type]
        finally:
            timer.cancel()
            if answer is None or killed.is_set():
                self._stop()
        if answer is None:
            raise WorkerFailed(killed.is_set())
        return answer

    def close(self) -> None:
        """End the process. A later request starts another."""
        if os.getpid() == self._owner:
            with self._lock:
                self._stop()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._stop()
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(_SCRIPT)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        return self._process

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            for stream in (process.stdin, process.stdout):
                with suppress(OSError):
                    if stream is not None:
                        stream.close()
            process.wait()


_shared: list[PdfWorker] = []
_shared_lock = threading.Lock()


def shared_worker() -> PdfWorker:
    """The worker of this process, for reading PDFs."""
    with _shared_lock:
        if not _shared:
            _shared.append(PdfWorker())
            atexit.register(_shared[0].close)
        return _shared[0]

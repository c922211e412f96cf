"""Runs PDFium in a worker, which is killed at a time limit and started again."""

from __future__ import annotations

import atexit
from functools import cache
from threading import Lock
from typing import Any, Final

from scholarbase.errors import Busy
from scholarbase.extras import is_installed, missing
from scholarbase.workers import Message, Worker, WorkerEnded

_MODULE: Final = "scholarbase_fulltext.pdf_worker"


class PdfWorker:
    """A worker that reads and draws PDFs, one at a time. It starts with the first request.

    Raises:
        MissingExtra: pypdfium2 is not installed.
    """

    def __init__(self) -> None:
        if not is_installed("pypdfium2"):
            raise missing("pypdfium2", "documents", "Reading PDFs")
        self._lock = Lock()
        self._worker: Worker | None = None

    def request(self, action: str, data: bytes, seconds: float, **fields: Any) -> Message:
        """Send a request, and return the response. Where a worker that has responded before ends, as one that was
        killed for its memory, a new one gets the request: only a PDF that ends that one too is to blame.

        Raises:
            WorkerEnded: the worker ended.
            TimeoutError: it took more than ``seconds``.
            Busy: other requests took ``seconds``.
        """
        if not self._lock.acquire(timeout=seconds):
            raise Busy(f"Other pages were being drawn for {seconds:g} s: try again.")
        try:
            is_new = self._worker is None
            try:
                return self._respond(action, data, seconds, fields)
            except WorkerEnded:
                if is_new:
                    raise
                return self._respond(action, data, seconds, fields)
        finally:
            self._lock.release()

    def _respond(self, action: str, data: bytes, seconds: float, fields: dict[str, Any]) -> Message:
        worker = self._worker = self._worker or Worker(_MODULE, None)
        try:
            worker.send({"action": action, **fields}, data)
            return worker.receive(seconds)
        except BaseException:
            self._stop()
            raise

    def close(self) -> None:
        """End the worker. A later request starts another."""
        with self._lock:
            self._stop()

    def _stop(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()


@cache
def shared_worker() -> PdfWorker:
    """The worker of this process, for reading PDFs."""
    worker = PdfWorker()
    atexit.register(worker.close)
    return worker

"""Page images: draws pages of PDFs as PNG, in a process of its own (:mod:`~scholarbase_fulltext.pdfium`)."""

from __future__ import annotations

import math
from typing import Final

from scholarbase.documents.readers import Box, PageImage
from scholarbase.errors import InvalidRequest, PageNotDrawn
from scholarbase.workers import WorkerEnded
from scholarbase_fulltext.pdfium import PdfWorker

MAX_SIDE: Final = 2000
"""Pixels of the longer side of an image."""
MAX_PIXELS: Final = 2_500_000
"""Pixels of an image: a page of A4 at 150 per inch has 2.2 million."""
SCALE: Final = 150 / 72
"""Pixels per point of a whole page, where the limits allow it."""
BOX_SCALE: Final = 300 / 72
"""Pixels per point of a box of a page."""
SECONDS: Final = 10.0


class PdfRenderer:
    """Draws one page at a time. The process starts with the first page, and again after a page that took too long.

    Raises:
        MissingExtra: pypdfium2 is not installed.
    """

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._worker = PdfWorker()

    def draw(self, pdf: bytes, page: int, box: Box | None = None) -> PageImage:
        """As :meth:`scholarbase.documents.readers.PageRenderer.draw`."""
        if box is not None and not all(map(math.isfinite, box)):
            raise InvalidRequest(f"The box {_shown(box)} is invalid: its four values must be numbers.")
        try:
            answer, png = self._worker.request(
                "draw",
                pdf,
                self._seconds,
                page=page,
                box=box,
                scale=SCALE if box is None else BOX_SCALE,
                max_side=MAX_SIDE,
                max_pixels=MAX_PIXELS,
            )
        except (TimeoutError, WorkerEnded) as error:
            is_late = isinstance(error, TimeoutError)
            reason = f"takes more than {self._seconds:g} s" if is_late else "makes PDFium crash"
            raise PageNotDrawn(f"Page {page} cannot be drawn: it {reason}. Read its text instead.") from error
        if "refused" not in answer:
            return PageImage(png, answer["width"], answer["height"])
        if answer["refused"] == "page":
            raise InvalidRequest(f"There is no page {page}: the pages are 1 to {answer['pages']}.")
        if answer["refused"] == "box" and box is not None:
            raise InvalidRequest(
                f"The box {_shown(box)} is not on page {page}: x, y, width and height are in points from the top left "
                f"corner, and the page is {answer['width']:g} wide and {answer['height']:g} high."
            )
        raise PageNotDrawn(f"Page {page} cannot be drawn: the PDF is broken. Read its text instead.")

    def close(self) -> None:
        """End the process."""
        self._worker.close()


def _shown(box: Box) -> str:
    return ",".join(f"{value:g}" for value in box)

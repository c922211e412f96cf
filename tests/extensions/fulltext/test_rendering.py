"""Page images, compared with PDFs whose pictures are known."""

import io
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from scholarbase.errors import InvalidRequest, PageNotDrawn
from scholarbase_fulltext import pdfium
from scholarbase_fulltext.rendering import PdfRenderer
from tests.documents.pdfs import RED_SQUARE, two_pages

PDF = two_pages()


@pytest.fixture(scope="module")
def renderer() -> Iterator[PdfRenderer]:
    made = PdfRenderer()
    yield made
    made.close()


def opened(png: bytes) -> Image.Image:
    return Image.open(io.BytesIO(png)).convert("RGB")


def test_a_page_is_drawn_with_its_picture(renderer: PdfRenderer) -> None:
    image = renderer.draw(PDF, 2)
    pixels = opened(image.png)
    assert pixels.size == (image.width, image.height)
    assert pixels.size == (834, 1250)  # 400 and 600 points at 150 pixels per inch, rounded up
    scale = 150 / 72
    assert pixels.getpixel((round(70 * scale), round(80 * scale))) == (255, 0, 0)
    assert pixels.getpixel((round(30 * scale), round(80 * scale))) == (255, 255, 255)


def test_a_box_is_the_part_of_the_page(renderer: PdfRenderer) -> None:
    pixels = opened(renderer.draw(PDF, 2, RED_SQUARE).png)
    assert pixels.width == pytest.approx(167, abs=2)  # 40 points at 300 pixels per inch
    assert pixels.height == pytest.approx(167, abs=2)
    inside = pixels.crop((2, 2, 163, 163))
    assert inside.getcolors() == [(161 * 161, (255, 0, 0))]
    left_half = opened(renderer.draw(PDF, 2, (30, 60, 40, 40)).png)
    assert left_half.getpixel((20, 80)) == (255, 255, 255)
    assert left_half.getpixel((150, 80)) == (255, 0, 0)


@pytest.mark.parametrize("page", [0, 3, -1])
def test_a_page_out_of_range_is_refused(renderer: PdfRenderer, page: int) -> None:
    with pytest.raises(InvalidRequest, match=f"There is no page {page}: the pages are 1 to 2."):
        renderer.draw(PDF, page)


@pytest.mark.parametrize(
    "box",
    [(0, 0, 401, 10), (-1, 0, 10, 10), (0, 0, 0, 10), (0, 595, 10, 10), (float("nan"), 0, 1, 1)],
)
def test_a_box_off_the_page_is_refused(renderer: PdfRenderer, box: tuple[float, float, float, float]) -> None:
    with pytest.raises(InvalidRequest, match="box"):
        renderer.draw(PDF, 1, box)


def test_broken_and_encrypted_pdfs_are_not_drawn(renderer: PdfRenderer) -> None:
    for data in (b"%PDF-1.4", two_pages("secret")):
        with pytest.raises(PageNotDrawn, match="the PDF is broken"):
            renderer.draw(data, 1)


def test_a_crash_is_an_error_and_the_next_page_is_drawn(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    renderer = PdfRenderer(seconds=60)
    (tmp_path / "pdf_that_ends.py").write_text("import sys; sys.stdin.buffer.read(1)")
    with monkeypatch.context() as changed:
        changed.syspath_prepend(tmp_path)
        changed.setattr(pdfium, "_MODULE", "pdf_that_ends")
        with pytest.raises(PageNotDrawn, match="makes PDFium crash"):
            renderer.draw(PDF, 1)
    assert renderer.draw(PDF, 1).width == 834
    renderer.close()


def test_a_process_that_was_killed_is_no_fault_of_the_page() -> None:
    renderer = PdfRenderer(seconds=60)
    renderer.draw(PDF, 1)
    worker = renderer._worker._worker
    assert worker is not None
    os.kill(worker.pid, signal.SIGSTOP)
    stopper = threading.Timer(0.3, os.kill, (worker.pid, signal.SIGKILL))
    stopper.start()
    assert renderer.draw(PDF, 1).width == 834
    renderer.close()


@pytest.mark.slow
def test_a_page_that_hangs_is_killed_and_the_next_is_drawn() -> None:
    renderer = PdfRenderer(seconds=60)
    renderer.draw(PDF, 1)
    renderer._seconds = 1
    worker = renderer._worker._worker
    assert worker is not None
    os.kill(worker.pid, signal.SIGSTOP)
    with pytest.raises(PageNotDrawn, match="takes more than 1 s"):
        renderer.draw(PDF, 1)
    assert worker.status is not None
    renderer._seconds = 60
    assert renderer.draw(PDF, 1).width == 834
    renderer.close()

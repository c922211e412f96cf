"""The worker that runs PDFium: a hostile PDF can crash or block it, not the caller. Started by :mod:`.pdfium`."""

from __future__ import annotations

import json
import re
import struct
import zlib
from typing import Any

from scholarbase.memory import limit_process
from scholarbase.workers import Message, Send, requests, work

MEMORY = 3 << 30
"""Bytes of address space."""
_LINE = re.compile("[^\n\x02\ufffe]+[\n\x02\ufffe]?")
"""PDFium writes a hyphen at the end of a line, and the line break, as one of these characters."""
_PASSWORD = 4
"""PDFium's error code for a PDF with a password."""


class Refused(Exception):
    """A request that cannot be answered: a word for the reason, and facts."""

    def __init__(self, reason: str, **facts: Any) -> None:
        super().__init__(reason)
        self.answer = {"refused": reason, **facts}


def _open(data: bytes) -> Any:
    import pypdfium2

    try:
        return pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        locked = getattr(error, "err_code", None) == _PASSWORD or "password" in str(error).lower()
        raise Refused("encrypted" if locked else "broken") from error


def read_text(fields: dict[str, Any], data: bytes) -> Message:
    """The lines of each page, with their places, and the title in the metadata."""
    pdf = _open(data)
    try:
        if len(pdf) > fields["max_pages"]:
            raise Refused("pages", pages=len(pdf))
        pages = []
        left = fields["max_characters"]
        for number in range(len(pdf)):
            page = pdf[number]
            width, height = page.get_size()
            lines = _lines(page, left)
            left -= sum(len(line[0]) for line in lines)
            pages.append([width, height, lines])
            page.close()
        title = pdf.get_metadata_value("Title")
        return {"title": title}, json.dumps(pages).encode()
    finally:
        pdf.close()


def _lines(page: Any, left: int) -> list[tuple[str, float, float, float]]:
    """The lines of a page: text, left, bottom and top in points from the bottom left corner."""
    textpage = page.get_textpage()
    try:
        count = textpage.count_chars()
        if count > left:
            raise Refused("characters")
        text = textpage.get_text_range() if count else ""
        same = len(text) == count  # else some characters take two places: no boxes
        lines = []
        for match in _LINE.finditer(text):
            shown = match[0].rstrip("\r\n")
            first = next((place for place, sign in enumerate(shown) if not sign.isspace()), None)
            if first is not None:
                place = match.start() + first
                box = textpage.get_charbox(place, loose=True) if same else (0.0, 0.0, 0.0, 0.0)
                lines.append((shown, box[0], box[1], box[3]))
        return lines
    finally:
        textpage.close()


def draw(fields: dict[str, Any], data: bytes) -> Message:
    """A page, or a box of it, as PNG."""
    pdf = _open(data)
    try:
        number = fields["page"]
        if not 1 <= number <= len(pdf):
            raise Refused("page", pages=len(pdf))
        page = pdf[number - 1]
        width, height = page.get_size()
        x, y, wide, high = fields["box"] or (0.0, 0.0, width, height)
        if not (width > 0 and height > 0):
            raise Refused("broken")
        slack = 0.5  # sizes are rounded where they are shown
        if x < 0 or y < 0 or wide <= 0 or high <= 0 or x + wide > width + slack or y + high > height + slack:
            raise Refused("box", width=width, height=height)
        scale = min(
            fields["scale"],
            fields["max_side"] / max(wide, high),
            (fields["max_pixels"] / (wide * high)) ** 0.5,
        )
        crop = (x, max(0.0, height - y - high), max(0.0, width - x - wide), y)
        bitmap = page.render(scale=scale, crop=crop, rev_byteorder=True, maybe_alpha=False)
        try:
            image = _png(bitmap)
            return {"width": bitmap.width, "height": bitmap.height}, image
        finally:
            bitmap.close()
            page.close()
    finally:
        pdf.close()


def _png(bitmap: Any) -> bytes:
    """A bitmap of 8-bit grey or RGB values as PNG (RFC 2083)."""
    channels, stride, buffer = bitmap.n_channels, bitmap.stride, memoryview(bitmap.buffer)
    row_bytes = bitmap.width * channels
    rows = b"".join(
        b"\0" + bytes(buffer[row * stride : row * stride + row_bytes]) for row in range(bitmap.height)
    )
    colour = {1: 0, 3: 2, 4: 6}[channels]
    header = struct.pack(">IIBBBBB", bitmap.width, bitmap.height, 8, colour, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
        for name, content in parts
    )


def _serve(_: None, send: Send) -> None:
    limit_process(MEMORY)
    actions = {"text": read_text, "draw": draw}
    for fields, data in requests():
        try:
            answer, content = actions[fields["action"]](fields, data)
        except Refused as refused:
            answer, content = refused.answer, b""
        except MemoryError:
            answer, content = {"refused": "memory"}, b""
        except Exception:
            answer, content = {"refused": "broken"}, b""
        send(answer, content)


if __name__ == "__main__":
    work(_serve, outlives_thread=True)

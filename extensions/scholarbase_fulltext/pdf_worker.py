"""The worker that runs PDFium: a hostile PDF can crash or block it, not the caller. Started by :mod:`.pdfium`."""

from __future__ import annotations

import ctypes
import json
import math
import re
import struct
import zlib
from typing import Any

from scholarbase.memory import limit_process
from scholarbase.workers import Message, Send, requests, work
from scholarbase_fulltext.captions import find_label, turned

MEMORY = 3 << 30
"""Bytes of address space."""
_LINE = re.compile("[^\n\x02\ufffe]+[\n\x02\ufffe]?")
"""PDFium writes a hyphen at the end of a line, and the line break, as one of these characters."""
_GAP = re.compile(r"\s+")
_NEAR = 8
"""Lines after a label whose gaps between words are measured: a table's rows follow its caption."""
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


def _lines(page: Any, left: int) -> list[tuple[Any, ...]]:
    """The lines of a page, as the fields of :class:`~scholarbase_fulltext.captions.Line`."""
    textpage = page.get_textpage()
    try:
        count = textpage.count_chars()
        if count > left:
            raise Refused("characters")
        text = textpage.get_text_range() if count else ""
        chars = _Chars(page, textpage, is_whole=len(text) == count)
        spans = []
        for match in _LINE.finditer(text):
            shown = match[0].rstrip("\r\n")
            if not shown.isspace() and shown:
                spans.append((shown, match.start()))
        labels = [
            position for position, (shown, _) in enumerate(spans) if find_label(shown.lstrip()) is not None
        ]
        near = {position for label in labels for position in range(label - 1, label + _NEAR)}
        return [
            (shown, *chars.line(shown, start, position in near))
            for position, (shown, start) in enumerate(spans)
        ]
    finally:
        textpage.close()


class _Chars:
    """The positions of a page's characters."""

    def __init__(self, page: Any, textpage: Any, is_whole: bool) -> None:
        import pypdfium2.raw

        self._raw = pypdfium2.raw
        self._textpage = textpage.raw
        self._is_whole = is_whole
        self._turns = page.get_rotation() // 90
        corners = self._raw.FS_RECTF()
        self._raw.FPDF_GetPageBoundingBox(page, corners)
        self._corner = turned((corners.left, corners.bottom, corners.right, corners.top), self._turns)[:2]
        self._rect = self._raw.FS_RECTF()

    def line(self, text: str, start: int, is_near_label: bool) -> tuple[Any, ...]:
        """The box of a line, and what else is known of it."""
        inner = text.strip()
        begin = start + len(text) - len(text.lstrip())
        end = begin + len(inner) - 1
        angle = self._raw.FPDFText_GetCharAngle(self._textpage, self._index(begin))
        turns = (-round(max(angle, 0.0) / (math.pi / 2)) - self._turns) % 4  # PDFium's angles are clockwise
        first, last = self._box(begin, turns), self._box(end, turns)
        gap, is_set_off = 0.0, False
        if is_near_label:
            spaces = [(match.start() - 1, match.end()) for match in _GAP.finditer(inner)]
            gap = max(
                (
                    self._box(begin + after, turns)[0] - self._box(begin + before, turns)[2]
                    for before, after in spaces
                ),
                default=0.0,
            )
            label = find_label(inner)
            if label is not None and (rest := inner[label.end :].lstrip()):
                is_set_off = self._font(begin) != self._font(end + 1 - len(rest))
        return first[0], first[1], max(last[2], first[2]), first[3], -turns % 4, gap, is_set_off

    def _box(self, position: int, turns: int) -> tuple[float, float, float, float]:
        rect = self._rect
        self._raw.FPDFText_GetLooseCharBox(self._textpage, self._index(position), rect)
        x, y = self._corner
        box = rect.left, rect.bottom, rect.right, rect.top
        left, bottom, right, top = turned(box, self._turns) if self._turns else box
        box = left - x, bottom - y, right - x, top - y
        return turned(box, turns) if turns else box

    def _index(self, position: int) -> int:
        """The number of a character of the text among those of the page, of which the text has not all."""
        if self._is_whole:
            return position
        return int(self._raw.FPDFText_GetCharIndexFromTextIndex(self._textpage, position))

    def _font(self, position: int) -> tuple[bytes, int]:
        position = self._index(position)
        buffer, flags = ctypes.create_string_buffer(128), ctypes.c_int()
        self._raw.FPDFText_GetFontInfo(self._textpage, position, buffer, 128, flags)
        return buffer.value, self._raw.FPDFText_GetFontWeight(self._textpage, position)


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

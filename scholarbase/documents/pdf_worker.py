"""The process that runs PDFium: a hostile PDF can crash or block it, not the caller. Started by ``pdfium``.

It reads requests from its standard input and answers each on its standard output: a length, JSON, a length, bytes.
It imports nothing of ScholarBase, so that it starts quickly.
"""

from __future__ import annotations

import json
import resource
import struct
import sys
import zlib
from typing import Any, BinaryIO

MEMORY = 3 << 30
"""Bytes of address space."""
_LENGTH = struct.Struct(">Q")
_PASSWORD = 4
"""PDFium's error code for a PDF with a password."""


class Refused(Exception):
    """The request cannot be answered: a word for the reason, and facts."""

    def __init__(self, reason: str, **facts: Any) -> None:
        super().__init__(reason)
        self.answer = {"error": reason, **facts}


def write_message(stream: BinaryIO, fields: dict[str, Any], data: bytes) -> None:
    head = json.dumps(fields).encode()
    stream.write(_LENGTH.pack(len(head)) + head + _LENGTH.pack(len(data)))
    stream.write(data)
    stream.flush()


def read_message(stream: BinaryIO) -> tuple[dict[str, Any], bytes] | None:
    """The next message, None at the end of the stream."""
    head = _read(stream)
    data = None if head is None else _read(stream)
    return None if head is None or data is None else (json.loads(head), data)


def _read(stream: BinaryIO) -> bytes | None:
    prefix = stream.read(_LENGTH.size)
    if len(prefix) < _LENGTH.size:
        return None
    length = _LENGTH.unpack(prefix)[0]
    data = stream.read(length)
    return data if len(data) == length else None


def _open(data: bytes) -> Any:
    import pypdfium2

    try:
        return pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        locked = getattr(error, "err_code", None) == _PASSWORD or "password" in str(error).lower()
        raise Refused("encrypted" if locked else "broken") from error


def read_text(fields: dict[str, Any], data: bytes) -> tuple[dict[str, Any], bytes]:
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
        same = len(text) == count  # else some characters take two places, and boxes are found by searching
        lines = []
        start = 0
        for line in text.split("\n"):
            end = start + len(line)
            shown = line.rstrip("\r")
            first = next((place for place, sign in enumerate(shown) if not sign.isspace()), None)
            if first is not None:
                box = textpage.get_charbox(start + first, loose=True) if same else (0.0, 0.0, 0.0, 0.0)
                lines.append((shown, box[0], box[1], box[3]))
            start = end + 1
        return lines
    finally:
        textpage.close()


def draw(fields: dict[str, Any], data: bytes) -> tuple[dict[str, Any], bytes]:
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


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    actions = {"text": read_text, "draw": draw}
    while (message := read_message(sys.stdin.buffer)) is not None:
        fields, data = message
        used = resource.getrusage(resource.RUSAGE_SELF)
        seconds = int(used.ru_utime + used.ru_stime + fields["seconds"]) + 2
        resource.setrlimit(
            resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY)
        )  # also if the caller is gone
        try:
            answer, content = actions[fields["action"]](fields, data)
        except Refused as refused:
            answer, content = refused.answer, b""
        except MemoryError:
            answer, content = {"error": "memory"}, b""
        except Exception as error:
            answer, content = {"error": "broken", "detail": str(error)[:200]}, b""
        write_message(sys.stdout.buffer, answer, content)


if __name__ == "__main__":
    main()

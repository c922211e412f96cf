"""PDFs made with fpdf2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import fpdf

RED_SQUARE = (50.0, 60.0, 40.0, 40.0)
"""The picture on page 2: x, y, width, height in points from the top left corner."""


def new_pdf(**options: Any) -> fpdf.FPDF:
    """An empty PDF. Importing fpdf takes 0.3 s, which only the tests that run need."""
    import fpdf

    return fpdf.FPDF(**options)


def two_pages(password: str | None = None) -> bytes:
    """A page of text and one with a red square, each of 400 by 600 points."""
    pdf = new_pdf(unit="pt", format=(400, 600))
    pdf.set_title("Two pages and a picture")
    pdf.set_font("helvetica", size=11)
    pdf.add_page()
    for text in (
        "Abstract",
        "This paper has a picture.",
        "1 Introduction",
        "A red square is drawn on the second page. " * 8,
        "It has four sides. " * 10,
    ):
        pdf.multi_cell(0, text=text, new_x="LMARGIN", new_y="NEXT")
        pdf.ln(9)
    pdf.add_page()
    x, y, width, height = RED_SQUARE
    pdf.set_fill_color(255, 0, 0)
    pdf.rect(x, y, width, height, style="F")
    pdf.set_y(200)
    pdf.multi_cell(0, text="2 Results", new_x="LMARGIN", new_y="NEXT")
    if password is not None:
        from fpdf.enums import EncryptionMethod

        pdf.set_encryption(
            owner_password="owner", user_password=password, encryption_method=EncryptionMethod.RC4
        )
    return bytes(pdf.output())


def many_pages(count: int) -> bytes:
    pdf = new_pdf()
    for _ in range(count):
        pdf.add_page()
    return bytes(pdf.output())

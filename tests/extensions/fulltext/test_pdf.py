"""PDFs: text by page, and those that cannot be read."""

from collections.abc import Callable
from typing import Any

import pytest

from scholarbase.documents.model import BadDocument
from scholarbase_fulltext.pdf import read_pdf
from scholarbase_fulltext.pdfium import PdfWorker
from tests.documents.pdfs import many_pages, new_pdf, two_pages
from tests.extensions.fulltext.holding import check


def test_a_pdf_becomes_text_by_page() -> None:
    data = two_pages()
    full = read_pdf(data)
    document = full.document
    check(document)
    assert document.text == "\n\n".join(
        [
            "Abstract",
            "This paper has a picture.",
            "1 Introduction",
            ("A red square is drawn on the second page. " * 8).strip(),
            ("It has four sides. " * 10).strip(),
            "2 Results",
        ]
    )
    assert [(section.number, section.title) for section in document.sections] == [
        (None, "Abstract"),
        ("1", "Introduction"),
        ("2", "Results"),
    ]
    first, second = document.pages
    assert document.text[second.start : second.end] == "2 Results"
    assert first.start == 0
    assert first.end < second.start
    assert (first.width, first.height) == (400, 600)
    assert full.metadata.title == "Two pages and a picture"
    assert full.original == data


def empty_page() -> Any:
    pdf = new_pdf()
    pdf.set_font("helvetica", size=11)
    pdf.add_page()
    return pdf


def test_the_stamp_of_arxiv_says_which_paper_it_is() -> None:
    pdf = empty_page()
    pdf.set_title("paper_final.tex")
    with pdf.rotation(90, x=10, y=150):
        pdf.text(10, 150, "arXiv:2212.11867v2  [math.PR]  22 Dec 2022")
    pdf.text(40, 40, "arXiv:2001.00001v1 is cited here.")
    full = read_pdf(bytes(pdf.output()))
    assert (full.ids, full.version) == (("arXiv:2212.11867",), 2)
    assert full.metadata.title is None


def test_words_split_at_the_end_of_a_line_are_joined() -> None:
    pdf = empty_page()
    pdf.text(20, 30, "The state-of-the-")
    pdf.text(20, 35, "art has hyphens, and compu-")
    pdf.text(20, 40, "tation has none. GPT-")
    pdf.text(20, 45, "4 has one.")
    text = read_pdf(bytes(pdf.output())).document.text
    assert text == "The state-of-the-art has hyphens, and computation has none. GPT-4 has one."


@pytest.mark.parametrize(
    ("data", "reason", "sentence"),
    [
        (lambda: two_pages("secret"), "encrypted-pdf", "encrypted with a password"),
        (lambda: b"%PDF-1.7 and nothing", "broken-pdf", "is broken"),
        (bytes, "broken-pdf", "is broken"),
        (lambda: many_pages(2001), "too-many-pages", "has 2,001 pages: the maximum is 2,000"),
    ],
)
def test_bad_pdfs_are_refused_with_a_sentence(data: Callable[[], bytes], reason: str, sentence: str) -> None:
    with pytest.raises(BadDocument, match=sentence) as caught:
        read_pdf(data())
    assert caught.value.reason == reason


@pytest.mark.slow
def test_a_pdf_that_takes_too_long_is_given_up_and_others_are_read() -> None:
    worker = PdfWorker()
    with pytest.raises(BadDocument, match=r"was not read within 0\.01 s"):
        read_pdf(many_pages(500), worker, seconds=0.01)
    assert len(read_pdf(two_pages(), worker).document.pages) == 2
    worker.close()


def test_characters_without_names_are_marked() -> None:
    """Fonts without a ToUnicode map give codes, which no reader of PDFs can name."""
    pdf = empty_page()
    pdf.text(20, 30, "Named. \x01\x03\x04 Dashes \x15 and \x1cles.")
    document = read_pdf(bytes(pdf.output())).document
    assert document.text == "Named. \ufffd Dashes \u2013 and files."
    assert document.is_partly_lost

"""Plain text of TeX, HTML, JATS, MathML and odd Unicode.

Expected values were written by hand from the manuals of LaTeX, mhchem, biblatex, JATS and MathML, or computed by
pylatexenc, lxml and the standard library, as each test says.
"""

import html
from collections.abc import Callable
from functools import partial

import lxml.html
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pylatexenc.latex2text import LatexNodes2Text

from scholarbase.ingest.records import PaperRecord
from scholarbase.ingest.sources.cleaning import clean_paper
from scholarbase.markup import formulas_of, plain, plain_abstract
from tests.tables import cases, rows

READERS: dict[str, Callable[[str], str]] = {
    "bibtex": partial(plain, braces=True),
    "abstract": plain_abstract,
}


def test_markup_becomes_plain_text() -> None:
    for kind, text, expected in rows("markup"):
        assert READERS.get(kind, plain)(text) == expected, text


def test_pylatexenc_reads_the_same_letters() -> None:
    for text, expected in (*cases("markup", "accents"), *cases("markup", "letters")):
        if "Nguy" not in text:  # pylatexenc drops an accent that stands before a braced accent
            decoded = LatexNodes2Text().latex_to_text(text).replace("--", "\u2013")
            assert plain(decoded) == expected


def test_lxml_reads_the_same_words() -> None:
    for text, expected in cases("markup", "html"):
        if "math" not in text and "<sup>" not in text:
            unescaped = html.unescape(html.unescape(html.unescape(text)))
            words = " ".join(lxml.html.fromstring(f"<div>{unescaped}</div>").itertext()).split()
            assert "".join(words) == "".join(expected.split())


@given(st.text(st.characters(max_codepoint=0x2FF, exclude_characters="\\$~`{}&<-\u00ad")))
def test_text_without_markup_stays(text: str) -> None:
    assert plain(text) == " ".join(text.split())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CO$_2$  and\n water", "CO$_2$ and water"),
        (r"\(x\) and \ce{H2O}", r"\(x\) and \ce{H2O}"),
        (r"B\"acklund", None),
        ("It costs $5", None),
        ("CO<sub>2</sub>", None),
        ("plain", None),
    ],
)
def test_texts_with_formulas_are_kept_as_written(text: str, expected: str | None) -> None:
    assert formulas_of(text, plain(text)) == expected


def test_a_record_has_plain_texts_and_those_of_its_author() -> None:
    paper = PaperRecord(
        title=r"B\"acklund: $\alpha$ &amp; more",
        abstract="Abstract: CO$_2$.",
        authors=[(r"K. G{\"o}del", None)],
        venue="Phys. Rev. &amp; Co",
        details={"journal": [r"Ann. Poincar\'e", "1", None]},
    )
    clean_paper(paper)
    assert (paper.title, paper.abstract) == ("Bäcklund: α & more", "CO2.")
    assert (paper.written_title, paper.written_abstract) == (
        r"B\"acklund: $\alpha$ &amp; more",
        "CO$_2$.",
    )
    assert (paper.authors, paper.venue) == ([("K. Gödel", None)], "Phys. Rev. & Co")
    assert paper.details["journal"] == ["Ann. Poincaré", "1", None]

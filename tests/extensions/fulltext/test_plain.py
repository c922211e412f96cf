"""Plain text, with headings recognised by their numbers."""

from hypothesis import given, settings
from hypothesis import strategies as st

from scholarbase_fulltext.markdown import read_plain
from tests.extensions.fulltext.holding import check

TEXT = """A title

Abstract
What it is about.

1. Introduction

First words
on two lines.

2001 was a year.

3 Apples are eaten before section 2 comes.

1.1 Aims
The aims.

2 Method

5.3 Of 7 were red

Appendix

A Proofs

Q.E.D.
"""


def test_numbered_headings_in_sequence_begin_sections() -> None:
    document = read_plain(TEXT.encode()).document
    check(document)
    assert [(section.number, section.title, section.parent) for section in document.sections] == [
        (None, "Abstract", None),
        ("1", "Introduction", None),
        ("1.1", "Aims", 1),
        ("2", "Method", None),
        (None, "Appendix", None),
        ("A", "Proofs", None),
    ]
    assert "First words on two lines." in document.text
    assert "3 Apples are eaten before section 2 comes." in document.text


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from(["1 One", "2 Two", "1.1 Sub", "A App", "text", "", "References"])
        | st.text(max_size=9)
    )
)
def test_every_document_holds_together(lines: list[str]) -> None:
    check(read_plain("\n".join(lines).encode("utf-8", "replace")).document)

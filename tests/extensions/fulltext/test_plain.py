"""Plain text, with headings recognised by their numbers."""

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from scholarbase_fulltext.markdown import read_plain
from tests.extensions.fulltext.holding import check

TEXT = (Path(__file__).parent / "study.txt").read_bytes()


def test_numbered_headings_in_sequence_begin_sections() -> None:
    document = read_plain(TEXT).document
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

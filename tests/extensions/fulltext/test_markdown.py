"""Markdown with metadata, headings, code, tables and figures."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scholarbase.documents.model import BadDocument, FullText, Metadata
from scholarbase_fulltext import building
from scholarbase_fulltext.markdown import read_markdown
from tests.extensions.fulltext.holding import check

TEXT = (Path(__file__).parent / "study.md").read_text("utf-8")


def read(text: str) -> FullText:
    full = read_markdown(text.encode())
    check(full.document)
    return full


def test_a_file_becomes_sections_paragraphs_and_figures() -> None:
    document = read(TEXT).document
    assert document.text.split("\n\n") == [
        "A study: of marks",
        "Before the first section.",
        "1 Intro",
        "Text *with* two lines. Figure 3: A cat [1] And more.",
        "# not a heading\nNeither\n=======",
        "Setext",
        "- first\n- second goes on",
        "2.1 Deep",
        "Table 4: Numbers.",
        "| a | b |\n|---|---|\n| 1 | <2> |",
        "Alone",
        "Appendix",
    ]
    assert [(section.number, section.title, section.parent) for section in document.sections] == [
        (None, "A study: of marks", None),
        ("1", "Intro", 0),
        (None, "Setext", 0),
        ("2.1", "Deep", 2),
        (None, "Appendix", None),
    ]
    assert [(figure.kind, figure.label, figure.caption) for figure in document.figures] == [
        ("figure", "Figure 3", "A cat [1]"),
        ("table", "Table 4", "Numbers."),
        ("figure", "Figure 2", "Alone"),
    ]
    assert document.figures[1].html == (
        "<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>&lt;2&gt;</td></tr></table>"
    )
    assert [paragraph.kind for paragraph in document.paragraphs][-3:] == ["caption", "table", "caption"]


def test_metadata_say_which_paper_it_is() -> None:
    full = read(TEXT)
    assert full.ids == ("arXiv:2212.11867", "DOI:10.1000/x")
    assert full.version == 2
    assert full.metadata == Metadata(
        *("A study: of marks", None, ("Ada Lovelace", "Bo Ray"), "2022-12", "Journal of Marks"),
        keywords=("a", "b"),
    )


def test_the_only_heading_of_level_1_at_the_start_is_the_title() -> None:
    full = read("# Title\n\nText.\n\n## One\n\nMore.")
    assert full.metadata.title == "Title"
    assert full.document.text == "Text.\n\nOne\n\nMore."
    assert full.document.sections[0].parent is None


def test_a_file_of_nothing_is_a_document_of_nothing() -> None:
    assert read("").document.text == ""
    assert read("---\n").document.text == "---"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("---\ndoi: eleven\n---\n", "The doi in the metadata is invalid"),
        ("---\nversion: last\n---\n", "The version 'last' is invalid"),
        ("---\ndate: 3 May\n---\n", "The date '3 May' is invalid"),
        ("---\n{a: [1}\n---\n", "Line 2 of the metadata is not `key: value`"),
    ],
)
def test_invalid_metadata_are_refused(text: str, sentence: str) -> None:
    with pytest.raises(BadDocument, match=sentence):
        read(text)


def test_a_file_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(BadDocument, match=r"not valid UTF-8: byte 3 is 0xff") as caught:
        read_markdown(b"abc\xff")
    assert caught.value.reason == "not-utf-8"


PIECES = (
    "# A", "## 2.1 B", "---", "===", "```", "~~~", "| a | b |", "|---|---|", "- x", "![c](d)", "![Figure 1: e](f)",
    "Table 2: g", "text", "", "  ", "title: x", "\x00", "[1]", "![", "\u2028",
)  # fmt: skip


@settings(deadline=None)
@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=12), max_size=14).map("\n".join))
def test_every_document_holds_together(text: str) -> None:
    try:
        full = read_markdown(text.encode("utf-8", "surrogatepass"))
    except BadDocument:
        return
    check(full.document)


@pytest.mark.parametrize(
    ("part", "name"), [("# a\n\n", "sections"), ("|a|\n|-|\n|b|\n\n", "figures and tables")]
)
def test_a_document_of_too_many_parts_is_refused(
    monkeypatch: pytest.MonkeyPatch, part: str, name: str
) -> None:
    monkeypatch.setattr(building, "MAX_PARTS", 100)
    assert read_markdown((part * 100).encode()).document.text
    with pytest.raises(BadDocument, match=f"more than 100 {name}: split the document"):
        read_markdown((part * 101).encode())

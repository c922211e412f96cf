"""JATS: an article made by hand with the elements that articles have, and hostile XML."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scholarbase.documents.model import BadDocument, FullText, Metadata
from scholarbase_fulltext import jats
from scholarbase_fulltext.jats import read_articles
from tests.extensions.fulltext.holding import check, marks

ARTICLE = (Path(__file__).parent / "article.xml").read_text("utf-8")


def read(text: str | bytes) -> FullText:
    [full] = read_articles([text.encode() if isinstance(text, str) else text])
    if isinstance(full, BadDocument):
        raise full
    check(full.document)
    return full


def test_an_article_becomes_sections_and_paragraphs() -> None:
    document = read(ARTICLE).document
    assert document.text.split("\n\n") == [
        "Abstract",
        "Aim",
        "We mark.",
        "1 Intro [2]",
        "As shown[1],[2], and [1] or (Ray 2001), x holds in Figure 1:",
        "$x^2$",
        "so y = 1.",
        "Figure 1: A cat. After [1].",
        "1.1 Deep",
        "first\nsecond",
        "Table 1: Rows.",
        "a & b\n1 | 2",
        "A note.",
        "Acknowledgments",
        "Thanks.",
    ]
    assert [(section.number, section.title, section.parent) for section in document.sections] == [
        (None, "Abstract", None),
        (None, "Aim", 0),
        ("1", "Intro [2]", None),
        ("1.1", "Deep", 2),
        (None, "Acknowledgments", None),
    ]
    assert [paragraph.kind for paragraph in document.paragraphs] == [
        "paragraph", "paragraph", "formula", "paragraph", "caption", "list", "caption", "table", "paragraph",
        "paragraph",
    ]  # fmt: skip


def test_citation_marks_name_their_entries() -> None:
    document = read(ARTICLE).document
    assert marks(document) == ["[2]", "[1]", "[2]", "1", "Ray 2001", "Ray 2001", "[1]"]
    assert [citation.entry for citation in document.citations] == [1, 0, 1, 0, 0, 1, 0]
    first, second = document.bibliography
    assert (first.title, first.year, first.ids) == ("First work", 2001, ("DOI:10.1000/r1", "PMID:9"))
    assert first.text == "Ray B First work J 2001 10.1000/R1 9"
    assert second.text == "C. Ray, Second work, 1999. arXiv:hep-th/9901001"
    assert (second.year, second.ids) == (1999, ("arXiv:hep-th/9901001",))


def test_figures_and_tables_have_captions_and_html() -> None:
    figure, table = read(ARTICLE).document.figures
    assert (figure.kind, figure.label, figure.caption) == ("figure", "Figure 1", "A cat. After [1].")
    assert (table.kind, table.label, table.caption) == ("table", "Table 1", "Rows.")
    assert table.html == (
        '<table><thead><tr><th colspan="2">a &amp; b</th></tr></thead>'
        "<tbody><tr><td>1</td><td>2</td></tr></tbody></table>"
    )


def test_the_front_says_which_paper_it_is() -> None:
    full = read(ARTICLE)
    assert full.ids == ("PMID:123", "PMCID:456", "DOI:10.1000/art.1")
    assert full.metadata == Metadata(
        "Marks in XML", "We mark.", ("Ada B. Lovelace", "{The Group}"), "2020-03-05", "Journal of Marks"
    )


def test_an_article_in_a_wrapper_is_found() -> None:
    body = "<article><body><p>Alone.</p></body></article>"
    assert read(f"<pmc-articleset>{body}</pmc-articleset>").document.text == "Alone."


BOMB = (
    '<!DOCTYPE article [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
    "<article><body><p>&b;</p></body></article>"
)
EXTERNAL = (
    '<!DOCTYPE article [<!ENTITY x SYSTEM "file:///etc/passwd">]><article><body><p>&x;</p></body></article>'
)
PARAMETER = '<!DOCTYPE article [<!ENTITY % x SYSTEM "http://localhost/x.dtd"> %x;]><article/>'


def test_hostile_and_other_xml_is_refused_with_a_sentence() -> None:
    for text, reason in (
        (BOMB, "unsafe-xml"),
        (EXTERNAL, "unsafe-xml"),
        (PARAMETER, "unsafe-xml"),
        ("<article>" + "<sec>" * 5000 + "</sec>" * 5000 + "</article>", "too-deep"),
        ("<article><body></article>", "not-xml"),
        ("", "not-xml"),
        ("<article>&undefined;</article>", "not-xml"),
        (b"<article>\xff</article>", "not-xml"),
        (b'<?xml version="1.0" encoding="rot13"?><article/>', "not-xml"),
        ("<html><body/></html>", "not-jats"),
    ):
        with pytest.raises(BadDocument) as caught:
            read(text)
        assert caught.value.reason == reason
        assert caught.value.detail.endswith(".")


def article_of(number: int, prefix: str = "") -> str:
    meta = f'<article-id pub-id-type="doi">10.1000/set{number}</article-id><title-group>'
    meta += f"<article-title>Article {number}</article-title></title-group>"
    text = f"<front><article-meta>{meta}</article-meta></front><body><p>Text {number}.</p></body>"
    text += "<sub-article><body><p>A review.</p></body></sub-article>"
    return f"<article>{text}</article>" if not prefix else f'<a:article xmlns:a="urn:a">{text}</a:article>'


@pytest.mark.parametrize(
    ("before", "between", "after"),
    [
        ("<pmc-articleset>", "", "</pmc-articleset>"),
        ("<articles>\n", "\n", "\n</articles>"),
        (
            "<OAI-PMH><ListRecords><record><header/><metadata>",
            "</metadata></record><record><header/><metadata>",
            "</metadata></record></ListRecords></OAI-PMH>",
        ),
        ("<set><part>", "</part><part><part>", "</part></part></set>"),
    ],
)
@pytest.mark.parametrize("size", [7, 1_000_000])
def test_all_articles_of_a_file_are_read(before: str, between: str, after: str, size: int) -> None:
    articles = [article_of(1), article_of(2, "a:"), article_of(3)]
    data = (before + between.join(articles) + after).encode()
    found = list(read_articles(data[start : start + size] for start in range(0, len(data), size)))
    assert [(one.ids, one.metadata.title) for one in found if isinstance(one, FullText)] == [
        ((f"DOI:10.1000/set{number}",), f"Article {number}") for number in (1, 2, 3)
    ]
    assert [one.document.text for one in found if isinstance(one, FullText)] == [
        "Text 1.",
        "Text 2.",
        "Text 3.",
    ]


def test_an_article_that_is_refused_does_not_end_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jats, "MAX_ELEMENTS", 100)
    long = f"<article><body>{'<p/>' * 200}</body></article>"
    data = f"<articles>{article_of(1)}{long}{article_of(2)}<article>".encode()
    found = [one.reason if isinstance(one, BadDocument) else one.ids for one in read_articles([data])]
    assert found == [("DOI:10.1000/set1",), "too-long", ("DOI:10.1000/set2",), "not-xml"]


TAGS = (
    "p", "sec", "title", "label", "fig", "caption", "list", "list-item", "table-wrap", "table", "tr", "td", "xref",
    "disp-formula", "italic", "sup", "ack", "boxed-text",
)  # fmt: skip


def element(tag: str, text: str, children: list[str]) -> str:
    attributes = ' ref-type="bibr" rid="r1 r2"' if tag == "xref" else ""
    return f"<{tag}{attributes}>{text}{' '.join(children)}</{tag}>{text[:2]}"


elements = st.recursive(
    st.sampled_from(["", "a", "[", " 1 ", "]", ": "]),
    lambda inner: st.builds(
        element,
        st.sampled_from(TAGS),
        st.sampled_from(["", "b", " [", "2", "\n"]),
        st.lists(inner, max_size=4),
    ),
    max_leaves=20,
)


@settings(max_examples=50, deadline=None)
@given(st.lists(elements, max_size=5).map("".join))
def test_every_document_holds_together(body: str) -> None:
    references = '<ref-list><ref id="r1"/><ref id="r2"/></ref-list>'
    read(f"<article><body>{body}</body><back>{body}{references}</back></article>")


def test_a_subtitle_is_of_the_title() -> None:
    text = article_of(1).replace("</article-title>", "</article-title><subtitle>And more</subtitle>")
    [full] = read_articles([text.encode()])
    assert isinstance(full, FullText)
    assert full.metadata.title == "Article 1: And more"


def test_a_mark_of_a_footnote_is_not_of_the_title() -> None:
    notes = '<sup><xref ref-type="fn" rid="n"><bold>*</bold></xref></sup> in <sup>13</sup>C<fn><p>Dedicated.</p></fn>'
    [full] = read_articles([article_of(1).replace("</article-title>", f"{notes}</article-title>").encode()])
    assert isinstance(full, FullText)
    assert full.metadata.title == "Article 1 in 13C"

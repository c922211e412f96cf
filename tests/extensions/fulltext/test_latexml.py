"""HTML of LaTeXML: 30 pages that it made of TeX, compared with the TeX; forms of other versions; and hostile pages."""

import json
import re
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scholarbase.documents.model import BadDocument, Document
from scholarbase_fulltext import latexml_tree
from scholarbase_fulltext.building import InlineBuilder
from scholarbase_fulltext.latexml import read_latexml
from tests.extensions.fulltext.holding import check, marks

FOLDER = Path(__file__).parent / "latexml"
EXPECTED = json.loads((FOLDER / "expected.json").read_text("utf-8"))
"""What the TeX of each page has, read by a script from the TeX: texts are :func:`compact`. ``arabic`` are classes with
numbers such as 2.1. LaTeXML numbers sections and tables of others in its own way: appendices of llncs are 0.A, tables
of revtex have Arabic numbers. ``has_entries`` are papers whose bibliography is in the TeX, and not in ``refs.bib``."""
BEGIN = '<!DOCTYPE html><html><body><article class="ltx_document">'
_SYNONYMS: Final = {
    r"\le": r"\leq",
    r"\ge": r"\geq",
    r"\ne": r"\neq",
    r"\gets": r"\leftarrow",
    r"\to": r"\rightarrow",
}
_CITE: Final = re.compile(r"\\cite[tp]?(?:\[[^\]]*\])*\{([^}]*)\}")


def compact(text: str) -> str:
    """TeX, or the text of a reader, without the differences that have no meaning: white space, braces and fonts."""
    text = re.sub(r"\\(?:newblock|displaystyle|nonumber|noindent|centering)(?![a-zA-Z])", "", text)
    text = re.sub(r"\\label\{[^}]*\}", "", text)
    text = re.sub(r"\\href\{[^}]*\}", "", text)
    text = _CITE.sub("", text)
    text = re.sub(r"\\(?:emph|textbf|texttt|textsc|url|item)(?![a-zA-Z])", "", text)
    text = (
        text.replace("---", "\u2014").replace("--", "\u2013").replace("``", "\u201c").replace("''", "\u201d")
    )
    text = text.replace("'", "\u2019") if "$" not in text else text
    text = re.sub(r"\\([%&$_#])", r"\1", text)
    for name, other in _SYNONYMS.items():
        text = re.sub(re.escape(name) + r"(?![a-zA-Z])", lambda _, other=other: other, text)
    return re.sub(r"[\s{}~&]+", "", text).replace(r"\\", "")


class Page(NamedTuple):
    name: str
    about: dict[str, Any]
    """What is expected of it."""
    document: Document


@cache
def pages() -> list[Page]:
    """Papers as Debian's ``latexmlc --format=html5 --nodefaultresources`` writes them, beside their TeX."""
    with tarfile.open(FOLDER / "pages.tar.xz") as archive:
        files = {one.name: archive.extractfile(one).read() for one in archive if one.isfile()}  # type: ignore[union-attr]
    names = sorted(name for name in files if name.endswith(".tex"))
    return [
        Page(name, EXPECTED[name], read_latexml(files[name.replace(".tex", ".html")]).document)
        for name in names
    ]


def compared(expected: Iterable[object], read: Iterable[object]) -> tuple[int, int, list[object]]:
    """How many of the expected ones were read, how many are of one side at least, and those that are of one only."""
    left, right = Counter(map(repr, expected)), Counter(map(repr, read))
    differing = [*(left - right).elements(), *(right - left).elements()]
    return sum((left & right).values()), sum((left | right).values()), differing


def sections_of(page: Page) -> list[Any]:
    found = [one for one in page.document.sections if one.title not in ("Abstract", "Acknowledgements")]
    if page.about["arabic"]:
        return [[one.number or "", compact(one.title)] for one in found]
    return [compact(one.title) for one in found]


def formulas_of(page: Page) -> list[Any]:
    return [compact(one) for text in texts_of(page.document) for one in re.findall(r"\$([^$]+)\$", text)]


def texts_of(document: Document) -> Iterator[str]:
    for paragraph in document.paragraphs:
        yield from document.text[paragraph.start : paragraph.end].split("\n")
    yield from (section.title for section in document.sections)


def captions_of(page: Page) -> list[Any]:
    has_numbers = page.about["arabic"] and not page.about["report"]
    return [
        [one.kind, one.label.partition(" ")[2] if has_numbers else "", compact(one.caption)]
        for one in page.document.figures
    ]


def footnotes_of(page: Page) -> list[Any]:
    paragraphs = (page.document.text[one.start : one.end] for one in page.document.paragraphs)
    return [compact(one.partition(": ")[2]) for one in paragraphs if one.startswith("Footnote")]


def references_of(page: Page) -> list[Any]:
    entries = page.document.bibliography
    if page.about["has_entries"]:
        return [compact(one.text) for one in entries]
    return [(one.title or "").lower() for one in entries]


def ids_of(page: Page) -> list[Any]:
    return [id_ for one in page.document.bibliography for id_ in one.ids]


def citations_of(page: Page) -> list[Any]:
    titles = [(one.title or "").lower() for one in page.document.bibliography]
    keys = page.about["keys"] or [EXPECTED["refs.bib"].get(title, "") for title in titles]
    return [keys[one.entry] for one in page.document.citations]


PARTS = {
    "sections": sections_of,
    "formulas": formulas_of,
    "captions": captions_of,
    "footnotes": footnotes_of,
    "references": references_of,
    "ids": ids_of,
    "citations": citations_of,
}


@pytest.mark.parametrize("part", PARTS)
def test_30_pages_have_what_their_tex_has(part: str) -> None:
    same = total = 0
    differing: list[tuple[str, list[object]]] = []
    for page in pages():
        expected, read = page.about[part], PARTS[part](page)
        if part == "sections":  # in their order
            expected, read = list(enumerate(expected)), list(enumerate(read))
        some, of, others = compared(expected, read)
        same, total = same + some, total + of
        differing += [(page.name, others)] if others else []
    assert len(pages()) == 30
    assert same / total >= 0.99, f"{same} of {total} {part}: {differing}"


def test_offsets_and_parts_of_the_30_pages_agree() -> None:
    for page in pages():
        check(page.document)


def test_a_page_of_arxiv_names_its_paper_and_version() -> None:
    page = """<!DOCTYPE html><html lang="en"><head><base href="/html/2402.08954v1/"/></head><body>
    <header><nav><a href="#S1">1 Introduction</a></nav></header><div class="ltx_page_main">
    <div id="target-section"><a id="license-tr">License: CC BY 4.0</a>
    <div id="watermark-tr">arXiv:2402.08954v3 [cs.CV] 14 Feb 2024</div></div>
    <article class="ltx_document"><h1 class="ltx_title ltx_title_document">A title</h1>
    <div class="ltx_authors"><span class="ltx_creator ltx_role_author"><span class="ltx_personname">
     Ada Lovelace<sup>1</sup>, Carl Gau&szlig;<sup>2</sup> and Kurt G&ouml;del<br>1 London
     2 G&ouml;ttingen</span></span></div>
    <div class="ltx_abstract"><h6 class="ltx_title ltx_title_abstract">Abstract.</h6><p class="ltx_p">Short.</p></div>
    <div class="ltx_para" id="p1"><p class="ltx_p">No section <cite class="ltx_cite">
    <sup class="ltx_sup"><a href="https://arxiv.org/html/2402.08954v3#bib.bib1">1</a></sup></cite>.</p></div>
    <section class="ltx_bibliography" id="bib"><ul class="ltx_biblist"><li class="ltx_bibitem" id="bib.bib1">
    <span class="ltx_tag ltx_tag_bibitem">1</span>
    <span class="ltx_bibblock">J. Doe. Ideas. 1999. hep-th/9901001</span></li></ul></section></article></div>
    <footer>Report an issue</footer></body></html>"""
    full = read_latexml(page.encode())
    assert full.ids == ("arXiv:2402.08954",)
    assert full.version == 3
    assert full.metadata.title == "A title"
    assert full.metadata.authors == ("Ada Lovelace", "Carl Gauß", "Kurt Gödel")
    assert full.metadata.abstract == "Short."
    assert full.document.text == "Abstract\n\nShort.\n\nText\n\nNo section [1]."
    assert marks(full.document) == ["[1]"]
    assert full.document.bibliography[0].ids == ("arXiv:hep-th/9901001",)
    check(full.document)


def test_a_page_of_ar5iv_has_formulas_with_annotations() -> None:
    page = f"""<!DOCTYPE html><html><head><title>[2301.00001] A</title>
    <link rel="canonical" href="https://ar5iv.labs.arxiv.org/html/2301.00001"></head><body>{BEGIN}
    <section class="ltx_section"><h2 class="ltx_title ltx_title_section"><span class="ltx_tag">1 </span>A</h2>
    <div class="ltx_para"><p class="ltx_p">So <math id="m"><semantics><mrow><mi>x</mi></mrow><annotation-xml
    encoding="MathML-Content"><ci>x</ci></annotation-xml><annotation encoding="application/x-tex">x^{{2}}%
    \\alpha</annotation></semantics></math> and <math><mi>y</mi><mo>=</mo><mn>1</mn></math>
    <span class="ltx_ERROR undefined">\\badcommand</span>hold.</p></div></section></article></body></html>"""
    full = read_latexml(page.encode())
    assert full.ids == ("arXiv:2301.00001",)
    assert full.document.text == "1 A\n\nSo $x^{2}\\alpha$ and $y=1$ hold."


def test_footnotes_and_figures_inside_of_text_come_after_it() -> None:
    page = f"""{BEGIN}<div class="ltx_para"><p class="ltx_p">One<span class="ltx_note ltx_role_footnote"><sup
    class="ltx_note_mark">1</sup><span class="ltx_note_outer"><span class="ltx_note_content"><sup
    class="ltx_note_mark">1</sup><span class="ltx_tag ltx_tag_note">1</span>A note.</span></span></span> two.</p>
    <ul class="ltx_itemize"><li class="ltx_item"><span class="ltx_tag ltx_tag_item">(i)</span><div class="ltx_para"><p
    class="ltx_p">item</p></div><figure class="ltx_figure"><figcaption><span class="ltx_tag">Figure 1:
    </span>A cat.</figcaption></figure></li></ul></div>"""
    document = read_latexml(page.encode()).document
    assert document.text == "One two.\n\nFootnote 1: A note.\n\n(i) item\n\nFigure 1: A cat."
    assert [(one.label, one.caption) for one in document.figures] == [("Figure 1", "A cat.")]


def test_each_caption_of_a_figure_of_two_counts_once() -> None:
    left, right = (
        f'<figcaption><span class="ltx_tag">Figure {n}: </span>{side}</figcaption>'
        for n, side in ((3, "Left"), (4, "Right"))
    )
    page = f'{BEGIN}<figure class="ltx_figure">{left}<div><img src="a"></div>{left}{right}</figure>'
    document = read_latexml(page.encode()).document
    assert document.text == "Figure 3: Left\n\nFigure 4: Right"
    assert [(one.label, one.caption) for one in document.figures] == [
        ("Figure 3", "Left"),
        ("Figure 4", "Right"),
    ]


def test_tables_keep_spans_citations_and_tables_in_cells() -> None:
    page = f"""{BEGIN}<figure class="ltx_table"><figcaption class="ltx_caption">No number</figcaption>
    <span class="ltx_tabular"><span class="ltx_tbody"><span class="ltx_tr">
    <span class="ltx_td" rowspan="2">a &lt; b</span>
    <span class="ltx_td"><table class="ltx_tabular"><tr><td>in</td><td>side</td></tr></table></span></span>
    <span class="ltx_tr"><span class="ltx_td"><cite><a href="#bib.bib7">Doe</a></cite></span></span></span></span>
    </figure>
    <section class="ltx_bibliography"><ul><li class="ltx_bibitem" id="bib.bib7">J. Doe</li></ul></section>"""
    document = read_latexml(page.encode()).document
    assert document.text == "Table 1: No number\n\na < b | in side\nDoe"
    assert document.figures[0].html == (
        '<table><tbody><tr><td rowspan="2">a &lt; b</td><td>in side</td></tr><tr><td>Doe</td></tr></tbody></table>'
    )
    assert marks(document) == ["Doe"]


def test_a_table_in_small_type_keeps_its_rows() -> None:
    page = f"""{BEGIN}<figure class="ltx_table">
    <div class="ltx_caption"><span class="ltx_tag">Table 2: </span>Small</div>
    <div class="ltx_inline-block ltx_transformed_outer"><span class="ltx_transformed_inner"><p class="ltx_p">
    <span class="ltx_text"><span class="ltx_tabular"><span class="ltx_tr"><span class="ltx_td">1</span>
    <span class="ltx_td">2</span></span></span></span></p></span></div></figure>"""
    document = read_latexml(page.encode()).document
    assert document.text == "Table 2: Small\n\n1 | 2"
    assert document.paragraphs[1].kind == "table"
    assert document.figures[0].html == "<table><tr><td>1</td><td>2</td></tr></table>"


def test_other_encodings_are_read() -> None:
    page = f'<html><head><meta charset="iso-8859-2"></head>{BEGIN}<p class="ltx_p">Erdős</p></article></html>'
    assert read_latexml(page.encode("iso-8859-2")).document.text == "Erdős"
    assert read_latexml(page.replace("iso-8859-2", "nonsense").encode("utf-8-sig")).document.text == "Erdős"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("<div>" * 100_000, "too-deep"),
        ("<div>" * 100_000 + "</span>" * 100_000, "too-deep"),
        ("<math>" + "<mrow>" * 100_000, "too-deep"),
        ('<math alttext="x">' + "<mrow>" * 100_000, "too-deep"),
        ("<i></i>" * 600_000, "too-long"),
        ('<section class="ltx_section"><h2 class="ltx_title">a</h2></section>' * 50_001, "too-many-parts"),
    ],
)
def test_hostile_pages_are_refused(content: str, reason: str) -> None:
    with pytest.raises(BadDocument) as caught:
        read_latexml((BEGIN + content).encode())
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    "content",
    [
        "<script>" + "<p>text" * 10_000 + "</script>",
        "<style>" + "p{}" * 10_000 + "</style>",
        "<!--" + "<p>text" * 10_000,
        '<p title="' + "x" * 1_000_000 + '"></p>',
        "<svg>" + "<text>label</text>" * 10_000 + "</svg>",
        "<p></p>" * 10_000 + "</section>" * 10_000,
    ],
)
def test_what_is_no_text_is_skipped(content: str) -> None:
    assert read_latexml((BEGIN + content + "</article>").encode()).document.text == ""


def test_entities_are_only_those_of_html() -> None:
    page = (
        '<!DOCTYPE html [<!ENTITY a "bbbb"><!ENTITY f SYSTEM "file:///etc/passwd">]>'
        + BEGIN
        + "<p>&a;&f;&lt;</p>"
    )
    assert read_latexml(page.encode()).document.text == "&a;&f;<"


def test_nesting_below_the_limit_is_read() -> None:
    for tag in ("div", 'section class="ltx_section"', 'figure class="ltx_figure"', 'b class="ltx_note"', "sup",
                'div class="ltx_theorem"', 'b class="ltx_equation"'):  # fmt: skip
        page = BEGIN + f"<{tag}>" * (latexml_tree.MAX_DEPTH - 5) + "x"
        assert "x" in read_latexml(page.encode()).document.text


@pytest.mark.parametrize("row", ["{}", "<table>{}</table>", "<span>{}</span>"])
def test_an_equation_without_mathml_is_its_text(row: str) -> None:
    inner = (
        '<tr class="ltx_equation ltx_eqn_row"><td><span class="ltx_text ltx_markedasmath">only words</span></td>'
        '<td class="ltx_eqn_eqno"><span class="ltx_tag ltx_tag_equation">(1)</span></td></tr>'
        '<tr class="ltx_equation ltx_eqn_row"><td><span class="ltx_Math"><i>x</i></span> <img class="ltx_graphics">'
        '</td><td><span class="ltx_tag">(2)</span></td></tr><tr class="ltx_equation ltx_eqn_row"></tr>'
    )
    page = f'{BEGIN}<table class="ltx_equation ltx_eqn_table">{row.format(inner)}</table></article>'
    document = read_latexml(page.encode()).document
    assert [one.kind for one in document.paragraphs] == ["formula"]
    assert document.text == "only words (1)\nx (2)"


@pytest.mark.parametrize(
    ("tag", "times"),
    [
        ('<table class="ltx_equation"><tr><td>x', 80),
        ('<div class="ltx_equation"><span class="ltx_eqn_row">x', 110),
        ('<ul><li class="ltx_bibitem">x', 110),
        ('<span class="ltx_personname">A B ', 200),
        ('<div class="ltx_listing"><div class="ltx_listingline">x', 100),
        ('<div class="ltx_listingline">x', 200),
        ('<span class="ltx_note">x', 200),
        ('<figure class="ltx_figure"><div class="ltx_caption">x<div class="ltx_caption">y', 80),
        ("<math>x", 200),
        ('<li class="ltx_bibitem"><b class="ltx_bib_external">x' + '<b class="ltx_bib_external">x' * 200, 1),
    ],
)
def test_each_element_is_read_a_few_times_however_deep(
    tag: str, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = 0

    def counted(builder: InlineBuilder, text: str) -> None:
        nonlocal read
        read += len(text)
        add(builder, text)

    add = InlineBuilder.add
    monkeypatch.setattr(InlineBuilder, "add", counted)
    page = f"{BEGIN}{tag * times}{'word ' * 2000}"
    read_latexml(page.encode())
    assert read < 10 * len(page)


def test_other_html_is_refused() -> None:
    with pytest.raises(BadDocument) as caught:
        read_latexml(b"<html><body><p>A page</p></body></html>")
    assert caught.value.reason == "not-latexml"


PIECE = st.sampled_from(
    ["<p>", "</p>", '<section class="ltx_section">', "</section>", '<h2 class="ltx_title">', "</h2>", "text ", "&lt;",
     '<figure class="ltx_figure">', "</figure>", "<figcaption>", '<span class="ltx_tag">', "</span>", "<math>",
     "</math>", '<math alttext="x">',
     '<cite><a href="#b">', "</a></cite>", '<li class="ltx_bibitem" id="b">', "</li>", "<sup>",
     '<ul class="ltx_itemize">', "</ul>", '<span class="ltx_note">', '<table class="ltx_tabular">', "<tr><td>",
     "</table>", '<div class="ltx_abstract">',
     "</div>", '<div class="ltx_theorem">', "<pre>a\nb</pre>", '<tr class="ltx_eqn_row">']
)  # fmt: skip


@given(st.lists(PIECE, max_size=30))
@settings(max_examples=60)
def test_any_order_of_elements_gives_a_consistent_document(pieces: list[str]) -> None:
    check(read_latexml((BEGIN + "".join(pieces)).encode()).document)

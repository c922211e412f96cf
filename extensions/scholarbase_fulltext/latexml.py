"""Reads HTML of LaTeXML, as arXiv and ar5iv have it: one page is one paper (https://math.nist.gov/~BMiller/LaTeXML).

The parts of a page are told apart by their classes (``ltx_section``, ``ltx_bibitem``), as one part may be a ``div`` or
a ``span``. Formulas are the TeX that LaTeXML keeps with each of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from xml.etree.ElementTree import Element

from scholarbase.bibliographies.ids import find_ids
from scholarbase.bibliographies.years import years_in
from scholarbase.documents.model import (
    BadDocument,
    BibliographyEntry,
    Document,
    FigureKind,
    FullText,
    Metadata,
    ParagraphKind,
    arxiv_version,
)
from scholarbase_fulltext.building import DocumentBuilder, Inline, InlineBuilder, known_ids
from scholarbase_fulltext.latexml_tree import (
    BLOCKS,
    HEADINGS,
    SEPARATED,
    captions_of,
    classed,
    classes_of,
    has_class,
    outermost,
    parse_page,
    role_of,
    table_rows,
    tabulars_of,
    tag_of,
    title_of,
)
from scholarbase_fulltext.tables import html_of

MARK: Final = b"ltx_"
"""What the classes of LaTeXML begin with."""
_BULLETS: Final = "•◦–—-∗*⁃·∙○■▪▶►○∎"
_ENDS: Final = "∎□■ \n"
"""What ends a proof, and is no paragraph."""
_LINE_END: Final = re.compile(r"(?<!\\)%[ \t]*\n[ \t]*")
"""LaTeXML breaks long TeX with comments."""
_STYLE: Final = re.compile(r"\\(?:display|text|script|scriptscript)style(?![a-zA-Z])\s*")
_NUMBER_WORD: Final = re.compile(r"(?:appendix|annexe?|anhang|section|chapter|§)\s*(?=\S)", re.IGNORECASE)
_PAGE_LINK: Final = re.compile(r"/(?:html|abs|pdf)/([^?#]{4,40}?)/?$")
_NAMES: Final = re.compile(r",|;|&| and |\s{2,}| et ")


def read_latexml(data: bytes) -> FullText:
    """The full text of a page that LaTeXML made.

    Raises:
        BadDocument: it is too deep or too long, or not a page of LaTeXML.
        MissingExtra: lxml is not installed.
    """
    page = parse_page(data)
    article = next((element for element in page.iter("article") if has_class(element, "ltx_document")), None)
    if article is None:
        article = next(
            (element for element in page.iter() if has_class(element, "ltx_document", "ltx_page_main")), None
        )
    if article is None:
        raise BadDocument(
            "not-latexml", "The HTML has no element of the class ltx_document, as LaTeXML writes it."
        )
    ids, version = _ids_of(page)
    reader = _Reader(article)
    return FullText("latexml", reader.document(), ids, version, reader.metadata)


def _ids_of(page: Element) -> tuple[tuple[str, ...], int | None]:
    """The arXiv id and version of a page: of the stamp on its margin, or of the page's address in its head."""
    stamp = next((element for element in page.iter("div") if element.get("id") == "watermark-tr"), None)
    names = [] if stamp is None else "".join(stamp.itertext()).split()[:1]
    links = list(page.iter("base")) + [link for link in page.iter("link") if link.get("rel") == "canonical"]
    names += [match[1] for link in links if (match := _PAGE_LINK.search(link.get("href", "")))]
    for name in names:
        if ids := known_ids([name if name.startswith("arXiv:") else f"arXiv:{name}"]):
            return tuple(ids), arxiv_version(name.removeprefix("arXiv:"))
    return (), None


class _Reader:
    def __init__(self, article: Element) -> None:
        self._article = article
        self._builder = DocumentBuilder()
        self._refs: dict[str, int] = {}
        self._after: list[Element] = []
        """Footnotes and figures inside of the block that is read, which come after it."""
        self._lead = ""
        """What begins the next paragraph, such as *Theorem 1.*"""
        self._is_in_equation = False
        """Whether an equation is read: those inside of it are running text, so that their rows are read once."""
        self._is_abstract_open = False
        """Whether text without a section would belong to the abstract."""
        self._builder.bibliography.extend(self._entries())
        self.metadata = self._metadata()

    def document(self) -> Document:
        """The text with its parts."""
        self._contents(self._article, 1)
        self._flush(1)
        return self._builder.build()

    # -- front and back -------------------------------------------------------------------------------------

    def _metadata(self) -> Metadata:
        title = next(
            (element for element in self._article.iter("h1") if has_class(element, "ltx_title_document")),
            None,
        )
        abstract = next(
            (element for element in self._article.iter() if has_class(element, "ltx_abstract")), None
        )
        content = [] if abstract is None else [element for element in abstract if element.tag not in HEADINGS]
        names = classed(self._article, "ltx_personname")
        return Metadata(
            title=self._text(title) or None,
            abstract=" ".join(filter(None, map(self._text, content))) or None,
            authors=tuple(dict.fromkeys(name for element in names for name in self._names(element))),
        )

    def _names(self, element: Element) -> Iterator[str]:
        """The names in the field of an author, which often has several with marks and addresses."""
        pieces = [element.text or ""]
        for child in element:
            if child.tag == "br":
                break
            if child.tag not in ("sup", "math") and role_of(child) != "note":
                pieces.append(self._text(child))
            pieces.append(child.tail or "")
        for name in _NAMES.split("".join(pieces).strip()):
            words = name.split()
            if 1 < len(words) < 7 and words[0][0].isupper() and not re.search(r"[\d@]", name):
                yield " ".join(words)

    def _entries(self) -> Iterator[BibliographyEntry]:
        items = outermost(
            self._article, lambda element: element.tag == "li" and has_class(element, "ltx_bibitem")
        )
        for position, item in enumerate(items):
            if (name := item.get("id")) is not None:
                self._refs.setdefault(name, position)
            yield self._entry(item)

    def _entry(self, item: Element) -> BibliographyEntry:
        blocks = [self._text(element) for element in item if has_class(element, "ltx_bibblock")]
        if not blocks:
            blocks = [self._text(element) for element in item if not has_class(element, "ltx_tag")] or [
                item.text or ""
            ]
        text = " ".join(filter(None, blocks))
        parts = {
            name: element
            for element in item.iter()
            for name in classes_of(element)
            if name.startswith("ltx_bib_")
        }
        title = self._text(parts.get("ltx_bib_title"))
        if not title and len(blocks) > 2:  # of BibTeX's styles: authors, title, where it was published
            title = blocks[1].strip("\u201c\u201d\"' ").rstrip(".,")
        links = [href for link in item.iter("a") if (href := link.get("href", "")).startswith("http")]
        links += [f"arXiv:{self._text(element)}" for element in classed(item, "ltx_bib_external")]
        ids = [*known_ids(links), *(str(identifier.id) for identifier in find_ids(text))]
        year = years_in(self._text(parts.get("ltx_bib_year")))[0]
        return BibliographyEntry(
            text,
            title or None,
            year if year is not None else years_in(text)[0],
            tuple(dict.fromkeys(name for name in ids if not name.startswith("URL:"))),
        )

    # -- sections and blocks --------------------------------------------------------------------------------

    def _section(self, element: Element, level: int, name: str = "") -> None:
        heading = title_of(element)
        tag = tag_of(heading)
        number = self._text(tag).rstrip(".:") if tag is not None else ""
        title = InlineBuilder()
        if heading is not None:
            self._fill_children(title, heading, skipped=tag)
        inline = title.build()
        if name or has_class(element, "ltx_acknowledgements"):
            inline = Inline(inline.text.rstrip(".:") or name, inline.citations)
        if inline.text or number:
            self._builder.heading(inline, level=level, number=_NUMBER_WORD.sub("", number) or None)
        self._contents(element, level + 1)
        self._flush(level + 1)

    def _contents(self, element: Element, level: int) -> None:
        """The blocks in an element. Text between them is a paragraph."""
        building = InlineBuilder()
        building.add(element.text or "")
        for child in element:
            role = role_of(child)
            if role in BLOCKS:
                self._paragraph(building.build(), level)
                building = InlineBuilder()
                self._block(child, role, level)
            elif role != "skipped":
                self._fill(building, child)
            building.add(child.tail or "")
        self._paragraph(building.build(), level)

    def _block(self, element: Element, role: str, level: int) -> None:
        match role:
            case "section":
                self._is_abstract_open = False
                self._section(element, 1 if has_class(element, "ltx_acknowledgements") else level)
            case "abstract":
                self._section(element, 1, "Abstract")
                self._is_abstract_open = True
            case "keywords":
                self._builder.paragraph(self._text(element))
            case "float":
                self._float(element, level)
            case "list":
                self._paragraph(self._list(element), level, "list")
            case "equation":
                self._paragraph(self._equation(element), level, "formula")
            case "theorem":
                self._theorem(element, level)
            case "lines":
                self._paragraph(self._lines(element), level)
            case "tabular":
                self._table(element, level)
            case _:
                self._contents(element, level)

    def _paragraph(self, inline: Inline, level: int, kind: ParagraphKind = "paragraph") -> None:
        """Add a paragraph, and what stood inside of it."""
        if inline.text.strip(_ENDS):
            self._begin_text()
            if self._lead:
                inline = inline.after(f"{self._lead} ")
                self._lead = ""
            self._builder.paragraph(inline, kind)
        self._flush(level)

    def _begin_text(self) -> None:
        """Begin a section for text after the abstract that has none."""
        if self._is_abstract_open:
            self._builder.heading("Text")
            self._is_abstract_open = False

    def _flush(self, level: int) -> None:
        """Add the footnotes and figures that stood inside of a block."""
        while self._after:
            after, self._after = self._after, []
            for element in after:
                if role_of(element) == "float":
                    self._float(element, level)
                else:
                    self._note(element)

    def _note(self, element: Element) -> None:
        content = next(classed(element, "ltx_note_content", ("note",)), element)
        tag = tag_of(content)
        building = InlineBuilder()
        building.add(content.text or "")
        for child in content:
            if child is not tag and not has_class(child, "ltx_note_mark", "ltx_note_type"):
                self._fill(building, child)
            building.add(child.tail or "")
        if (inline := building.build()).text:
            mark = self._text(tag)
            self._builder.paragraph(inline.after(f"Footnote {mark}: " if mark else "Footnote: "))

    def _theorem(self, element: Element, level: int) -> None:
        heading = title_of(element)
        self._lead = f"{self._lead} {self._text(heading)}".strip()
        self._contents(element, level)
        if self._lead:
            self._paragraph(Inline("", []), level)
            self._lead = ""

    def _list(self, element: Element) -> Inline:
        building = InlineBuilder()
        self._items(building, element)
        return building.build()

    def _items(self, building: InlineBuilder, element: Element) -> None:
        """A line for each item, with the items of lists inside of it."""
        for item in element:
            if item.tag in ("li", "dt") or (has_class(item, "ltx_item") and item.tag != "dd"):
                building.line_break()
            tag = next((child for child in item if has_class(child, "ltx_tag")), None)
            label = self._text(tag)
            if label.strip(_BULLETS):
                building.add(f"{label} ")
            building.add(item.text or "")
            for child in item:
                if child is not tag:
                    self._item_part(building, child)
                building.add(child.tail or "")

    def _item_part(self, building: InlineBuilder, element: Element) -> None:
        if role_of(element) == "list":
            self._items(building, element)
            building.line_break()
        elif role_of(element) == "container":
            building.add(" ")
            building.add(element.text or "")
            for child in element:
                self._item_part(building, child)
                building.add(child.tail or "")
            building.add(" ")
        else:
            self._fill(building, element)

    def _lines(self, element: Element) -> Inline:
        """Code and algorithms, with a line for each of theirs."""
        lines = list(classed(element, "ltx_listingline"))
        building = InlineBuilder()
        for line in lines:
            building.line_break()
            self._fill_children(building, line)
        if not lines:
            for text in "".join(element.itertext()).split("\n"):
                building.line_break()
                building.add(text)
        return building.build()

    def _equation(self, element: Element) -> Inline:
        """A line for each row: its formulas as one, and its number."""
        self._is_in_equation = True
        rows = list(outermost(element, lambda node: node.tag == "tr" or has_class(node, "ltx_eqn_row")))
        building = InlineBuilder()
        for row in rows or [element]:
            building.line_break()
            building.add(self._equation_row(row))
        self._is_in_equation = False
        return building.build()

    def _equation_row(self, row: Element) -> str:
        """The formulas of a row as one and its number, or the text of a row without formulas."""
        formulas = list(outermost(row, lambda node: node.tag == "math"))
        if not formulas:
            return self._text_of_children(row)
        tex = " ".join(filter(None, map(self._tex, formulas)))
        return " ".join(filter(None, (f"${tex}$" if tex else "", self._text(tag_of(row)))))

    # -- figures and tables ---------------------------------------------------------------------------------

    def _float(self, element: Element, level: int, outer: str = "") -> None:
        """A figure, a table or an algorithm: its captions come first, then what it contains.

        LaTeXML gives a figure of two ``minipage`` both captions, and the first one twice.
        """
        html = "".join(html_of(tabular, self._text) for tabular in tabulars_of(element)) or None
        label = ""
        seen: set[str] = set()
        for caption in captions_of(element):
            words = self._text(caption)
            if words not in seen:
                seen.add(words)
                label = self._caption(element, caption, outer, html)
                html = None
        self._float_contents(element, level, label or outer)
        self._flush(level)

    def _caption(self, element: Element, caption: Element, outer: str, html: str | None) -> str:
        """Add a caption, and return its label. Those of parts, such as ``(a)``, follow the label of the whole."""
        self._begin_text()
        tag = tag_of(caption)
        label = self._text(tag).rstrip(".: ")
        if label.startswith("(") and outer:
            label = f"{outer}{label}"
        building = InlineBuilder()
        self._fill_children(building, caption, skipped=tag)
        inline = building.build()
        if has_class(element, "ltx_table", "ltx_figure"):
            kind: FigureKind = "table" if has_class(element, "ltx_table") else "figure"
            self._builder.captioned(kind, label or self._builder.label(kind), inline, html)
        else:
            head = f"{label}: " if label and inline.text else label
            self._builder.paragraph(inline.after(head), "caption")
        return label

    def _float_contents(self, element: Element, level: int, label: str) -> None:
        building = InlineBuilder()
        building.add(element.text or "")
        for child in element:
            role = role_of(child)
            if role == "float":
                self._float(child, level, label)
            elif role == "container":
                self._float_contents(child, level, label)
            elif role in BLOCKS:
                self._block(child, role, level)
            elif role != "skipped":
                self._fill(building, child)
            building.add(child.tail or "")
        self._paragraph(building.build(), level)

    def _table(self, element: Element, level: int) -> None:
        """A line for each row, its cells separated by bars."""
        building = InlineBuilder()
        for row in table_rows(element):
            cells = [cell for cell in row if cell.tag in ("td", "th")]
            if any(len(cell) or (cell.text or "").strip() for cell in cells):
                building.line_break()
                for column, cell in enumerate(cells):
                    building.add(" | " if column else "")
                    self._fill_children(building, cell)
        self._paragraph(building.build(), level, "table")

    # -- running text ---------------------------------------------------------------------------------------

    def _text(self, element: Element | None) -> str:
        """The text without what would come after its block, such as footnotes."""
        if element is None:
            return ""
        after, self._after = self._after, []
        building = InlineBuilder()
        self._fill(building, element)
        self._after = after
        return building.build().text

    def _fill(self, building: InlineBuilder, element: Element) -> None:
        if element.tag == "math":
            tex = self._tex(element)
            building.add(f"${tex}$" if tex else "")
            return
        match role_of(element):
            case "note" | "float":
                self._after.append(element)
            case "equation" if not self._is_in_equation:
                building.add(f" {self._equation(element).text} ")
            case _ if element.tag == "a" and (position := self._cited(element)) is not None:
                self._cite(building, element, position)
            case _:
                space = " " if element.tag in SEPARATED else ""
                building.add(space)
                self._fill_children(building, element)
                building.add(space)

    def _fill_children(
        self, building: InlineBuilder, element: Element, skipped: Element | None = None
    ) -> None:
        is_raised = element.tag == "sup"
        building.add(element.text or "")
        for child in element:
            if is_raised and child.tag == "a" and (position := self._cited(child)) is not None:
                self._cite(building, child, position, is_raised=True)
            elif child is not skipped:
                self._fill(building, child)
            building.add(child.tail or "")

    def _cited(self, link: Element) -> int | None:
        """The entry of the bibliography that a link leads to."""
        return self._refs.get(link.get("href", "").rpartition("#")[2])

    def _cite(
        self, building: InlineBuilder, link: Element, position: int, *, is_raised: bool = False
    ) -> None:
        """A citation mark. A raised number gets brackets, as it would else join the word before it."""
        mark = self._text_of_children(link) or str(position + 1)
        is_bare = is_raised and mark.isdigit() and not building.ends_with_bracket
        building.cite(f"[{mark}]" if is_bare else mark, position)

    def _text_of_children(self, element: Element) -> str:
        building = InlineBuilder()
        self._fill_children(building, element)
        return building.build().text

    def _tex(self, element: Element) -> str:
        """The TeX of a formula, without the styles that rows of equations begin with; else the text of its MathML."""
        tex = element.get("alttext")
        if tex is None:
            notes = (
                annotation
                for annotation in element.iter("annotation")
                if annotation.get("encoding") == "application/x-tex"
            )
            tex = next(("".join(note.itertext()) for note in notes), None)
        if tex is None:
            return " ".join("".join(element.itertext()).split())
        return " ".join(_STYLE.sub("", _LINE_END.sub("", tex)).split())

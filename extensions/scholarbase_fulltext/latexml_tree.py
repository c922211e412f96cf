"""Parses pages of LaTeXML, such as arXiv's, to a tree without their presentation, and tells what its elements are.

libxml2 parses HTML in linear time, except where it looks for the begin of an element among very many that are open: a
page with elements more than ``MAX_DEPTH`` levels deep is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final
from xml.etree.ElementTree import Element, TreeBuilder

from scholarbase.documents.model import BadDocument
from scholarbase.extras import require

MAX_BYTES: Final = 80_000_000
MAX_DEPTH: Final = 250
"""Levels of elements, formulas included: the tests' pages of LaTeXML have 26 at most."""
MAX_ELEMENTS: Final = 500_000
"""Elements of a page besides those of formulas in MathML."""
_CHUNK: Final = 1 << 14
"""Characters that are parsed at once: as many levels may be open before the depth is checked."""
_SKIPPED: Final = frozenset(
    {
        "button", "footer", "form", "iframe", "nav", "noscript", "object", "script", "select", "style", "svg",
        "template",
    }
)  # fmt: skip
_SKIPPED_CLASSES: Final = frozenset(
    {"ltx_TOC", "ltx_ERROR", "ltx_page_header", "ltx_page_footer", "ltx_pagination", "ltx_bib_cited"}
)
_KEPT: Final = ("alttext", "class", "colspan", "encoding", "href", "id", "rel", "rowspan")
_TABLE_CLASSES: Final = {
    "ltx_tabular": "table", "ltx_thead": "thead", "ltx_tbody": "tbody", "ltx_tfoot": "tfoot", "ltx_tr": "tr",
    "ltx_td": "td",
}  # fmt: skip
_ROLES: Final = {
    **dict.fromkeys(
        ("ltx_part", "ltx_chapter", "ltx_section", "ltx_subsection", "ltx_subsubsection", "ltx_paragraph",
         "ltx_subparagraph", "ltx_appendix", "ltx_index", "ltx_glossary", "ltx_acknowledgements"),
        "section",
    ),
    **dict.fromkeys(("ltx_figure", "ltx_table", "ltx_float"), "float"),
    **dict.fromkeys(("ltx_equation", "ltx_equationgroup"), "equation"),
    **dict.fromkeys(("ltx_itemize", "ltx_enumerate", "ltx_description", "ltx_inline-itemize"), "list"),
    **dict.fromkeys(("ltx_theorem", "ltx_proof"), "theorem"),
    **dict.fromkeys(
        ("ltx_authors", "ltx_bibliography", "ltx_biblist", "ltx_dates", "ltx_title_document", "ltx_rule"), "skipped"
    ),
    **dict.fromkeys(("ltx_keywords", "ltx_classification"), "keywords"),
    "ltx_abstract": "abstract",
    "ltx_listing": "lines",
    "ltx_note": "note",
    "ltx_tabular": "tabular",
}  # fmt: skip
_MARKED: Final = frozenset(
    {"abstract", "equation", "float", "keywords", "lines", "list", "section", "tabular", "theorem"}
)
BLOCKS: Final = _MARKED | {"container"}
"""The roles of what is not running text."""
HAS_BLOCKS: Final = "has-blocks"
"""The attribute of the tree's elements with blocks inside, such as a ``span`` of small type around a table."""
_CONTAINERS: Final = frozenset(
    {"article", "blockquote", "center", "dd", "div", "figure", "main", "p", "section"}
)
_CONTAINER_CLASSES: Final = frozenset({"ltx_block", "ltx_inline-block", "ltx_minipage", "ltx_p", "ltx_para"})
HEADINGS: Final = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
SEPARATED: Final = _CONTAINERS | HEADINGS | {"br", "dt", "li", "pre", "td", "th", "tr"}
_CHARSET: Final = re.compile(rb"charset\s{0,3}=\s{0,3}[\"']?([A-Za-z0-9_.:-]{1,40})")


def parse_page(data: bytes) -> Element:
    """The elements of a page. A formula is a ``math`` element with its TeX as ``alttext``, or with all its content;
    tables have the names of HTML's, also those inside of paragraphs.

    Raises:
        BadDocument: it has more than ``MAX_ELEMENTS`` or is too deep.
        MissingExtra: lxml is not installed.
    """
    etree = require("lxml.etree", "documents", "Reading HTML")
    page = _Page()
    parser = etree.HTMLParser(target=page)
    text = _decoded(data)
    try:
        for start in range(0, len(text), _CHUNK):
            parser.feed(text[start : start + _CHUNK])
        parser.close()
    except etree.LxmlError as error:
        raise BadDocument("not-html", f"The HTML cannot be parsed: {str(error)[:200]}.") from error
    return page.tree()


def _decoded(data: bytes) -> str:
    """The text in UTF-8, else in the encoding that its head names, else in that of Windows."""
    text = data.removeprefix(b"\xef\xbb\xbf")
    declared = _CHARSET.search(text[:2048])
    names = ["utf-8", *([] if declared is None else [declared[1].decode()]), "cp1252"]
    for name in names:
        try:
            return text.decode(name).replace("\0", "")
        except (UnicodeError, LookupError):
            continue
    return text.decode("utf-8", "replace").replace("\0", "")


class _Page:
    """Builds the tree in the events of a parser."""

    def __init__(self) -> None:
        self._builder = TreeBuilder()
        self._builder.start("page", {})
        self._open: list[Element] = []
        """The elements that are open, in the tree."""
        self._depth = 0
        self._skipped_at = 0
        """The depth of the element of which nothing is read until it ends; 0 outside of one."""
        self._is_kept = False
        """Whether that element itself is in the tree, as formulas are."""
        self._elements = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise BadDocument("too-deep", f"The HTML has elements more than {MAX_DEPTH} levels deep.")
        if self._skipped_at:
            return
        classes = attributes.get("class", "").split()
        if tag in _SKIPPED or not _SKIPPED_CLASSES.isdisjoint(classes):
            self._skipped_at, self._is_kept = self._depth, False
            return
        self._elements += 1
        if self._elements > MAX_ELEMENTS:
            raise BadDocument("too-long", f"The HTML has more than {MAX_ELEMENTS:,} elements.")
        if tag == "span":
            tag = next((_TABLE_CLASSES[name] for name in classes if name in _TABLE_CLASSES), tag)
        kept = {name: attributes[name] for name in _KEPT if name in attributes}
        element: Element = self._builder.start(tag, kept)
        if role_of(element) in _MARKED:
            for outer in reversed(self._open):
                if HAS_BLOCKS in outer.attrib:
                    break
                outer.set(HAS_BLOCKS, "")
        self._open.append(element)
        if tag == "math" and "alttext" in attributes:
            self._skipped_at, self._is_kept = self._depth, True

    def end(self, tag: str) -> None:
        if self._depth == self._skipped_at:
            self._skipped_at = 0
            if self._is_kept:
                self._builder.end(self._open.pop().tag)
        elif not self._skipped_at:
            self._builder.end(self._open.pop().tag)
        self._depth -= 1

    def data(self, text: str) -> None:
        if not self._skipped_at:
            self._builder.data(text)

    def comment(self, text: str) -> None:
        """Called by the parser for comments."""

    def pi(self, target: str, text: str | None = None) -> None:
        """Called by the parser for processing instructions."""

    def close(self) -> None:
        """Called by the parser at the end."""

    def tree(self) -> Element:
        while self._open:
            self._builder.end(self._open.pop().tag)
        self._builder.end("page")
        return self._builder.close()


# -- the elements of LaTeXML ----------------------------------------------------------------------------


def classes_of(element: Element) -> list[str]:
    return element.get("class", "").split()


def has_class(element: Element, *names: str) -> bool:
    classes = classes_of(element)
    return any(name in classes for name in names)


def role_of(element: Element) -> str:
    """What an element is: a value of ``_ROLES``; ``tabular``, ``list`` or ``lines`` by its name; ``container`` of
    blocks; ``skipped``; or empty for a part of running text."""
    role = _role_of(element.tag, element.get("class", "")[:500])
    return "container" if not role and HAS_BLOCKS in element.attrib else role


@lru_cache(1000)
def _role_of(tag: str, names: str) -> str:
    classes = [] if tag in HEADINGS else names.split()
    for name in classes:
        if (role := _ROLES.get(name)) is not None:
            return role
    if tag == "pre":
        return "lines"
    if tag == "table":
        return "tabular"
    if tag in ("ul", "ol", "dl"):
        return "list"
    if tag in HEADINGS or tag in ("figcaption", "caption") or "ltx_caption" in classes:
        return "skipped"
    return "container" if tag in _CONTAINERS or not _CONTAINER_CLASSES.isdisjoint(classes) else ""


def title_of(element: Element) -> Element | None:
    return next((child for child in element if child.tag in HEADINGS and has_class(child, "ltx_title")), None)


def outermost(
    element: Element, is_wanted: Callable[[Element], bool], closed: tuple[str, ...] = ()
) -> Iterator[Element]:
    """The wanted elements in an element, without those inside of them and of elements with the roles ``closed``.

    Readers that look for parts with it read each element once, however deep parts of one kind are nested.
    """
    levels = [iter(element)]
    while levels:
        child = next(levels[-1], None)
        if child is None:
            levels.pop()
        elif is_wanted(child):
            yield child
        elif role_of(child) not in closed:
            levels.append(iter(child))


def classed(element: Element, name: str, closed: tuple[str, ...] = ()) -> Iterator[Element]:
    """The outermost elements of a class in an element."""
    return outermost(element, lambda node: has_class(node, name), closed)


def tag_of(element: Element | None) -> Element | None:
    """The tag of a title, caption, item or equation: its number or label."""
    return None if element is None else next(classed(element, "ltx_tag", ("float", "note")), None)


def _is_caption(element: Element) -> bool:
    return element.tag in ("figcaption", "caption") or has_class(element, "ltx_caption")


def captions_of(element: Element) -> Iterator[Element]:
    """The captions of a figure, without those of figures inside of it."""
    return outermost(element, lambda node: role_of(node) != "float" and _is_caption(node), ("float",))


def table_rows(table: Element) -> Iterator[Element]:
    """The rows of a table, without those of tables in its cells."""
    for child in table:
        if child.tag == "tr":
            yield child
        elif child.tag in ("thead", "tbody", "tfoot"):
            yield from table_rows(child)


def tabulars_of(element: Element) -> Iterator[Element]:
    """The outermost tables in a figure."""
    return outermost(element, lambda node: role_of(node) == "tabular", ("float",))

"""Reads JATS, the XML of journal articles, as PubMed Central and many publishers give it (ANSI/NISO Z39.96).

The XML is parsed through defusedxml: entities and external files are refused, and so are articles that are too deep,
too large or have too many elements. Sub-articles (reviews, responses) are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final
from xml.etree.ElementTree import Element, ParseError, TreeBuilder

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser

from scholarbase.bibliographies.ids import find_ids
from scholarbase.bibliographies.references import with_subtitle
from scholarbase.bibliographies.years import years_in
from scholarbase.documents.model import (
    BadDocument,
    BibliographyEntry,
    FigureKind,
    FullText,
    Metadata,
)
from scholarbase.markup.html import tex_body
from scholarbase_fulltext.building import DocumentBuilder, Inline, InlineBuilder, known_ids
from scholarbase_fulltext.tables import html_of, rows_of
from scholarbase_fulltext.tables import local_name as _name

MAX_BYTES: Final = 80_000_000
MAX_DEPTH: Final = 100
MAX_ELEMENTS: Final = 500_000
_SCHEMES: Final = {"doi": "DOI:", "pmid": "PMID:", "pmcid": "PMCID:", "pmc": "PMCID:", "arxiv": "arXiv:"}
_FIGURES: Final = frozenset({"fig", "table-wrap"})
_CONTAINERS: Final = frozenset(
    {
        "app", "app-group", "body", "boxed-text", "fig-group", "floats-group", "fn", "fn-group", "glossary",
        "notes", "sec", "sec-meta", "table-wrap-group",
    }
)  # fmt: skip
_BLOCKS: Final = (
    _FIGURES
    | _CONTAINERS
    | {"def-list", "disp-formula", "disp-formula-group", "disp-quote", "list", "p", "preformat", "statement"}
    | {"verse-group", "ref-list", "supplementary-material", "ack"}
)
_SKIPPED: Final = frozenset(
    {
        "counts", "graphic", "inline-graphic", "inline-supplementary-material", "label", "media", "object-id",
        "permissions", "processing-meta", "ref-list", "sec-meta", "sub-article", "response", "title",
    }
)  # fmt: skip
_BACK: Final = {"ack": "Acknowledgments", "fn-group": "Footnotes", "glossary": "Glossary", "notes": "Notes"}
"""Titles of parts that have none."""
_NO_TEXT: Final = frozenset({"graphic", "inline-graphic", "media", "object-id", "permissions"})


def read_articles(pieces: Iterable[bytes]) -> Iterator[FullText | BadDocument]:
    """The full texts of the JATS articles in an XML file, which comes in pieces: one article, or several in any other
    elements, such as ``pmc-articleset`` or the records of OAI-PMH. Only one article is held at a time.

    Of an article that is too large or too deep, and of XML that has entities, is not well-formed or has no article,
    comes a :class:`BadDocument`.
    """
    articles = _Articles()
    parser = DefusedXMLParser(target=articles, forbid_entities=True, forbid_external=True)
    problem: BadDocument | None = None
    try:
        for piece in pieces:
            parser.feed(piece)
            articles.add(len(piece))
            yield from map(_read, articles.take())
        parser.close()
        if not articles.count:
            problem = BadDocument(
                "not-jats",
                f"The XML is not a JATS article: its root is <{articles.root[:60]}>, not <article>.",
            )
    except DefusedXmlException:
        problem = BadDocument(
            "unsafe-xml",
            "The XML declares entities or refers to external ones, which are not read: remove them.",
        )
    except (ParseError, ValueError, LookupError, AssertionError) as error:
        problem = BadDocument("not-xml", f"The XML is not well-formed: {error}.")
    yield from map(_read, articles.take())
    if problem is not None:
        yield problem


def _read(article: Element | BadDocument) -> FullText | BadDocument:
    if isinstance(article, BadDocument):
        return article
    try:
        return _Reader(article).read()
    except BadDocument as error:
        return error


class _Articles:
    """Builds the trees of the articles in the events of a parser, and skips what is too deep or too large."""

    def __init__(self) -> None:
        self.count = 0
        self.root = ""
        self._done: list[Element | BadDocument] = []
        self._tree: TreeBuilder | None = None
        self._depth = 0
        self._begin = 0
        """The depth of the article that is read; 0 between articles."""
        self._elements = 0
        self._bytes = 0

    def take(self) -> list[Element | BadDocument]:
        """The articles that have ended since the last call."""
        done, self._done = self._done, []
        return done

    def add(self, size: int) -> None:
        """Count the bytes of an article."""
        self._bytes += size
        if self._bytes > MAX_BYTES:
            self._refuse("too-long", f"The article has more than {MAX_BYTES:,} bytes.")

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        self._elements += 1
        name = tag.rpartition("}")[2]
        self.root = self.root or name
        if not self._begin and name == "article":
            self._begin, self._elements, self._bytes = self._depth, 1, 0
            self._tree = TreeBuilder()
            self.count += 1
        if self._depth - self._begin >= MAX_DEPTH:
            self._refuse("too-deep", f"The XML has elements more than {MAX_DEPTH} levels deep.")
        if self._elements > MAX_ELEMENTS:
            self._refuse("too-long", f"The XML has more than {MAX_ELEMENTS:,} elements.")
        if self._tree is not None:
            self._tree.start(tag, attributes)

    def end(self, tag: str) -> None:
        if self._tree is not None:
            self._tree.end(tag)
        if self._depth == self._begin:
            if self._tree is not None:
                self._done.append(self._tree.close())
            self._begin, self._tree = 0, None
        self._depth -= 1

    def data(self, text: str) -> None:
        if self._tree is not None:
            self._tree.data(text)

    def close(self) -> None:
        """Called by the parser at the end."""

    def _refuse(self, reason: str, detail: str) -> None:
        if self._tree is not None:
            self._tree = None
            self._done.append(BadDocument(reason, detail))


def _children(element: Element | None, *names: str) -> Iterator[Element]:
    yield from (child for child in (element if element is not None else ()) if _name(child) in names)


def _first(element: Element | None, *path: str) -> Element | None:
    for name in path:
        element = next(_children(element, name), None)
    return element


def _found(element: Element | None, name: str) -> Iterator[Element]:
    if element is not None:
        yield from (inner for inner in element.iter() if _name(inner) == name)


class _Reader:
    def __init__(self, article: Element) -> None:
        self._article = article
        self._meta = _first(article, "front", "article-meta")
        self._builder = DocumentBuilder()
        self._refs: dict[str, int] = {}

    def read(self) -> FullText:
        article = self._article
        entries = self._references()
        for abstract in _children(self._meta, "abstract"):
            self._abstract(abstract)
        body = _first(article, "body")
        if body is not None:
            blocks = [child for child in body if _name(child) in _BLOCKS]
            if self._builder.end and blocks and _name(blocks[0]) != "sec":
                self._builder.heading("Text")  # not a part of the abstract
            self._contents(body, 1)
        back = _first(article, "back")
        for part in back if back is not None else ():
            if _name(part) in _BLOCKS - {"ref-list"}:
                self._section(part, 1, _BACK.get(_name(part), ""))
        floats = _first(article, "floats-group")
        if floats is not None:
            self._section(floats, 1, "Figures and tables")
        self._builder.bibliography.extend(entries)
        ids = tuple(dict.fromkeys(_ids_in(_children(self._meta, "article-id"))))
        return FullText("jats", self._builder.build(), ids, metadata=self._metadata())

    # -- front and back -------------------------------------------------------------------------------------

    def _metadata(self) -> Metadata:
        group = _first(self._meta, "title-group")
        for note in list(group.iter()) if group is not None else []:
            if _name(note) == "fn" or (_name(note) == "xref" and note.get("ref-type") == "fn"):
                tail = note.tail
                note.clear()
                note.tail = tail  # The words after a footnote's mark are the title's.
        title, subtitle = (self._text(_first(group, name)) for name in ("article-title", "subtitle"))
        abstracts = [item for item in _children(self._meta, "abstract") if not item.get("abstract-type")]
        venue = next(_found(_first(self._article, "front", "journal-meta"), "journal-title"), None)
        dates = sorted(filter(None, map(_date, _children(self._meta, "pub-date"))))
        return Metadata(
            title=with_subtitle(title, subtitle) or None,
            abstract=" ".join(self._text(p) for item in abstracts[:1] for p in _found(item, "p")) or None,
            authors=tuple(self._authors()),
            date=dates[0] if dates else None,
            venue=self._text(venue) or None,
        )

    def _authors(self) -> Iterator[str]:
        for group in _children(self._meta, "contrib-group"):
            for contributor in _children(group, "contrib"):
                if contributor.get("contrib-type", "author") != "author":
                    continue
                name = next(_found(contributor, "name"), None)
                if name is not None:
                    parts = (_first(name, part) for part in ("given-names", "surname", "suffix"))
                    yield " ".join(filter(None, map(self._text, parts)))
                else:
                    text = self._text(_first(contributor, "string-name"))
                    collaboration = self._text(_first(contributor, "collab"))
                    if text or collaboration:
                        yield text or f"{{{collaboration}}}"  # as an entry's authors have it

    def _abstract(self, abstract: Element) -> None:
        kind = abstract.get("abstract-type", "").replace("-", " ")
        title = self._text(_first(abstract, "title")) or (
            f"{kind} abstract".capitalize() if kind else "Abstract"
        )
        if any(self._text(block) for block in abstract if _name(block) != "title"):
            self._builder.heading(title)
            self._contents(abstract, 2)

    def _references(self) -> list[BibliographyEntry]:
        entries: list[BibliographyEntry] = []
        back = _first(self._article, "back")
        for reference in _found(back if back is not None else self._article, "ref"):
            for element in reference.iter():
                if (name := element.get("id")) is not None:
                    self._refs.setdefault(name, len(entries))
            cited = [item for item in reference if _name(item) not in ("label", "note")]
            text = " ".join(filter(None, map(self._spaced, cited)))
            title = next(_found(reference, "article-title"), None)
            year = next(_found(reference, "year"), None)
            written = re.search(r"(?<!\d)(1[5-9]\d\d|20\d\d)(?!\d)", self._text(year))
            ids = [
                *_ids_in(_found(reference, "pub-id")),
                *(str(identifier.id) for identifier in find_ids(text)),
            ]
            entries.append(
                BibliographyEntry(
                    text,
                    self._text(title) or None,
                    int(written[1]) if written else years_in(text)[0],
                    tuple(dict.fromkeys(ids)),
                )
            )
        return entries

    def _spaced(self, element: Element) -> str:
        """The text of a reference: its elements separated by spaces, unless it has its own punctuation."""
        if (element.text or "").strip() or any((child.tail or "").strip() for child in element):
            return self._text(element)
        building = InlineBuilder()
        for inner in element.iter():
            building.add(
                f" {inner.text or ''} {inner.tail or ''} " if inner is not element else inner.text or ""
            )
        return building.build().text

    # -- sections and blocks --------------------------------------------------------------------------------

    def _section(self, element: Element, level: int, name: str = "") -> None:
        title = self._inline(_first(element, "title"))
        label = self._text(_first(element, "label")).rstrip(".:")
        if title.text or label or (name and any(map(self._text, element))):
            unnamed = "" if label else name
            self._builder.heading(title if title.text else unnamed, level=level, number=label or None)
        self._contents(element, level + 1)

    def _contents(self, element: Element, level: int) -> None:
        """The blocks in an element. Text between them is a paragraph."""
        building = InlineBuilder()
        building.add(element.text or "")
        for child in element:
            name = _name(child)
            if name in _BLOCKS:
                self._builder.paragraph(building.build())
                building = InlineBuilder()
                self._block(child, level)
            elif name not in _SKIPPED:
                self._fill(building, child)
            building.add(child.tail or "")
        self._builder.paragraph(building.build())

    def _block(self, element: Element, level: int) -> None:
        match _name(element):
            case "sec" | "app" | "boxed-text" | "glossary" | "notes" | "ack":
                self._section(element, level)
            case "fig" | "table-wrap":
                self._figure(element)
            case "list" | "def-list":
                self._builder.paragraph(self._list(element), "list")
            case "disp-formula":
                self._builder.paragraph(self._formula(element), "formula")
            case "ref-list" | "sec-meta":
                pass
            case _:
                self._contents(element, level)

    def _list(self, element: Element) -> Inline:
        building = InlineBuilder()
        for item in element.iter():
            if _name(item) in ("list-item", "def-item"):
                building.line_break()
                self._fill_children(building, item, skipped=frozenset({"list", "def-list"}))
        return building.build()

    def _figure(self, element: Element) -> None:
        kind: FigureKind = "table" if _name(element) == "table-wrap" else "figure"
        label = self._text(_first(element, "label")).rstrip(".:") or self._builder.label(kind)
        building = InlineBuilder()
        for part in _children(element, "caption"):
            self._fill_children(building, part)
        table = next(_found(element, "table"), None)
        self._builder.captioned(
            kind, label, building.build(), None if table is None else html_of(table, _plain)
        )
        if table is not None:
            self._builder.paragraph("\n".join(rows_of(table, self._text)), "table")
        for foot in _children(element, "table-wrap-foot"):
            self._builder.paragraph(self._inline(foot))

    # -- running text ---------------------------------------------------------------------------------------

    def _text(self, element: Element | None) -> str:
        return self._inline(element).text

    def _inline(self, element: Element | None) -> Inline:
        building = InlineBuilder()
        if element is not None:
            self._fill(building, element)
        return building.build()

    def _fill(self, building: InlineBuilder, element: Element) -> None:
        match _name(element):
            case "xref" if element.get("ref-type") == "bibr":
                self._mark(building, element)
            case "inline-formula" | "disp-formula" | "math" | "tex-math":
                building.add(self._formula(element))
            case "break":
                building.add(" ")
            case name if name in _NO_TEXT or not name:
                pass
            case name:
                separate = " " if name in _BLOCKS or name in ("title", "list-item", "def", "td", "th") else ""
                building.add(separate)
                self._fill_children(building, element)
                building.add(separate)

    def _fill_children(
        self, building: InlineBuilder, element: Element, skipped: frozenset[str] = frozenset()
    ) -> None:
        building.add(element.text or "")
        for child in element:
            if _name(child) not in skipped:
                self._fill(building, child)
            building.add(child.tail or "")

    def _mark(self, building: InlineBuilder, element: Element) -> None:
        """A citation mark. A bare number, as in superscripts, gets brackets; one mark may cite several entries."""
        text = " ".join("".join(element.itertext()).split())
        places = [self._refs[name] for name in element.get("rid", "").split() if name in self._refs]
        if not places:
            building.add(text)
            return
        text = text or str(places[0] + 1)
        building.cite(f"[{text}]" if text.isdigit() and not building.ends_with_bracket else text, *places)

    def _formula(self, element: Element) -> str:
        """A formula as LaTeX where the article has it, else the text of its MathML."""
        tex = next(_found(element, "tex-math"), None)
        if tex is not None:
            latex = " ".join(tex_body("".join(tex.itertext())).split()).strip("$ ")
            return f"${latex}$" if latex else ""
        return " ".join(" ".join(part for part in element.itertext() if part.strip()).split())


def _ids_in(elements: Iterable[Element]) -> list[str]:
    """The ids in ``article-id`` or ``pub-id`` elements."""
    written = (
        (_SCHEMES.get(item.get("pub-id-type", "")), "".join(item.itertext()).strip()) for item in elements
    )
    return known_ids(f"{prefix}{value}" for prefix, value in written if prefix and value)


def _plain(element: Element) -> str:
    return "".join(element.itertext())


def _date(element: Element) -> str | None:
    """YYYY, YYYY-MM or YYYY-MM-DD of a ``pub-date``."""
    parts = []
    for name, least, most, width in (("year", 1500, 2100, 4), ("month", 1, 12, 2), ("day", 1, 31, 2)):
        part = _first(element, name)
        text = (part.text or "").strip() if part is not None else ""
        if not text.isascii() or not text.isdigit() or not least <= int(text[:9]) <= most:
            break
        parts.append(text.zfill(width)[-width:])
    return "-".join(parts) or None

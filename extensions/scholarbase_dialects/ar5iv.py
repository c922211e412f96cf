"""Pages and PDFs of papers as ar5iv and arXiv serve them (https://ar5iv.labs.arxiv.org, https://arxiv.org/html).

A page has the elements and classes of LaTeXML that programs read: sections with their titles, paragraphs, citation
marks that lead to the entries of the bibliography, and of each entry three blocks, as BibTeX's styles write them:
authors, title, and the rest. It is made of the library's full text of any source.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from html import escape
from itertools import groupby
from typing import Final

from scholarbase.bibliographies.facts import arxiv_id_of
from scholarbase.bibliographies.lines import guessed_title
from scholarbase.bibliographies.references import MAX_LINE_LENGTH
from scholarbase.documents.model import BibliographyEntry, Document, InTextCitation, Paragraph
from scholarbase.errors import PaperNotFound
from scholarbase.models.checks import is_id
from scholarbase.models.papers import Paper
from scholarbase.search.documents import WholeText
from scholarbase_dialects.arxiv_search import MEDIA_TYPE, error_page
from scholarbase_dialects.base import Answer, Body, Dialect, DialectRequest, Operation
from scholarbase_dialects.calls import Calls
from scholarbase_dialects.describing import names_of

FIELDS: Final = ("id", "title", "abstract", "authors", "external_ids", "venue", "year")
ADDRESS: Final = "https://ar5iv.labs.arxiv.org/html/"
"""Programs recognize a page of ar5iv by this address."""
_KINDS: Final = ("section", "subsection", "subsubsection", "paragraph", "subparagraph")
_FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_WORD: Final = re.compile(r"\w+")


def _page(request: DialectRequest, calls: Calls) -> Answer:
    text = calls.library.texts.whole(_id_in(request), None, calls.as_of, FIELDS)
    calls.begun.append(({"paper_id": request.path["arxiv_id"]}, [text.paper.id], []))
    return Body("".join(_Page(text).lines()).encode(), MEDIA_TYPE)


def _pdf(request: DialectRequest, calls: Calls) -> Answer:
    original, _ = calls.library.texts.pdf(_id_in(request), None, calls.as_of)
    return Body(original, "application/pdf")


def _id_in(request: DialectRequest) -> str:
    """The arXiv id in a request, with its version. Raises PaperNotFound: it is none."""
    name = request.path["arxiv_id"].removesuffix(".pdf")
    if not is_id(name):
        raise PaperNotFound(f"{name[:100]!r} is not an arXiv id.")
    return name


class _Page:
    def __init__(self, whole: WholeText) -> None:
        self._whole = whole
        self._document: Document = whole.document
        self._marks: dict[int, list[InTextCitation]] = {}
        for mark in self._document.citations:
            self._marks.setdefault(mark.start, []).append(mark)
        self._figures = {
            figure.start: figure for figure in self._document.figures if figure.start is not None
        }
        self._paragraphs = {
            section: list(paragraphs)
            for section, paragraphs in groupby(self._document.paragraphs, lambda paragraph: paragraph.section)
        }
        self._all_starts = sorted(self._marks)
        self._has_cells = False
        """Whether the caption that came last was written with the cells of its table."""

    def lines(self) -> Iterator[str]:
        paper = self._whole.paper
        name, title = _text(arxiv_id_of(paper) or paper.id), _text(paper.title)
        yield f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>[{name}] {title}</title>\n'
        yield f'<link rel="canonical" href="{ADDRESS}{name}">\n</head>\n<body>\n'
        yield '<div class="ltx_page_main">\n<div class="ltx_page_content">\n<article class="ltx_document">\n'
        yield f'<h1 class="ltx_title ltx_title_document">{title}</h1>\n<div class="ltx_authors">\n'
        for author in names_of(paper.authors):
            person = f'<span class="ltx_personname">{_text(author)}</span>'
            yield f'<span class="ltx_creator ltx_role_author">{person}</span>\n'
        yield "</div>\n"
        yield from self._body()
        yield from self._bibliography()
        yield "</article>\n</div>\n</div>\n</body>\n</html>\n"

    # -- sections and paragraphs ----------------------------------------------------------------------------

    def _body(self) -> Iterator[str]:
        sections = self._document.sections
        abstract = sections[:1] if sections and sections[0].title.strip(".:").lower() == "abstract" else []
        in_abstract = [
            position
            for position, section in enumerate(sections)
            if abstract and section.start < abstract[0].end
        ]
        yield '<div class="ltx_abstract">\n<h6 class="ltx_title ltx_title_abstract">Abstract</h6>\n'
        for position in in_abstract:
            yield from self._blocks(position)
        if not in_abstract:
            yield f'<p class="ltx_p">{_text(self._whole.paper.abstract)}</p>\n'
        yield "</div>\n"
        yield from self._blocks(None)
        open_sections: list[int] = []
        is_appendix = False
        for position in range(len(in_abstract), len(sections)):
            section = sections[position]
            while open_sections and open_sections[-1] != section.parent:
                open_sections.pop()
                yield "</section>\n"
            if not open_sections and section.number == "A":
                is_appendix = any(earlier.number for earlier in sections[:position])
            yield self._heading(position, len(open_sections), is_appendix)
            open_sections.append(position)
            yield from self._blocks(position)
        yield "</section>\n" * len(open_sections)

    def _heading(self, position: int, depth: int, is_appendix: bool) -> str:
        section = self._document.sections[position]
        kind = _KINDS[min(depth, len(_KINDS) - 1)]
        tag = ""
        if is_appendix and not depth:
            kind = "appendix"
        if section.number:
            number = f"Appendix {section.number}" if kind == "appendix" else section.number
            tag = f'<span class="ltx_tag ltx_tag_{kind}">{_text(number)} </span>'
        level = min(depth + 2, 6)
        return (
            f'<section id="S{position + 1}" class="ltx_{kind}">\n'
            f'<h{level} class="ltx_title ltx_title_{kind}">{tag}{_text(section.title)}</h{level}>\n'
        )

    def _blocks(self, section: int | None) -> Iterator[str]:
        for paragraph in self._paragraphs.get(section, ()):
            yield self._block(paragraph)

    def _block(self, paragraph: Paragraph) -> str:
        start, end = paragraph.start, paragraph.end
        if paragraph.kind == "caption":
            return self._caption(start, end)
        if paragraph.kind == "table":
            has_cells, self._has_cells = self._has_cells, False
            if has_cells:
                return ""
        if paragraph.kind == "list":
            items = "".join(f'<li class="ltx_item">{line}</li>\n' for line in self._lines(start, end))
            return f'<ul class="ltx_itemize">\n{items}</ul>\n'
        lines = '<br class="ltx_break">\n'.join(self._lines(start, end))
        return f'<div class="ltx_para">\n<p class="ltx_p">{lines}</p>\n</div>\n'

    def _caption(self, start: int, end: int) -> str:
        figure = next((self._figures[at] for at in range(start, end) if at in self._figures), None)
        if figure is None or figure.start is None:
            return f'<div class="ltx_para">\n<p class="ltx_p">{self._inline(start, end)}</p>\n</div>\n'
        self._has_cells = figure.html is not None
        label = self._inline(start, figure.start).strip()
        tag = f'<span class="ltx_tag ltx_tag_{figure.kind}">{label} </span>'
        return (
            f'<figure class="ltx_{figure.kind}">\n<figcaption class="ltx_caption">{tag}'
            f"{self._inline(figure.start, end)}</figcaption>\n{figure.html or ''}\n</figure>\n"
        )

    def _lines(self, start: int, end: int) -> Iterator[str]:
        for line in self._document.text[start:end].split("\n"):
            yield self._inline(start, start + len(line))
            start += len(line) + 1

    def _inline(self, start: int, end: int) -> str:
        """A part of the text. Each mark is a ``cite`` of its own: programs read the first link of one."""
        text, pieces = self._document.text, []
        for at in self._starts(start, end):
            marks = self._marks[at]
            pieces.append(_text(text[start:at]))
            shown = _text(text[at : marks[0].end])
            for mark in marks:
                link = f'<a href="#bib.bib{mark.entry + 1}" class="ltx_ref">{shown}</a>'
                pieces.append(f'<cite class="ltx_cite">{link}</cite>')
                shown = ""
            start = marks[0].end
        return "".join((*pieces, _text(text[start:end])))

    def _starts(self, start: int, end: int) -> list[int]:
        """Where citation marks begin in a part of the text."""
        starts = self._all_starts
        return starts[bisect_left(starts, start) : bisect_left(starts, end)]

    # -- bibliography ---------------------------------------------------------------------------------------

    def _bibliography(self) -> Iterator[str]:
        yield '<section id="bib" class="ltx_bibliography">\n'
        yield '<h2 class="ltx_title ltx_title_bibliography">References</h2>\n<ul class="ltx_biblist">\n'
        entries = zip(self._document.bibliography, self._whole.cited, strict=True)
        for number, (entry, cited) in enumerate(entries, 1):
            yield f'<li id="bib.bib{number}" class="ltx_bibitem">\n'
            yield f'<span class="ltx_tag ltx_role_refnum ltx_tag_bibitem">[{number}]</span>\n'
            for block in _blocks_of(entry, cited):
                yield f'<span class="ltx_bibblock">{_text(block)}</span>\n'
            yield "</li>\n"
        yield "</ul>\n</section>\n"


def _blocks_of(entry: BibliographyEntry, cited: Paper | None) -> tuple[str, ...]:
    """Authors, title and the rest of an entry; its text as one block if its title is unknown and cannot be guessed."""
    text = " ".join(entry.text.split())
    title = entry.title or (None if cited is None else cited.title) or guessed_title(text[:MAX_LINE_LENGTH])
    if not title:
        return (text,)
    title = " ".join(title.split()).rstrip(".")
    before, _, after = _around(text, title)
    if before is None:
        names = [] if cited is None else names_of(cited.authors)
        return ", ".join(names), title, text
    return before.strip(" \u201c\u201d\"'"), title, after.lstrip(" .,\u201c\u201d\"'")


def _around(text: str, title: str) -> tuple[str | None, str, str]:
    """What stands before a title in a text, whatever its case and punctuation, the title, and what comes after."""
    words = _WORD.findall(title)
    match = re.search(r"\W+".join(map(re.escape, words)), text, re.IGNORECASE) if words else None
    return (None, title, text) if match is None else (text[: match.start()], match[0], text[match.end() :])


def _text(text: str | None) -> str:
    return escape(_FORBIDDEN.sub("", text or ""))


DIALECT: Final = Dialect(
    "ar5iv",
    "/ar5iv",
    "pages and PDFs of ar5iv and arXiv",
    (
        Operation("GET", "/html/{arxiv_id:path}", _page, "read_paper", papers=1),
        Operation("GET", "/pdf/{arxiv_id:path}", _pdf, None, papers=1),
    ),
    error_page,
)

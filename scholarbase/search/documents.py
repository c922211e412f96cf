"""The full texts of a library: their outlines and parts, places in them, citation contexts, and images of pages."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from threading import Lock
from time import perf_counter
from typing import Final, NamedTuple

from scholarbase.documents import patterns
from scholarbase.documents.model import Document, arxiv_version
from scholarbase.documents.readers import PageRenderer, open_renderer
from scholarbase.documents.sentences import sentence_spans
from scholarbase.errors import DocumentNotFound, InvalidRequest
from scholarbase.indexes.filters import ResolvedFilters
from scholarbase.indexes.passages import Documents, Mark, Text, heading
from scholarbase.models.checks import shown
from scholarbase.models.document_requests import ContextBody, FindBody, PageBody, TextBody
from scholarbase.models.document_responses import (
    CitationContext,
    ContextsResponse,
    FigureEntry,
    FindResponse,
    Match,
    Passage,
    Section,
    TextDocument,
    TextResponse,
)
from scholarbase.models.paging import next_offset
from scholarbase.models.papers import Paper
from scholarbase.search.lookup import Lookup
from scholarbase.search.opening import Opened, Part
from scholarbase.timing import stages

READ_CHARACTERS: Final = 100_000
"""Characters of a text in one response, about 25,000 tokens."""
MATCH_CHARACTERS: Final = 2_000
"""Characters of a match that are shown. A regular expression may match the whole text."""
_SPACE: Final = re.compile(r"\s")


class WholeText(NamedTuple):
    """A full text with its parts. ``cited`` has the paper of each entry of the bibliography that the library holds."""

    paper: Paper
    version: int | None
    document: Document
    cited: tuple[Paper | None, ...]


class Texts(Part):
    """Reads the full texts of one library. Thread-safe. Its errors are those of the methods of a library.

    ``documents`` is None for a library without full texts.
    """

    def __init__(self, opened: Opened, lookup: Lookup) -> None:
        super().__init__(opened, lookup)
        self._documents = opened.documents
        self._renderer: PageRenderer | None = None
        self._drawing = Lock()

    def close(self) -> None:
        """End the process that draws pages."""
        if self._renderer is not None:
            self._renderer.close()

    def text(self, request: TextBody) -> TextResponse:
        """The outline of a text, or a part of it."""
        start = perf_counter()
        documents, text = self.text_of(request.paper_id, request.version, request.as_of)
        [paper] = self._catalog.papers([text.paper], ("id", "title"))
        paper_id, title = paper.id, paper.title or ""
        document = documents.document(text.id)
        about = self._about(documents, text)
        if request.section is None and request.from_offset is None:
            tokens = documents.section_tokens(text.id)
            response = TextResponse(
                self._snapshot,
                paper_id,
                title,
                about,
                _outline(document, tokens),
                tuple(FigureEntry(f.kind, f.label, f.caption, f.page, f.box) for f in document.figures),
                warnings=unread(document),
            )
        else:
            response = self._part(request, document, about, paper_id, title)
        stages().append(("text", start, perf_counter()))
        return response

    def _part(
        self, request: TextBody, document: Document, about: TextDocument, paper_id: str, title: str
    ) -> TextResponse:
        first, last, name = 0, len(document.text), None
        warnings: tuple[str, ...] = ()
        if request.section is not None:
            place, *others = _sections(document, request.section, request.paper_id)
            section = document.sections[place]
            first, last, name = section.start, section.end, heading(section.number, section.title)
            warnings = _of_one_name(request.section, place, others)
        if request.from_offset is not None:
            if not first <= request.from_offset < max(last, 1):
                where = f"the section from {first} to {last}" if name else f"its text has {last:,} characters"
                raise InvalidRequest(
                    f"from_offset is {request.from_offset} of {request.paper_id!r}: {where}."
                )
            first = request.from_offset
        end = _end(document.text, first, last, READ_CHARACTERS)
        return TextResponse(
            self._snapshot,
            paper_id,
            title,
            about,
            section=name,
            text=document.text[first:end],
            start=first,
            end=end,
            next_offset=end if end < last else None,
            warnings=(*warnings, *unread(document)),
        )

    def find(self, request: FindBody) -> FindResponse:
        """Where a text has words, a phrase or a pattern."""
        documents, text = self.text_of(request.paper_id, request.version, request.as_of)
        document, start = documents.document(text.id), perf_counter()
        total, relation, spans = patterns.find(
            document.text, request.q, request.syntax, request.offset, request.limit
        )
        stages().append(("find", start, perf_counter()))
        [paper] = self._catalog.papers([text.paper], request.fields, as_of=request.as_of)
        results = []
        for first, last in spans:
            shown_end = min(last, first + MATCH_CHARACTERS)
            begin, end = _around(document.text, first, shown_end, request.context if shown_end == last else 0)
            passage = in_document(document, begin, end, text.version, at=first)
            results.append(Match(paper, passage, document.text[first:shown_end], first, last))
        following = next_offset(request.offset, len(results), total)
        return FindResponse(
            self._snapshot, total, relation, following, tuple(results), unread(document), request.fields
        )

    def contexts(self, request: ContextBody) -> ContextsResponse:
        """The sentences around citation marks."""
        start = perf_counter()
        filters = ResolvedFilters(last_day=self._lookup.day(request.as_of))
        if request.direction == "references":
            documents, text = self.text_of(request.paper_id, request.version, request.as_of)
            total, marks = documents.marks_of(text.id, request.limit, request.offset, filters)
            numbers = [mark.cited for mark in marks]
        else:
            documents = self._open_documents()
            if request.version is not None:
                raise InvalidRequest(
                    f"version {request.version} applies to what a paper says of others: use direction 'references', "
                    "or leave it out."
                )
            number = self._lookup.id(request.paper_id, request.as_of)
            total, marks = documents.marks_on(number, request.limit, request.offset, filters)
            numbers = [mark.paper for mark in marks]
        known = list(dict.fromkeys(number for number in numbers if number is not None))
        papers = self._catalog.papers(known, request.fields, as_of=request.as_of)
        by_number = dict(zip(known, papers, strict=True))
        texts = {
            number: documents.document(number) for number in dict.fromkeys(mark.document for mark in marks)
        }
        results = tuple(
            CitationContext(
                _context(texts[mark.document], mark),
                texts[mark.document].text[mark.start : mark.end],
                None if number is None else by_number[number],
                mark.reference,
            )
            for mark, number in zip(marks, numbers, strict=True)
        )
        stages().append(("contexts", start, perf_counter()))
        following = next_offset(request.offset, len(results), total)
        return ContextsResponse(self._snapshot, total, following, results, request.fields)

    def whole(
        self, paper_id: str, version: int | None, as_of: str | None, fields: Sequence[str]
    ) -> WholeText:
        """A text as a whole, with ``fields`` of its paper and of the papers that it cites."""
        documents, text = self.text_of(paper_id, version, as_of)
        numbers = documents.cited(text.id, ResolvedFilters(last_day=self._lookup.day(as_of)))
        shown_papers = list(
            dict.fromkeys([text.paper, *(number for number in numbers if number is not None)])
        )
        papers = self._catalog.papers(shown_papers, fields, as_of=as_of)
        by_number: dict[int | None, Paper] = dict(zip(shown_papers, papers, strict=True))
        cited = tuple(by_number.get(number) for number in numbers)
        return WholeText(by_number[text.paper], text.version, documents.document(text.id), cited)

    def pdf(self, paper_id: str, version: int | None, as_of: str | None) -> tuple[bytes, int | None]:
        """The PDF of a paper and its version."""
        documents = self._open_documents()
        number = self._lookup.id(paper_id, as_of)
        texts = self._versions(documents, number, paper_id, version)
        for text in texts:
            if text.pages and (original := documents.original(text.id)) is not None:
                return original, text.version
        sources = ", ".join(sorted({text.source for text in texts}))
        which = "" if version is None else f"version {version} of "
        raise DocumentNotFound(
            f"The library has no PDF of {which}{paper_id!r} (only {sources}): read its text instead."
        )

    def page(self, request: PageBody) -> bytes:
        """The image of a page."""
        original, _ = self.pdf(request.paper_id, request.version, request.as_of)
        start = perf_counter()
        with self._drawing:
            # With the first page, since it needs an extension.
            renderer = self._renderer = self._renderer or open_renderer()
        image = renderer.draw(original, request.page, request.box).png
        stages().append(("draw", start, perf_counter()))
        return image

    # -- documents --------------------------------------------------------------------------------------

    def _open_documents(self) -> Documents:
        if self._documents is None:
            raise self.missing()
        return self._documents

    def missing(self) -> DocumentNotFound:
        """The error for requests of full texts to a library without."""
        return DocumentNotFound(
            f"This library (snapshot {self._snapshot}) has no full texts: ingest it with --documents."
        )

    def _versions(self, documents: Documents, number: int, paper_id: str, version: int | None) -> list[Text]:
        """The texts of a version of a paper, or of all, the best first. An arXiv id may name the version; a text whose
        version is unknown is that of each such id.

        Raises:
            DocumentNotFound: there are none.
            InvalidRequest: the id names another version than ``version``.
        """
        named = arxiv_version(paper_id)
        if None not in (named, version) and named != version:
            raise InvalidRequest(
                f"version is {version}, and {paper_id!r} names version {named}: leave one out."
            )
        texts = documents.texts(number)
        if not texts:
            raise DocumentNotFound(
                f"This library (snapshot {self._snapshot}) has no full text of {paper_id!r}: read its abstract."
            )
        if version is None and (named is None or texts[0].version is None):
            return texts
        version = named if version is None else version
        chosen = [text for text in texts if text.version == version]
        if not chosen:
            versions = ", ".join(sorted({"unknown" if t.version is None else str(t.version) for t in texts}))
            raise DocumentNotFound(
                f"This library has no version {version} of the text of {paper_id!r}, only version {versions}."
            )
        return chosen

    def text_of(self, paper_id: str, version: int | None, as_of: str | None) -> tuple[Documents, Text]:
        """The text to read of a paper."""
        documents = self._open_documents()
        number = self._lookup.id(paper_id, as_of)
        return documents, self._versions(documents, number, paper_id, version)[0]

    def _about(self, documents: Documents, text: Text) -> TextDocument:
        texts = documents.texts(text.paper)
        versions = sorted({paper_text.version for paper_text in texts if paper_text.version is not None})
        pages = max(
            (paper_text.pages for paper_text in texts if paper_text.version == text.version), default=0
        )
        return TextDocument(text.source, text.characters, text.tokens, text.version, tuple(versions), pages)


def _outline(document: Document, tokens: Sequence[int]) -> tuple[Section, ...]:
    levels: list[int] = []
    outline = []
    for place, (section, count) in enumerate(zip(document.sections, tokens, strict=True)):
        levels.append(1 if section.parent is None else levels[section.parent] + 1)
        page = _page_at(document, section.start)
        outline.append(
            Section(
                place, section.title, levels[place], section.start, section.end, count, section.number, page
            )
        )
    return tuple(outline)


def unread(document: Document) -> tuple[str, ...]:
    """A warning if the text of a PDF is missing."""
    why = "the fonts do not say which characters they show. View its pages as images."
    if document.pages and not document.has_text:
        return (f"The PDF has no text: it is a scan, or {why}",)
    if document.is_partly_lost:
        return (f"Parts of the PDF's text are missing (\ufffd): {why}",)
    return ()


def _sections(document: Document, name: str, paper_id: str) -> list[int]:
    """The places of the sections with a number, a title, or ``#`` and a place. There is at least one."""
    sections = document.sections
    wanted = " ".join(name.split()).casefold()
    if re.fullmatch(r"#\d{1,6}", wanted):
        place = int(wanted[1:])
        if place < len(sections):
            return [place]
    else:
        number = wanted.rstrip(".")
        forms = [
            [
                section.number is not None and section.number.rstrip(".").casefold() == number
                for section in sections
            ],
            [section.title.casefold() == wanted for section in sections],
            [(heading(section.number, section.title) or "").casefold() == wanted for section in sections],
        ]
        for matching in forms:
            if any(matching):
                return [place for place, is_match in enumerate(matching) if is_match]
    titles = ", ".join(
        repr(heading(section.number, section.title)) for section in sections[:20] if section.title
    )
    rest = f" and {len(sections) - 20} more" if len(sections) > 20 else ""
    raise InvalidRequest(
        f"The text of {paper_id!r} has no section {shown(name)}: it has {titles or 'none'}{rest}. Read the outline."
    )


def _of_one_name(name: str, place: int, others: Sequence[int]) -> tuple[str, ...]:
    """A warning that sections at other places have the name too."""
    if not others:
        return ()
    places = ", ".join(f"#{other}" for other in others[:20])
    rest = f" and {len(others) - 20} more" if len(others) > 20 else ""
    return (
        f"{len(others) + 1} sections are called {shown(name)}: this is #{place}, the others are {places}{rest}.",
    )


def _end(text: str, start: int, last: int, most: int) -> int:
    """Where a reading of at most ``most`` characters ends: after a paragraph, a line or a word."""
    if last - start <= most:
        return last
    for mark in ("\n\n", "\n", " "):
        cut = text.rfind(mark, start + most // 2, start + most)
        if cut >= 0:
            return cut + len(mark)
    return start + most


def _around(text: str, start: int, end: int, characters: int) -> tuple[int, int]:
    """The bounds of a match with its surroundings, moved to the bounds of words."""
    first, last = max(0, start - characters), min(len(text), end + characters)
    while 0 < first < start and not _SPACE.match(text[first - 1]):
        first += 1
    while end < last < len(text) and not _SPACE.match(text[last]):
        last -= 1
    while first < start and _SPACE.match(text[first]):
        first += 1
    while end < last and _SPACE.match(text[last - 1]):
        last -= 1
    return first, last


def in_document(
    document: Document, start: int, end: int, version: int | None, at: int | None = None
) -> Passage:
    """A part of a text, with the section and the page of the place ``at``, by default of its start."""
    at = start if at is None else at
    name, place = None, document.section_at(at)
    if place is not None:
        section = document.sections[place]
        name = heading(section.number, section.title)
    return Passage(start, end, document.text[start:end], name, version, _page_at(document, at))


def _page_at(document: Document, offset: int) -> int | None:
    """The number of the page of an offset."""
    number = bisect_right(document.pages, offset, key=lambda page: page.start)
    return number if number and offset < max(document.pages[number - 1].end, 1) else None


def _context(document: Document, mark: Mark) -> Passage:
    """The sentence with a mark."""
    paragraph = next(
        (candidate for candidate in document.paragraphs if candidate.start <= mark.start < candidate.end),
        None,
    )
    first, last = (mark.start, mark.end) if paragraph is None else (paragraph.start, paragraph.end)
    for start, end in sentence_spans(document.text[first:last]):
        if first + start <= mark.start < first + end:
            return in_document(document, first + start, max(first + end, mark.end), mark.version)
    return in_document(document, first, last, mark.version)

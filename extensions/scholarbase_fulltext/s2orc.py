"""Reads S2ORC: texts of PDFs with annotated spans, as JSON lines of Semantic Scholar's datasets.

``s2orc`` (the first form) has one text in ``content``, with the bibliography in it; ``s2orc_v2`` has the texts ``body``
and ``bibliography``. Annotations are lists of spans, written as JSON within the JSON: ``sectionheader`` in the first
form is ``section_header`` in the second. https://api.semanticscholar.org/api-docs/datasets
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import Any, Final, NamedTuple

import orjson

from scholarbase.bibliographies.ids import find_ids
from scholarbase.bibliographies.years import years_in
from scholarbase.documents.model import (
    BadDocument,
    BibliographyEntry,
    FigureKind,
    FullText,
    Metadata,
    ParagraphKind,
)
from scholarbase_fulltext.building import (
    DocumentBuilder,
    Inline,
    InlineBuilder,
    clean,
    known_ids,
    read_record,
)
from scholarbase_fulltext.headings import split_number

FIGURES: Final = "Figures and tables"
_ID_PREFIXES: Final = {
    "doi": "DOI:",
    "arxiv": "arXiv:",
    "acl": "ACL:",
    "pubmed": "PMID:",
    "pubmedcentral": "PMCID:",
    "mag": "MAG:",
    "dblp": "DBLP:",
}
_LABEL: Final = re.compile(r"\s*(?:fig(?:ure|\.)?|(table))\s{0,3}\.?\s{0,3}(\w{1,6})", re.IGNORECASE)


class _Span(NamedTuple):
    start: int
    end: int
    attributes: dict[str, Any]


class _Annotated:
    """A text and its spans."""

    def __init__(self, value: dict[str, Any]) -> None:
        self.text: str = value["text"]
        self._read: dict[str, list[_Span]] = {}
        annotations = value.get("annotations")
        self._annotations = {
            str(name).replace("_", "").lower(): spans
            for name, spans in (annotations if isinstance(annotations, dict) else {}).items()
        }

    def spans(self, name: str) -> list[_Span]:
        """The spans of a kind in their order, each once."""
        if name in self._read:
            return self._read[name]
        value = self._annotations.get(name)
        if isinstance(value, str):
            try:
                value = orjson.loads(value)
            except orjson.JSONDecodeError as error:
                raise BadDocument(
                    "not-s2orc", f"The annotation {name!r} is not valid JSON: {error}."
                ) from error
        spans: dict[tuple[int, int, str], _Span] = {}
        for item in value if isinstance(value, list) else []:
            try:
                start, end = int(item["start"]), int(item["end"])
            except (KeyError, TypeError, ValueError, OverflowError):
                continue
            attributes = item.get("attributes")
            if 0 <= start < end <= len(self.text):
                known = attributes if isinstance(attributes, dict) else {}
                key = str(known.get("id", known.get("ref_id")))
                spans[start, end, key] = _Span(start, end, known)
        self._read[name] = sorted(spans.values(), key=lambda span: (span.start, -span.end))
        return self._read[name]

    def words(self, span: _Span) -> str:
        return " ".join(clean(self.text[span.start : span.end]).split())

    def within(self, name: str, outer: _Span) -> list[_Span]:
        """The spans of a kind that begin in another span."""
        return [span for span in self.spans(name) if outer.start <= span.start < outer.end]


def read_s2orc(line: bytes) -> FullText:
    """The full text in a line of S2ORC, of either form.

    Raises:
        BadDocument: it is not a record of S2ORC, or has no text.
    """
    record = read_record(line)
    body = record.get("body", record.get("content"))
    if not isinstance(body, dict) or "corpusid" not in record:
        raise BadDocument("not-s2orc", "The record has no 'corpusid' and 'body' or 'content', as S2ORC has.")
    if not isinstance(body.get("text"), str):
        raise BadDocument("no-text", f"The record of CorpusId:{record['corpusid']} has no text.")
    bibliography = record.get("bibliography")
    separate = (
        bibliography if isinstance(bibliography, dict) and isinstance(bibliography.get("text"), str) else None
    )
    return _Reader(record, _Annotated(body), None if separate is None else _Annotated(separate)).read()


class _Reader:
    def __init__(self, record: dict[str, Any], body: _Annotated, bibliography: _Annotated | None) -> None:
        self._record = record
        self._body = body
        self._bibliography = bibliography or body
        self._builder = DocumentBuilder()
        self._places: dict[str, int] = {}
        self._marks = body.spans("bibref")

    def read(self) -> FullText:
        body = self._body
        self._entries()
        abstracts = body.spans("abstract")[:1]
        if abstracts:
            self._builder.heading("Abstract")
            self._add(abstracts[0])
        figures = body.spans("figure")
        self._blocks([*abstracts, *figures, *body.spans("bibentry")])
        if figures:
            self._builder.heading(FIGURES)
        for figure in figures:
            self._figure(figure)
        titles = body.spans("title")
        title = self._record.get("title") or (body.words(titles[0]) if titles else None)
        return FullText(
            "s2orc",
            self._builder.build(),
            self._ids(),
            metadata=Metadata(
                title=" ".join(clean(title).split()) or None if isinstance(title, str) else None,
                abstract=body.words(abstracts[0]) if abstracts else None,
                authors=self._authors(),
            ),
        )

    def _entries(self) -> None:
        source = self._bibliography
        titles = source.spans("bibtitle")
        next_title = 0
        for number, span in enumerate(source.spans("bibentry")):
            self._places.setdefault(str(span.attributes.get("id")), number)
            while next_title < len(titles) and titles[next_title].start < span.start:
                next_title += 1
            title = None
            if next_title < len(titles) and titles[next_title].start < span.end:
                title_span = titles[next_title]
                title = source.words(title_span._replace(end=min(title_span.end, span.end)))
            text = source.words(span)
            matched, doi = span.attributes.get("matched_paper_id"), span.attributes.get("doi")
            names = [f"CorpusId:{matched}"] if matched else []
            names += [f"DOI:{doi}"] if isinstance(doi, str) else []
            ids = dict.fromkeys([*known_ids(names), *(str(identifier.id) for identifier in find_ids(text))])
            self._builder.bibliography.append(
                BibliographyEntry(text, title or None, years_in(text)[0], tuple(ids))
            )

    def _blocks(self, others: list[_Span]) -> None:
        """The headings, paragraphs and formulas that are not parts of other spans."""
        kinds: tuple[tuple[str, ParagraphKind | None], ...] = (
            ("sectionheader", None),
            ("paragraph", "paragraph"),
            ("formula", "formula"),
        )
        blocks: list[tuple[_Span, ParagraphKind | None, bool]] = [(span, None, True) for span in others]
        for name, kind in kinds:
            blocks += [(span, kind, False) for span in self._body.spans(name)]
        end = 0
        in_abstract = self._builder.end > 0
        for span, kind, is_other in sorted(blocks, key=lambda block: (block[0].start, not block[2])):
            if span.start < end:
                continue
            end = span.end
            if is_other:
                continue
            if in_abstract and kind is not None:
                self._builder.heading("Text")  # not a part of the abstract
            in_abstract = False
            if kind is None:
                written = str(span.attributes.get("n") or "").strip().rstrip(".") or None
                number, title = split_number(self._body.words(span))
                number = written or number
                self._builder.heading(title, level=number.count(".") + 1 if number else 1, number=number)
            else:
                self._add(span, kind)

    def _add(self, span: _Span, kind: ParagraphKind = "paragraph") -> None:
        self._builder.paragraph(self._inline(span), kind)

    def _inline(self, span: _Span) -> Inline:
        """The text of a span, with the citation marks in it."""
        building = InlineBuilder()
        end = span.start
        for mark in self._marks_in(span):
            if mark.start < end:
                continue
            building.add(self._body.text[end : mark.start])
            position = self._places.get(str(mark.attributes.get("ref_id")))
            text = self._body.text[mark.start : mark.end]
            if position is None:
                building.add(text)
            else:
                building.cite(text, position)
            end = mark.end
        building.add(self._body.text[end : span.end])
        return building.build()

    def _marks_in(self, span: _Span) -> list[_Span]:
        first = bisect_left(self._marks, span.start, key=lambda mark: mark.start)
        last = bisect_left(self._marks, span.end, key=lambda mark: mark.start)
        return [mark for mark in self._marks[first:last] if mark.end <= span.end]

    def _figure(self, span: _Span) -> None:
        captions = self._body.within("figurecaption", span)
        kind: FigureKind = "table" if span.attributes.get("type") == "table" else "figure"
        match = _LABEL.match(self._body.text[span.start : span.start + 40])
        label = f"{kind.capitalize()} {match[2]}" if match else kind.capitalize()
        caption = (
            self._inline(captions[0]._replace(end=min(captions[0].end, span.end)))
            if captions
            else Inline("", [])
        )
        self._builder.captioned(kind, label, caption)
        for table in self._body.within("table", span)[:1]:
            self._add(table._replace(end=min(table.end, span.end)), "table")

    def _authors(self) -> tuple[str, ...]:
        names = (self._body.text[span.start : span.end].strip() for span in self._body.spans("author"))
        lines = (" ".join(clean(name.split("\n")[0]).split()) for name in names)
        return tuple(dict.fromkeys(name for name in lines if name))

    def _ids(self) -> tuple[str, ...]:
        record = self._record
        about = record.get("openaccessinfo")
        ids: dict[str, None] = dict.fromkeys(known_ids([f"CorpusId:{record['corpusid']}"]))
        for values in (
            record.get("externalids"),
            about.get("externalids") if isinstance(about, dict) else None,
        ):
            for key, value in values.items() if isinstance(values, dict) else []:
                prefix = _ID_PREFIXES.get(str(key).lower())
                if prefix is not None and value:
                    ids.update(dict.fromkeys(known_ids([f"{prefix}{value}"])))
        return tuple(ids)

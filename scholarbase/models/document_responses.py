"""Responses with full texts and passages, and their JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from scholarbase.models.document_requests import PASSAGE_FIELDS
from scholarbase.models.limits import TotalRelation
from scholarbase.models.papers import Paper
from scholarbase.models.responses import NextOffset, Response, Snapshot, Warnings


class Section(msgspec.Struct, frozen=True, omit_defaults=True):
    """A section in an outline. ``start`` and ``end`` are offsets in the text, in characters."""

    place: Annotated[
        int, Meta(description="Its place in the outline, from 0: `section=#3` reads the one at place 3.")
    ]
    title: str
    level: Annotated[int, Meta(description="1 for a section, 2 for a subsection.")]
    start: int
    end: int
    tokens: Annotated[
        int, Meta(description="Its tokens with its subsections, counted by the encoder's tokenizer.")
    ]
    number: str | None = None
    page: Annotated[int | None, Meta(description="The page where it begins, of a PDF.")] = None


class FigureEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A figure or table of a text."""

    kind: str
    label: str
    caption: str
    page: int | None = None
    box: Annotated[
        tuple[float, float, float, float] | None,
        Meta(description="x, y, width and height in points from the page's top left corner."),
    ] = None


class TextDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which text of a paper this is."""

    source: str
    characters: int
    tokens: int
    version: int | None = None
    versions: Annotated[
        tuple[int, ...], Meta(description="The versions whose texts the library has, where they are known.")
    ] = ()
    pages: Annotated[int, Meta(description="The number of pages that can be shown as images.")] = 0


class TextResponse(Response, frozen=True):
    """The outline of a paper's text, or a part of the text."""

    snapshot: Snapshot
    id: str
    title: str
    document: TextDocument
    sections: Annotated[
        tuple[Section, ...] | None, Meta(description="The outline; missing where a part of the text is read.")
    ] = None
    figures: tuple[FigureEntry, ...] | None = None
    section: Annotated[str | None, Meta(description="The section that is read.")] = None
    text: Annotated[str | None, Meta(description="The text from `start` to `end`.")] = None
    start: int | None = None
    end: int | None = None
    next_offset: Annotated[
        int | None,
        Meta(description="Where the rest of a part begins: read it with `from_offset`. Null at the end."),
    ] = None
    warnings: Annotated[
        tuple[str, ...],
        Meta(description="Present if several sections have the name, or if a PDF's text is missing."),
    ] = ()

    def selected(self) -> Any:
        content = {name: getattr(self, name) for name in self.__struct_fields__}
        if self.text is not None:
            del content["sections"], content["figures"]
            return {
                name: value for name, value in content.items() if value or name not in ("section", "warnings")
            }
        names = ("snapshot", "id", "title", "document", "sections", "figures", "warnings")
        return {name: content[name] for name in names if name != "warnings" or self.warnings}


class Passage(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of a paper's text. ``start`` and ``end`` are its offsets in that text, in characters."""

    start: int
    end: int
    text: str
    section: str | None = None
    version: int | None = None
    page: int | None = None


class PassageHit(msgspec.Struct, frozen=True, omit_defaults=True):
    """A passage, its paper, and its score."""

    score: float
    paper: Paper
    passage: Passage


class _WithPapers(Response, frozen=True):
    """Results with papers, whose JSON has only the requested fields, and no empty keys."""

    def selected(self) -> Any:
        content = msgspec.structs.asdict(self)
        fields, results = content.pop("fields"), content.pop("results")
        if not content.get("warnings", True):
            del content["warnings"]
        return content | {"results": [_selected(item, fields) for item in results]}


class PassagesResponse(_WithPapers, frozen=True):
    """Passages in rank order."""

    snapshot: Snapshot
    mode: Annotated[str, Meta(description="How passages were ranked.")]
    total: Annotated[int, Meta(description="The number of matching passages.")]
    total_relation: Annotated[
        TotalRelation, Meta(description="Whether `total` is exact (eq) or a lower bound (gte).")
    ]
    next_offset: NextOffset
    results: tuple[PassageHit, ...]
    warnings: Warnings = ()
    fields: Sequence[str] = PASSAGE_FIELDS


class Match(msgspec.Struct, frozen=True, omit_defaults=True):
    """A place in a text, with what surrounds it."""

    paper: Paper
    passage: Passage
    match: Annotated[str, Meta(description="The text that matches.")]
    match_start: int
    match_end: int


class FindResponse(_WithPapers, frozen=True):
    """Where a text has words, a phrase or a pattern, in the order of the text."""

    snapshot: Snapshot
    total: int
    total_relation: TotalRelation
    next_offset: NextOffset
    results: tuple[Match, ...]
    warnings: Warnings = ()
    fields: Sequence[str] = PASSAGE_FIELDS


class CitationContext(msgspec.Struct, frozen=True, omit_defaults=True):
    """A sentence with a citation mark."""

    passage: Passage
    mark: Annotated[str, Meta(description="The citation mark in the text.")]
    paper: Annotated[
        Paper | None,
        Meta(
            description="The citing paper, or the cited one; missing if the library does not hold the cited one."
        ),
    ] = None
    reference: Annotated[str | None, Meta(description="The entry of the bibliography.")] = None


class ContextsResponse(_WithPapers, frozen=True):
    """The sentences around citation marks."""

    snapshot: Snapshot
    total: Annotated[int, Meta(description="The number of citation marks.")]
    next_offset: NextOffset
    results: tuple[CitationContext, ...]
    fields: Sequence[str] = PASSAGE_FIELDS


def _selected(item: Any, fields: Sequence[str]) -> dict[str, Any]:
    content = {name: getattr(item, name) for name in item.__struct_fields__}
    if item.paper is not None:
        content["paper"] = {name: getattr(item.paper, name) for name in fields}
    return {name: value for name, value in content.items() if value is not None}

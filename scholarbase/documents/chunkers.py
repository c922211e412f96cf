"""Cuts documents into passages. The ways of cutting are data: see ``CHUNKERS``.

Passages do not depend on how the text is stored, only on the text, its sections and paragraphs, and the tokens.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from scholarbase.documents.model import Document
from scholarbase.documents.sentences import LONGEST, sentence_spans, trim
from scholarbase.documents.tokens import Spans, TokenSpans

MAX_CHARACTERS: Final = 10_000
"""Characters of a passage that is limited by tokens: 512 tokens of a paper have about 1,700."""

_INK: Final = re.compile(r"\S")
_Span = tuple[int, int]
_Starts = npt.NDArray[np.int64]
"""The starts of a text's tokens."""

Unit = Literal["token", "sentence", "paragraph"]


@dataclass(frozen=True, slots=True)
class Chunker:
    """How a document is cut.

    ``unit`` is what a passage has whole: words (``token``), sentences, or paragraphs with the headings before them.
    A passage has at most ``tokens`` tokens and ``sentences`` sentences; None is no limit. It begins ``step`` sentences
    after the one before it, where that is less than ``sentences``. With ``across_paragraphs``, a passage may have the
    end of one paragraph or section and the start of the next.
    """

    name: str
    unit: Unit
    tokens: int | None = None
    sentences: int | None = None
    step: int | None = None
    across_paragraphs: bool = True


CHUNKERS: Final[Mapping[str, Chunker]] = MappingProxyType(
    {
        chunker.name: chunker
        for chunker in (
            # AirQA (A.2): chunks of 512 tokens of the raw document.
            Chunker("tokens-512", "token", tokens=512),
            # ElaipBench (4.6): passages of 512 tokens that end at sentence bounds and do not overlap.
            Chunker("sentences-512", "sentence", tokens=512),
            # SciDQA (B.1.1, algorithm 1): ten sentences of one paragraph, of which the last begins the next passage.
            Chunker("sentences-10-1", "sentence", sentences=10, step=9, across_paragraphs=False),
            Chunker("paragraphs", "paragraph", tokens=512, across_paragraphs=False),
        )
    }
)


class Passage(NamedTuple):
    """A part of a document's text, its number of tokens, and the place of the innermost section that it begins in."""

    start: int
    end: int
    tokens: int
    section: int | None


def passages(
    document: Document, chunker: Chunker, tokens: TokenSpans, spans: Spans | None = None
) -> Iterator[Passage]:
    """Cut a document. Passages ascend, and together they have all characters of the text but white space.

    ``spans`` are ``tokens.spans(document.text)``, where the caller has them.
    """
    starts = (tokens.spans(document.text) if spans is None else spans)[:, 0]
    cuts = _CUTS[chunker.unit](document, chunker, starts)
    for start, end in cuts:
        first, last = np.searchsorted(starts, (start, end))
        yield Passage(start, end, int(last - first), document.section_at(start))


def token_counts(document: Document, tokens: TokenSpans, spans: Spans | None = None) -> tuple[int, list[int]]:
    """The number of tokens of the text, and of each section with its subsections.

    ``spans`` are ``tokens.spans(document.text)``, where the caller has them.
    """
    starts = (tokens.spans(document.text) if spans is None else spans)[:, 0]
    bounds = np.array([(section.start, section.end) for section in document.sections], np.int64).reshape(
        -1, 2
    )
    counts = np.diff(np.searchsorted(starts, bounds), axis=1)
    return len(starts), counts[:, 0].tolist()


class _Block(NamedTuple):
    """A paragraph, a heading, or text that is neither."""

    start: int
    end: int
    heading: bool


def _blocks(document: Document) -> list[_Block]:
    """The blocks of a document, which together have all its text but white space."""
    text = document.text
    headings = {section.start for section in document.sections}
    paragraphs = {paragraph.start for paragraph in document.paragraphs}
    ends = {paragraph.end for paragraph in document.paragraphs}
    bounds = sorted({0, len(text), *headings, *paragraphs, *ends})
    blocks = []
    for at, until in pairwise(bounds):
        start, end = trim(text, at, until)
        if end > start:
            blocks.append(_Block(start, end, at in headings and at not in paragraphs))
    return blocks


def _by_token(document: Document, chunker: Chunker, starts: _Starts) -> Iterator[_Span]:
    assert chunker.tokens is not None
    return _cut(document.text, 0, len(document.text), chunker.tokens, starts)


def _by_sentence(document: Document, chunker: Chunker, starts: _Starts) -> Iterator[_Span]:
    text, blocks = document.text, _blocks(document)
    by_block = [_sentences(text, block) for block in blocks]
    groups: Iterable[list[_Span]] = by_block
    if chunker.across_paragraphs:
        groups = [[sentence for sentences in by_block for sentence in sentences]]
    for sentences in groups:
        if chunker.tokens is not None:
            yield from _pack(text, sentences, chunker.tokens, starts)
        else:
            assert chunker.sentences is not None
            for run in _runs(sentences):
                yield from _windows(run, chunker.sentences, chunker.step or chunker.sentences)


def _by_paragraph(document: Document, chunker: Chunker, starts: _Starts) -> Iterator[_Span]:
    """Each paragraph with the headings before it, cut at sentence bounds if it is too long."""
    assert chunker.tokens is not None
    blocks: list[_Block] = []
    for block in _blocks(document):
        blocks.append(block)
        if not block.heading:
            yield from _joined(document.text, blocks, chunker.tokens, starts)
            blocks = []
    yield from _joined(document.text, blocks, chunker.tokens, starts)


def _joined(text: str, blocks: Sequence[_Block], most: int, starts: _Starts) -> Iterator[_Span]:
    if blocks:
        start, end = blocks[0].start, blocks[-1].end
        if _fits(start, end, most, starts):
            yield start, end
        else:
            yield from _pack(text, [s for block in blocks for s in _sentences(text, block)], most, starts)


_CUTS: Final = {"token": _by_token, "sentence": _by_sentence, "paragraph": _by_paragraph}


def _sentences(text: str, block: _Block) -> list[_Span]:
    if block.heading:
        return [(block.start, block.end)]
    return [(block.start + a, block.start + b) for a, b in sentence_spans(text[block.start : block.end])]


def _fits(start: int, end: int, most: int, starts: _Starts) -> bool:
    first, last = np.searchsorted(starts, (start, end))
    return bool(last - first <= most) and end - start <= MAX_CHARACTERS


def _windows(sentences: Sequence[_Span], size: int, step: int) -> Iterator[_Span]:
    """Windows of ``size`` sentences. The last one ends with the last sentence, and may be shorter."""
    for first in range(0, max(1, len(sentences) - size + step), step):
        window = sentences[first : first + size]
        if window:
            yield window[0][0], window[-1][1]


def _runs(sentences: Sequence[_Span]) -> Iterator[Sequence[_Span]]:
    """The sentences, divided where more white space is between two than a sentence may have characters."""
    gaps = [n for n in range(1, len(sentences)) if sentences[n][0] - sentences[n - 1][1] > LONGEST]
    for first, last in pairwise([0, *gaps, len(sentences)]):
        yield sentences[first:last]


def _pack(text: str, sentences: Sequence[_Span], most: int, starts: _Starts) -> Iterator[_Span]:
    """As many whole sentences as fit, again and again. A long sentence is cut, and more sentences may follow
    its last piece."""
    units: list[_Span] = []
    for sentence in sentences:
        if _fits(*sentence, most, starts):
            units.append(sentence)
        else:
            units += _cut(text, *sentence, most, starts)
    ends = [end for _, end in units]
    firsts = np.searchsorted(starts, [start for start, _ in units]).tolist()
    lasts = np.searchsorted(starts, ends).tolist()
    at = 0
    while at < len(units):
        start = units[at][0]
        end = min(bisect_right(lasts, firsts[at] + most), bisect_right(ends, start + MAX_CHARACTERS))
        end = max(end, at + 1)
        yield start, ends[end - 1]
        at = end


def _cut(text: str, start: int, end: int, most: int, starts: _Starts) -> Iterator[_Span]:
    """Pieces of at most ``most`` tokens and ``MAX_CHARACTERS``, cut at white space if there is any."""
    while (ink := _INK.search(text, start, end)) is not None:
        start = ink.start()
        first = int(np.searchsorted(starts, start))
        cut = min(end, start + MAX_CHARACTERS)
        last = int(np.searchsorted(starts, cut, "right")) - 1
        if last - first >= most and int(starts[first + most]) < cut:
            last = first + most
            cut = max(int(starts[last]), start + 1)
        if cut < end:
            cut = _word_start(text, starts[first + 1 : last + 1].tolist(), start) or cut
        yield trim(text, start, cut)
        start = cut


def _word_start(text: str, starts: Sequence[int], after: int) -> int | None:
    """The last of these token starts that is the start of a word."""
    for start in reversed(starts):
        if start > after and text[start - 1].isspace():
            return start
    return None

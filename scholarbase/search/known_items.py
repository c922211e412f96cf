"""Known items: the papers whose id, link or title is the query of a search.

A paper that a query names comes first, in every mode, if it passes the filters. A query that is the id of a paper that
is not there, or that the filters exclude, finds nothing: no other paper is an answer.

A title of few words may also be a phrase of its field, such as *machine translation*, for which other papers are better
answers: such a title does not change the ranking (:func:`scholarbase.indexes.titles.is_common_phrase`). Nor does a word
that many papers have, unless the paper introduced it: before *BERT: Pre-training ...* hardly a paper had the word, but
thousands had *IoT* before *IOT: Instance-wise Layer Reordering ...*.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from scholarbase.errors import InvalidRequest
from scholarbase.identifiers import MAX_LENGTH, Identifier, parse
from scholarbase.indexes.catalog import Catalog
from scholarbase.indexes.filters import ResolvedFilters
from scholarbase.indexes.frequencies import ANY_TERM
from scholarbase.indexes.query_syntax import words
from scholarbase.indexes.titles import Titled
from scholarbase.indexes.vectors.base import ScoredId
from scholarbase.indexes.vectors.bm25 import Bm25Text
from scholarbase.models.responses import LegExplanation
from scholarbase.search.cache import Cache

MOST_SHARING: Final = 3
"""Papers that may have the same title, or the same part before a subtitle. More are not one known item."""
CACHED_PHRASES: Final = 1024
"""Titles that are known to be common phrases or not: the test takes milliseconds."""
MAY_BE_ID: Final = re.compile(
    r"\s*(?:(?:\S+:\s+)?\S+|[<(\[]?(?:arxiv|doi|pmid|pmcid|corpusid)\b.{0,200}|\[.*\))\s*",
    re.IGNORECASE | re.DOTALL,
)
"""A text without spaces, except after a prefix such as ``arXiv:``, in arXiv's stamp, or in a link of Markdown."""
_HYPHENS: Final = "-\u2010\u2011\u2012\u2013"
_AROUND: Final = "<>[]()\"'.,;"
"""Characters that texts write around an id or a link."""
COMMON_WORD: Final = 100
"""Papers that have a common word."""
NEW_SHARE: Final = 1 / 10
"""The share of the papers with a common word that may be earlier than the one that introduced it. It is 1% or less for
BERT, LLaMA and WaveNet and 8% for LoRA; 38% for SGD, and 70% or more for 5G, IoT, DNA and TCP."""
NEW_SHARE_OF_ALL: Final = 1 / 2000
"""The share of all papers that these may be: of 334,917 arXiv papers 430 had *Internet* before a paper had this title,
7% of those that have it now."""
_PMCID_DIGITS: Final = 5
"""The least digits of a PubMed Central id that cannot be a word. Its first ids are near PMC13900."""


class KnownItem(NamedTuple):
    """A paper that comes first: the query names it, or it is one of the few that match its query syntax."""

    id: int
    by: Literal["id", "title", "syntax"]


class KnownItems:
    """Finds the papers that queries name. Thread-safe."""

    def __init__(self, papers: Catalog, bm25: Bm25Text) -> None:
        self._catalog = papers
        self._bm25 = bm25
        self._common: Cache[bool] = Cache(CACHED_PHRASES)

    def find(
        self, q: str, titled: Sequence[Titled], filters: ResolvedFilters
    ) -> tuple[tuple[KnownItem, ...], str | None]:
        """The papers that pass the filters and whose id, link or title is ``q``, by id; and a warning if ``q`` is the
        id of a paper that cannot be a result.

        ``titled`` are those with this title (:meth:`.Catalog.titled`). Only a text that matches :data:`MAY_BE_ID` is
        read as an id.
        """
        text = q.strip()
        identifier, number = None, None
        if len(text) <= MAX_LENGTH and MAY_BE_ID.fullmatch(q):
            identifier, number = self._of_id(text)
        if number is not None:
            if self._catalog.passing([number], filters):
                return (KnownItem(number, "id"),), None
            return (), f"q is the id {identifier}, of a paper that the filters exclude."
        day = filters.last_day
        if titled and not self._common.get((text, day), lambda: self._catalog.is_common_phrase(text, day)):
            return tuple(KnownItem(paper.id, "title") for paper in self._names(text, titled, day)), None
        if identifier is None or titled or _may_be_words(identifier):
            return (), None
        where = f"this library (snapshot {self._catalog.snapshot})"
        return (
            (),
            f"q is the id {identifier}, which is not in {where}: search for the paper's title or topic.",
        )

    def _of_id(self, text: str) -> tuple[Identifier | None, int | None]:
        """The identifier that a text is, and its paper; None for other texts, and where there is no paper."""
        identifier = None
        for name in dict.fromkeys((text, text.strip(_AROUND), _target(text).strip(_AROUND))):
            try:
                # A word without digits is more likely a topic than a citation key.
                identifier = parse(name, keys=any(map(str.isdigit, name)))
            except InvalidRequest:
                continue
            [number] = self._catalog.resolve([identifier])
            if number is not None:
                return identifier, number
        return identifier, None

    def _names(self, text: str, titled: Sequence[Titled], last_day: int | None) -> list[Titled]:
        """Of the papers with this title, those of which it is the name: all, unless it is a single word."""
        if len(words(text)) != 1:
            return list(titled)
        terms = self._bm25.query(text).indices
        if not terms:
            return []  # a stop word
        [term] = terms[:1]
        frequencies = self._catalog.document_frequencies([term], last_day)
        is_common = frequencies.get(term, 0) >= COMMON_WORD

        def is_new(day: int | None) -> bool:
            if day is None:
                return False
            earlier = self._catalog.document_frequencies([term], day).get(term, 0)
            return (
                earlier <= NEW_SHARE * frequencies[term]
                and earlier <= NEW_SHARE_OF_ALL * frequencies[ANY_TERM]
            )

        return [
            paper
            for paper in titled
            if not is_common or (_hyphens(paper.name) == _hyphens(text) and is_new(paper.first_day))
        ]


def _hyphens(title: str) -> int:
    """The number of hyphens, which a common word has as its title: *Wi-Fi*, but *BigBird* for *Big-Bird*."""
    return sum(map(title.count, _HYPHENS))


def _target(text: str) -> str:
    """The address in a link of Markdown, else the text."""
    return text[:-1].rpartition("](")[2] if text[:1] == "[" and text[-1:] == ")" else text


def _may_be_words(identifier: Identifier) -> bool:
    """Whether a text that names no paper here can also be searched for by its words: abstracts have links to code, any
    word may be a document id or a citation key, and ``PMC5`` may be another abbreviation."""
    scheme, value = identifier
    return scheme in ("URL", "Doc", "Key") or (scheme == "PMCID" and len(value) < _PMCID_DIGITS)


def explain_known(
    known: Sequence[KnownItem],
    page: Sequence[ScoredId],
    own: Sequence[ScoredId],
    explanations: Mapping[int, tuple[LegExplanation, ...]],
) -> dict[int, tuple[LegExplanation, ...]]:
    """The explanations of a page, with an entry for each known item before those of the legs.

    Its share is what ``put_first`` added to the score of the legs, those of ``own``.
    """
    explained = dict(explanations)
    scores = {hit.id: hit.score for hit in page}
    before = dict(own) if known else {}
    for rank, (number, by) in enumerate(known, 1):
        if number in scores:
            share = scores[number] - before.get(number, 0.0)
            explained[number] = (LegExplanation(by, rank, 1.0, share), *explained.get(number, ()))
    return explained


def put_first(known: Sequence[KnownItem], hits: Sequence[ScoredId]) -> list[ScoredId]:
    """The hits with the known items before all others, each with a score above that of the next."""
    scores = {hit.id: hit.score for hit in hits}
    ids = [item.id for item in known]
    ranked = [hit for hit in hits if hit.id not in ids]
    for number in reversed(ids):
        score = scores.get(number, 0.0 if ranked else 1.0)
        if ranked and score <= ranked[0].score:
            score = math.nextafter(ranked[0].score, math.inf)
        ranked.insert(0, ScoredId(number, score))
    return ranked

"""Ranks the passages of one or a few papers by BM25, without an index."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final, NamedTuple

from rank_bm25 import BM25Okapi

K1: Final = 1.5
B: Final = 0.75
"""The defaults of rank-bm25, with which ElaipBench was measured."""
_LEAST_WEIGHT: Final = 0.001
_WORD: Final = re.compile(r"\w+")


class Ranked(NamedTuple):
    """The place of a passage among those that were ranked, and its score."""

    place: int
    score: float


def rank_passages(texts: Sequence[str], query: str, k1: float = K1, b: float = B) -> list[Ranked]:
    """The passages that have a word of the query, best first; equal ones in their order.

    Words are in lower case, neither stemmed nor are any left out (``docs/measurements.md`` has the figures).

    A word in half of the passages has the weight 0 in rank-bm25, and one in more of them a small share of the mean
    weight, which is below 0 where most words are in most passages, as in a paper of two. Here every word has a weight
    of at least 0.001, so a match never counts against a passage. Other scores are those of ``rank_bm25.BM25Okapi``.
    """
    words = _words(query)
    passages = [_words(text) for text in texts]
    asked = set(words)
    matching = [place for place, passage in enumerate(passages) if not asked.isdisjoint(passage)]
    if not matching:
        return []
    bm25 = BM25Okapi(passages, k1=k1, b=b)
    for word in asked:
        if word in bm25.idf:
            bm25.idf[word] = max(bm25.idf[word], _LEAST_WEIGHT)
    scores = bm25.get_scores(words).tolist()
    return sorted(
        (Ranked(place, scores[place]) for place in matching), key=lambda ranked: (-ranked.score, ranked.place)
    )


def _words(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFKC", text).lower())

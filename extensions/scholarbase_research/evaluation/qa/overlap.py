"""Overlap of an answer with a reference text, and of evidence with reference evidence."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

from rapidfuzz.distance import LCSseq

_ARTICLES: Final = re.compile(r"\b(?:a|an|the)\b")
_NO_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)
_NOT_ALPHANUMERIC: Final = re.compile(r"[^a-z0-9]+")


class Rouge(NamedTuple):
    """F-measures of ROUGE-1, ROUGE-2 and ROUGE-L."""

    rouge_1: float
    rouge_2: float
    rouge_l: float

    @property
    def mean(self) -> float:
        """The mean of the three, as SciDQA (section 4.1) reports it."""
        return sum(self) / 3


def _f1(common: int, a: int, b: int) -> float:
    """The harmonic mean of ``common / a`` and ``common / b``."""
    return 2 * common / (a + b) if common else 0.0


def _words(text: str) -> list[str]:
    """SQuAD's normal form: lower case, without punctuation and articles."""
    return _ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split()


def token_f1(answer: str, reference: str) -> float:
    """F1 of the bags of words, as SQuAD counts (https://aclanthology.org/P18-2124, its evaluation script).

    If one of them has no words, 1 if the other has none either, else 0.
    """
    a, b = _words(answer), _words(reference)
    if not a or not b:
        return float(a == b)
    return _f1((Counter(a) & Counter(b)).total(), len(a), len(b))


def rouge(answer: str, reference: str) -> Rouge:
    """ROUGE (Lin 2004, https://aclanthology.org/W04-1013) of lower-case ASCII letters and digits, without stemming.

    These are the values of Google's rouge-score without its stemmer.
    """
    a, b = _tokens(answer), _tokens(reference)
    common = LCSseq.similarity(a, b)
    return Rouge(_n_grams(a, b, 1), _n_grams(a, b, 2), _f1(common, len(a), len(b)))


def _tokens(text: str) -> list[str]:
    return _NOT_ALPHANUMERIC.sub(" ", text.lower()).split()


def _n_grams(a: Sequence[str], b: Sequence[str], n: int) -> float:
    first, second = (Counter(zip(*(words[i:] for i in range(n)), strict=False)) for words in (a, b))
    return _f1((first & second).total(), first.total(), second.total())


def evidence_f1(named: Iterable[str], reference: Iterable[str]) -> float:
    """F1 of two sets of passages, by their text or id without regard to blanks, as Qasper counts paragraphs
    (https://aclanthology.org/2021.naacl-main.365). Two empty sets agree.
    """
    a, b = ({" ".join(passage.split()) for passage in passages} - {""} for passages in (named, reference))
    return _f1(len(a & b), len(a), len(b)) if a or b else 1.0


def best_rouge(answer: str, references: Sequence[str]) -> Rouge:
    """Each measure's highest value over the references."""
    scored = list(map(partial(rouge, answer), references))
    return Rouge(*(max(values) for values in zip(*scored, strict=True)))

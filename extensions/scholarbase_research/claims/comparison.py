"""Compares a claim with the sentences of a text: the nearest sentences, missing words, other numbers, and a verdict.

A sentence's score is the share of the claim's words that it has, from 0 to 1, each word weighed by how few sentences of
the text have it. Words are compared without common endings and by their first seven letters: *inhibited* is
*inhibitor*, *pushes* is *pushing*.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, get_args

from scholarbase.documents.sentences import sentence_spans
from scholarbase.indexes.query_syntax import words
from scholarbase.indexes.stop_words import STOP_WORDS
from scholarbase.models.papers import Paper

Label = Literal["supported", "not_found", "contradicts"]
LABELS: Final[tuple[Label, ...]] = get_args(Label)

SHOWN: Final = 3
"""Sentences that a result shows."""
JUDGED: Final = 0.8
"""The least score of a sentence that contradicts a claim. One that supports it has all words."""
COMPARED: Final = 0.6
"""The least score of a sentence whose numbers, negation and directions are those of the same statement."""
_FINDS: Final = re.compile(
    r"\b(?:RESULTS?|FINDINGS|CONCLUSIONS?|INTERPRETATION)\b"
    r"|\b(?:(?:we|our|results|data|study|findings|here)\s+"
    r"(?:\w+\s+)?(?:show|found|find|demonstrate|report|identif|suggest|reveal|observed|conclude|indicate|provide)"
    r"|[Tt]hus|[Tt]herefore)"
)
_AIMS: Final = re.compile(
    r"\b(?:OBJECTIVES?|AIMS?|BACKGROUND|PURPOSE|METHODS?|DESIGN|CONTEXT)\b"
    r"|\b(?:to (?:determine|investigate|examine|assess|evaluate"
    r"|describe|test)|unknown|unclear|not (?:well|fully) (?:defined|understood)|remains)\b"
)
FINDING: Final = 0.1
"""What the order of sentences adds for one that states a finding, takes from one that states an aim, and adds for the
last sentence of the text against the first one."""
_SCOPE: Final = 5
"""Words after a negation that it may be about."""
_STEM: Final = 7
_ENDING: Final = re.compile(r"(?<=\w{4})(?:ing|ed|es|e)$|(?<=\w{3})(?<![siu])s$")
"""No part of *string*, *rate*, *loss*, *analysis* and *status*."""
NUMBER: Final = re.compile(
    r"(?<![\w.,-])[-−]?\d+(?:,\d{3})*(?:[.·]\d+)?|(?<=[a-z(=<>~≈-])\d+(?:\.\d+)?(?=%|-fold)",
    re.ASCII,
)
_WORDS: Final = {
    word: value
    for value, word in enumerate(["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"], 2)
}
_NEGATION: Final = re.compile(
    r"\b(?:not|no|never|neither|nor|cannot|fail(?:s|ed)? to|lacks?|lacked|without|unable|absence of|rather than|"
    r"unlikely|un(?:related|associated|changed|affected)|independent of|(?<=-)independent)\b|n't\b",
    re.IGNORECASE,
)
_THAN: Final = re.compile(r"\b(?:than|compared)\b", re.IGNORECASE)
_UP: Final = re.compile(
    r"\b(?:increas|enhanc|improv|promot|elevat|rais|activat|upregulat|induc|accelerat|stimulat)(?:es?|ed|ing)?\b"
    r"|\b(?:higher?|greater|more|longer|better|gains?|positive(?:ly)?)\b",
    re.IGNORECASE,
)
_DOWN: Final = re.compile(
    r"\b(?:decreas|reduc|impair|inhibit|suppress|diminish|downregulat|prevent|attenuat|slow|block)(?:e?s|ed?|ing)?\b"
    r"|\b(?:lower?|fewer|less|shorter|worse|loss|negative(?:ly)?)\b",
    re.IGNORECASE,
)
_ET_AL: Final = re.compile(r"\bet al\b\.?(?:['’]s)?")
_WORD: Final = re.compile(r"\w+")
_PARAGRAPH: Final = re.compile(r"\S.*?(?=\n\n|\Z)", re.DOTALL)
"""A heading is a paragraph of a full text, and no part of the sentence after it."""


class Sentence(NamedTuple):
    """A sentence of the text: its offsets in characters, and its score from 0 to 1."""

    start: int
    end: int
    text: str
    score: float


class Comparison(NamedTuple):
    """What a text says about a claim.

    Args:
        label: ``supported`` or ``contradicts`` where a sentence is evidence, else ``not_found``, which says nothing
            about the claim.
        reason: why, as a sentence.
        sentences: the nearest ones, the best first.
        missing_words: words of the claim that the text does not have.
        missing_numbers: numbers of the claim that none of these sentences has.
    """

    label: Label
    reason: str
    sentences: tuple[Sentence, ...]
    missing_words: tuple[str, ...]
    missing_numbers: tuple[str, ...]


def compare_claim(claim: str, parts: Iterable[tuple[int, str]], shown: int = SHOWN) -> Comparison:
    """Compare a claim with a text, of which ``parts`` are the offsets and the characters; they may overlap."""
    by_span = {
        (offset + paragraph.start() + start, offset + paragraph.start() + end): paragraph[0][start:end]
        for offset, text in parts
        for paragraph in _PARAGRAPH.finditer(text)
        for start, end in sentence_spans(paragraph[0])
    }
    sentences = sorted(by_span.items())
    last = max((end for _, end in by_span), default=1)
    directed = {*_UP.findall(claim.casefold()), *_DOWN.findall(claim.casefold())}
    wanted = {_stem(word): word for word in content_words(claim) if word not in directed}
    having = [content_stems(text) for _, text in sentences]
    weights = _weights(wanted, having)
    scored = sorted(
        (
            Sentence(start, end, text, _score(weights, having[position]))
            for position, ((start, end), text) in enumerate(sentences)
        ),
        key=lambda sentence: (-sentence.score - _finding(sentence, last), sentence.start),
    )
    best = tuple(sentence._replace(score=round(sentence.score, 4)) for sentence in scored[:shown])
    everywhere = frozenset[str]().union(*having)
    numbers = _numbers(claim)
    near = {value for sentence in best for value in _numbers(sentence.text).values()}
    missing_numbers = tuple(written for written, value in numbers.items() if value not in near)
    missing = tuple(word for stem, word in wanted.items() if stem not in everywhere)
    label, reason = _judge(claim, wanted, best, missing_numbers)
    return Comparison(label, reason, best, missing, missing_numbers)


def without_citation(claim: str, paper: Paper) -> str:
    """A claim without the words that cite a paper: the family names of its authors, *et al.*, its year in brackets."""
    families = (author.name.rpartition(" ")[2] for author in paper.authors or ())
    names = {word.casefold() for family in families for word in _WORD.findall(family)}

    def drop_name(word: re.Match[str]) -> str:
        return "" if word[0][0].isupper() and word[0].casefold() in names else word[0]

    claim = _WORD.sub(drop_name, _ET_AL.sub(" ", claim))
    return claim if paper.year is None else re.sub(rf"\(\s*{paper.year}[a-z]?\s*\)", " ", claim)


def content_words(text: str) -> list[str]:
    """The words of a text without stop words and numbers, in lower case."""
    all_words = words(text.casefold())
    return [word for word in all_words if word not in STOP_WORDS and len(word) > 1 and not word.isdigit()]


def content_stems(text: str) -> frozenset[str]:
    """The beginnings of the words of a text without stop words and numbers."""
    return frozenset(map(_stem, content_words(text)))


def _stem(word: str) -> str:
    return _ENDING.sub("", word)[:_STEM]


def _weights(wanted: Mapping[str, str], having: Sequence[frozenset[str]]) -> dict[str, float]:
    """The weight of each word: the fewer sentences have it, the more. Words that none has weigh as those of one."""
    number = len(having)
    counts = {stem: max(1, sum(stem in sentence for sentence in having)) for stem in wanted}
    return {stem: math.log(1 + (number + 1) / count) for stem, count in counts.items()}


def _score(weights: Mapping[str, float], having: Collection[str]) -> float:
    total = sum(weights.values())
    return sum(weight for stem, weight in weights.items() if stem in having) / total if total else 0.0


def _finding(sentence: Sentence, length: int) -> float:
    """What the order adds to a sentence's score."""
    states = (_FINDS.search(sentence.text) is not None) - (_AIMS.search(sentence.text) is not None)
    return FINDING * (states + sentence.start / length)


def _numbers(text: str) -> dict[str, float]:
    """The numbers of a text, as written and as values."""
    numbers: dict[str, float] = {}
    for match in NUMBER.finditer(text):
        written = match[0]
        numbers[written] = float(written.replace(",", "").replace("·", ".").replace("−", "-"))
    numbers |= {word: float(_WORDS[word]) for word in words(text.casefold()) if word in _WORDS}
    return numbers


def _direction(text: str) -> int | None:
    """1 for words such as *increase*, -1 for *decrease*, 0 for both, None for neither."""
    up, down = _UP.search(text), _DOWN.search(text)
    return None if up is None and down is None else (up is not None) - (down is not None)


def _is_negated(text: str, shared: Collection[str]) -> bool:
    """Whether a negation is before a word that the claim and the sentence share; two cancel each other."""
    following = (words(text[match.end() :].casefold())[:_SCOPE] for match in _NEGATION.finditer(text))
    return sum(any(_stem(word) in shared for word in scope) for scope in following) % 2 == 1


def _judge(
    claim: str, wanted: Mapping[str, str], sentences: Sequence[Sentence], missing_numbers: Sequence[str]
) -> tuple[Label, str]:
    """The label of a claim, and why."""
    if not sentences or sentences[0].score < COMPARED:
        return "not_found", "No sentence has most of the claim's words. The claim may hold all the same."
    best = sentences[0]
    if missing_numbers:
        stated = _numbers(claim)
        others = [written for written in _numbers(best.text) if written not in stated]
        missing = ", ".join(missing_numbers)
        if others and best.score >= JUDGED:
            return "contradicts", f"The sentence has {', '.join(others[:5])}, and not {missing}."
        return "not_found", f"The nearest sentences do not have the number {missing}."
    return _difference(claim, best) or _support(claim, wanted, best)


def _difference(claim: str, best: Sentence) -> tuple[Label, str] | None:
    """How a sentence with most of the claim's words differs from it."""
    if best.score < JUDGED:
        return None
    if _THAN.search(claim) and not _THAN.search(best.text):
        return "not_found", "The claim compares two things, and the sentence does not."
    shared = content_stems(claim) & content_stems(best.text)
    negated = [_is_negated(text, shared) for text in (claim, best.text)]
    opposite = {_direction(claim), _direction(best.text)} == {1, -1}
    if negated[0] != negated[1] and not opposite:
        return "contradicts", "One of the claim and the sentence is negated, and the other is not."
    if negated[0] == negated[1] and opposite:
        return "contradicts", "The claim and the sentence have opposite directions."
    return None


def _support(claim: str, wanted: Mapping[str, str], best: Sentence) -> tuple[Label, str]:
    """Whether a sentence with the claim's numbers, and no contradiction of it, says all of it."""
    stems = content_stems(best.text)
    if absent := [word for stem, word in wanted.items() if stem not in stems]:
        return "not_found", f"The nearest sentence does not have these words: {', '.join(absent)}."
    if _direction(claim) not in (None, _direction(best.text)):
        return "not_found", "The claim and the sentence do not have the same direction, such as an increase."
    return "supported", "A sentence has the words, the numbers and the direction of the claim."

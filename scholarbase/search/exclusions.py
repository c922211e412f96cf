"""Reads what a question excludes: *machine translation but not neural machine translation*.

Phrases such as *excluding* and *but not* name what the question does not want. A ranker would search for these words as
for all others, so they are taken out: the *wanted* text is searched for, papers with an *excluded* phrase are left out,
and those with an *avoided* phrase come last. What follows *without*, *not based on*, *rather than* or *non-* is only
avoided, because papers on the wanted topic may mention it. A negation that is part of a term is kept: *without loss of
generality*, *no-reference*, *non-convex*, *but not limited to*, *languages other than English*. Besides a list, the
texts of the library decide: *without labels* is a topic where many of the papers about labels have this phrase.

Documents and titles are not read: texts of more than :data:`MAX_WORDS` words, texts that speak as an abstract does (*we
propose*), quoted parts, and words in the capitals of a title (*Learning Without Forgetting*).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from scholarbase.indexes.catalog import Catalog
from scholarbase.indexes.filters import ResolvedFilters
from scholarbase.indexes.query_syntax import any_phrase, words
from scholarbase.indexes.stop_words import STOP_WORDS
from scholarbase.models.limits import MAX_PHRASES
from scholarbase.models.responses import Understood
from scholarbase.search import negations
from scholarbase.search.cache import Cache
from scholarbase.search.lookup import MAX_SYNTAX_MATCHES, Lookup

MAX_WORDS: Final = 60
"""Words of a text that is read. Longer ones are documents; of AutoScholarQuery's questions the longest has 31."""
MAX_LENGTH: Final = 600
"""Characters of a text that is read."""
MAX_CUES: Final = 8
"""Negations of a text that is read: the library looks each up."""
MAX_THING: Final = 7
"""Words of a phrase that is excluded or avoided. Longer ones are clauses, which papers do not repeat."""

TOPIC: Final = 5
"""Papers that must have a negation, such as *without labels*, for it to be a topic ..."""
TOPIC_TITLES: Final = 2
"""... or must have it in their titles; one title is enough for the question's own words ..."""
TOPIC_SHARE: Final = 0.0015
"""... and their share of the papers that have the thing in their texts, or in their titles. In 334,917 arXiv papers it
is 0.0104 for labels, 0.0024 for attention, 0.0003 for transformers and 0.0001 for deep learning."""
RARE_SHARE: Final = 0.05
"""The share that is enough if fewer papers have the negation, or one of :data:`.negations.NEGATIONS`."""
CACHED_COUNTS: Final = 4096
LEAST_INITIALS: Final = 3
"""Letters of an abbreviation that stands for its long form: shorter ones have several."""
READ_FOR_NAMES: Final = 200
"""Papers in which the long form of an abbreviation is looked for."""

Count = Callable[[str], int]
"""The number of papers that match an FTS5 expression."""


class _Cue(NamedTuple):
    kind: str
    word: str
    start: int
    end: int


class Exclusions:
    """Reads what questions to one library exclude. Thread-safe."""

    def __init__(self, papers: Catalog, lookup: Lookup) -> None:
        self._catalog = papers
        self._lookup = lookup
        self._counts: Cache[int] = Cache(CACHED_COUNTS)
        self._names: Cache[str] = Cache(CACHED_COUNTS)

    def read(
        self, q: str, filters: ResolvedFilters, day: int | None
    ) -> tuple[Understood | None, ResolvedFilters, frozenset[int], tuple[str, ...]]:
        """Read a question: what is understood, the filters without papers that are excluded or avoided, the avoided
        papers, and warnings about phrases that too many papers have."""
        understood = read(q, partial(self._count, day=day))
        if understood is None:
            return None, filters, frozenset(), ()
        wanted, asked = understood.wanted, understood.avoided
        understood = Understood(
            wanted,
            _outside(wanted, self._with_names(understood.excluded, day)),
            _outside(wanted, self._with_names(_related(understood.avoided), day)),
        )
        left_out, warnings = self._matching(understood.excluded, "", day)
        # Papers that do without the thing are what is wanted.
        negated = " OR ".join(form for form in map(_negated, asked) if self._count(form, day))
        lowered, others = self._matching(understood.avoided, negated, day)
        exclude = filters.exclude | left_out
        return (
            understood,
            replace(filters, exclude=exclude | lowered),
            lowered - exclude,
            warnings + others,
        )

    def _matching(
        self, things: tuple[str, ...], but: str, day: int | None
    ) -> tuple[frozenset[int], tuple[str, ...]]:
        """The papers with any of the phrases that do not match ``but``, and a warning if they are too many to be left
        out."""
        if not things:
            return frozenset(), ()
        having = expression(things)
        papers = self._lookup.matching(f"({having}) NOT ({but})" if but else having, day)
        if len(papers) <= MAX_SYNTAX_MATCHES:
            return papers, ()
        return frozenset(), (
            f"More than {MAX_SYNTAX_MATCHES:,} papers have {' or '.join(map(repr, things))}, so they are not left out.",
        )

    def _with_names(self, things: tuple[str, ...], day: int | None) -> tuple[str, ...]:
        """The phrases, each with the abbreviation or the long form that texts of the library define for it."""
        names = (self._names.get((thing, day), partial(self._other_name, thing, day)) for thing in things)
        return tuple(dict.fromkeys(name for pair in zip(things, names, strict=True) for name in pair if name))

    def _other_name(self, thing: str, day: int | None) -> str:
        """*NMT* for *neural machine translation*, and the other way round; empty if there is none."""
        parts = words(thing)
        short = re.fullmatch(r"([A-Z]{2,6})s?", thing)
        if short is None:
            initials = "".join(part[0] for part in parts).upper()
            is_short = len(parts) < LEAST_INITIALS
            defined = 0 if is_short else self._count(any_phrase([f"{thing} {initials}"]), day)
            return initials if defined >= TOPIC else ""
        papers = sorted(
            self._catalog.matching_ids(any_phrase([thing]), READ_FOR_NAMES, ResolvedFilters(last_day=day))
        )
        texts = " ".join(
            f"{paper.title} {paper.abstract}" for paper in self._catalog.papers(papers, ("title", "abstract"))
        )
        long_form = r"[\s-]+".join(rf"{letter}\w*" for letter in short[1])
        names = re.findall(rf"\b({long_form})\s*\({short[1]}s?\)", texts, re.IGNORECASE)
        [(name, count)] = Counter(map(str.casefold, names)).most_common(1) or [("", 0)]
        return name if count >= TOPIC else ""

    def _count(self, expression: str, day: int | None) -> int:
        """The papers, as of a day, that match an FTS5 expression."""
        return self._counts.get(
            (expression, day),
            lambda: self._catalog.count_text(expression, ResolvedFilters(last_day=day)),
        )


def excludes_quoted(q: str) -> bool:
    """Whether a text without operators excludes a phrase in quotation marks: it is a question, no query."""
    return (
        negations.may_exclude(q) is not None
        and negations.OPERATOR.search(q) is None
        and any(
            q[cue.end :].lstrip()[:1] in ('"', "\u201c", "\u201d") for cue in _cues(q) if cue.kind != "non"
        )
    )


def read(q: str, count: Count = lambda expression: 0) -> Understood | None:
    """Read what a question wants, excludes and avoids; None if it is to be searched for as it is."""
    if (
        len(q) > MAX_LENGTH
        or not negations.may_exclude(q)
        or negations.DOCUMENT.search(q)
        or len(words(q)) > MAX_WORDS
    ):
        return None
    q = negations.BEFORE_COLON.sub(", excluding ", negations.LATER.sub(r"\1 excluding \2", q))
    excluded: list[str] = []
    avoided: list[str] = []
    kept: list[str] = []
    position = 0
    cues = list(_cues(q))
    if len(cues) > MAX_CUES:
        return None
    for number, cue in enumerate(cues):
        if cue.start < position:
            continue
        limit = cues[number + 1].start if number + 1 < len(cues) else len(q)
        if cue.kind == "non":
            match = negations.METHOD.match(q, cue.end)
            assert match is not None
            end, things = match.end(), [_cleaned(match[0])]
        else:
            end = _scope(q, cue, limit)
            things = list(_things(q[cue.end : end]))
        if not _are_valid(things) or len(excluded) + len(avoided) + len(things) > MAX_PHRASES:
            continue
        before = q[position : cue.start]
        if _may_be_topic(cue, before) and any(
            _is_topic(count, cue, q[cue.start : end], thing) for thing in things
        ):
            continue
        head = ""
        if len(things) == 1 and negations.CONTRAST.fullmatch(" ".join(cue.word.split())):
            written = q[cue.end : end].strip(" ,.?")
            if head := _shared_head(count, before, written):
                things = [written]
        (excluded if cue.kind == "excluded" else avoided).extend(things)
        kept.append(f"{before} {head}")
        position = end
    wanted = _joined([*kept, q[position:]])
    excluded = list(_outside(wanted, excluded))
    avoided = [phrase for phrase in _outside(wanted, avoided) if phrase not in excluded]
    if not (excluded or avoided) or not _has_words(wanted):
        return None
    return Understood(wanted, tuple(excluded), tuple(avoided))


def _may_be_topic(cue: _Cue, before: str) -> bool:
    """Whether a negation may be part of a topic: *graphs excluding minors*, but not *graphs, excluding minors*."""
    word = cue.word.casefold()
    is_clause = negations.FREE.search(before) is not None
    return cue.kind != "excluded" or word.endswith("other than") or (word.endswith("ing") and not is_clause)


def _is_topic(count: Count, cue: _Cue, written: str, thing: str) -> bool:
    """Whether a negation is a topic of papers, as *without labels* is."""
    as_written = any_phrase([re.sub(r"^.*?\b(?=(?:not|no)\b)", "", written.strip())])
    having, term, forms = any_phrase([thing]), as_written, as_written
    if cue.kind == "non":
        term = forms = any_phrase([f"non {thing}", f"{thing} free"])
    elif cue.kind == "avoided":
        term, forms = any_phrase([f"without {thing}", f"{thing} free"]), _negated(thing)
    elif cue.word.casefold().endswith("other than"):
        term = any_phrase([f"other than {thing}"])

    def is_frequent(form: str, least: int, share: float, column: str = "") -> bool:
        negated = count(f"{column}({form})")
        return negated >= least and negated >= share * count(f"{column}({having})")

    return (
        is_frequent(as_written, 1, RARE_SHARE)
        or is_frequent(term, TOPIC, TOPIC_SHARE)
        or is_frequent(as_written, 1, TOPIC_SHARE, "title : ")
        or is_frequent(forms, 1, RARE_SHARE)
        or is_frequent(term, TOPIC_TITLES, TOPIC_SHARE, "title : ")
    )


def _negated(thing: str) -> str:
    """The FTS5 expression of papers that do without a thing."""
    return any_phrase([*(f"{word} {thing}" for word in negations.NEGATIONS), f"{thing} free"])


def _shared_head(count: Count, before: str, thing: str) -> str:
    """*retrieval*, for what stands before the negation in *sparse but not dense retrieval*; empty if there is none."""
    first, _, head = thing.partition(" ")
    match = negations.LAST_WORD.search(before)
    if match is None or not head or match[1] in STOP_WORDS:
        return ""
    shared = any_phrase([f"{match[1]} {head}", f"{match[1]} and {first}", f"{first} and {match[1]}"])
    return head if count(shared) >= TOPIC else ""


def expression(things: Iterable[str]) -> str:
    """The FTS5 expression of papers with any of these phrases. One such as *deep learning for medical images* has two
    phrases, which a paper may have apart."""
    return " OR ".join(
        f"({' AND '.join(any_phrase([part]) for part in negations.REST.split(thing) if words(part))})"
        for thing in things
    )


def _cues(q: str) -> Iterator[_Cue]:
    """The negations of a text that are not parts of terms, quotations or titles."""
    fixed = [match.span() for pattern in (negations.KEPT, negations.QUOTED) for match in pattern.finditer(q)]
    for match in negations.CUE.finditer(q):
        kind = match.lastgroup or ""
        start, end = match.span()
        text = match[0].strip()
        if any(start < last and first < end for first, last in fixed):
            continue
        if kind == "non":
            if not negations.METHOD.match(q, end):
                continue
        elif negations.NOT_BEFORE.match(q, end):
            continue
        if negations.BARE.match(text) and not negations.OF_PAPERS.search(q, 0, start):
            continue  # what is not said to be about papers
        if (
            text.istitle()
            and len(text) > 1
            and q[:start].strip(" \t\n([")
            and q[:start].rstrip()[-1:] not in ".?!;:"
        ):
            continue  # in a title
        yield _Cue(kind, text, start, end)


def _scope(q: str, cue: _Cue, limit: int) -> int:
    """The end of what a negation applies to; that of the negation itself if this is no thing."""
    start = cue.end
    while match := negations.LEAD.match(q, start + len(q[start:]) - len(q[start:].lstrip())):
        start = match.end()
    relative = negations.RELATIVE.match(q, cue.end)
    end = negations.END.search(q, max(start, relative.end() if relative else 0), limit)
    last = end.start() if end else limit
    is_relative = end is not None and end[0].casefold() in ("that", "which", "who")
    if is_relative and (q[: cue.start].strip() or not q[:last].rstrip().endswith(",")):
        return cue.end  # what is excluded is narrower than its phrase
    clause = q[cue.end : last]
    comma = clause.find(",")
    if comma >= 0:
        examples = negations.EXAMPLES.match(clause, comma)
        later = clause[comma:]
        # A list ends with "and" or "or", and its parts are short: surveys, reviews and tutorials.
        parts = negations.LIST.split(clause[(examples.end() if examples else 0) :].strip(" ,"))
        is_list = negations.JOINED.search(later) and all(len(words(part)) <= 4 for part in parts)
        if cue.word.casefold().endswith("than") and examples:
            last = cue.end + comma  # examples of what is wanted
        elif not (is_list or examples) or not clause[:comma].strip():
            last = cue.end + comma
    if cue.kind == "avoided" or negations.OF_KIND.search(q, 0, cue.start):
        rest = negations.REST.search(q, start + 1, last)
    else:
        rest = None if negations.FREE.search(q[: cue.start]) else negations.PLACE.search(q, start + 1, last)
    if rest and (thing := q[start : rest.start()].strip()) and not negations.GENERIC.fullmatch(thing):
        last = rest.start()
    return last


def _things(clause: str) -> Iterator[str]:
    """The phrases that a clause names: *deep learning methods such as CNNs or RNNs* has three."""
    head, *examples = negations.EXAMPLES.split(negations.TRAILING.sub("", clause), maxsplit=1)
    parts = [part for text in (head, *examples) for part in negations.LIST.split(text.strip(" ,."))]
    last = words(parts[-1])
    for part in parts:
        if (
            len(parts) > 1
            and part is not parts[-1]
            and len(last) > 1
            and negations.ADJECTIVE.fullmatch(part.strip())
        ):
            yield _cleaned(f"{part} {' '.join(last[1:])}")  # supervised or unsupervised learning
        elif cleaned := _cleaned(part):
            yield cleaned


def _cleaned(part: str) -> str:
    """A phrase without articles and without words such as *papers on* and *methods*."""
    text = part.strip(" \t\n,.'\"\u201c\u201d()-")
    while match := negations.LEAD.match(text):
        text = text[match.end() :]
    text = negations.TAIL.sub("", text)
    shorter = negations.TAIL_METHODS.sub("", text)
    if (len(words(shorter)) > 1 and not shorter.endswith("language")) or (
        negations.NAME.fullmatch(shorter) and not text.isupper()
    ):
        text = shorter
    return " ".join(text.split()) if not negations.HEADS.fullmatch(text) else part.strip()


def _outside(wanted: str, things: Iterable[str]) -> tuple[str, ...]:
    """The phrases that the wanted text does not have, each once."""
    inside = f" {' '.join(words(wanted.casefold()))} "
    return tuple(
        thing for thing in dict.fromkeys(things) if f" {' '.join(words(thing.casefold()))} " not in inside
    )


def _related(things: tuple[str, ...]) -> tuple[str, ...]:
    """The phrases with their other words."""
    return (*things, *(word for thing in things for word in negations.RELATED.get(thing.casefold(), ())))


def _are_valid(things: Iterable[str]) -> bool:
    """Whether there are phrases, and each is one that papers may have."""
    counts = [
        0
        if negations.GENERIC.fullmatch(thing) or negations.CLAUSE.search(thing) or not _has_words(thing)
        else len(words(thing))
        for thing in things
    ]
    return bool(counts) and min(counts) > 0 and max(counts) <= MAX_THING


def _has_words(text: str) -> bool:
    return any(word.casefold() not in STOP_WORDS for word in words(text))


def _joined(parts: Iterable[str]) -> str:
    """The parts of a text that remain, without the joints and punctuation between them and what was taken out."""
    text = " ".join(stripped for part in parts if (stripped := negations.EDGES.sub("", part)))
    return negations.EDGES.sub("", " ".join(negations.GAPS.sub("", text).split()))

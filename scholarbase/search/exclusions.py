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
"""... or must have it in their titles ..."""
TOPIC_SHARE: Final = 0.0015
"""... and their share of the papers that have the thing in their texts, or in their titles. In 334,917 arXiv papers it
is 0.0104 for labels, 0.0024 for attention, 0.0003 for transformers and 0.0001 for deep learning."""
CACHED_TOPICS: Final = 4096
LEAST_INITIALS: Final = 3
"""Letters of an abbreviation that stands for its long form: shorter ones have several."""
READ_FOR_NAMES: Final = 200
"""Papers in which the long form of an abbreviation is looked for."""

RELATED: Final = {
    "deep learning": ("deep", "convolutional", "CNN"),
    "neural networks": ("neural", "convolutional", "CNN"),
}
"""Other words for what questions avoid most. Papers that name only a kind of it (*R-CNN*) come last too."""

_PARTS: Final = (
    *(
        "not",
        "n't",
        "n\u2019t",
        "without",
        "non",
        "no ",
        "rather",
        "other",
        "exclu",
        "except",
        "omit",
        "skip",
        "ignor",
    ),
    *("leav", "apart", "aside", "opposed", "instead", "filter", "free"),
)
_CUE_WORD: Final = re.compile(
    r"\b(?:not|without|non|no|rather|other|exclu\w+|except\w*|omit\w*|skip\w*|ignor\w+|leav\w+|apart|aside|opposed|"
    r"instead|filter|free)\b|n['\u2019]t\b"
)


def _any(phrases: str) -> str:
    """A pattern of any of these phrases, each with ``_`` for its spaces."""
    return f"(?:{'|'.join(phrases.split())})".replace("_", r"\s+")


_PAPERS: Final = _any(
    "papers? works? articles? studies study research literature publications? ones anything everything things "
    "stuff results?"
)
_METHODS: Final = _any(
    "methods? approach(?:es)? techniques? algorithms? models? systems? architectures? frameworks? solutions?"
)
_KIND: Final = _any(
    "surveys? reviews? overviews? tutorials? theses thesis books? proceedings editorials? preprints?"
)
_BE: Final = _any("are is were was be")
_NOT: Final = r"(?:(?:do(?:es)?|did|should|must|can|could)(?:\s+not|n['\u2019]t)|cannot|can['\u2019]t)"
_DO_NOT: Final = r"do(?:\s+not|n['\u2019]t)"
_WHICH: Final = r"\b(?:that|which|who)\s+"
_WHICH_ARE: Final = rf"(?:{_WHICH}(?:{_BE}\s+)?)?"
_ABOUT: Final = _any(
    "about related_to concerned_with concerning including covering dealing_with focuss?ed_on focuss?ing_on mentioning "
    "discussing addressing"
)
_COVER: Final = _any("include mention discuss cover concern focus_on deal_with talk_about")
_USE: Final = _any(
    "use rely_on rely_upon depend_on depend_upon require need involve employ utili[sz]e apply build_on"
)
_USING: Final = _any(
    "(?:based|built|reliant|dependent|relying|depending|building|founded)_(?:up)?on using requiring needing involving "
    "employing utili[sz]ing applying"
)
_START: Final = r"(?:^|(?<=[.;,:!?(\n])|\bbut\b|\bplease\b)\s*(?:please\s+)?"
"""The beginning of a clause in the imperative."""
_TO: Final = r"(?:\s+(?:about|on|for|in|with|from|by))?"

_EXCLUDED: Final = (
    rf"{_WHICH_ARE}\bnot\s+{_ABOUT}",
    rf"(?:{_WHICH})?\b{_NOT}\s+{_COVER}",
    rf"{_START}{_DO_NOT}\s+(?:show|return|list|want|give(?:\s+me)?|{_COVER})",
    rf"\bI\s+{_DO_NOT}\s+(?:want|need|care\s+(?:about|for))(?:\s+to\s+(?:see|read))?",
    r"\bI(?:\s+am|['\u2019]m)\s+not\s+(?:interested\s+in|looking\s+for|after)|\bnot\s+interested\s+in",
    _any(
        r"\bexcluding except(?:ing)?(?:_for)? with_the_exception_of (?:apart|aside)_from leaving_(?:out|aside) "
        r"ignoring "
        "omitting skipping"
    ),
    r"\bother\s+than",
    rf"\b(?:but|and)\s+(?:certainly\s+|definitely\s+)?not{_TO}",
    rf"(?<=[,(;])\s*not{_TO}",
    rf"\bbut\s+no|(?:(?<=[,(;])|\band)\s*no(?=\s+{_KIND}\b)|{_WHICH_ARE}\bnot\s+(?:an?\s+)?(?={_KIND}\b)",
    rf"{_START}(?:exclude|omit|skip|ignore|filter\s+out|leave\s+out)",
)
_AVOIDED: Final = (
    rf"{_WHICH_ARE}\bnot\s+{_USING}",
    rf"(?:{_WHICH})?\b{_NOT}\s+{_USE}",
    rf"\bwithout(?:\s+(?:{_USING}|(?:any|the)\s+(?:use|help|aid)\s+of|the\s+need\s+(?:for|of)|resorting\s+to))?",
    r"\bwith\s+no(?:\s+(?:use|need)\s+(?:of|for))?|\bfree\s+(?:of|from)",
    r"\b(?:rather\s+than|as\s+opposed\s+to|instead\s+of)(?:\s+using)?",
)
_CUE: Final = re.compile(
    rf"(?P<excluded>{'|'.join(_EXCLUDED)})\b|(?P<avoided>{'|'.join(_AVOIDED)})\b|"
    r"(?P<non>\bnon[-\u2010-\u2013]\s?)(?=\w)",
    re.IGNORECASE,
)

_NOT_BEFORE: Final = re.compile(
    r"\s*"
    + _any(
        "limited restricted confined only just merely simply exclusively necessarily always all every each both "
        "yet too so "
        "as if when sufficient enough least last vice more less much many very quite well been? being to that "
        "this its? "
        r"them these those(?!_(?:about|on|that|which|using|with|based)\b) they we you what how why \w+ly"
    )
    + r"\b",
    re.IGNORECASE,
)
"""What follows a negation that does not exclude a thing: *but not limited to*, *without explicitly*."""
_KEPT: Final = re.compile(
    r"\bwithout\s+(?:(?:any|a|an|the|prior|further|additional|much)\s+)?"
    + _any(
        r"loss replacement supervision forgetting regret delay knowledge access assum\w+ guarantees? success exception "
        r"borders bounds? labels? labell?ed limits? limitations? sacrific\w+ compromis\w+ los\w+ increas\w+ reduc\w+ "
        r"degrad\w+ affect\w+ hurt\w* harm\w* chang\w+ modif\w+ access\w* know\w+ consider\w+ hav\w+ mak\w+ "
        r"being leav\w+ "
        r"explor\w+ interference intervention interaction re-?training \w+ly (?:human|manual)_\w+ their its our"
    )
    + r"\b|\bwith\s+no\s+(?:loss|regret|prior|access|supervision|knowledge|assumptions?|labels?)\b|\b"
    + _any(
        "whether_or_not with_(?:and|or|vs\\.?|versus)_without not_only none?_other_than last_but_not "
        r"languages?_other_than_English"
    )
    + r"\b",
    re.IGNORECASE,
)
"""Negations that are terms, or that limit how something is done."""
_METHOD: Final = re.compile(
    _any(
        "neural deep learning transformers? attention convolutional recurrent bayesian generative contrastive "
        "diffusion "
        r"kernel spectral reinforcement supervised [A-Z]{2,}\w* [A-Z]\w*[A-Z]\w*"
    )
    + r"(?:[- ](?:learning|networks?|based))?\b"
)
"""Methods whose name may follow *non-*; what follows it otherwise is a term."""

_END: Final = re.compile(
    r"[;:?!)\n\u2014]|\.(?=\s|$)|\s[-\u2013]+\s|\b"
    + _any(
        "but however although though because since while whereas where published written appearing only preferably "
        "ideally that which who and_(?:I|also|with|are|is) "
        "(?:from|after|before|between|in|until)_(?:early_|late_)?(?:19|20)\\d\\d"
    )
    + r"\b",
    re.IGNORECASE,
)
"""Where the scope of a negation ends, besides commas and the next negation."""
_REST: Final = re.compile(
    r"\b"
    + _any("for in on to with from by via under during at through using over across among within")
    + r"\b",
    re.IGNORECASE,
)
"""What follows an avoided thing and belongs to the wanted topic: *without deep learning for mobile devices*."""
_BARE: Final = re.compile(rf"{_NOT}\s+(?:{_COVER}|{_USE})$", re.IGNORECASE)
_OF_PAPERS: Final = re.compile(
    rf"\b(?:{_PAPERS}|{_METHODS})\b|[.;,:!?(\n]\s*(?:please\s+)?$|^\s*$", re.IGNORECASE
)
"""What stands before *do not use* or *do not include*: papers, methods, or the beginning of a clause."""
_OF_KIND: Final = re.compile(rf"\b(?:{_PAPERS}|{_METHODS})\s+$", re.IGNORECASE)
_LIST: Final = re.compile(r"\s*,\s*(?:(?:and|or|nor)\s+)?|\s+(?:and/or|and|or|nor)\s+|\s*/\s*", re.IGNORECASE)
_JOINED: Final = re.compile(r"\b(?:and|or|nor)\b", re.IGNORECASE)
_EXAMPLES: Final = re.compile(
    r",?\s*\(?\b"
    + _any(r"such_as e\.g\.,? for_example especially particularly in_particular like including")
    + r"\s",
    re.IGNORECASE,
)
_RELATIVE: Final = re.compile(
    rf"\s*(?:(?:the|any|all|those)\s+)?(?:{_PAPERS}|{_METHODS}|those)\s+(?:that|which)\s", re.IGNORECASE
)
_GENERIC: Final = re.compile(rf"(?:{_PAPERS}|{_METHODS})", re.IGNORECASE)
_CLAUSE: Final = re.compile(
    r"\b"
    + _any("is are was were be has have had can may will would does do did its their his her our my")
    + r"\b",
    re.IGNORECASE,
)
"""What no name of a thing has: *mice without its receptor are resistant* is a statement."""
_NAME: Final = re.compile(r"[A-Z]\w*[A-Z]\w*")
_LEAD: Final = re.compile(
    rf"(?:{_PAPERS}\s+(?:on|about|of|in|with|for|from|{_USING})|{_METHODS}\s+{_USING}|"
    rf"(?:{_PAPERS}|{_METHODS}|those)\s+(?:that|which)\s+(?:are\s+)?(?:{_USE}|{_USING}|{_ABOUT}|{_COVER})|"
    + _any(
        "the an? any all those these some other such purely standard classical traditional (?:the_)?use_of"
    )
    + rf"|{_USING}|{_ABOUT}|on|about|of)\s+(?=\S)",
    re.IGNORECASE,
)
_TAIL: Final = re.compile(rf"\s+{_PAPERS}$|(?<=\w)[- ]based(?:\s+{_METHODS})?$|\s+please$", re.IGNORECASE)
_TAIL_METHODS: Final = re.compile(rf"(?<=[\w-])\s+{_METHODS}$", re.IGNORECASE)
_HEADS: Final = re.compile(r"(?:learning|language|graph|kernel|data|model)", re.IGNORECASE)
_ADJECTIVE: Final = re.compile(r"\w+(?:al|ed|ic|ive|ous|ary|ar|ent|ant|able|less|ing)", re.IGNORECASE)
_QUOTED: Final = re.compile(
    r'"[^"]*"|\u201c[^\u201d]*\u201d|\u00ab[^\u00bb]*\u00bb|(?<!\w)\'[^\']{3,}\'(?!\w)'
)
_DOCUMENT: Final = re.compile(
    r"\bwe\s+(?:(?:\w+ly|also|then)\s+)?"
    + _any(
        "show propose present study introduce investigate prove describe develop demonstrate consider find "
        "provide explore "
        "analy[sz]e discuss derive report use give argue evaluate establish"
    )
    + r"\b|\bthis\s+(?:paper|work|article|letter|thesis|note)\b|\bour\s+(?:method|approach|results|model|work)\b",
    re.IGNORECASE,
)
"""What abstracts say, and questions do not."""
_JOINTS: Final = r"(?:but|and|or|please|that|which|who|are|is|do|does|also)"
_EDGES: Final = re.compile(
    rf"^(?:[\s,;:.\-()]|{_JOINTS}\b)+|(?:[\s,;:\-(]|\b{_JOINTS}(?=\s*$))+$", re.IGNORECASE
)
_GAPS: Final = re.compile(r"\(\s*\)|(?<=[,;])(?:\s*[,;])+|\s+(?=[,;.?!])")

IsTopic = Callable[[str, str], bool]
"""Whether a negation of a phrase, such as *without* and *labels*, is a topic of papers."""


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
        self._topics: Cache[bool] = Cache(CACHED_TOPICS)
        self._names: Cache[str] = Cache(CACHED_TOPICS)

    def read(
        self, q: str, filters: ResolvedFilters, day: int | None
    ) -> tuple[Understood | None, ResolvedFilters, frozenset[int], tuple[str, ...]]:
        """Read a question: what is understood, the filters without papers that are excluded or avoided, the avoided
        papers, and warnings about phrases that too many papers have."""
        understood = read(q, partial(self._is_topic, day))
        if understood is None:
            return None, filters, frozenset(), ()
        wanted = understood.wanted
        understood = Understood(
            wanted,
            _outside(wanted, self._with_names(understood.excluded, day)),
            _outside(wanted, self._with_names(_related(understood.avoided), day)),
        )
        left_out, warnings = self._matching(understood.excluded, day)
        lowered, others = self._matching(understood.avoided, day)
        exclude = filters.exclude | left_out
        return (
            understood,
            replace(filters, exclude=exclude | lowered),
            lowered - exclude,
            warnings + others,
        )

    def _matching(self, things: tuple[str, ...], day: int | None) -> tuple[frozenset[int], tuple[str, ...]]:
        """The papers with any of the phrases, and a warning if they are too many to be left out."""
        if not things:
            return frozenset(), ()
        papers = self._lookup.matching(expression(things), day)
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

    def _is_topic(self, day: int | None, cue: str, thing: str) -> bool:
        def count() -> bool:
            forms = any_phrase([f"{cue} {thing}", *([] if cue == "other than" else [f"{thing} free"])])
            for column, least in (("", TOPIC), ("title : ", TOPIC_TITLES)):
                negated = self._count(f"{column}({forms})", day)
                if negated >= least and negated >= TOPIC_SHARE * self._count(
                    f"{column}({any_phrase([thing])})", day
                ):
                    return True
            return False

        return self._topics.get((cue, thing, day), count)

    def _count(self, expression: str, day: int | None) -> int:
        """The papers, as of a day, that match an FTS5 expression."""
        return self._catalog.count_text(expression, ResolvedFilters(last_day=day))


def may_exclude(q: str) -> bool:
    """Whether a text has a word of an exclusion. Most questions have none, and need no reading."""
    text = q.lower()
    return any(part in text for part in _PARTS) and _CUE_WORD.search(text) is not None


def read(q: str, is_topic: IsTopic = lambda cue, thing: False) -> Understood | None:
    """Read what a question wants, excludes and avoids; None if it is to be searched for as it is."""
    if len(q) > MAX_LENGTH or not may_exclude(q) or _DOCUMENT.search(q) or len(words(q)) > MAX_WORDS:
        return None
    excluded: list[str] = []
    avoided: list[str] = []
    kept: list[str] = []
    place = 0
    cues = list(_cues(q))
    if len(cues) > MAX_CUES:
        return None
    for number, cue in enumerate(cues):
        if cue.start < place:
            continue
        limit = cues[number + 1].start if number + 1 < len(cues) else len(q)
        if cue.kind == "non":
            match = _METHOD.match(q, cue.end)
            assert match is not None
            end, things = match.end(), [_cleaned(match[0])]
        else:
            end = _scope(q, cue, limit)
            things = list(_things(q[cue.end : end]))
        if not _are_valid(things) or len(excluded) + len(avoided) + len(things) > MAX_PHRASES:
            continue
        if (cue.kind != "excluded" or cue.word.endswith("other than")) and any(
            is_topic(_word(cue), thing) for thing in things
        ):
            continue
        (excluded if cue.kind == "excluded" else avoided).extend(things)
        kept.append(q[place : cue.start])
        place = end
    wanted = _joined([*kept, q[place:]])
    excluded = list(_outside(wanted, excluded))
    avoided = [one for one in _outside(wanted, avoided) if one not in excluded]
    if not (excluded or avoided) or not _has_words(wanted):
        return None
    return Understood(wanted, tuple(excluded), tuple(avoided))


def expression(things: Iterable[str]) -> str:
    """The FTS5 expression of papers with any of these phrases. One such as *deep learning for medical images* has two
    phrases, which a paper may have apart."""
    return " OR ".join(
        f"({' AND '.join(any_phrase([part]) for part in _REST.split(thing) if words(part))})"
        for thing in things
    )


def _cues(q: str) -> Iterator[_Cue]:
    """The negations of a text that are not parts of terms, quotations or titles."""
    fixed = [match.span() for pattern in (_KEPT, _QUOTED) for match in pattern.finditer(q)]
    for match in _CUE.finditer(q):
        kind = match.lastgroup or ""
        start, end = match.span()
        text = match[0].strip()
        if any(start < last and first < end for first, last in fixed):
            continue
        if kind == "non":
            if not _METHOD.match(q, end):
                continue
        elif _NOT_BEFORE.match(q, end):
            continue
        if _BARE.match(text) and not _OF_PAPERS.search(q, 0, start):
            continue  # what is not said to be about papers
        if (
            text.istitle()
            and len(text) > 1
            and q[:start].strip(" \t\n([")
            and q[:start].rstrip()[-1:] not in ".?!;:"
        ):
            continue  # in a title
        yield _Cue(kind, text, start, end)


def _word(cue: _Cue) -> str:
    """The word of a negation in the phrases of papers."""
    word = cue.word.casefold()
    return "other than" if word.endswith("other than") else "non" if cue.kind == "non" else "without"


def _scope(q: str, cue: _Cue, limit: int) -> int:
    """The end of what a negation applies to; that of the negation itself if this is no thing."""
    relative = _RELATIVE.match(q, cue.end)
    end = _END.search(q, relative.end() if relative else cue.end, limit)
    if end is not None and end[0].casefold() in ("that", "which", "who"):
        return cue.end  # what is excluded is narrower than its phrase
    last = end.start() if end else limit
    clause = q[cue.end : last]
    comma = clause.find(",")
    if comma >= 0:
        examples = _EXAMPLES.match(clause, comma)
        later = clause[comma:]
        # A list ends with "and" or "or", and its parts are short: surveys, reviews and tutorials.
        parts = _LIST.split(clause[(examples.end() if examples else 0) :].strip(" ,"))
        is_list = _JOINED.search(later) and all(len(words(part)) <= 4 for part in parts)
        if not (is_list or examples) or not clause[:comma].strip():
            last = cue.end + comma
    if (
        (cue.kind == "avoided" or _OF_KIND.search(q, 0, cue.start))
        and (rest := _REST.search(q, cue.end + 1, last))
        and q[cue.end : rest.start()].strip()
    ):
        last = rest.start()
    return last


def _things(clause: str) -> Iterator[str]:
    """The phrases that a clause names: *deep learning methods such as CNNs or RNNs* has three."""
    head, *examples = _EXAMPLES.split(clause, maxsplit=1)
    parts = [part for text in (head, *examples) for part in _LIST.split(text.strip(" ,."))]
    last = words(parts[-1])
    for part in parts:
        if len(parts) > 1 and part is not parts[-1] and len(last) > 1 and _ADJECTIVE.fullmatch(part.strip()):
            yield _cleaned(f"{part} {' '.join(last[1:])}")  # supervised or unsupervised learning
        elif cleaned := _cleaned(part):
            yield cleaned


def _cleaned(part: str) -> str:
    """A phrase without articles and without words such as *papers on* and *methods*."""
    text = part.strip(" \t\n,.'\"\u201c\u201d()-")
    while match := _LEAD.match(text):
        text = text[match.end() :]
    text = _TAIL.sub("", text)
    shorter = _TAIL_METHODS.sub("", text)
    if (len(words(shorter)) > 1 and not shorter.endswith("language")) or (
        _NAME.fullmatch(shorter) and not text.isupper()
    ):
        text = shorter
    return " ".join(text.split()) if not _HEADS.fullmatch(text) else part.strip()


def _outside(wanted: str, things: Iterable[str]) -> tuple[str, ...]:
    """The phrases that the wanted text does not have, each once."""
    inside = f" {' '.join(words(wanted.casefold()))} "
    return tuple(one for one in dict.fromkeys(things) if f" {' '.join(words(one.casefold()))} " not in inside)


def _related(things: tuple[str, ...]) -> tuple[str, ...]:
    """The phrases with their other words."""
    return (*things, *(word for thing in things for word in RELATED.get(thing.casefold(), ())))


def _are_valid(things: Iterable[str]) -> bool:
    """Whether there are phrases, and each is one that papers may have."""
    counts = [
        0
        if _GENERIC.fullmatch(thing) or _CLAUSE.search(thing) or not _has_words(thing)
        else len(words(thing))
        for thing in things
    ]
    return bool(counts) and min(counts) > 0 and max(counts) <= MAX_THING


def _has_words(text: str) -> bool:
    return any(word.casefold() not in STOP_WORDS for word in words(text))


def _joined(parts: Iterable[str]) -> str:
    """The parts of a text that remain, without the joints and punctuation between them and what was taken out."""
    text = " ".join(stripped for part in parts if (stripped := _EDGES.sub("", part)))
    return _EDGES.sub("", " ".join(_GAPS.sub("", text).split()))

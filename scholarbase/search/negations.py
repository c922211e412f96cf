"""The words in which questions exclude things, and those that belong to terms or end what is excluded."""

from __future__ import annotations

import re
from typing import Final

NEGATIONS: Final = ("avoid", "prevent", "mitigate", "no", "non", "not", "without")
"""Words before a thing in papers that do without it: *mitigating mode collapse*."""
RELATED: Final = {
    "deep learning": ("deep", "convolutional", "CNN"),
    "neural networks": ("neural", "convolutional", "CNN"),
}
"""Other words for what questions avoid most. Papers that name only a kind of it (*R-CNN*) come last too."""

may_exclude: Final = re.compile(
    r"\b(?:not?|non|with(?:out|\s+no)|w/o|rather|other|exclu\w+|except\w*|omit\w*|skip\w*|ignor\w+|leav\w+|apart|"
    r"aside|opposed|instead|filter|free|besides|avoiding|anything\s+but)\b|n['\u2019]t\b",
    re.IGNORECASE,
).search
"""Finds a word of an exclusion in a text. Most questions have none, and need no reading."""


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
_COVER: Final = _any("mention discuss cover concern focus_on deal_with talk_about")
_USE: Final = _any("use rely_on rely_upon require need involve employ utili[sz]e apply build_on include")
_USING: Final = _any(
    "(?:based|built|reliant|dependent|relying|depending|building|founded)_(?:up)?on using requiring needing involving "
    "employing utili[sz]ing applying"
)
_BREAK: Final = r"(?:(?<=[,(;\u2014])|(?<=\s[-\u2013]))\s*"
_START: Final = r"(?:^|(?<=[.;,:!?(\n])|\bbut\b|\bplease\b)\s*(?:please\s+)?"
"""The beginning of a clause in the imperative."""
_TO: Final = r"(?:\s+(?:about|on|for|in|with|from|by))?"

_EXCLUDED: Final = (
    rf"{_WHICH_ARE}\bnot\s+{_ABOUT}|{_WHICH}(?:are|is)n['\u2019]t\s+{_ABOUT}",
    rf"(?:{_WHICH})?\b{_NOT}\s+{_COVER}|\b{_PAPERS}\s+{_WHICH}{_NOT}\s+include",
    rf"{_START}{_DO_NOT}\s+(?:show|return|list|want|give(?:\s+me)?|include|{_COVER})",
    rf"\bI\s+{_DO_NOT}\s+(?:want|need|care\s+(?:about|for))(?:\s+to\s+(?:see|read))?",
    r"\bI(?:\s+am|['\u2019]m)\s+not\s+(?:interested\s+in|looking\s+for|after)|\bnot\s+interested\s+in",
    _any(
        r"\bexcluding except(?:ing)?(?:_for)? with_the_exception_of (?:apart|aside)_from leaving_(?:out|aside) "
        r"omitting skipping besides (?:(?:with|by|using|on|about)_)?anything_but"
    ),
    rf"(?:{_BREAK}|^)ignoring",
    r"\bother\s+than",
    rf"\b(?:but|and)\s+(?:certainly\s+|definitely\s+)?not{_TO}",
    rf"{_BREAK}not{_TO}",
    rf"\bbut\s+no|(?:{_BREAK}|^|\band)\s*no(?=\s+{_KIND}\b)|{_WHICH_ARE}\bnot\s+(?:an?\s+)?(?={_KIND}\b)",
    rf"{_START}(?:exclude|omit|skip|ignore|filter\s+out|leave\s+out)",
)
_AVOIDED: Final = (
    rf"{_WHICH_ARE}\bnot\s+{_USING}",
    rf"(?:{_WHICH})?\b{_NOT}\s+{_USE}",
    rf"\b{_METHODS}\s+{_WHICH}{_NOT}\s+depend\s+(?:up)?on",
    rf"\b(?:without|w/o)(?:\s+(?:{_USING}|(?:any|the)\s+(?:use|help|aid)\s+of|the\s+need\s+(?:for|of)|resorting\s+to))?",
    r"\bwith\s+no(?:\s+(?:use|need)\s+(?:of|for))?|\bfree\s+(?:of|from)",
    rf"{_BREAK}(?:no(?=\s+\w+\s+\w)|avoiding)",
    r"\b(?:rather\s+than|as\s+opposed\s+to|instead\s+of)(?:\s+using)?",
    # A thing, no property: systems that are not chatbots.
    rf"{_WHICH}{_BE}\s+not(?=\s+(?:[\w-]+\s+){{0,3}}?(?:[\w-]+[^\Wsui]s\b|(?-i:[A-Z]\w*[A-Z]))|"
    r"\s+(?:[\w-]+\s+){1,3}?\w+(?:tion|ment|ing)\b)",
)
CUE: Final = re.compile(
    rf"(?P<excluded>{'|'.join(_EXCLUDED)})\b|(?P<avoided>{'|'.join(_AVOIDED)})\b|"
    r"(?P<non>\bnon[-\u2010-\u2013]\s?)(?=\w)",
    re.IGNORECASE,
)

NOT_BEFORE: Final = re.compile(
    r"\s*"
    + _any(
        "limited restricted confined only just merely simply exclusively necessarily always all every each both "
        "yet too so matter longer one doubt "
        "as if when sufficient necessary enough least last vice more less much many very quite well been? being to "
        "that this its? "
        r"them these those(?!_(?:about|on|that|which|using|with|based)\b) they we you what how why \w+ly"
    )
    + r"\b",
    re.IGNORECASE,
)
"""What follows a negation that does not exclude a thing: *but not limited to*, *without explicitly*."""
KEPT: Final = re.compile(
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
        r"(?:excluding|without)_an? "
        r"languages?_other_than_English"
    )
    + r"\b",
    re.IGNORECASE,
)
"""Negations that are terms, or that limit how something is done."""
METHOD: Final = re.compile(
    _any(
        "neural deep learning transformers? attention convolutional recurrent bayesian generative contrastive "
        "diffusion "
        "kernel spectral reinforcement supervised"
    )
    + r"(?:[- ](?:learning|networks?|based))?\b(?!-)"
)
"""Methods whose name may follow *non-*; what follows it otherwise is a term: *non-LTE*, *non-COVID-19*."""

END: Final = re.compile(
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
REST: Final = re.compile(
    r"\b"
    + _any("for in on to with from by via under during at through using over across among within")
    + r"\b",
    re.IGNORECASE,
)
"""What follows an avoided thing and belongs to the wanted topic: *without deep learning for mobile devices*."""
PLACE: Final = re.compile(r"\b(?:for|in|during|at|across|among|within)\b", re.IGNORECASE)
"""The same of an excluded thing that no comma precedes."""
FREE: Final = re.compile(r"[,(;:.\u2014]\s*$|\s[-\u2013]\s*$|^\s*$")
"""What stands before a negation that is a clause of its own."""
CONTRAST: Final = re.compile(r"but not|and not|rather than|as opposed to|instead of", re.IGNORECASE)
TRAILING: Final = re.compile(r"[\s,]+(?:and|or|nor|but|please)\s*$", re.IGNORECASE)
LAST_WORD: Final = re.compile(
    r"(?:^|\b(?:on|about|for|of|in|with|using|are|is|which|find)\s+)([a-z-]*[a-rt-z])\s*$"
)
"""A word, no plural, that is all that stands before a negation in its phrase: *papers on sparse*."""
LATER: Final = re.compile(r"([,(;\u2014])\s*([^,();]{2,60}?)\s+(?:(?:is|are)\s+)?excluded\b", re.IGNORECASE)
BEFORE_COLON: Final = re.compile(r"[\s.,;]*\bexclud(?:e|ing)\s*:", re.IGNORECASE)
OPERATOR: Final = re.compile(r"\b(?:AND|OR|NOT|NEAR)\b|\w[*:](?=\S|$)")
BARE: Final = re.compile(rf"{_NOT}\s+(?:{_COVER}|{_USE})$", re.IGNORECASE)
OF_PAPERS: Final = re.compile(
    rf"\b(?:{_PAPERS}|{_METHODS})\b|[.;,:!?(\n]\s*(?:please\s+)?$|^\s*$", re.IGNORECASE
)
"""What stands before *do not use* or *do not include*: papers, methods, or the beginning of a clause."""
OF_KIND: Final = re.compile(rf"\b(?:{_PAPERS}|{_METHODS})\s+$", re.IGNORECASE)
LIST: Final = re.compile(r"\s*,\s*(?:(?:and|or|nor)\s+)?|\s+(?:and/or|and|or|nor)\s+|\s*/\s*", re.IGNORECASE)
JOINED: Final = re.compile(r"\b(?:and|or|nor)\b", re.IGNORECASE)
EXAMPLES: Final = re.compile(
    r",?\s*\(?\b"
    + _any(r"such_as e\.g\.,? for_example especially particularly in_particular like including")
    + r"\s",
    re.IGNORECASE,
)
RELATIVE: Final = re.compile(
    rf"\s*(?:(?:the|any|all|those)\s+)?(?:{_PAPERS}|{_METHODS}|those)\s+(?:that|which)\s", re.IGNORECASE
)
GENERIC: Final = re.compile(rf"(?:{_PAPERS}|{_METHODS})", re.IGNORECASE)
CLAUSE: Final = re.compile(
    r"\b"
    + _any("is are was were be has have had can may will would does do did its their his her our my")
    + r"\b",
    re.IGNORECASE,
)
"""What no name of a thing has: *mice without its receptor are resistant* is a statement."""
NAME: Final = re.compile(r"[A-Z]\w*[A-Z]\w*")
LEAD: Final = re.compile(
    rf"(?:{_PAPERS}\s+(?:on|about|of|in|with|for|from|{_USING})|{_METHODS}\s+{_USING}|"
    rf"those\s+(?:on|{_USING})|(?:{_PAPERS}|{_METHODS}|those)\s+(?:that|which)\s+(?:are\s+)?(?:{_USE}|{_USING}|{_ABOUT}|{_COVER})|"
    + _any(
        "the an? any all those these some other such purely standard classical traditional (?:the_)?use_of"
    )
    + rf"|{_USING}|{_ABOUT}|on|about|of)\s+(?=\S)",
    re.IGNORECASE,
)
TAIL: Final = re.compile(rf"\s+{_PAPERS}$|(?<=\w)[- ]based(?:\s+{_METHODS})?$|\s+please$", re.IGNORECASE)
TAIL_METHODS: Final = re.compile(rf"(?<=[\w-])\s+{_METHODS}$", re.IGNORECASE)
HEADS: Final = re.compile(r"(?:learning|language|graph|kernel|data|model)", re.IGNORECASE)
ADJECTIVE: Final = re.compile(r"\w+(?:al|ed|ic|ive|ous|ary|ar|ent|ant|able|less|ing)", re.IGNORECASE)
QUOTED: Final = re.compile(
    r'"[^"]*"|\u201c[^\u201d]*\u201d|\u00ab[^\u00bb]*\u00bb|(?<!\w)\'[^\']{3,}\'(?!\w)'
)
DOCUMENT: Final = re.compile(
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
EDGES: Final = re.compile(
    rf"^(?:[\s,;:.\u2013\u2014\-()]|{_JOINTS}\b)+|(?:[\s,;:.?!\u2013\u2014\-(]|\b{_JOINTS}(?=\s*$))+$",
    re.IGNORECASE,
)
GAPS: Final = re.compile(r"\(\s*\)|(?<=[,;])(?:\s*[,;])+|\s+(?=[,;.?!])")

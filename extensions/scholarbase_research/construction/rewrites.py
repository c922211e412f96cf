"""Rewrites of a question, by a model or by rules: ways to search for its answers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, Literal, NamedTuple, Protocol, get_args

from scholarbase.models.limits import MAX_QUERY_LENGTH
from scholarbase.models.source import Source
from scholarbase_research.construction.terms import stem, stems, unique, words
from scholarbase_research.llm.asking import Malformed, ask, json_object, json_request, object_schema
from scholarbase_research.llm.base import (
    Completion,
    LanguageModel,
    ModelRequest,
    Usage,
    request_hash,
)

RewriteKind = Literal["original", "method", "task", "broader", "narrower", "terminology"]
KINDS: Final[tuple[RewriteKind, ...]] = get_args(RewriteKind)[1:]
_MEANINGS: Final = {
    "method": "centred on the method, model or technique",
    "task": "centred on the task, problem or application",
    "broader": "a more general topic that contains the query",
    "narrower": "a more specific topic within the query",
    "terminology": "other terms, synonyms, abbreviations or names of well-known systems",
}
_FRAME: Final = re.compile(
    r"^\s*(?:(?:could|can|would|will) you |please |i (?:am|'m) looking for |i need |i want |are there |is there |"
    r"what are |what is |which are |list |give me |provide |show |find |name )*"
    r"(?:me |us |the |some |any |all |a |an |list of )*",
    re.I,
)
_SPLIT: Final = re.compile(
    r"[,;:?()]|\b(?:using|use|uses|used|via|through|with|by|based on|that|which|for|in|on|of|to|from|about|as|such as|"
    r"under|without|across|between|against|than|and|or)\b",
    re.I,
)
_BY: Final = re.compile(
    r"\b(?:using|via|through|with|by|based on|employ\w*|appl(?:y|ying|ied)|leverag\w*)\b", re.I
)
_FIRST_RESULTS: Final = 10


class Rewrite(NamedTuple):
    """A text to search for. Number 0 is the question itself."""

    number: int
    kind: RewriteKind
    text: str


class Rewritten(NamedTuple):
    """Rewrites, where they come from, and what the model used. ``error`` says why a model's were not used."""

    rewrites: tuple[Rewrite, ...]
    origin: str
    prompt_hash: str | None = None
    usage: Usage = Usage()
    error: str | None = None


class Rewriter(Protocol):
    @property
    def name(self) -> str: ...

    def rewrite(self, question: str, count: int, to: str | None) -> Rewritten:
        """The question, and at most ``count`` rewrites; ``to`` is the latest date of a paper."""
        ...


def numbered(question: str, rewrites: Sequence[tuple[RewriteKind, str]], count: int) -> tuple[Rewrite, ...]:
    """The question and the first rewrites, each text once."""
    kept = unique([question, *(text[:MAX_QUERY_LENGTH] for _, text in rewrites)])[: count + 1]
    kinds: dict[str, RewriteKind] = {}
    for kind, text in rewrites:
        kinds.setdefault(" ".join(text[:MAX_QUERY_LENGTH].split()).casefold(), kind)
    kinds[kept[0].casefold()] = "original"
    return tuple(Rewrite(number, kinds[text.casefold()], text) for number, text in enumerate(kept))


def shares(count: int) -> dict[RewriteKind, int]:
    """How many rewrites of each kind: equal numbers, the first kinds one more where that does not divide."""
    quotient, remainder = divmod(count, len(KINDS))
    return {kind: quotient + (index < remainder) for index, kind in enumerate(KINDS)}


# -- rules ----------------------------------------------------------------------------------------------


class RuleRewriter:
    """Rewrites by rules, without a model: the question's words with more weight on a part of them, or with terms from
    the titles of its first results.

    Every rewrite has all words of the question. Parts of it alone, and titles alone, find fewer answers than as many
    results of the question itself (``docs/construct.md``).
    """

    name = "rules"

    def __init__(self, source: Source) -> None:
        self._source = source

    def rewrite(self, question: str, count: int, to: str | None) -> Rewritten:
        hits = self._source.search(
            question, syntax="plain", limit=_FIRST_RESULTS, fields=["title"], to=to
        ).results
        titles = [hit.paper.title or "" for hit in hits]
        by_kind = _by_rules(question, titles)
        chosen: list[tuple[RewriteKind, str]] = []
        rest: list[tuple[RewriteKind, str]] = []
        for kind, share in shares(count).items():
            texts = unique(by_kind[kind])
            chosen += [(kind, text) for text in texts[:share]]
            rest += [(kind, text) for text in texts[share:]]
        return Rewritten(numbered(question, chosen + rest, count), self.name)


def _by_rules(question: str, titles: Sequence[str]) -> dict[RewriteKind, list[str]]:
    core = " ".join(words(_FRAME.sub("", question)))

    def added(*texts: str) -> list[str]:
        return [f"{core} {text}" for text in texts if text]

    parts = [" ".join(words(part)) for part in _SPLIT.split(_FRAME.sub("", question))]
    parts = [part for part in parts if part]
    before, after = _halves(question)
    new = _new_terms(question, titles)
    longest = sorted(parts, key=lambda part: -len(part.split()))
    return {
        "method": added(after, *(part for part in longest[:2] if part != before)),
        "task": added(before, *parts[:1], *parts[-1:]),
        "broader": [core, *added(*longest[:1])],
        "narrower": added(*new[:5]),
        "terminology": added(*titles[:2], " ".join(new[:5]), *titles[2:4]),
    }


def _halves(question: str) -> tuple[str, str]:
    """The words before and after the first word that introduces a method."""
    match = _BY.search(question)
    if match is None:
        return "", ""
    return (
        " ".join(words(_FRAME.sub("", question[: match.start()]))),
        " ".join(words(question[match.end() :])),
    )


def _new_terms(question: str, titles: Sequence[str]) -> list[str]:
    """Pairs of words, and then words, that several titles have and the question has not."""
    known = stems(question)
    pairs: Counter[str] = Counter()
    single: Counter[str] = Counter()
    for title in titles:
        title_words = [word.casefold() for word in words(title)]
        # Dictionaries keep the order of the title, which decides between terms of equal counts; sets have none.
        pairs.update(
            list(
                dict.fromkeys(f"{a} {b}" for a, b in pairwise(title_words) if not {stem(a), stem(b)} <= known)
            )
        )
        single.update(
            list(dict.fromkeys(word for word in title_words if stem(word) not in known and len(word) > 2))
        )
    ranked = [term for counts in (pairs, single) for term, n in counts.most_common() if n > 1]
    return ranked or [term for term, _ in single.most_common(3)]


# -- models ---------------------------------------------------------------------------------------------


class ModelRewriter:
    """Rewrites by a language model. A malformed reply is retried once; after that the rules rewrite, which is noted."""

    def __init__(self, model: LanguageModel, rules: RuleRewriter) -> None:
        self.name = model.name
        self._model = model
        self._rules = rules

    def rewrite(self, question: str, count: int, to: str | None) -> Rewritten:
        request = _request(question, count)
        key = request_hash(self._model.name, request)
        asked = ask(self._model, request, _parsed)
        if asked.value is not None:
            return Rewritten(numbered(question, asked.value, count), self.name, key, asked.usage)
        by_rules = self._rules.rewrite(question, count, to)
        return Rewritten(by_rules.rewrites, by_rules.origin, key, asked.usage, asked.error)


def _request(question: str, count: int) -> ModelRequest:
    wanted = "\n".join(f"- {n} of kind {kind}: {_MEANINGS[kind]}" for kind, n in shares(count).items() if n)
    prompt = (
        "Write search queries for a scholarly search engine that together find the papers which answer this question. "
        f"Keep its intent.\n\nQuestion: {question}\n\nWrite {count} queries of 2 to 12 words:\n{wanted}\n\n"
        'Reply with a JSON object: {"rewrites": [{"kind": "method", "text": "..."}, ...]}.'
    )
    kind = {"type": "string", "enum": list(KINDS)}
    item = object_schema({"kind": kind, "text": {"type": "string"}})
    return json_request(prompt, {"rewrites": {"type": "array", "items": item}})


def _parsed(completion: Completion) -> list[tuple[RewriteKind, str]]:
    """Raises Malformed: not the rewrites, or none."""
    listed = json_object(completion).get("rewrites")
    rewrites: list[tuple[RewriteKind, str]] = []
    for rewrite in listed if isinstance(listed, list) else []:
        if (
            not isinstance(rewrite, dict)
            or rewrite.get("kind") not in KINDS
            or not isinstance(rewrite.get("text"), str)
        ):
            raise Malformed(
                f"has a rewrite without a text or with a kind that is not one of {', '.join(KINDS)}"
            )
        if rewrite["text"].strip():
            rewrites.append((rewrite["kind"], rewrite["text"]))
    if not rewrites:
        raise Malformed("has no rewrites")
    return rewrites

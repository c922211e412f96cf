"""Judges: an item in, a verdict out. A malformed verdict is retried once, then it is an error, never a zero."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import msgspec

from scholarbase_research.llm.asking import Malformed, ask, json_object, shortened
from scholarbase_research.llm.base import Completion, LanguageModel, Usage, request_hash
from scholarbase_research.llm.rubrics import Rubric, written

MAX_REASON: Final = 2000
"""Characters of a reason that are kept."""
_NUMBER: Final = re.compile(r"\s*-?\d+(?:\.\d+)?\s*", re.ASCII)


class Verdict(msgspec.Struct, frozen=True):
    """One judge's verdict. ``score`` is None if and only if ``error`` says why.

    ``prompt_hash`` is the hash of the first request; ``usage`` counts every reply, also a malformed one.
    """

    judge: str
    score: float | None
    reason: str
    error: str | None
    prompt_hash: str
    usage: Usage = Usage()


class Judge(Protocol):
    """Judges items by a rubric. Safe to share between threads."""

    @property
    def name(self) -> str: ...

    def judge(self, item: Mapping[str, str], verdicts: str | None = None) -> Verdict:
        """Judge an item; ``verdicts`` are the earlier verdicts of an adjudication.

        Raises:
            ModelError: the judge's service fails. A malformed verdict is an ``error`` of it.
        """
        ...


class ModelJudge:
    """A language model as a judge."""

    def __init__(self, model: LanguageModel, rubric: Rubric) -> None:
        self.name = model.name
        self._model = model
        self._rubric = rubric

    def judge(self, item: Mapping[str, str], verdicts: str | None = None) -> Verdict:
        request = self._rubric.request(item, verdicts)
        key = request_hash(self.name, request)
        asked = ask(self._model, request, lambda reply: parse_reply(self._rubric, reply))
        score, reason = asked.value or (None, "")
        return Verdict(self.name, score, reason, asked.error, key, asked.usage)


class FunctionJudge:
    """A rule as a judge, for baselines and tests. ``rule`` returns a label and a reason."""

    def __init__(self, name: str, rule: Callable[[Mapping[str, str]], tuple[float, str]]) -> None:
        self.name = name
        self._rule = rule

    def judge(self, item: Mapping[str, str], verdicts: str | None = None) -> Verdict:
        score, reason = self._rule(item)
        return Verdict(self.name, score, reason, None, f"rule:{self.name}")


def parse_reply(rubric: Rubric, completion: Completion) -> tuple[float, str]:
    """The score and the reason of a reply.

    Raises:
        Malformed: the reply has no score, or one that is not a label of the rubric.
    """
    reply = json_object(completion)
    score = reply.get("score")
    if isinstance(score, str) and _NUMBER.fullmatch(score):
        score = float(score)
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise Malformed(f"is {shortened(completion.text)}, without a score that is a number")
    if score not in rubric.values:
        labels = ", ".join(str(written(label)) for label in rubric.values)
        raise Malformed(f"has the score {written(score)}, which is not one of {labels}")
    reason = reply.get("reason")
    return float(score), " ".join(reason.split())[:MAX_REASON] if isinstance(reason, str) else ""

"""Judges: an item in, a verdict out. A malformed verdict is retried once, then it is an error, never a zero."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import msgspec

from scholarbase_research.llm.asking import PATIENCE, Malformed, Patience, ask, json_object, shortened
from scholarbase_research.llm.base import Completion, LanguageModel, Usage, request_hash
from scholarbase_research.llm.rubrics import Rubric, written

MAX_REASON: Final = 2000
"""Characters of a reason that are kept."""
_TAGGED: Final = re.compile(r"^\W*score\W*[:=]\W*(-?\d+(?:\.\d+)?)\W*$", re.M | re.I)
_NUMBER: Final = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*", re.ASCII)


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
            ModelError: the judge cannot be used at all. A failure of one verdict is its ``error``.
        """
        ...


class ModelJudge:
    """A language model as a judge. A service that does not respond after all retries gives a verdict with an error;
    ``patience`` such verdicts in sequence raise its ModelError, which ends the job. It can be resumed."""

    def __init__(self, model: LanguageModel, rubric: Rubric, *, patience: int = PATIENCE) -> None:
        self.name = model.name
        self._model = model
        self._rubric = rubric
        self._patience = Patience(patience)

    def judge(self, item: Mapping[str, str], verdicts: str | None = None) -> Verdict:
        request = self._rubric.request(item, verdicts)
        key = request_hash(self.name, request)
        asked = ask(self._model, request, lambda reply: parse_reply(self._rubric, reply), self._patience)
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
    text = completion.text
    if not text.strip():
        raise Malformed("is empty")
    if rubric.parser == "json":
        value, reason = _json(completion)
    elif rubric.parser == "tagged":
        found = {match[1] for match in _TAGGED.finditer(text)}
        if len(found) != 1:
            raise Malformed(f"has {len(found)} different lines 'Score: ...', not one")
        value, reason = float(found.pop()), text
    else:
        whole = _NUMBER.fullmatch(text)
        if whole is None:
            raise Malformed(f"is {shortened(text)}, not a label alone")
        value, reason = float(whole[1]), ""
    if value not in rubric.values:
        labels = ", ".join(str(written(label)) for label in rubric.values)
        raise Malformed(f"has the score {written(value)}, which is not one of {labels}")
    return value, " ".join(reason.split())[:MAX_REASON]


def _json(completion: Completion) -> tuple[float, str]:
    row = json_object(completion)
    score = row.get("score")
    if isinstance(score, str) and (whole := _NUMBER.fullmatch(score)):
        score = float(whole[1])
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise Malformed(f"is {shortened(completion.text)}, without a score that is a number")
    reason = row.get("reason")
    return float(score), reason if isinstance(reason, str) else ""

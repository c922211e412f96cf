"""Judges: an item in, a verdict out. A malformed verdict is retried once, then it is an error, never a zero."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from scholarbase.errors import CassetteMiss, ModelError
from scholarbase_research.llm.base import LanguageModel, Message, Usage, request_hash
from scholarbase_research.llm.parsing import Malformed, parse_reply
from scholarbase_research.llm.rubrics import Rubric


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

    def close(self) -> None: ...


class ModelJudge:
    """A language model as a judge.

    A service that does not respond after all retries gives a verdict with an error; ``patience`` such verdicts in
    sequence raise its ModelError, so that a service that is down ends the job, which can be resumed.
    """

    def __init__(
        self, model: LanguageModel, rubric: Rubric, *, name: str | None = None, patience: int = 10
    ) -> None:
        self._model = model
        self._rubric = rubric
        self._name = name or model.name
        self._patience = patience
        self._failures = 0

    @property
    def name(self) -> str:
        return self._name

    def judge(self, item: Mapping[str, str], verdicts: str | None = None) -> Verdict:
        request = self._rubric.request(item, verdicts)
        key = request_hash(self._model.name, request)
        usage = Usage()
        problem = ""
        for _ in range(2):
            try:
                completion = self._model.complete(request)
            except CassetteMiss:
                raise
            except ModelError as error:
                self._failures += 1
                if self._failures >= self._patience or not error.temporary:
                    raise
                return Verdict(self._name, None, "", str(error), key, usage)
            self._failures = 0
            usage += completion.usage
            try:
                score, reason = parse_reply(self._rubric, completion)
            except Malformed as error:
                problem = f"The reply {error}."
                correction = Message("user", f"{problem} Reply again, in the requested form.")
                reply = Message("assistant", completion.text)
                request = msgspec.structs.replace(request, messages=(*request.messages, reply, correction))
                continue
            return Verdict(self._name, score, reason, None, key, usage)
        return Verdict(self._name, None, "", problem, key, usage)

    def close(self) -> None:
        self._model.close()


class FunctionJudge:
    """A rule as a judge, for baselines and tests. ``rule`` returns a label and a reason."""

    def __init__(self, name: str, rule: Callable[[Mapping[str, str]], tuple[float, str]]) -> None:
        self._name = name
        self._rule = rule

    @property
    def name(self) -> str:
        return self._name

    def judge(self, item: Mapping[str, str], verdicts: str | None = None) -> Verdict:
        score, reason = self._rule(item)
        return Verdict(self._name, score, reason, None, f"rule:{self._name}")

    def close(self) -> None:
        pass

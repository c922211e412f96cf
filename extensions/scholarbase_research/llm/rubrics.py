"""Rubrics: the labels, prompt, parser and aggregation of judges, as data."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Annotated, Any, Final, Literal

import msgspec
import orjson

from scholarbase.errors import InvalidRequest
from scholarbase.files import read_whole
from scholarbase_research.llm.asking import object_schema
from scholarbase_research.llm.base import Message, ModelRequest

Aggregation = Literal["mean", "majority", "minimum"]

MAX_LABELS: Final = 101
_ADJUDICATION: Final = "Earlier verdicts on this item differ or are uncertain:\n$verdicts\nJudge it again."
_PACKAGED: Final = files("scholarbase_research.llm") / "packaged"


class Label(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A label of the scale, and what it means."""

    value: float
    meaning: str = ""


class _File(msgspec.Struct, forbid_unknown_fields=True):
    """A rubric as its TOML file has it."""

    prompt: str
    aggregation: Aggregation
    threshold: float
    labels: list[Label] | None = None
    range: tuple[int, int] | None = None
    name: str = ""
    system: str = ""
    adjudication: str = _ADJUDICATION
    disagreement: Annotated[float, msgspec.Meta(gt=0)] = 1.0
    borderline: tuple[float, float] | None = None
    max_tokens: Annotated[int, msgspec.Meta(gt=0)] | None = None


@dataclass(frozen=True)
class Rubric:
    """How papers or answers are judged.

    Args:
        labels: the labels, lowest first.
        system, prompt: templates with ``$names``, which the fields of an item replace.
        adjudication: added to the prompt of an adjudication; ``$verdicts`` are the earlier verdicts.
        aggregation: of the scores of several judges.
        disagreement: the smallest difference of two judges' scores that counts as a disagreement.
        borderline: aggregated scores from the first to below the second are judged again; None for none.
        threshold: the lowest aggregated score of a strict match.
    """

    name: str
    labels: tuple[Label, ...]
    system: str
    prompt: str
    adjudication: str
    aggregation: Aggregation
    disagreement: float
    borderline: tuple[float, float] | None
    threshold: float
    max_tokens: int | None = None

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(orjson.dumps(msgspec.to_builtins(self))).hexdigest()

    @property
    def values(self) -> tuple[float, ...]:
        return tuple(label.value for label in self.labels)

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of a reply."""
        labels = [written(value) for value in self.values]
        return object_schema({"reason": {"type": "string"}, "score": {"type": "number", "enum": labels}})

    def request(self, item: Mapping[str, str], verdicts: str | None = None) -> ModelRequest:
        """The request to judge an item; ``verdicts`` are the earlier ones of an adjudication.

        Raises:
            InvalidRequest: the item lacks a field that the rubric names.
        """
        labels = "\n".join(
            f"{written(label.value)}: {label.meaning}" if label.meaning else f"{written(label.value)}"
            for label in self.labels
        )
        values = {**item, "labels": labels}
        user = self.prompt
        if verdicts is not None:
            user, values["verdicts"] = f"{self.prompt}\n\n{self.adjudication}", verdicts
        try:
            question = Message("user", Template(user).substitute(values))
            first = [Message("system", Template(self.system).substitute(values))] if self.system else []
        except (KeyError, ValueError) as error:
            raise InvalidRequest(
                f"The rubric {self.name} cannot be filled in ({error}): its prompt may name "
                f"{', '.join(f'${name}' for name in sorted(values))}, and write $$ for a dollar sign."
            ) from error
        return ModelRequest((*first, question), self.schema, max_tokens=self.max_tokens, temperature=0.0)

    def aggregate(self, scores: Sequence[float]) -> float:
        """One score of several, at least one. A majority that is tied is the lowest of the tied labels."""
        if self.aggregation == "mean":
            return math.fsum(scores) / len(scores)
        if self.aggregation == "minimum":
            return min(scores)
        counts = Counter(scores)
        most = max(counts.values())
        return min(score for score, count in counts.items() if count == most)

    def disagree(self, scores: Sequence[float]) -> bool:
        return len(scores) > 1 and max(scores) - min(scores) >= self.disagreement

    def is_borderline(self, score: float) -> bool:
        return self.borderline is not None and self.borderline[0] <= score < self.borderline[1]

    def grade(self, score: float) -> int:
        """The index of the highest label that is not above the score."""
        return max((index for index, value in enumerate(self.values) if value <= score), default=0)


def written(value: float) -> int | float:
    """A label as it is written: 2 for 2.0."""
    return int(value) if value == int(value) else value


def packaged_rubrics() -> list[str]:
    return sorted(
        entry.name.removesuffix(".toml") for entry in _PACKAGED.iterdir() if entry.name.endswith(".toml")
    )


def open_rubric(name: str) -> Rubric:
    """The rubric of the package with this name, or in the TOML file at this path.

    Raises:
        InvalidRequest: there is none, or the file is not a rubric; the message names the key.
        QueryFileError: the file cannot be read.
    """
    if name in packaged_rubrics():
        content = (_PACKAGED / f"{name}.toml").read_bytes()
    elif Path(name).is_file():
        content = read_whole(Path(name))
    else:
        raise InvalidRequest(
            f"No rubric {name!r}: use {', '.join(packaged_rubrics())}, or the path of a TOML file."
        )
    try:
        file = msgspec.toml.decode(content, type=_File)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"The rubric {name}: {error}.") from error
    except (UnicodeDecodeError, msgspec.DecodeError) as error:
        raise InvalidRequest(f"The rubric {name} is not valid TOML ({error}).") from error
    labels = _labels(file, name)
    lowest, highest = labels[0].value, labels[-1].value
    if not lowest < file.threshold <= highest:
        raise InvalidRequest(
            f"The rubric {name}: threshold is {file.threshold:g}: it must be above {lowest:g} and at most {highest:g}."
        )
    return Rubric(
        file.name or Path(name).stem,
        labels,
        *(file.system, file.prompt, file.adjudication, file.aggregation, file.disagreement),
        *(file.borderline, file.threshold, file.max_tokens),
    )


def _labels(file: _File, name: str) -> tuple[Label, ...]:
    if (file.labels is None) == (file.range is None):
        raise InvalidRequest(f"The rubric {name}: give either labels or range, such as range = [1, 10].")
    if file.range is not None:
        first, last = file.range
        labels = [Label(float(value)) for value in range(first, min(last, first + MAX_LABELS) + 1)]
    else:
        labels = sorted(file.labels or (), key=lambda label: label.value)
    if not 2 <= len({label.value for label in labels}) == len(labels) <= MAX_LABELS:
        raise InvalidRequest(
            f"The rubric {name}: it has {len(labels)} labels: it must have 2 to {MAX_LABELS} that differ."
        )
    return tuple(labels)

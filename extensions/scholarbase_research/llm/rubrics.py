"""Rubrics: the labels, prompt, parser and aggregation of judges, as data."""

from __future__ import annotations

import hashlib
import math
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, Final, Literal, get_args

import orjson

from scholarbase.errors import InvalidRequest
from scholarbase.files import read_whole
from scholarbase_research.llm.base import Message, ModelRequest

Parser = Literal["json", "label", "tagged"]
Aggregation = Literal["mean", "majority", "minimum"]

MAX_LABELS: Final = 101
_ADJUDICATION: Final = "Earlier verdicts on this item differ or are uncertain:\n$verdicts\nJudge it again."
_KEYS: Final = (
    *("adjudication", "aggregation", "borderline", "disagreement", "labels", "max_tokens", "name", "parser"),
    *("prompt", "range", "system", "threshold"),
)
_PACKAGED: Final = files("scholarbase_research.llm") / "packaged"


@dataclass(frozen=True)
class Label:
    """A label of the scale, and what it means."""

    value: float
    meaning: str = ""


@dataclass(frozen=True)
class Rubric:
    """How papers or answers are judged.

    Args:
        labels: the labels, lowest first.
        system, prompt: templates with ``$names``, which the fields of an item replace.
        adjudication: added to the prompt of an adjudication; ``$verdicts`` are the earlier verdicts.
        parser: how a reply is read: ``json`` (an object with score and reason), ``label`` (the label alone), or
            ``tagged`` (a line ``Score: 2``).
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
    parser: Parser
    aggregation: Aggregation
    disagreement: float
    borderline: tuple[float, float] | None
    threshold: float
    max_tokens: int | None = None

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(orjson.dumps(asdict(self))).hexdigest()

    @property
    def values(self) -> tuple[float, ...]:
        return tuple(label.value for label in self.labels)

    @property
    def schema(self) -> dict[str, Any] | None:
        """The JSON schema of a reply, None if replies are not JSON."""
        if self.parser != "json":
            return None
        return {
            "type": "object",
            "properties": {
                "reason": {"type": "string"},
                "score": {"type": "number", "enum": [written(value) for value in self.values]},
            },
            "required": ["reason", "score"],
            "additionalProperties": False,
        }

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
        """The place of the highest label that is not above the score, counted from 0."""
        return max((place for place, value in enumerate(self.values) if value <= score), default=0)


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
        return _rubric(tomllib.loads(content.decode()), name)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidRequest(f"The rubric {name} is not valid TOML ({error}).") from error


def _rubric(row: dict[str, Any], name: str) -> Rubric:
    def wrong(what: str) -> InvalidRequest:
        return InvalidRequest(f"The rubric {name}: {what}")

    if unknown := sorted(row.keys() - set(_KEYS)):
        raise wrong(f"unknown key {unknown[0]!r}; a rubric has {', '.join(_KEYS)}.")
    for key in ("prompt", "parser", "aggregation", "threshold"):
        if key not in row:
            raise wrong(f"it lacks {key}.")
    for key, (accepts, expected) in _CHECKS.items():
        if key in row and not accepts(row[key]):
            raise wrong(f"{key} is {row[key]!r}: it must be {expected}.")
    labels = _labels(row, wrong)
    lowest, highest = labels[0].value, labels[-1].value
    if not lowest < row["threshold"] <= highest:
        raise wrong(f"threshold is {row['threshold']}: it must be above {lowest} and at most {highest}.")
    borderline = row.get("borderline")
    return Rubric(
        row.get("name", Path(name).stem),
        labels,
        row.get("system", ""),
        row["prompt"],
        row.get("adjudication", _ADJUDICATION),
        row["parser"],
        row["aggregation"],
        float(row.get("disagreement", 1)),
        None if borderline is None else (float(borderline[0]), float(borderline[1])),
        float(row["threshold"]),
        row.get("max_tokens"),
    )


def _labels(row: dict[str, Any], wrong: Any) -> tuple[Label, ...]:
    if ("labels" in row) == ("range" in row):
        raise wrong("give either labels or range, such as range = [1, 10].")
    if "range" in row:
        bounds = row["range"]
        if not (isinstance(bounds, list) and len(bounds) == 2 and all(type(one) is int for one in bounds)):
            raise wrong(f"range is {bounds!r}: it must be two whole numbers.")
        labels = tuple(
            Label(float(value)) for value in range(bounds[0], min(bounds[1], bounds[0] + MAX_LABELS) + 1)
        )
    else:
        rows = row["labels"]
        if not isinstance(rows, list) or not all(
            isinstance(one, dict)
            and one.keys() <= {"value", "meaning"}
            and _is_number(one.get("value"))
            and isinstance(one.get("meaning", ""), str)
            for one in rows
        ):
            raise wrong("each of its labels must have a value, a number, and may have a meaning, a text.")
        labels = tuple(
            sorted(
                (Label(float(one["value"]), one.get("meaning", "")) for one in rows),
                key=lambda one: one.value,
            )
        )
    if not 2 <= len({label.value for label in labels}) == len(labels) <= MAX_LABELS:
        raise wrong(f"it has {len(labels)} labels: it must have 2 to {MAX_LABELS} that differ.")
    return labels


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_number, value))


_CHECKS: Final[dict[str, tuple[Callable[[Any], bool], str]]] = {
    "name": (_is_text, "a text"),
    "system": (_is_text, "a text"),
    "prompt": (_is_text, "a text"),
    "adjudication": (_is_text, "a text"),
    "parser": (lambda v: v in get_args(Parser), f"one of {', '.join(get_args(Parser))}"),
    "aggregation": (lambda v: v in get_args(Aggregation), f"one of {', '.join(get_args(Aggregation))}"),
    "disagreement": (lambda v: _is_number(v) and v > 0, "a number above 0"),
    "borderline": (_is_pair, "two numbers"),
    "threshold": (_is_number, "a number"),
    "max_tokens": (lambda v: type(v) is int and v > 0, "a whole number above 0"),
}

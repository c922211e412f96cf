"""Score predicted answers, each by its example's function, options or references."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from scholarbase.errors import InvalidRequest, ModelError, RunMismatch
from scholarbase.models.checks import check_whole
from scholarbase_research.evaluation.qa.choices import is_right
from scholarbase_research.evaluation.qa.examples import DIMENSIONS, Example, Examples, Prediction, Predictions
from scholarbase_research.evaluation.qa.judging import Judge
from scholarbase_research.evaluation.qa.literals import check_answer
from scholarbase_research.evaluation.qa.overlap import best_rouge, evidence_f1, token_f1
from scholarbase_research.evaluation.statistics import Interval, bootstrap_interval
from scholarbase_research.llm.base import LanguageModel

Status = Literal["scored", "missing", "unreadable", "error"]

MAX_CONCURRENCY: Final = 64
MEASURES: Final = {
    "function": ("accuracy",),
    "choice": ("accuracy",),
    "text": ("token_f1", "rouge_1", "rouge_2", "rouge_l", "rouge_mean"),
}
"""The measures of each kind of example. With evidence, ``evidence_f1`` comes after them."""


@dataclass(frozen=True, slots=True)
class Row:
    """The values of one example from 0 to 1; none for an error.

    A ``missing`` answer and an ``unreadable`` choice have 0 for every measure of their example. ``error`` says why
    there are no values, or why every answer to the example has 0.
    """

    example: Example
    status: Status
    values: Mapping[str, float] = field(default_factory=dict)
    error: str | None = None


class Group(NamedTuple):
    """The examples with a label of a dimension, how many have each status, and the mean of each measure.

    Means are over all examples but those with an error. An interval's ``n`` is the number of values.
    """

    dimension: str
    label: str
    n: int
    missing: int
    unreadable: int
    errors: int
    values: Mapping[str, Interval]


@dataclass(frozen=True, slots=True)
class Scores:
    """The rows in the order of the examples, all of them as one group, and the groups of each dimension."""

    rows: tuple[Row, ...]
    overall: Group
    groups: tuple[Group, ...]
    notes: tuple[str, ...]

    @property
    def errors(self) -> dict[str, str]:
        """Why each example with an error could not be scored, by its id."""
        return {row.example.id: row.error for row in self.rows if row.status == "error" and row.error}


def score(
    examples: Examples, predictions: Predictions, *, judge: LanguageModel | None = None, concurrency: int = 4
) -> Scores:
    """Score the predictions of the examples.

    Args:
        judge: decides for the functions that need one; without it, their examples are errors.
        concurrency: judgements at once.

    Raises:
        RunMismatch: a prediction is for no example.
        InvalidRequest: ``concurrency`` is out of range.
        ModelError: the judge's service fails.
    """
    check_whole(concurrency, "concurrency", 1, MAX_CONCURRENCY)
    known = {example.id for example in examples.examples}
    if unknown := [name for name in predictions.predictions if name not in known]:
        raise RunMismatch(
            f"{len(unknown):,} of {len(predictions.predictions):,} predictions in {predictions.name} are for no "
            f"example of {examples.name}, such as {unknown[0]!r}: give the predictions of these examples."
        )
    asked = None if judge is None else Judge(judge)
    failures: list[ModelError] = []

    def decide(example: Example) -> Row:
        if failures:  # nothing more is asked
            raise failures[0]
        try:
            return _score(predictions.predictions, asked, example)
        except ModelError as error:
            failures.append(error)
            raise

    with ThreadPoolExecutor(concurrency) as threads:
        rows = list(threads.map(decide, examples.examples))
    groups = [
        _group(dimension, label, [row for row in rows if label in row.example.groups.get(dimension, ())])
        for dimension in DIMENSIONS
        for label in _labels(rows, dimension)
    ]
    notes = _notes(rows, examples, predictions)
    return Scores(tuple(rows), _group("all", "all", rows), tuple(groups), notes)


def _score(predictions: Mapping[str, Prediction], judge: Judge | None, example: Example) -> Row:
    prediction = predictions.get(example.id)
    names = (*MEASURES[example.kind], *(["evidence_f1"] if example.evidence is not None else []))
    if prediction is None or prediction.answer is None:
        return Row(example, "missing", dict.fromkeys(names, 0.0))
    try:
        check_answer(prediction.answer)
    except InvalidRequest as error:
        return Row(example, "error", error=str(error))
    values: dict[str, float]
    status: Status = "scored"
    problem = None
    if example.kind == "function":
        assert example.evaluator is not None
        outcome = example.evaluator.score(prediction.answer, judge)
        if outcome.passed is None:
            return Row(example, "error", error=outcome.error)
        values = {"accuracy": float(outcome.passed) if outcome.grade is None else outcome.grade}
        problem = example.evaluator.problem
    elif example.kind == "choice":
        right = is_right(prediction.answer, example.options)
        status = "unreadable" if right is None else "scored"
        values = {"accuracy": float(right or False)}
    else:
        values = _overlap(str(prediction.answer), example.references)
    if example.evidence is not None:
        values["evidence_f1"] = evidence_f1(prediction.evidence, example.evidence)
    return Row(example, status, values, problem)


def _overlap(answer: str, references: Sequence[str]) -> dict[str, float]:
    """Each measure's highest value over the references; the mean of ROUGE is that of the best values."""
    rouge = best_rouge(answer, references)
    return {
        "token_f1": max(token_f1(answer, reference) for reference in references),
        **rouge._asdict(),
        "rouge_mean": rouge.mean,
    }


# -- groups ---------------------------------------------------------------------------------------------


def _labels(rows: Sequence[Row], dimension: str) -> list[str]:
    """The labels in the order in which they first come."""
    return list(dict.fromkeys(label for row in rows for label in row.example.groups.get(dimension, ())))


def _group(dimension: str, label: str, rows: Sequence[Row]) -> Group:
    values: dict[str, list[float]] = {}
    for row in rows:
        for name, value in row.values.items():
            values.setdefault(name, []).append(value)
    statuses = [row.status for row in rows]
    return Group(
        dimension,
        label,
        len(rows),
        statuses.count("missing"),
        statuses.count("unreadable"),
        statuses.count("error"),
        {name: bootstrap_interval(scores) for name, scores in values.items()},
    )


def _notes(rows: Sequence[Row], examples: Examples, predictions: Predictions) -> tuple[str, ...]:
    notes = [f"{source.name}: {note}" for source in (examples, predictions) for note in source.notes]
    statuses = [row.status for row in rows]
    if missing := statuses.count("missing"):
        notes.append(f"{missing:,} examples have no predicted answer, and count as wrong.")
    if unreadable := statuses.count("unreadable"):
        notes.append(f"{unreadable:,} answers name no options that can be read, and count as wrong.")
    if errors := statuses.count("error"):
        notes.append(f"{errors:,} examples could not be scored, and are left out of the means.")
    return tuple(notes)

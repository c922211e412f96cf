"""Files of questions with their answers, and of predicted answers; docs/evaluation.md shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeVar

from scholarbase.errors import InvalidRequest, QueryFileError
from scholarbase.models.checks import check_path, shown
from scholarbase_research.evaluation.formats import fields, streams
from scholarbase_research.evaluation.formats.reading import Broken, Reading
from scholarbase_research.evaluation.formats.streams import Record
from scholarbase_research.evaluation.qa.choices import chosen
from scholarbase_research.evaluation.qa.functions import Evaluator, read_evaluator

Kind = Literal["function", "choice", "text"]
T = TypeVar("T", "Example", "Prediction")

TYPES: Final = ("single", "multiple", "retrieval", "comprehensive")
ELEMENTS: Final = ("text", "table", "image", "formula", "metadata")
DIMENSIONS: Final = ("type", "element", "evaluation", "difficulty", "discipline")
"""What examples are grouped by."""

MAX_EXAMPLES: Final = 1_000_000
MAX_TEXTS: Final = 1_000
"""References, or passages of evidence, of one example."""
_IDS: Final = ("uuid", "id", "query_id", "qid")
_OPTIONS: Final = ("options", "choices")
_REFERENCES: Final = ("answer", "answers", "reference_answer", "reference_answers")
_ANSWERS: Final = ("answer", "prediction", "pred")
_EXAMPLE_NAMES: Final = frozenset(
    {*_IDS, *_OPTIONS, *_REFERENCES, *DIMENSIONS, "question", "evaluator", "tags", "evidence"}
    # Of AirQA's examples, for the agent that answers.
    | {"answer_format", "anchor_pdf", "reference_pdf", "conference", "annotator", "reasoning_steps", "state"}
    | {"anchor_image"}  # of M3SciQA in AirQA's form
)
_SHOWN_PROBLEMS: Final = 3
_PREDICTION_NAMES: Final = frozenset({*_IDS, *_ANSWERS, "evidence"})


@dataclass(frozen=True, slots=True)
class Example:
    """A question and what its answer is compared with: a function, the right options, or reference texts.

    ``evidence`` is None if the example has none to compare. ``groups`` has the labels of each dimension.
    """

    id: str
    kind: Kind
    groups: Mapping[str, tuple[str, ...]]
    evaluator: Evaluator | None = None
    options: frozenset[str] = frozenset()
    references: tuple[str, ...] = ()
    evidence: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Prediction:
    """A predicted answer: any JSON value, None if the agent gave none."""

    id: str
    answer: Any
    evidence: tuple[str, ...] = ()


class Examples(NamedTuple):
    name: str
    examples: tuple[Example, ...]
    notes: tuple[str, ...]


class Predictions(NamedTuple):
    name: str
    predictions: Mapping[str, Prediction]
    notes: tuple[str, ...]


def read_examples(path: Path, *, skip_broken: bool = False) -> Examples:
    """Read examples from JSON lines or a JSON array, plain, gzip or xz.

    Raises:
        QueryFileError: the file cannot be read, or an example is invalid; ``skip_broken`` skips and notes those.
    """
    path, reading, read = _read(path, skip_broken, _EXAMPLE_NAMES, _example)
    examples = tuple(read.values())
    evaluators = [(example.id, example.evaluator) for example in examples if example.evaluator is not None]
    for _, evaluator in evaluators:
        for note in dict.fromkeys(evaluator.notes):
            reading.count(note)
    problems = [f"{name}: {evaluator.problem}" for name, evaluator in evaluators if evaluator.problem]
    notes = reading.notes()
    if problems:
        ellipsis = " ..." if len(problems) > _SHOWN_PROBLEMS else ""
        have, score = ("has", "scores") if len(problems) == 1 else ("have", "score")
        notes += (
            f"{len(problems):,} example{'s' * (len(problems) > 1)} {have} an evaluator that cannot be applied, and "
            f"{score} 0. "
            f"{' '.join(problems[:_SHOWN_PROBLEMS])}{ellipsis}",
        )
    return Examples(path.name, examples, notes)


def read_predictions(path: Path, *, skip_broken: bool = False) -> Predictions:
    """Read predicted answers from JSON lines or a JSON array. Raises as :func:`read_examples`."""
    path, reading, read = _read(path, skip_broken, _PREDICTION_NAMES, _prediction)
    return Predictions(path.name, read, reading.notes())


def _read(
    path: Path, skip_broken: bool, names: frozenset[str], make: Callable[[Record], T]
) -> tuple[Path, Reading, dict[str, T]]:
    path = check_path(path, "path")
    if not path.is_file():
        raise QueryFileError(f"No file at {path}: give a file of JSON lines, or of one JSON array.")
    reading = Reading(path, skip_broken)
    read: dict[str, T] = {}
    places: dict[str, str] = {}
    for record in reading.readable(_records(path)):
        if reading.records > MAX_EXAMPLES:
            raise QueryFileError(f"{path} has more than {MAX_EXAMPLES:,} records: split it.")
        reading.unread(name for name in record.fields if name not in names)
        try:
            made = make(record)
            if made.id in places:
                raise Broken(f"the id {made.id!r} is also the id of {places[made.id]}: give each its own.")
        except (Broken, InvalidRequest) as problem:
            reading.broken(record.where, str(problem))
            continue
        places[made.id] = record.where
        read[made.id] = made
    reading.check(bool(read))
    if not read:
        raise QueryFileError(f"{path} is empty: give one JSON object per line, or an array of them.")
    return path, reading, read


def _records(path: Path) -> Iterable[Record]:
    shape = streams.shape_of(streams.start_of(path))
    if shape == "array":
        return streams.json_array(path)
    if shape in ("lines", "empty"):
        return streams.json_lines(path)
    raise QueryFileError(f"{path} is not JSON: give one JSON object per line, or an array of them.")


# -- examples -------------------------------------------------------------------------------------------


def _example(record: Record) -> Example:
    row = record.fields
    name = fields.query_id(fields.required(row, *_IDS), "id")
    question = fields.optional_text(row, "question")
    evidence = None if row.get("evidence") is None else _texts(row["evidence"], "evidence")
    if row.get("evaluator") is not None:
        evaluator = _evaluator(row["evaluator"], question)
        groups = _groups(row, ("subjective" if evaluator.is_subjective else "objective"))
        return Example(name, "function", groups, evaluator=evaluator, evidence=evidence)
    references = fields.required(row, *_REFERENCES)
    if any(row.get(option) is not None for option in _OPTIONS) or "MCQ" in str(row.get("type", "")).upper():
        options = chosen(references)
        if options is None:
            raise Broken(
                f'the answer is {shown(references, 80)}, and must name the right options, such as "A" or "ACD".'
            )
        kind = row.get("type") or ("SA-MCQ" if len(options) == 1 else "MA-MCQ")
        groups = _groups({**row, "type": kind}, "objective")
        return Example(name, "choice", groups, options=options, evidence=evidence)
    texts = _texts(references, "answer")
    if not texts:
        raise Broken("it has no answer: give a text, or a list of texts.")
    return Example(name, "text", _groups(row, None), references=texts, evidence=evidence)


def _evaluator(value: Any, question: str | None) -> Evaluator:
    if not isinstance(value, dict) or set(value) != {"eval_func", "eval_kwargs"}:
        raise Broken(f"evaluator is {shown(value, 80)}, and must have eval_func and eval_kwargs.")
    return read_evaluator(value["eval_func"], value["eval_kwargs"], question=question)


def _texts(value: Any, name: str) -> tuple[str, ...]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise Broken(f"{name} is {shown(value, 80)}, and must be a text or a list of texts.")
    if len(texts) > MAX_TEXTS:
        raise Broken(f"{name} has {len(texts):,} texts: the maximum is {MAX_TEXTS:,}.")
    return tuple(texts)


def _groups(row: Mapping[str, Any], evaluation: str | None) -> dict[str, tuple[str, ...]]:
    """The labels of each dimension, from the fields of its name and from AirQA's tags."""
    tags = row.get("tags") or []
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise Broken(f"tags is {shown(tags, 80)}, and must be a list of texts.")
    groups = {
        "type": tuple(tag for tag in tags if tag in TYPES),
        "element": tuple(tag for tag in tags if tag in ELEMENTS),
        "evaluation": () if evaluation is None else (evaluation,),
    }
    for name in ("type", "element", "difficulty", "discipline"):
        if row.get(name) is not None:
            groups[name] = _texts(row[name], name)
    return {name: tuple(dict.fromkeys(labels)) for name, labels in groups.items() if labels}


# -- predictions ----------------------------------------------------------------------------------------


def _prediction(record: Record) -> Prediction:
    row = record.fields
    present = [name for name in _ANSWERS if name in row]
    if not present:
        raise Broken(f"it has no {' or '.join(_ANSWERS)}: give the predicted answer, null for none.")
    if len(present) > 1:
        raise Broken(f"it has {' and '.join(present)}: give one of them.")
    evidence = () if row.get("evidence") is None else _texts(row["evidence"], "evidence")
    return Prediction(fields.query_id(fields.required(row, *_IDS), "id"), row[present[0]], evidence)

"""Questions from topics: arXiv categories, a question for each of four intents, filters with reasons, quotas.

The steps and the intents are those of ScholarQuest (section 3.2.1). Every reply of the model is kept in a cassette in
the folder, so an interrupted job continues without asking again, except where two replies were malformed.
"""

from __future__ import annotations

import logging
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import orjson

from scholarbase.encoders.base import Encoder
from scholarbase.errors import ConstructionError, InvalidRequest, QueryFileError
from scholarbase.files import atomic_write, locked_folder, storage_errors, text_lines
from scholarbase.models.checks import check_whole
from scholarbase.models.limits import MAX_QUERY_LENGTH
from scholarbase.progress import Reporter, SilentReporter
from scholarbase_research.construction.terms import unique
from scholarbase_research.jobs import check_outputs
from scholarbase_research.llm.asking import Malformed, ask, json_object, json_request
from scholarbase_research.llm.base import Completion, LanguageModel, ModelRequest, Usage
from scholarbase_research.llm.cassette import RecordedModel

log = logging.getLogger("scholarbase_research.construction")
T = TypeVar("T")

INTENTS: Final = {
    "method_capability": "method-oriented: papers that use, extend or analyze a specific method",
    "setting_anchor": "setting-anchored: papers under a specific task, dataset or experimental setting",
    "claim_comparison": "comparison-based: papers that compare methods, assumptions, results or claims",
    "scope_control": "scope-controlled: papers within explicit boundaries, with what is left out",
}
FLAWS: Final = {
    "ambiguous": "it can be understood in several ways",
    "too broad": "thousands of papers would answer it",
    "too narrow": "hardly any paper would answer it",
    "not judgeable": "titles and abstracts do not show whether a paper answers it",
}
KEEP: Final = "keep"
MAX_TOPICS: Final = 100_000
QUESTIONS: Final = "questions.jsonl"
REJECTED: Final = "rejected.jsonl"
MANIFEST: Final = "manifest.json"
REPLIES: Final = "replies.jsonl"
OUTPUTS: Final = (MANIFEST, QUESTIONS, REJECTED)
MALFORMED: Final = ("no categories", "no questions", "not checked")


class Question(NamedTuple):
    """A generated question. ``reason`` says why it was left out; empty where it is kept."""

    topic: str
    categories: tuple[str, ...]
    intent: str
    text: str
    reason: str = ""


def categories() -> dict[str, str]:
    """The forty categories of computer science, and their names."""
    content = (files("scholarbase_research.construction") / "categories.toml").read_text()
    return dict(tomllib.loads(content)["categories"])


def read_topics(path: Path) -> list[str]:
    """The topics of a text file, one on each line, each once.

    Raises:
        QueryFileError: the file cannot be read, has no topics, or a line is too long.
    """
    topics = unique(line for _, line in text_lines(path))
    if not topics or len(topics) > MAX_TOPICS:
        raise QueryFileError(
            f"{path} has {len(topics):,} topics: it must have 1 to {MAX_TOPICS:,}, one on each line."
        )
    longest = max(topics, key=len)
    if len(longest) > MAX_QUERY_LENGTH:
        raise QueryFileError(
            f"{path} has a topic of {len(longest):,} characters: the most are {MAX_QUERY_LENGTH:,}."
        )
    return topics


@contextmanager
def questions_folder(folder: Path) -> Iterator[None]:
    """Create the folder of a job with its replies, empty at first, and lock it for this process.

    Raises:
        ConstructionError: another process writes to it, or it has files of the same names.
    """
    busy = ConstructionError(f"Another process is writing questions to {folder}: wait for it, or stop it.")
    with locked_folder(folder, busy):
        check_outputs(folder, REPLIES, OUTPUTS, ConstructionError)
        with storage_errors(folder):
            (folder / REPLIES).touch()
        yield


def construct_queries(
    topics: Sequence[str],
    model: LanguageModel,
    encoder: Encoder,
    folder: Path,
    *,
    cosine: float = 0.9,
    per_intent: int | None = None,
    per_category: int | None = None,
    concurrency: int = 4,
    reporter: Reporter | None = None,
) -> dict[str, Any]:
    """Generate and filter questions, and write ``questions.jsonl``, ``rejected.jsonl`` and a manifest.

    Args:
        cosine: a question whose vector has at least this cosine with an earlier one is a duplicate.
        per_intent, per_category: the most questions of an intent, and of a first category; None for no limit.

    Returns: the manifest.

    Raises:
        ConstructionError: no question is left, and replies were malformed.
        ModelError: the model fails. Its replies so far are kept, if it is recorded in a cassette.
        InvalidRequest: an argument is invalid.
    """
    if not 0 < cosine <= 1:
        raise InvalidRequest(f"cosine is {cosine}: it must be above 0 and at most 1.")
    for name, quota in (("per_intent", per_intent), ("per_category", per_category)):
        if quota is not None:
            check_whole(quota, name, 1)
    check_whole(concurrency, "concurrency", 1, 256)
    generator = _Generator(model)
    with (
        ThreadPoolExecutor(concurrency, "topic") as pool,
        (reporter or SilentReporter()).stage("questions", "topics", len(topics)) as tracker,
    ):
        generated: list[Question] = []
        for done, questions in enumerate(pool.map(generator.questions, topics), 1):
            generated += questions
            tracker.advance(1)
            tracker.at(done)
    failed = [question for question in generated if _kind(question.reason) in MALFORMED]
    if failed and all(question.reason for question in generated):
        raise ConstructionError(
            f"No questions about {len(topics):,} topics: the replies to {len(failed):,} requests were malformed, such "
            f"as that about {failed[0].topic!r} ({failed[0].reason}). The same command asks for these again."
        )
    if failed:
        log.warning("The replies to %d requests were malformed: the same command asks again.", len(failed))
    generated = _without_duplicates(generated, encoder, cosine)
    generated = _within_quotas(generated, per_intent, per_category)
    settings = {"model": model.name, "encoder": encoder.spec.name, "cosine": cosine}
    settings |= {"per_intent": per_intent, "per_category": per_category}
    with storage_errors(folder):
        return _write(folder, generated, len(topics), settings, generator.usage)


# -- generation -----------------------------------------------------------------------------------------


class _Generator:
    """Asks the model about one topic at a time. Safe to share between threads."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self._categories = categories()
        self._used: list[Usage] = []

    @property
    def usage(self) -> Usage:
        return sum(self._used, Usage())

    def questions(self, topic: str) -> list[Question]:
        """The questions of a topic, those that are left out too. A topic without any is one row with its reason."""
        topic_categories, error = self._ask(
            _categories_request(topic, self._categories), self._parse_categories
        )
        if topic_categories is None:
            return [Question(topic, (), "", "", f"no categories: {error}")]
        if not topic_categories:
            return [Question(topic, (), "", "", "outside computer science")]
        texts, error = self._ask(_questions_request(topic, topic_categories), _parse_questions)
        if texts is None:
            return [Question(topic, topic_categories, "", "", f"no questions: {error}")]
        return [
            self._filtered(Question(topic, topic_categories, intent, text)) for intent, text in texts.items()
        ]

    def _filtered(self, question: Question) -> Question:
        verdict, error = self._ask(_filter_request(question.text), _parse_filter)
        if verdict is None:
            return question._replace(reason=f"not checked: {error}")
        return (
            question
            if verdict[0] == KEEP
            else question._replace(reason=f"{verdict[0]}: {verdict[1]}".strip(": "))
        )

    def _ask(self, request: ModelRequest, parse: Callable[[Completion], T]) -> tuple[T | None, str | None]:
        asked = ask(self._model, request, parse)
        if asked.value is None and isinstance(self._model, RecordedModel):
            asked = ask(self._model.renewed(), request, parse)
        self._used.append(asked.usage)
        return asked.value, asked.error

    def _parse_categories(self, completion: Completion) -> tuple[str, ...]:
        topic_categories = json_object(completion).get("categories")
        if not isinstance(topic_categories, list) or not all(
            isinstance(category, str) for category in topic_categories
        ):
            raise Malformed("has no categories, a list of names")
        return tuple(dict.fromkeys(category for category in topic_categories if category in self._categories))


def _categories_request(topic: str, known: Mapping[str, str]) -> ModelRequest:
    listed = "\n".join(f"{name}: {title}" for name, title in known.items())
    prompt = (
        f"Which of these arXiv categories does the topic belong to?\n\nTopic: {topic}\n\n{listed}\n\n"
        'Reply with a JSON object: {"categories": ["cs.LG", ...]}, the closest first; an empty list if none fits.'
    )
    return json_request(prompt, {"categories": {"type": "array", "items": {"type": "string"}}})


def _questions_request(topic: str, topic_categories: Sequence[str]) -> ModelRequest:
    listed = "\n".join(f"- {name}: {meaning}" for name, meaning in INTENTS.items())
    prompt = (
        f"Write one question for papers about the topic for each intent. Title and abstract must show whether a paper "
        f"answers it.\n\nTopic: {topic} ({', '.join(topic_categories)})\n\nIntents:\n{listed}\n\n"
        f"Reply with a JSON object with the keys {', '.join(INTENTS)}, each a question."
    )
    return json_request(prompt, {name: {"type": "string"} for name in INTENTS})


def _parse_questions(completion: Completion) -> dict[str, str]:
    reply = json_object(completion)
    texts = {name: reply.get(name) for name in INTENTS}
    for name, text in texts.items():
        if not isinstance(text, str) or not text.strip() or len(text) > MAX_QUERY_LENGTH:
            raise Malformed(f"has no question of at most {MAX_QUERY_LENGTH} characters for {name}")
    return {name: " ".join(str(text).split()) for name, text in texts.items()}


def _filter_request(text: str) -> ModelRequest:
    listed = "\n".join(f"- {name}: {meaning}" for name, meaning in FLAWS.items())
    prompt = (
        f"Is this a good question for a benchmark of paper search?\n\nQuestion: {text}\n\nFlaws:\n{listed}\n\n"
        f'Reply with a JSON object: {{"verdict": "{KEEP}" or the flaw, "reason": "one sentence"}}.'
    )
    verdict = {"type": "string", "enum": [KEEP, *FLAWS]}
    return json_request(prompt, {"verdict": verdict, "reason": {"type": "string"}})


def _parse_filter(completion: Completion) -> tuple[str, str]:
    reply = json_object(completion)
    if reply.get("verdict") not in (KEEP, *FLAWS):
        raise Malformed(f"has no verdict of {', '.join((KEEP, *FLAWS))}")
    reason = reply.get("reason")
    return str(reply["verdict"]), " ".join(reason.split()) if isinstance(reason, str) else ""


# -- duplicates and quotas ------------------------------------------------------------------------------


def _without_duplicates(questions: Sequence[Question], encoder: Encoder, cosine: float) -> list[Question]:
    """Near-duplicates of earlier kept questions get a reason, which names the question and the cosine."""
    kept: list[int] = []
    result = list(questions)
    positions = [position for position, question in enumerate(questions) if not question.reason]
    if not positions:
        return result
    vectors = encoder.encode_queries([questions[position].text for position in positions]).dense
    matrix: npt.NDArray[np.float32] = np.zeros_like(vectors)
    for vector, position in zip(vectors, positions, strict=True):
        cosines = matrix[: len(kept)] @ vector
        if kept and float(cosines.max()) >= cosine - 1e-6:
            nearest = int(cosines.argmax())
            reason = f"duplicate (cosine {float(cosines[nearest]):.3f}) of: {questions[kept[nearest]].text}"
            result[position] = questions[position]._replace(reason=reason)
            continue
        matrix[len(kept)] = vector
        kept.append(position)
    return result


def _within_quotas(
    questions: Sequence[Question], per_intent: int | None, per_category: int | None
) -> list[Question]:
    intents: Counter[str] = Counter()
    firsts: Counter[str] = Counter()
    result = []
    for question in questions:
        reason = question.reason
        if not reason and per_intent is not None and intents[question.intent] >= per_intent:
            reason = f"quota of {question.intent}"
        if not reason and per_category is not None and firsts[question.categories[0]] >= per_category:
            reason = f"quota of {question.categories[0]}"
        if not reason:
            intents[question.intent] += 1
            firsts[question.categories[0]] += 1
        result.append(question._replace(reason=reason))
    return result


def _kind(reason: str) -> str:
    """A reason without its details."""
    return reason.partition(":")[0].partition(" (")[0]


def _write(
    folder: Path, questions: Sequence[Question], topics: int, settings: Mapping[str, Any], usage: Usage
) -> dict[str, Any]:
    kept = [question for question in questions if not question.reason]
    rows = [
        {
            "query_id": f"Q_{number:06}",
            "final_query": question.text,
            "category": question.intent,
            "domain": question.categories[0],
            "topic_seed": question.topic,
        }
        for number, question in enumerate(kept, 1)
    ]
    rejected = [question._asdict() for question in questions if question.reason]
    manifest = {
        "settings": dict(settings),
        "topics": topics,
        "questions": len(kept),
        "rejected": len(rejected),
        "reasons": dict(sorted(Counter(_kind(entry["reason"]) for entry in rejected).items())),
        "intents": dict(sorted(Counter(question.intent for question in kept).items())),
        "categories": dict(sorted(Counter(question.categories[0] for question in kept).items())),
        "usage": {
            "replies": usage.replies,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
        },
    }
    for name, lines in ((QUESTIONS, rows), (REJECTED, rejected)):
        with atomic_write(folder / name) as file:
            for line in lines:
                file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
    with atomic_write(folder / MANIFEST) as file:
        file.write(orjson.dumps(manifest, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    return manifest

"""AirQA: questions about papers that are named by UUIDs (appendix A.1), with the papers' metadata beside (A.2).

    {"uuid": "...", "question": "...", "tags": ["single", "text"], "anchor_pdf": ["a uuid"], "reference_pdf": [],
     "evaluator": {"eval_func": "...", "eval_kwargs": {...}}}

The file was not at hand: the names are those of the appendix. A question has no evidence in the text, so its answers
are the papers in ``anchor_pdf``, of which any passage counts. A question for a paper has it as ``reference_answer``.
The others are skipped. Metadata is a folder of JSON files, one file of JSON lines, or one object by UUID.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import orjson

from scholarbase.errors import QueryFileError
from scholarbase.evaluation.formats import fields
from scholarbase.evaluation.formats.reading import Broken, Format, Reading
from scholarbase.evaluation.formats.streams import Record, json_array, json_lines
from scholarbase.files import read_whole
from scholarbase.models.queries import Answer, PassageTarget, Query

_WITHOUT: Final = "Questions without anchor_pdf or a paper as reference_answer, which were skipped"
_UNKNOWN: Final = "Papers that the metadata lacks"
_RELEVANCE: Final = "eval_paper_relevance_with_reference_answer"


def _recognises(names: Collection[str]) -> bool:
    return {"uuid", "question", "evaluator"} <= set(names)


def _query(record: Record, reading: Reading) -> Query | None:
    papers = fields.items(record.fields, "anchor_pdf") or _reference(record.fields.get("evaluator"))
    names = [name for paper in papers if (name := fields.title(paper, "anchor_pdf"))]
    if not names:
        reading.count(_WITHOUT)
        return None
    tags = fields.items(record.fields, "tags") or []
    return Query(
        fields.query_id(record.fields["uuid"], "uuid"),
        fields.query_text(record.fields, "question"),
        tuple(PassageTarget(None, name) for name in dict.fromkeys(names)),
        category=next((tag for tag in tags if tag in ("single", "multiple", "retrieval")), None),
    )


def _reference(evaluator: Any) -> list[Any]:
    """The papers that a question for papers has as its answer."""
    if not isinstance(evaluator, dict) or evaluator.get("eval_func") != _RELEVANCE:
        return []
    arguments = evaluator.get("eval_kwargs")
    if not isinstance(arguments, dict):
        raise Broken(f"eval_kwargs is {fields.shown(arguments)}, and must be an object.")
    answer = arguments.get("reference_answer")
    return answer if isinstance(answer, list) else [answer] if answer else []


def add_titles(reading: Reading, metadata: Path | None) -> None:
    """Replace the UUIDs of papers by their titles.

    Raises:
        QueryFileError: there is no metadata, or it cannot be read.
    """
    if metadata is None:
        raise QueryFileError(
            f"{reading.path} names papers by UUIDs: give the folder or file of their metadata with --metadata."
        )
    titles = _titles(metadata)
    for place, query in enumerate(reading.queries):
        reading.queries[place] = replace(
            query, answers=tuple(_titled(answer, titles, reading) for answer in query.answers)
        )


def _titled(answer: Answer, titles: dict[str, str], reading: Reading) -> Answer:
    assert answer.title is not None
    known = titles.get(answer.title)
    if known is None and len(answer.title.split()) == 1:
        reading.count(_UNKNOWN)
    return replace(answer, title=known or answer.title)


def _titles(metadata: Path) -> dict[str, str]:
    """The titles of papers by their UUIDs."""
    if metadata.is_dir():
        records = [(path.stem, _parsed(path)) for path in sorted(metadata.glob("*.json"))]
    else:
        start = read_whole(metadata).lstrip()[:1]
        whole = _parsed(metadata, lines=True) if start == b"{" else None
        if whole is not None and "uuid" not in whole:
            records = list(whole.items())
        else:
            lines = json_lines(metadata) if start == b"{" else json_array(metadata)
            records = [("", line.fields) for line in lines if line.problem is None]
    titles = {
        str(about.get("uuid") or name): about["title"]
        for name, about in records
        if isinstance(about, dict) and isinstance(about.get("title"), str)
    }
    if not titles:
        raise QueryFileError(f"{metadata} has no record with a uuid and a title: give AirQA's metadata.")
    return titles


def _parsed(path: Path, *, lines: bool = False) -> Any:
    """The JSON of a file; None if it is ``lines`` of JSON."""
    try:
        return orjson.loads(read_whole(path))
    except orjson.JSONDecodeError as error:
        if lines:
            return None
        raise QueryFileError(f"{path} is not valid JSON ({error.msg}): download it again.") from error


AIRQA: Final = Format(
    "AirQA",
    frozenset(
        (
            "uuid", "question", "answer_format", "tags", "anchor_pdf", "reference_pdf", "conference", "evaluator",
        )
    ),
    _recognises,
    _query,
    "uuid, question, evaluator",
    add_titles,
)  # fmt: skip

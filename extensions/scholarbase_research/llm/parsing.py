"""Reads scores from the replies of judges."""

from __future__ import annotations

import re
from typing import Any, Final

import orjson

from scholarbase_research.llm.base import Completion
from scholarbase_research.llm.rubrics import Rubric, written

MAX_REASON: Final = 2000
"""Characters of a reason that are kept."""
_FENCE: Final = re.compile(r"\s*```(?:json)?\s*\n(.*?)\n\s*```\s*", re.S | re.I)
_TAGGED: Final = re.compile(r"^\W*score\W*[:=]\W*(-?\d+(?:\.\d+)?)\W*$", re.M | re.I)
_NUMBER: Final = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*", re.ASCII)


class Malformed(Exception):
    """A reply from which no score can be read. The message completes "The reply ..."."""


def parse_reply(rubric: Rubric, completion: Completion) -> tuple[float, str]:
    """The score and the reason of a reply.

    Raises:
        Malformed: the reply has no score, or one that is not a label of the rubric.
    """
    if not completion.text.strip():
        raise Malformed("is empty" + _cut(completion))
    if rubric.parser == "json":
        value, reason = _json(completion)
    elif rubric.parser == "tagged":
        found = {match[1] for match in _TAGGED.finditer(completion.text)}
        if len(found) != 1:
            raise Malformed(f"has {len(found)} different lines 'Score: ...', not one" + _cut(completion))
        value, reason = float(found.pop()), completion.text
    else:
        whole = _NUMBER.fullmatch(completion.text)
        if whole is None:
            raise Malformed(f"is {_shown(completion.text)}, not a label alone" + _cut(completion))
        value, reason = float(whole[1]), ""
    if value not in rubric.values:
        labels = ", ".join(str(written(label)) for label in rubric.values)
        raise Malformed(f"has the score {written(value)}, which is not one of {labels}")
    return value, " ".join(reason.split())[:MAX_REASON]


def json_object(completion: Completion) -> dict[str, Any]:
    """The JSON object of a reply, which may be in a fenced block. Raises Malformed: it is not one."""
    text = completion.text
    if fenced := _FENCE.fullmatch(text):
        text = fenced[1]
    try:
        row: Any = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Malformed(f"is {_shown(text)}, not a JSON object ({error})" + _cut(completion)) from error
    if not isinstance(row, dict):
        raise Malformed(f"is {_shown(text)}, not a JSON object")
    return row


def _json(completion: Completion) -> tuple[float, str]:
    row = json_object(completion)
    if "score" not in row:
        raise Malformed(f"is {_shown(completion.text)}, not a JSON object with a score")
    score = row["score"]
    if isinstance(score, str) and (whole := _NUMBER.fullmatch(score)):
        score = float(whole[1])
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise Malformed(f"has the score {_shown(str(score))}, which is not a number")
    reason = row.get("reason")
    return float(score), reason if isinstance(reason, str) else ""


def _cut(completion: Completion) -> str:
    return ", and was cut at the limit of tokens" if completion.is_cut else ""


def _shown(text: str) -> str:
    text = " ".join(text.split())
    return repr(text if len(text) <= 60 else text[:60] + "...")

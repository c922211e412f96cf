"""Questions whose answers are parts of full texts, as JSON lines.

    {"query_id": "q1", "query": "Which optimizer is used?", "paper": "arXiv:2212.11867", "version": 1,
     "evidence": ["We train with Adam.", {"start": 1200, "end": 1260}, {"passage": "arXiv:2301.00001#80-190"}]}

A piece of evidence is a text as printed in the paper, or an object with ``text``, with ``start`` and ``end``, or with
the ``passage`` as runs name it; an object with ``paper`` or ``title`` alone is answered by any passage of the paper.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Final

from scholarbase.documents.model import arxiv_version
from scholarbase.models.checks import shown
from scholarbase_research.evaluation.evidence import span_of
from scholarbase_research.evaluation.formats import fields
from scholarbase_research.evaluation.formats.reading import Broken, Format, Reading
from scholarbase_research.evaluation.formats.streams import Record
from scholarbase_research.evaluation.queries import Answer, PassageTarget, Query

_PIECE: Final = frozenset(("paper", "title", "text", "start", "end", "passage"))
MAX_OFFSET: Final = 1 << 40
_VERSION: Final = re.compile(r"v?([1-9]\d{0,3})")
_VERSIONS: Final = {"initial": 1, "final": None}


def _recognises(names: Collection[str]) -> bool:
    return "evidence" in names and ("query" in names or "text" in names)


def _query(record: Record, reading: Reading) -> Query:
    return Query(
        fields.query_id(fields.required(record.fields, "query_id", "id"), "query_id"),
        fields.query_text(record.fields, "query", "text"),
        targets(
            record.fields,
            *paper_of(record.fields, "paper", "title"),
            version_of(record.fields),
        ),
        intent=fields.optional_text(record.fields, "intent"),
        category=fields.optional_text(record.fields, "category"),
        date=fields.date(record.fields.get("date"), "date"),
    )


def paper_of(record: Mapping[str, Any], name: str, title: str) -> tuple[str | None, str | None]:
    """The id and the title of the paper that a record is about. Raises Broken: an id of an unknown form."""
    return fields.paper_id(record.get(name), name), fields.title(record.get(title), title)


def version_of(record: Mapping[str, Any]) -> int | None:
    """The version of the paper that a record is about, None for the latest: a number, ``v1``, or SciDQA's ``initial``
    and ``final``, else that of its arXiv id. Raises Broken: anything else, or not that of the id."""
    paper, value = record.get("paper"), record.get("version")
    named = arxiv_version(paper) if isinstance(paper, str) else None
    if value is None:
        return named
    written = str(value).strip().lower()
    if written in _VERSIONS:
        version = _VERSIONS[written]
    elif (match := _VERSION.fullmatch(written)) is None:
        raise Broken(f"version is {shown(value, 40)}, and must be a number from 1 on, initial or final.")
    else:
        version = int(match[1])
    if None not in (named, version) and named != version:
        raise Broken(f"version is {shown(value, 40)}, and paper names version {named}: leave one out.")
    return named if version is None else version


def targets(
    record: Mapping[str, Any], paper: str | None, title: str | None, version: int | None = None
) -> tuple[Answer, ...]:
    """The pieces of the field ``evidence``: one, a list, or an object that names each, such as the options of a
    question. Those that name no paper are of ``paper``. All are of this ``version``.

    Raises:
        Broken: there is none, or one has another form.
    """
    evidence = fields.required(record, "evidence")
    if isinstance(evidence, dict) and not evidence.keys() & _PIECE:
        pieces = [
            piece for value in evidence.values() for piece in (value if isinstance(value, list) else [value])
        ]
    else:
        pieces = evidence if isinstance(evidence, list) else [evidence]
    pieces = [piece for piece in pieces if piece not in (None, "")]
    if not pieces:
        raise Broken("evidence is empty: a query without evidence cannot be judged.")
    found_targets = (_target(piece, paper, title) for piece in pieces)
    return tuple(dict.fromkeys(replace(target, version=version) for target in found_targets))


def _target(piece: Any, paper: str | None, title: str | None) -> PassageTarget:
    if isinstance(piece, str):
        piece = {"text": piece}
    if not isinstance(piece, dict) or piece.keys() - _PIECE:
        raise Broken(
            f"evidence contains {shown(piece)}: a piece is a text, or an object with text, with start and end, "
            "or with passage, and with paper or title."
        )
    if "paper" in piece or "title" in piece:
        paper, title = paper_of(piece, "paper", "title")
    ways = [name for name in ("text", "start", "passage") if name in piece]
    if len(ways) > 1:
        raise Broken(f"evidence has both {ways[0]} and {ways[1]}: one says where it is.")
    if "passage" in piece:
        span = span_of(piece["passage"]) if isinstance(piece["passage"], str) else None
        if span is None:
            raise Broken(
                f"passage is {shown(piece['passage'])}, and must be the paper's id, # and the offsets, such as "
                "arXiv:2212.11867#1200-1950."
            )
        paper = fields.paper_id(span.paper, "passage")
        piece = {"start": span.start, "end": span.end}
    if paper is None and title is None:
        raise Broken("its evidence names no paper: give the paper's id in paper, or its title in title.")
    if "text" in piece:
        text = piece["text"]
        if not isinstance(text, str) or not text.strip():
            raise Broken(f"text is {shown(text)}, and must be the text of the evidence.")
        return PassageTarget(paper, title, text=text.strip())
    if "start" not in piece and "end" not in piece:
        return PassageTarget(paper, title)
    start, end = piece.get("start"), piece.get("end")
    if type(start) is not int or type(end) is not int or not 0 <= start < end <= MAX_OFFSET:
        raise Broken(
            f"start and end are {start!r} and {end!r}: they must be offsets, the end after the start."
        )
    return PassageTarget(paper, title, start=start, end=end)


EVIDENCE: Final = Format(
    "evidence",
    frozenset(
        (
            *("query_id", "id", "query", "text", "evidence", "paper", "title", "version"),
            *("intent", "category", "date"),
        )
    ),
    _recognises,
    _query,
    "query_id, query, evidence",
)

"""Find the evidence of a query set in the full texts of a library."""

from __future__ import annotations

import hashlib
import unicodedata
from typing import Final

from scholarbase.errors import DocumentNotFound, QueryFileError
from scholarbase.models.source import Source
from scholarbase_research.evaluation.answers import Judged, counts_of, find_papers, none_held, resolved
from scholarbase_research.evaluation.evidence import Span
from scholarbase_research.evaluation.queries import Answer, PassageTarget, QuerySet
from scholarbase_research.evaluation.run_data import JudgedAnswer, JudgedQuery

_LEAST: Final = 8
"""Letters and digits of a text that is looked for without regard to the others: fewer would be found anywhere."""


def judge_passages(source: Source, queries: QuerySet, *, by_version: bool = False) -> Judged:
    """Look up the papers of all evidence, and find it in their texts.

    A text is found as it stands, or else by its letters and digits alone: white space, punctuation, case and
    ligatures may differ. Where a text has it twice, the first place counts. ``counts`` are as of
    :func:`.answers.resolve_answers`, and ``text_absent``: evidence that is not in the text of a paper that the library
    holds, which counts as absent.

    Args:
        by_version: find evidence of another version in the text of that version, as a search in the paper does. A
            search over all papers has one text of each.

    Raises:
        QueryFileError: the library holds none of the evidence.
        ScholarBaseError: the library or its server fails.
    """
    papers = find_papers(source, queries)
    by_target: dict[Answer, JudgedAnswer] = {}
    by_text: dict[tuple[str, int | None], list[PassageTarget]] = {}
    for query in queries.queries:
        for target in query.answers:
            if not isinstance(target, PassageTarget):
                raise QueryFileError(
                    f"Query {query.id!r} has an answer that is a paper, where others are passages."
                )
            by_target[target] = resolved(target, papers)
            version = target.version if by_version else None
            by_text.setdefault((by_target[target].paper_id, version), []).append(target)
    text_absent: set[Answer] = set()
    for (paper, version), targets in by_text.items():
        is_held = by_target[targets[0]].held
        text = _Text.read(source, paper, version) if is_held else None
        for target in targets:
            name, in_text = _place(paper, target, text)
            if is_held and not in_text:
                text_absent.add(target)
            by_target[target] = JudgedAnswer(
                name, by_target[target].found if in_text else "absent", target.grade
            )
    judged = []
    for query in queries.queries:
        merged = {by_target[target].paper_id: by_target[target] for target in query.answers}
        versions = (target.version for target in query.answers if isinstance(target, PassageTarget))
        version = next(versions, None) if by_version else None
        answers = tuple(merged.values())
        judged.append(
            JudgedQuery(
                *(query.id, query.text, answers, query.intent, query.category, query.date), version=version
            )
        )
    counts = counts_of(queries.queries, judged)
    counts["text_absent"] = sum(
        target in text_absent for query in queries.queries for target in query.answers
    )
    if not counts["by_id"] + counts["by_title"]:
        if counts["text_absent"]:
            raise QueryFileError(
                f"The library holds {counts['text_absent']:,} papers of the evidence of {queries.name}, and none of it "
                "is in their full texts: ingest the texts with --documents."
            )
        raise none_held(source, queries, judged, counts["answers"])
    return Judged(tuple(judged), counts)


def _place(paper: str, target: PassageTarget, text: _Text | None) -> tuple[str, bool]:
    """The id of a target, and whether the paper's text has it."""
    if target.text is not None:
        span = None if text is None else text.find(target.text)
        if span is not None:
            return Span(paper, *span).id, True
        digest = hashlib.sha1(target.text.encode(), usedforsecurity=False).hexdigest()
        return f"{paper}#text:{digest[:12]}", False
    if target.start is not None and target.end is not None:
        span_id = Span(paper, target.start, target.end).id
        return span_id, text is not None and target.end <= len(text.whole)
    return paper, text is not None


class _Text:
    """The text of a paper, and its letters and digits with their offsets."""

    def __init__(self, whole: str) -> None:
        self.whole = whole
        self._letters: tuple[str, list[int]] | None = None

    @classmethod
    def read(cls, source: Source, paper: str, version: int | None) -> _Text | None:
        """Read all parts of the paper's text; None if the library has none."""
        parts = []
        offset: int | None = 0
        try:
            while offset is not None:
                response = source.text(paper, from_offset=offset, version=version)
                parts.append(response.text or "")
                offset = response.next_offset
        except DocumentNotFound:
            return None
        return cls("".join(parts))

    def find(self, part: str) -> tuple[int, int] | None:
        """Start and end of a part."""
        start = self.whole.find(part)
        if start >= 0:
            return start, start + len(part)
        letters, _ = _letters(part)
        if len(letters) < _LEAST:
            return None
        if self._letters is None:
            self._letters = _letters(self.whole)
        whole, places = self._letters
        at = whole.find(letters)
        return None if at < 0 else (places[at], places[at + len(letters) - 1] + 1)


def _letters(text: str) -> tuple[str, list[int]]:
    """The letters and digits of a text in one case, without ligatures, and the offset of each."""
    letters: list[str] = []
    offsets: list[int] = []
    for offset, character in enumerate(text):
        for letter in unicodedata.normalize("NFKC", character).casefold():
            if letter.isalnum():
                letters.append(letter)
                offsets.append(offset)
    return "".join(letters), offsets

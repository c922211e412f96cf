"""Queries in one file and judgements in another, as in BEIR and TREC."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from scholarbase.evaluation.formats.reading import Reading
from scholarbase.models.queries import Answer, Query

_UNJUDGED: Final = "Queries without a judgement, left out"
_IRRELEVANT: Final = "Queries judged without a relevant document, left out"


@dataclass
class Collection:
    """Texts and judgements by query id, each with the file and line of its first appearance."""

    reading: Reading
    _texts: dict[str, tuple[str, str]] = field(default_factory=dict)
    _judgements: dict[str, tuple[str, list[Answer]]] = field(default_factory=dict)

    def add_text(self, query_id: str, text: str, where: str) -> None:
        """Add a query. Raises Broken: its id is taken."""
        self.reading.check_unique(query_id, where)
        self._texts[query_id] = where, text

    def add_judgement(self, query_id: str, answer: Answer, where: str) -> None:
        self._judgements.setdefault(query_id, (where, []))[1].append(answer)

    def join(self) -> None:
        """Add each query that has a relevant document to the reading, in the order of the texts."""
        for query_id, (where, _) in self._judgements.items():
            if query_id not in self._texts:
                self.reading.broken(where, f"it judges the query {query_id!r}, which has no text.")
        for query_id, (where, text) in self._texts.items():
            _, answers = self._judgements.get(query_id, (where, []))
            if not answers:
                self.reading.count(_UNJUDGED)
            elif not any(answer.grade > 0 for answer in answers):
                self.reading.count(_IRRELEVANT)
            else:
                self.reading.add(Query(query_id, text, tuple(answers)), where)

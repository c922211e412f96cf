"""Queries in one file, their judgements in another: what BEIR and TREC have in common."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from scholarbase.evaluation.formats.reading import Broken, Reading
from scholarbase.models.queries import Answer, Query

_UNJUDGED: Final = "Queries without a judgement, left out"
_IRRELEVANT: Final = "Queries judged without a relevant document, left out"


@dataclass
class Collection:
    """Texts and judgements by query id, as two files give them. Places are those for messages."""

    reading: Reading
    texts: dict[str, str] = field(default_factory=dict)
    judgements: dict[str, list[Answer]] = field(default_factory=dict)
    _text_places: dict[str, str] = field(default_factory=dict)
    _judgement_places: dict[str, str] = field(default_factory=dict)

    def add_text(self, query_id: str, text: str, where: str) -> None:
        """Raises Broken: the id was there before."""
        before = self._text_places.setdefault(query_id, where)
        if before != where:
            raise Broken(f"the query id {query_id!r} is that of {before} too: give each query its own id.")
        self.texts[query_id] = text

    def add_judgement(self, query_id: str, answer: Answer, where: str) -> None:
        self._judgement_places.setdefault(query_id, where)
        self.judgements.setdefault(query_id, []).append(answer)

    def join(self) -> None:
        """Give the reading each query that has a relevant document, in the order of the texts."""
        for query_id, where in self._judgement_places.items():
            if query_id not in self.texts:
                self.reading.broken(where, f"it judges the query {query_id!r}, which has no text.")
        for query_id, text in self.texts.items():
            answers = self.judgements.get(query_id)
            if answers is None:
                self.reading.count(_UNJUDGED)
            elif not any(answer.grade > 0 for answer in answers):
                self.reading.count(_IRRELEVANT)
            else:
                self.reading.add(Query(query_id, text, tuple(answers)), self._text_places[query_id])

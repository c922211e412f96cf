"""Pages of figures and tables whose source has none, from the PDF of the same paper."""

from __future__ import annotations

import re
import sqlite3
from itertools import product
from typing import Final, NamedTuple

from scholarbase.documents.model import FigureKind

_WORD: Final = re.compile(r"[^\W\d_]{3,}")
_LEAST: Final = 0.4
_SAME_LABEL: Final = 0.1
"""What the same label adds to the similarity. Figures of unarXive have no labels: they are counted as mentioned."""
_MOST_FIGURES: Final = 300
"""Figures and tables of a document that are compared."""

_PAIRS: Final = """
SELECT d.id, min(p.id) FROM documents d JOIN documents p ON p.paper = d.paper AND p.source = 'pdf'
    AND coalesce(p.version, d.version, 0) = coalesce(d.version, p.version, 0)
WHERE d.source <> 'pdf' AND d.paper > 0 GROUP BY d.id
"""


class _Captioned(NamedTuple):
    place: int
    kind: FigureKind
    label: str
    words: frozenset[str]


def find_figure_pages(db: sqlite3.Connection) -> None:
    """Set the page and box of each figure and table without one to those in the PDF of the same version, where one with
    the same caption is. The caller commits."""
    for document, pdf in db.execute(_PAIRS).fetchall():
        unplaced, placed = _captioned(db, document, "NULL"), _captioned(db, pdf, "NOT NULL")
        scores = [
            (_similarity(figure, other), figure.place, other.place)
            for figure, other in product(unplaced, placed)
            if figure.kind == other.kind
        ]
        free, matched = {figure.place for figure in unplaced}, set[int]()
        for score, place, other_place in sorted(scores, key=lambda row: (-row[0], *row[1:])):
            if score < _LEAST:
                break
            if place in free and other_place not in matched:
                free.remove(place)
                matched.add(other_place)
                db.execute(
                    """
                    UPDATE figures SET (page, x, y, width, height) = (
                        SELECT page, x, y, width, height FROM figures WHERE document = ? AND place = ?
                    ) WHERE document = ? AND place = ?
                    """,
                    (pdf, other_place, document, place),
                )


def _captioned(db: sqlite3.Connection, document: int, page: str) -> list[_Captioned]:
    rows = db.execute(
        f"SELECT place, kind, label, caption FROM figures WHERE document = ? AND page IS {page} ORDER BY place LIMIT ?",
        (document, _MOST_FIGURES),
    )
    return [
        _Captioned(place, kind, label, frozenset(_WORD.findall(caption.casefold())))
        for place, kind, label, caption in rows
    ]


def _similarity(figure: _Captioned, other: _Captioned) -> float:
    """The words of both captions as a part of those of either."""
    common = len(figure.words & other.words)
    return common / max(1, len(figure.words | other.words)) + _SAME_LABEL * (figure.label == other.label)

"""A reference and a paper compared: title, authors, year and venue."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from rapidfuzz.distance import Indel

from scholarbase.bibliographies.names import surname, ungrouped
from scholarbase.bibliographies.references import MAX_AUTHORS, Reference
from scholarbase.indexes.agreement import MIN_SURNAME, SURNAME_SCORE, Relation, fold, is_among, relation_of
from scholarbase.indexes.query_syntax import words
from scholarbase.indexes.title_spans import TitleSpan
from scholarbase.models.papers import Paper
from scholarbase.models.responses import Difference

CLOSE_YEARS: Final = 3
"""Years between a preprint and its journal version, where the titles also differ."""
SAME_YEARS: Final = 2
"""The same, where the authors cannot be compared."""
DISTINCTIVE_WORDS: Final = 4
"""Words of a title that names one paper, if the authors cannot be compared."""
LONG_WORDS: Final = 6
"""Words of a title that does so whatever the year."""
_SHOWN: Final = 200
"""Characters of a difference."""
_SHOWN_AUTHORS: Final = 10
_MAX_KNOWN: Final = 500
"""Authors of a paper that are compared; collaborations have thousands."""
_WORD: Final = re.compile(r"[^\W\d_]+(?:[-'\u2019\u2010\u2011][^\W\d_]+)*")
_ET_AL: Final = re.compile(r"\bet\.?\s{0,3}al\b|\band others\b|\.\.\.|\u2026", re.IGNORECASE)
_COLLABORATION: Final = re.compile(r"\bcollaborations?\b|\bconsortium\b", re.IGNORECASE)
_PERSON: Final = re.compile(r"\b[^\W\d_]\.[\s-]{0,2}[^\W\d_][^\W\d_]+|[^\W\d_]{2,},\s{0,2}[^\W\d_]\.")
"""Initials and a surname."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A reference compared with a paper.

    ``score`` is the similarity of the titles, None if the reference has none. Of the ``stated`` authors ``agreed`` are
    those of both; ``stated`` is 0 if either has no authors. ``gap`` is the distance of the years, if both are known.
    ``length`` is that of the title's part of a line.
    """

    number: int
    paper: Paper
    relation: Relation
    score: float | None
    agreed: int
    stated: int
    gap: int | None
    differences: tuple[Difference, ...]
    is_long: bool
    is_distinctive: bool
    length: int = 0

    @property
    def other_people(self) -> bool:
        """Whether most authors are other people."""
        return self.stated > 0 and 2 * self.agreed < self.stated

    @property
    def is_same(self) -> bool:
        """Whether the reference means this paper, judged without ids."""
        if self.other_people or self.relation == "other":
            return False
        if self.relation == "reworded":
            return 1 < self.stated == self.agreed and (self.gap is None or self.gap <= SAME_YEARS)
        if self.relation == "same":
            near_year = self.gap is None or self.gap <= SAME_YEARS
            return self.stated > 0 or (self.is_distinctive and (near_year or self.is_long))
        if self.stated > 0:
            return self.gap is None or self.gap <= CLOSE_YEARS
        return self.relation == "variant" and self.is_long and self.gap is not None and self.gap <= SAME_YEARS

    @property
    def order(self) -> tuple[float, ...]:
        """Sorts comparisons, the best first: a title within a longer one is not what a line means."""
        gap = self.gap if self.gap is not None else 1
        return (*self._agreement, gap, self.number)

    @property
    def _agreement(self) -> tuple[float, ...]:
        """How well the title and the authors agree, sorted as in ``order``."""
        share = self.agreed / self.stated if self.stated else 0.5
        return (-self.is_same, -self.length, -share, -(self.score or 0))

    def is_as_likely_as(self, best: Comparison) -> bool:
        """Whether the title and the authors agree as well, and not only the best paper has the year."""
        only_best_has_year = best.gap == 0 and self.gap != 0
        return self._agreement == best._agreement and not only_best_has_year


def compare(reference: Reference, number: int, paper: Paper) -> Comparison:
    """Compare a reference that has fields."""
    relation, score = relation_of(reference.title, paper.title)
    stated = len(reference.authors) if paper.authors else 0
    known = [fold(surname(name)) for name in people_of(paper)[:_MAX_KNOWN]]
    agreed = sum(is_among(fold(surname(name)), known) for name in reference.authors) if stated else 0
    differences = []
    if reference.title and relation != "same":
        differences.append(_difference("title", reference.title, paper.title))
    missing = len(people_of(paper)) - len(reference.authors)
    if stated and (agreed < stated or (missing > 0 and not reference.more_authors)):
        differences.append(
            _difference("authors", _listed(list(map(ungrouped, reference.authors))), names_of(paper))
        )
    if reference.year is not None and paper.year not in (None, reference.year):
        differences.append(_difference("year", reference.year, paper.year))
    # Records of preprints have arXiv as the venue, also of papers that were published.
    if (
        reference.venue
        and paper.venue not in (None, "", "arXiv.org")
        and not _is_same_venue(reference.venue, paper.venue)
    ):
        differences.append(_difference("venue", reference.venue, paper.venue))
    return _comparison(
        number, paper, relation, score, agreed, stated, _gap(reference.year, paper), differences
    )


def compare_line(
    reference: Reference, text: str, span: TitleSpan | None, paper: Paper, number: int
) -> Comparison:
    """Compare a line of text, in which the paper's title stands at ``span``; None if it does not."""
    line_title = text[span.start : span.end].strip(" .,;:\"'\u201c\u201d") if span is not None else None
    relation, score = relation_of(line_title, paper.title)
    if span is not None and span.score == 1.0 and span.is_bounded:
        relation, score = "same", 1.0
    elif span is not None and not span.is_bounded:
        relation = "other"
    if relation == "other" and reference.title:
        guessed, guessed_score = relation_of(reference.title, paper.title)
        start = text.find(reference.title)
        if guessed != "other" and start >= 0:
            relation, score, line_title = guessed, guessed_score, reference.title
            span = TitleSpan(number, guessed_score or 0.0, start, start + len(reference.title), True)
    before, after = (text, "") if span is None else (text[: span.start], text[span.end :])
    agreed, stated, missing = _people_in(before, after, people_of(paper))
    differences = []
    if relation in ("variant", "subtitle", "reworded") and line_title:
        differences.append(_difference("title", line_title, paper.title))
    if stated and missing:
        names = before if _WORD.search(before) else after
        differences.append(_difference("authors", names.strip(" .,;:(\"'\u201c"), names_of(paper)))
    year = paper.year if paper.year in reference.years else reference.year
    if year is not None and paper.year not in (None, year):
        differences.append(_difference("year", year, paper.year))
    comparison = _comparison(number, paper, relation, score, agreed, stated, _gap(year, paper), differences)
    return comparison if span is None else replace(comparison, length=span.end - span.start)


def _comparison(
    number: int,
    paper: Paper,
    relation: Relation,
    score: float | None,
    agreed: int,
    stated: int,
    gap: int | None,
    differences: list[Difference],
) -> Comparison:
    count = len(words(paper.title or ""))
    return Comparison(
        number,
        paper,
        relation,
        score,
        agreed,
        stated,
        gap,
        tuple(differences),
        count >= LONG_WORDS,
        count >= DISTINCTIVE_WORDS,
    )


def people_of(paper: Paper) -> list[str]:
    """The names of a paper's authors.

    Some records have surnames and given names in turn, each as a name of its own.
    """
    names = [author.name for author in paper.authors]
    single = [" " not in name for name in names]
    if len(names) % 2 == 0 and all(single[::2]) and 2 * sum(single) > len(names):
        return [f"{last}, {first}" for last, first in zip(names[::2], names[1::2], strict=True)]
    return names


def _people_in(before: str, after: str, names: Sequence[str]) -> tuple[int, int, bool]:
    """The authors of a paper that a line names around the title, of how many, and whether some are missing."""
    rest = f"{before} {after}"
    if not names or _COLLABORATION.search(rest):
        return 0, 0, False
    written = {
        fold(part) for match in _WORD.finditer(rest) for part in (match[0], *re.split(r"\W", match[0]))
    }
    people = names[:MAX_AUTHORS]
    agreed = sum(_is_named(name, written) for name in people)
    if agreed:
        # A line may leave out authors behind "et al."; those that it names are found one by one.
        if _ET_AL.search(rest):
            return agreed, agreed, False
        stated = agreed if _are_first_authors(before, people) else len(people)
        return agreed, stated, agreed < len(people)
    # Before a title stand names; elsewhere a name is known by its initials.
    capitals = after and any(len(word) > 1 and word[0].isupper() for word in _WORD.findall(before))
    if capitals or _PERSON.search(rest):
        return 0, len(people), True
    return 0, 0, False


def _are_first_authors(before: str, people: Sequence[str]) -> bool:
    """Whether a text before a title names the first author, and nobody else than authors of the paper."""
    written = {fold(word) for word in _WORD.findall(before) if len(word) > 1 and word[0].isupper()}
    known = {fold(word) for name in people for word in _WORD.findall(name)}
    return written <= known and _is_named(people[0], written)


def _is_named(name: str, written: set[str]) -> bool:
    last = fold(surname(name))
    if last in written:
        return True
    parts = [fold(part) for part in _WORD.findall(surname(name))]
    if len(parts) > 1 and written.issuperset(parts):
        return True
    return len(last) >= MIN_SURNAME and any(
        abs(len(last) - len(word)) <= 2 and Indel.normalized_similarity(last, word) >= SURNAME_SCORE
        for word in written
    )


def _is_same_venue(a: str, b: str) -> bool:
    """Whether two venues share the beginning of a word: *Nucl. Phys. B*, *Nuclear Physics B*."""
    first, second = (
        {word[:4] for word in re.findall(r"[a-z]{3,}", name.lower())} - _COMMON for name in (a, b)
    )
    return any(x.startswith(y[:3]) for x in first for y in second)


_COMMON: Final = frozenset(
    {"the", "and", "for", "jour", "proc", "inte", "conf", "tran", "annu", "work", "symp"}
)


def _gap(year: int | None, paper: Paper) -> int | None:
    return None if year is None or paper.year is None else abs(year - paper.year)


def names_of(paper: Paper) -> str:
    return _listed(people_of(paper))


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN_AUTHORS
    return "; ".join(names[:_SHOWN_AUTHORS]) + (f"; and {more} more" if more > 0 else "")


def _difference(field: str, reference: object, library: object) -> Difference:
    return Difference(field, shortened(str(reference)), shortened(str(library)))


def shortened(text: str, most: int = _SHOWN) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."

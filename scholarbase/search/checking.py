"""Checking references: which paper of the library each one means, and what it says differently."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Final, NamedTuple

from scholarbase.bibliographies import Reference, read_bibliography
from scholarbase.bibliographies.lines import line_text
from scholarbase.errors import InvalidRequest
from scholarbase.identifiers import Identifier, parse
from scholarbase.indexes.agreement import NAMING_LETTERS, relation_of, titles_agree
from scholarbase.indexes.catalog import Catalog
from scholarbase.indexes.filters import NO_FILTERS, ResolvedFilters
from scholarbase.indexes.query_syntax import words
from scholarbase.indexes.title_spans import TitleSpan, title_span
from scholarbase.indexes.titles import main_title, normalize_title
from scholarbase.models.check_requests import CheckBody
from scholarbase.models.limits import (
    MAX_NEAR,
    MAX_QUERY_LENGTH,
    MAX_TITLE_LENGTH,
    MIN_TITLE_SCORE,
    ReferenceStatus,
)
from scholarbase.models.papers import Paper
from scholarbase.models.requests import SearchRequest
from scholarbase.models.responses import (
    CheckedReference,
    CheckResponse,
    Difference,
    TitleMatch,
    Unfinished,
    count_statuses,
    finished,
)
from scholarbase.models.status import Notice, is_withdrawn, last_verdict, notices_until
from scholarbase.search.comparison import Comparison, compare, compare_line, shortened
from scholarbase.search.lookup import Lookup
from scholarbase.search.opening import Opened, Part
from scholarbase.search.plan import Planner
from scholarbase.search.ranking import Ranker
from scholarbase.timing import stages

_FIELDS: Final = ("id", "title", "authors", "year", "venue", "external_ids")
"""The fields of a paper that are compared."""
_CANDIDATES: Final = 10
NEAR_LINE_SCORE: Final = 0.85
"""The least similarity of a title and a part of a line. Parts are chosen, so it is above that of whole titles."""
NEAR_WORDS: Final = 4
"""Words of a title that is similar to a part of a line."""
NEAR_EXACT_WORDS: Final = 2
"""Words of a title that is a part of a line."""
WORD_CANDIDATES: Final = 20
"""Papers with the words of a reference whose titles are compared with it."""
SHOWN_REFERENCE: Final = 300
"""Characters of a reference that the response repeats."""


def _citation_key(text: str) -> Identifier | None:
    """The citation key that a line may be."""
    try:
        identifier = parse(text, keys=True)
    except InvalidRequest:
        return None
    return identifier if identifier.scheme == "Key" else None


class Outcome(NamedTuple):
    """What a check found, with catalogue ids: ``paper`` if the reference is held or withdrawn, ``matches`` with
    their scores if it is near."""

    status: ReferenceStatus
    reason: str
    paper: int | None = None
    differences: tuple[Difference, ...] = ()
    matches: tuple[tuple[float, int], ...] = ()

    @property
    def papers(self) -> tuple[int, ...]:
        """All of these papers."""
        return (*(() if self.paper is None else (self.paper,)), *(number for _, number in self.matches))


class References(Part):
    """Checks references against the papers of one library. Thread-safe. Its errors are those of the methods of a
    library."""

    def __init__(self, opened: Opened, lookup: Lookup, planner: Planner, ranker: Ranker) -> None:
        super().__init__(opened, lookup)
        self._planner = planner
        self._ranker = ranker

    def check(self, request: CheckBody) -> CheckResponse:
        """The paper that each reference means; one that takes longer than the time limit is :class:`Unfinished`."""
        bibliography = read_bibliography(request.references, request.input_format)
        checking = Checking(self._catalog, self._with_words, self._lookup.day(request.as_of))
        start = perf_counter()
        outcomes = [
            finished(partial(checking.check, reference), "reference", reference.raw)
            for reference in bibliography.references
        ]
        checked = perf_counter()
        numbers = {
            number for outcome in outcomes if isinstance(outcome, Outcome) for number in outcome.papers
        }
        papers = self._catalog.papers(list(numbers), request.fields, as_of=request.as_of)
        by_number = dict(zip(numbers, papers, strict=True))
        stages().extend((("references", start, checked), ("hydrate", checked, perf_counter())))
        results = tuple(
            outcome if isinstance(outcome, Unfinished) else _checked(position, reference, outcome, by_number)
            for position, (reference, outcome) in enumerate(
                zip(bibliography.references, outcomes, strict=True), 1
            )
        )
        return CheckResponse(
            self._snapshot, bibliography.format, count_statuses(results), results, request.fields
        )

    def _with_words(self, text: str, filters: ResolvedFilters) -> list[int]:
        """The papers with the words of a reference, the best first."""
        request = SearchRequest(
            q=text[:MAX_QUERY_LENGTH],
            mode="sparse",
            engine="bm25",
            syntax="plain",
            limit=WORD_CANDIDATES,
            negation="off",
        )
        plan, _ = self._planner.plan(request, filters)
        return [hit.id for hit in self._ranker.rank(plan).hits]


class Checking:
    """Checks references as of a day.

    Args:
        search: returns the papers with the words of a text, the best first.
        day: only papers up to this day, a number ``yyyymmdd``, are found; None for all.
    """

    def __init__(
        self, catalog: Catalog, search: Callable[[str, ResolvedFilters], Sequence[int]], day: int | None
    ) -> None:
        self._catalog = catalog
        self._search = search
        self._day = day
        self._filters = NO_FILTERS if day is None else ResolvedFilters(last_day=day)

    def check(self, reference: Reference) -> Outcome:
        """Find the paper that a reference means."""
        if reference.problem is not None:
            return Outcome("unreadable", reference.problem)
        if not reference.is_plain and _is_empty(reference):
            return Outcome("unreadable", "The entry has no title, authors, year, venue or id.")
        outcome = self._found(reference)
        if not reference.invalid_ids:
            return outcome
        return outcome._replace(
            reason=f"{outcome.reason} Not a valid id: {', '.join(reference.invalid_ids)}."
        )

    def _found(self, reference: Reference) -> Outcome:
        text = line_text(reference) if reference.is_plain else ""
        key = _citation_key(text)
        sharing = [] if key is None else self._catalog.sharing_key(key.value, self._day)
        if key is not None and sharing:
            reference, text = replace(reference, ids=(key,) * len(sharing)), ""
        numbers = [number for number, _ in sharing] or self._catalog.resolve(reference.ids)
        named, missing = self._named(reference.ids, numbers)
        if reference.is_plain and not any(map(str.isalpha, text)):
            text = ""
        if len(named) > 1:
            names = " and ".join(f"{identifier} is {paper.id}" for identifier, _, paper in named[:2])
            return _near(
                f"Its ids name different papers: {names}.", [(1.0, number) for _, number, _ in named]
            )
        if named:
            return self._checked_id(reference, text, *named[0], missing)
        comparisons = self._by_title(reference, text)
        best = comparisons[0] if comparisons else None
        if best is not None and best.is_same:
            return self._by_title_held(comparisons, missing)
        shown = [comparison for comparison in comparisons if _is_near(comparison, is_line=bool(text))]
        if shown:
            return _near(
                _why_near(shown[0]) + _lacking(missing),
                [(comparison.score or 0.0, comparison.number) for comparison in shown],
            )
        return _absent(reference, missing)

    def _named(
        self, ids: Sequence[Identifier], numbers: Sequence[int | None]
    ) -> tuple[list[tuple[Identifier, int, Paper]], list[Identifier]]:
        """The papers of ids, each once, and the ids of no paper."""
        exist = {number for number in numbers if number is not None}
        if self._day is not None and exist:
            exist = self._catalog.existing(list(exist), self._day)
        first = {
            number: name for name, number in reversed(list(zip(ids, numbers, strict=True))) if number in exist
        }
        ordered = [number for number in dict.fromkeys(numbers) if number in exist and number is not None]
        papers = self._catalog.papers(ordered, _FIELDS)
        named = [(first[number], number, paper) for number, paper in zip(ordered, papers, strict=True)]
        return named, [name for name, number in zip(ids, numbers, strict=True) if number not in exist]

    def _checked_id(
        self,
        reference: Reference,
        text: str,
        name: Identifier,
        number: int,
        paper: Paper,
        missing: Sequence[Identifier],
    ) -> Outcome:
        """The outcome for a reference with the id of a paper."""
        if reference.is_plain:
            span = title_span(text, number, paper.title or "")
            comparison = compare_line(reference, text, span, paper, number)
            has_title = span is not None and span.score >= NEAR_LINE_SCORE
            score = span.score if span is not None else 0.0
        else:
            comparison = compare(reference, number, paper)
            score = comparison.score or 0.0
            has_title = titles_agree(reference.title, paper.title)
        same_id = "" if str(name) == paper.id else f"{paper.id}, "
        named = f'{name} names {same_id}"{shortened(paper.title or "")}"'
        if not has_title and reference.title is not None:
            reason = f"{named}, which is not the title of the reference"
            return self._disagree(
                reference, text, reason, number, relation_of(reference.title, paper.title)[1]
            )
        if comparison.stated and not comparison.agreed:
            reason = f"{named}, but the reference names none of its authors"
            return self._disagree(reference, text, reason, number, score)
        differences, unknown = _other_ids(paper, missing)
        differences = comparison.differences + differences
        reason = _reason(f"{name} names this paper", differences) + _lacking(unknown)
        return self._held(reason, number, differences)

    def _disagree(
        self, reference: Reference, text: str, reason: str, number: int, score: float | None
    ) -> Outcome:
        """The outcome for a reference with the id of one paper and the title or the authors of another."""
        others = [
            comparison
            for comparison in self._by_title(reference, text)
            if comparison.number != number and comparison.relation != "other"
        ]
        if others:
            reason += f"; {others[0].paper.id} has that title"
        scored = [(comparison.score or 0.0, comparison.number) for comparison in others]
        return _near(f"{reason}.", [*scored[: MAX_NEAR - 1], (score or 0.0, number)])

    def _by_title(self, reference: Reference, text: str) -> list[Comparison]:
        """The papers with a similar title, compared, the best first."""
        if not reference.is_plain:
            compared = [compare(reference, number, paper) for number, paper in self._matches(reference.title)]
            if reference.title and not any(comparison.is_same for comparison in compared):
                known = {comparison.number for comparison in compared}
                candidates = self._with_words(f"{reference.title} {' '.join(reference.authors[:3])}", known)
                compared += [compare(reference, number, paper) for number, paper in candidates]
        elif text:
            spans = self._catalog.exact_titles(text, self._filters)[:_CANDIDATES]
            compared = self._compared_lines(reference, text, spans)
            if not any(comparison.is_same for comparison in compared):
                compared += self._similar_lines(
                    reference, text, {comparison.number for comparison in compared}
                )
        else:
            compared = []
        return sorted(compared, key=lambda comparison: comparison.order)

    def _compared_lines(
        self, reference: Reference, text: str, spans: Sequence[TitleSpan]
    ) -> list[Comparison]:
        papers = self._catalog.papers([span.id for span in spans], _FIELDS)
        return [
            compare_line(reference, text, span, paper, span.id)
            for span, paper in zip(spans, papers, strict=True)
        ]

    def _similar_lines(self, reference: Reference, text: str, known: set[int]) -> list[Comparison]:
        """The papers with the words of a line, whose titles are similar to a part of it, without the known ones.

        Initials and numbers are not searched for, and the words of the title alone too: other papers may have more of
        the line's words.
        """
        compared: list[Comparison] = []
        plain = " ".join(word for word in words(text) if len(word) > 1 and not word.isdigit())
        for searched in filter(None, (plain or text, reference.title)):
            candidates = self._with_words(searched, known)
            known = known | {number for number, _ in candidates}
            compared += self._similar_to_parts(reference, text, candidates)
            if any(comparison.is_same for comparison in compared):
                break
        return compared

    def _similar_to_parts(
        self, reference: Reference, text: str, candidates: Sequence[tuple[int, Paper]]
    ) -> list[Comparison]:
        compared = []
        for number, paper in candidates:
            span = title_span(text, number, paper.title or "")
            if span is None or span.score < NEAR_LINE_SCORE:
                continue
            comparison = compare_line(reference, text, span, paper, number)
            if comparison.relation != "other" or span.is_bounded:
                compared.append(comparison)
        return compared

    def _with_words(self, text: str, known: set[int]) -> list[tuple[int, Paper]]:
        numbers = [number for number in self._search(text, self._filters) if number not in known]
        return list(zip(numbers, self._catalog.papers(numbers, _FIELDS), strict=True))

    def _matches(self, title: str | None) -> list[tuple[int, Paper]]:
        if not title:
            return []
        title = title[:MAX_TITLE_LENGTH]
        ids: dict[int, None] = {}
        for text in (title, main_title(title)):
            if text:
                matches = self._catalog.match_title(text, _CANDIDATES, MIN_TITLE_SCORE, self._filters)
                ids |= dict.fromkeys(match.id for match in matches)
        return list(zip(ids, self._catalog.papers(list(ids), _FIELDS), strict=True))

    def _by_title_held(self, candidates: Sequence[Comparison], missing: Sequence[Identifier]) -> Outcome:
        best = candidates[0]
        alike = [comparison for comparison in candidates[1:] if comparison.is_as_likely_as(best)]
        if alike and not best.stated:
            ids = ", ".join(comparison.paper.id for comparison in (best, *alike))
            return _near(
                f"Several papers have this title, and their authors cannot be compared: {ids}.",
                [(comparison.score or 0.0, comparison.number) for comparison in (best, *alike)],
            )
        arxiv = next((name for name in missing if name.scheme == "arXiv"), None)
        if arxiv is not None and "arXiv" in best.paper.external_ids:
            return _near(
                f"{arxiv} is not in this snapshot, and the paper with this title is {best.paper.id}.",
                [(best.score or 0.0, best.number)],
            )
        other_ids, unknown = _other_ids(best.paper, missing)
        differences = best.differences + other_ids
        nearly = "" if best.relation == "same" else "nearly "
        if best.stated:
            agreement = f"The authors and {nearly}the title are those of this paper"
        else:
            agreement = f"The title is {nearly}that of this paper; its authors cannot be compared"
        return self._held(_reason(agreement, differences) + _lacking(unknown), best.number, differences)

    def _held(self, reason: str, number: int, differences: tuple[Difference, ...]) -> Outcome:
        [paper] = self._catalog.papers([number], ("abstract", "comment", "status", "notices"))
        dated = paper.notices or ()
        notices = notices_until(dated, self._day)
        verdict = last_verdict(notices)
        said = " ".join(map(_sentence, notices))
        if verdict is not None and verdict.kind == "retraction":
            return Outcome("retracted", f"{said} {reason}", number, differences)
        if paper.status is None or (paper.status == "retracted" and last_verdict(dated) is not None):
            return Outcome("held", f"{said} {reason}".strip(), number, differences)
        texts = (("abstract", paper.abstract), ("comment on arXiv", paper.comment))
        where = next((name for name, text in texts if is_withdrawn(text)), None)
        if paper.status == "withdrawn" and where is not None:
            return Outcome(
                "withdrawn", f"Its {where} says that it has been withdrawn. {reason}", number, differences
            )
        return Outcome(paper.status, f"It has been {paper.status}. {reason}", number, differences)


def _sentence(notice: Notice) -> str:
    """A notice as a sentence."""
    when = f" on {notice.date}" if notice.date else ""
    why = f": {', '.join(notice.reasons)}" if notice.reasons else ""
    what = {
        "retraction": "It was retracted",
        "reinstatement": "It was reinstated",
        "correction": "It was corrected",
    }
    said = what.get(notice.kind, "An expression of concern was published")
    return f"{said}{when} ({notice.source}{why})."


def _is_empty(reference: Reference) -> bool:
    """Whether a reference has no field that is compared."""
    compared = (reference.title, reference.authors, reference.year, reference.venue, reference.ids)
    return not any(compared) and not reference.invalid_ids


def _checked(
    position: int, reference: Reference, outcome: Outcome, papers: Mapping[int, Paper]
) -> CheckedReference:
    """The result for a reference."""
    text = " ".join(reference.raw[: 2 * SHOWN_REFERENCE].split())
    return CheckedReference(
        position,
        reference.line,
        outcome.status,
        outcome.reason,
        text if len(text) <= SHOWN_REFERENCE else f"{text[:SHOWN_REFERENCE]}...",
        reference.key,
        None if outcome.paper is None else papers[outcome.paper],
        outcome.differences,
        tuple(TitleMatch(round(score, 4), papers[number]) for score, number in outcome.matches),
    )


def _reason(agreement: str, differences: Sequence[Difference]) -> str:
    if not differences:
        return f"{agreement}."
    fields = [difference.field for difference in differences]
    names = fields[0] if len(fields) == 1 else f"{', '.join(fields[:-1])} and {fields[-1]}"
    return f"{agreement}; different: {names}."


def _near(reason: str, matches: Sequence[tuple[float, int]]) -> Outcome:
    return Outcome("near", reason, matches=tuple(matches[:MAX_NEAR]))


def _is_near(comparison: Comparison, *, is_line: bool) -> bool:
    """Whether to return a paper as a near match. Many lines contain titles such as *Introduction* and *hep-th*, and
    short titles of other people are similar by chance."""
    if not is_line:
        is_long = len(normalize_title(comparison.paper.title or "")) >= NAMING_LETTERS
        by_chance = comparison.other_people and comparison.relation != "same" and not is_long
        return (comparison.score or 0) >= MIN_TITLE_SCORE and not by_chance
    least = NEAR_EXACT_WORDS if comparison.relation == "same" else NEAR_WORDS
    return (comparison.score or 0) >= NEAR_LINE_SCORE and len(words(comparison.paper.title or "")) >= least


def _why_near(best: Comparison) -> str:
    paper = best.paper
    if best.relation == "other":
        return f'No paper has this title; a similar one is "{shortened(paper.title or "")}".'
    if best.other_people:
        named = "none" if not best.agreed else f"only {best.agreed}"
        return f"{paper.id} has this title, but {named} of its authors agree with the reference."
    if not best.stated:
        return f"{paper.id} has this title, but it is short or its year differs, and the authors cannot be compared."
    return f"{paper.id} has a similar title, but its year differs by {best.gap}."


def _other_ids(
    paper: Paper, missing: Sequence[Identifier]
) -> tuple[tuple[Difference, ...], list[Identifier]]:
    """The ids of no paper that differ from those of the paper, and those of schemes in which it has none."""
    known = {name.scheme: paper.external_ids.get(name.scheme) for name in missing}
    differences = tuple(
        Difference("id", str(name), f"{name.scheme}:{known[name.scheme]}")
        for name in missing
        if known[name.scheme] is not None
    )
    return differences, [name for name in missing if known[name.scheme] is None]


def _lacking(ids: Sequence[Identifier]) -> str:
    return f" No paper of this snapshot has the id {_names(ids)}." if ids else ""


def _names(ids: Sequence[Identifier]) -> str:
    return ", ".join(map(str, ids[:3]))


def _absent(reference: Reference, missing: Sequence[Identifier]) -> Outcome:
    names = _names(missing)
    if reference.title:
        lacking = f", nor the id {names}" if names else ""
        reason = f"No paper of this snapshot has this title or one similar enough{lacking}."
    elif names:
        reason = f"No paper of this snapshot has the id {names}."
    else:
        reason = "No title or id found in the reference."
    return Outcome("not_in_snapshot", reason)

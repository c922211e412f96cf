"""What a draft cites for what: each sentence with its references, checked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Annotated, Any, Final, NamedTuple, Self

import msgspec
from msgspec import UNSET, Meta, UnsetType
from pydantic import Field, model_validator

from scholarbase.bibliographies import Bibliography, read_bibliography
from scholarbase.errors import InvalidRequest
from scholarbase.models.checks import check_text, date_bounds
from scholarbase.models.limits import MAX_QUERY_LENGTH
from scholarbase.models.requests import ResponseOptions, Timed
from scholarbase.models.responses import CheckedReference, Difference, Response, Snapshot, TitleMatch
from scholarbase.models.values import AsOf
from scholarbase.search.library import Library
from scholarbase_research.claims.checking import (
    FIELDS,
    MAX_CLAIM,
    CheckedClaim,
    Judge,
    compare_with,
)
from scholarbase_research.claims.comparison import COMPARED, JUDGED, compare_claim, without_citation
from scholarbase_research.claims.drafts import Cited, DraftFormat, read_draft
from scholarbase_research.claims.judging import Judging, open_judge

MAX_DRAFT: Final = 1_000_000
"""Characters of a draft."""
MAX_BIBLIOGRAPHY: Final = 5_000_000
"""Characters of its bibliography, of which only the entries that the draft cites are checked."""
MAX_PAIRS: Final = 1_000
"""Pairs of a sentence and a reference that one request checks."""
OTHERS: Final = 5
"""First results of a search for a claim that the cited paper does not have."""
JUDGED_AT_ONCE: Final = 8
_KEPT: Final = frozenset({"paper", "nearness"})
"""What a citation shows also if it is null or 0."""
_OTHER_VERSION: Final = frozenset({"year", "venue", "id"})
"""Differences of a reference that is another version of the paper."""
_CROSS_REFERENCE: Final = re.compile(r"(?:fig|tbl|tab|eq|sec|lst|thm)[:-]")
"""Figures and sections, which pandoc-crossref and Quarto cite in the same form."""
_VERSION: Final = re.compile(r"(?:\d{4}\.\d{4,5}|[a-z-]+(?:\.[A-Z]{2})?/\d{7})v(\d{1,2})\b")


class DraftBody(ResponseOptions, Timed):
    """A draft, and the entries that it cites."""

    draft: str = Field(
        description=f"A text in LaTeX or in pandoc's Markdown, of at most {MAX_DRAFT:,} characters.",
        examples=["Two-dimensional QCD is a string theory [@gross]."],
        json_schema_extra={"minLength": 1, "maxLength": MAX_DRAFT},
    )
    bibliography: str | None = Field(
        default=None,
        description="The entries with the keys of the draft: BibTeX, RIS or CSL-JSON. By default the draft's "
        "`thebibliography`. A key without an entry is looked up as an id or a citation key.",
        examples=["@misc{gross, title={Two dimensional QCD is a string theory}, author={Gross and Taylor}}"],
        json_schema_extra={"maxLength": MAX_BIBLIOGRAPHY},
    )
    draft_format: DraftFormat = Field(
        default="auto", description="By default the one that its content shows.", examples=["latex"]
    )
    date: str | None = Field(
        default=None,
        description="The day of the draft, to which retractions are compared: YYYY, YYYY-MM or YYYY-MM-DD. By default "
        "what `\\date` or the key `date` of the draft states in this form.",
        examples=["2024-05-01"],
    )
    as_of: AsOf = None
    judge: Judge = None

    @model_validator(mode="after")
    def _check_draft(self) -> Self:
        if not self.draft.strip():
            raise InvalidRequest("draft is empty: send the text of a draft.")
        for name, most in (("draft", MAX_DRAFT), ("bibliography", MAX_BIBLIOGRAPHY)):
            text = getattr(self, name) or ""
            if len(text) > most:
                raise InvalidRequest(
                    f"{name} has {len(text):,} characters: the maximum is {most:,}. Send it in parts."
                )
            check_text(text, name)
        if self.date is not None:
            date_bounds(self.date, "date")
        return self


class SaidElsewhere(msgspec.Struct, frozen=True):
    """Another paper of the library with the words of a claim that the cited one does not have."""

    id: str
    title: str
    sentence: str


class CitedClaim(CheckedClaim, frozen=True, kw_only=True):
    """A sentence of a draft and one reference that it cites."""

    line: Annotated[int, Meta(description="The line of the draft, from 1.")]
    key: Annotated[str, Meta(description="The key of the reference.")]
    claim: Annotated[str, Meta(description="The sentence, or its part that belongs to the citation.")]
    retraction_date: Annotated[str | None, Meta(description="Of a retracted paper, if it is known.")] = None
    differences: Annotated[
        tuple[Difference, ...], Meta(description="Where the entry and the paper differ.")
    ] = ()
    matches: Annotated[
        tuple[TitleMatch, ...], Meta(description="The nearest papers of an entry that is near.")
    ] = ()
    said_by: Annotated[
        SaidElsewhere | UnsetType,
        Meta(
            description="If the cited paper does not have the words of the claim: another paper that does. It may be "
            "the one that was meant."
        ),
    ] = UNSET

    def selected(self) -> Any:
        content = super().selected()
        content["matches"] = [
            {"score": match.score, "paper": {"id": match.paper.id, "title": match.paper.title}}
            for match in self.matches
        ]
        first = {name: content.pop(name) for name in ("line", "key", "claim")}
        return first | {name: value for name, value in content.items() if value or name in _KEPT}


class DraftResponse(Response, frozen=True, kw_only=True):
    """The sentences of a draft that cite, each with each of its references, in their order."""

    snapshot: Snapshot
    draft_format: DraftFormat
    date: Annotated[str | None, Meta(description="The day of the draft, if it is known.")] = None
    references: Annotated[dict[str, int], Meta(description="The number of pairs by status of the reference.")]
    claims: Annotated[dict[str, int], Meta(description="The number of pairs by label.")]
    citations: tuple[CitedClaim, ...]

    def selected(self) -> Any:
        return {
            **msgspec.structs.asdict(self),
            "citations": [citation.selected() for citation in self.citations],
        }


def check_draft(
    library: Library, draft: str, bibliography: str | None = None, **options: Any
) -> DraftResponse:
    """Compare each sentence of a draft that cites with the papers that it cites.

    Args:
        bibliography: the entries, such as the text of the ``.bib`` file.
        options: ``draft_format``, ``date``, ``as_of`` and ``judge`` of :class:`DraftBody`.

    Raises:
        InvalidRequest: an argument is invalid, the draft cites nothing or too much, or there is no such judge.
        ModelError, RerankerError: the judge fails.
    """
    return run_draft(library, DraftBody.of(draft=draft, bibliography=bibliography, **options))


def run_draft(library: Library, request: DraftBody) -> DraftResponse:
    """:func:`check_draft` for a request."""
    draft = read_draft(request.draft, request.draft_format)
    keys = list(dict.fromkeys(key for sentence in draft.cited for key in sentence.keys))
    entries = _Entries(library, request.bibliography or draft.bibliography, keys, request.as_of)
    pairs = [(sentence, key) for sentence in draft.cited for key in sentence.keys if entries.has(key)]
    if not pairs:
        raise InvalidRequest(
            f"The draft cites nothing (read as {draft.format}): use \\cite{{key}} and its kind in LaTeX, or [@key] in "
            "Markdown."
        )
    if len(pairs) > MAX_PAIRS:
        raise InvalidRequest(
            f"The draft has {len(pairs):,} citations: the maximum is {MAX_PAIRS:,}. Send it in parts."
        )
    day = request.date or draft.date
    with open_judge(library, request.judge) as judge:
        check = _Checker(library, entries, day, request.as_of, judge)
        results = tuple(_each(check, pairs, at_once=JUDGED_AT_ONCE if judge else 1))
    return DraftResponse(
        snapshot=library.snapshot_id,
        draft_format=draft.format,
        date=day,
        references=_counts(citation.reference for citation in results),
        claims=_counts(citation.label for citation in results),
        citations=results,
    )


def _counts(values: Iterable[str]) -> dict[str, int]:
    """The number of each value, the greatest first."""
    return dict(sorted(Counter(values).items(), key=lambda item: (-item[1], item[0])))


Pair = tuple[Cited, str]
"""A sentence, and the key of one reference."""


def _each(check: Callable[[Pair], CitedClaim], pairs: list[Pair], *, at_once: int) -> Iterator[CitedClaim]:
    """The results of all pairs in their order. A judge may be a service, which gets several requests at once."""
    if at_once == 1:
        yield from map(check, pairs)
        return
    with ThreadPoolExecutor(at_once) as threads:
        calls = [threads.submit(copy_context().run, check, pair) for pair in pairs]
        try:
            yield from (call.result() for call in calls)
        finally:
            for call in calls:
                call.cancel()


class _Entry(NamedTuple):
    """A reference that the draft cites. ``status`` is one of a check of references, or ``no_entry``."""

    checked: CheckedReference
    status: str
    reason: str


class _Entries:
    """The references that a draft cites, checked."""

    def __init__(self, library: Library, text: str | None, keys: list[str], as_of: str | None) -> None:
        bibliography = read_bibliography(text, most=None) if text and text.strip() else None
        written = {} if bibliography is None else _by_key(bibliography)
        cited = [written[key] for key in keys if key in written]
        self._checked: dict[str, CheckedReference] = {}
        if bibliography is not None and cited:
            self._check(library, bibliography.text_of(cited), bibliography.format, as_of)
        self._texts = {entry.key: entry.raw for entry in cited}
        others = [key for key in keys if key not in self._checked and not _CROSS_REFERENCE.match(key)]
        self._without_entry = frozenset(others)
        for key in others:
            self._check(library, key, "text", as_of, key)

    def _check(
        self, library: Library, text: str, form: Any, as_of: str | None, key: str | None = None
    ) -> None:
        results = library.check_references(text, input_format=form, as_of=as_of, fields=FIELDS).results
        for result in results:
            if isinstance(result, CheckedReference):
                self._checked.setdefault(key or result.key or "", result)

    def has(self, key: str) -> bool:
        return key in self._checked

    def of(self, key: str) -> _Entry:
        checked = self._checked[key]
        if key in self._without_entry and checked.paper is None:
            return _Entry(checked, "no_entry", f"The bibliography has no entry with the key {key}.")
        if checked.status != "held":
            return _Entry(checked, checked.status, checked.reason)
        version = _VERSION.search(self._texts.get(key, ""))
        last = len(checked.paper.versions or ()) if checked.paper is not None else 0
        if version is not None and 0 < int(version[1]) < last:
            reason = f"The entry names version {version[1]} of this paper, and the last one is {last}."
            return _Entry(checked, "other_version", reason)
        fields = {difference.field for difference in checked.differences}
        is_other = bool(fields) and fields <= _OTHER_VERSION
        return _Entry(checked, "other_version" if is_other else "held", checked.reason)


def _by_key(bibliography: Bibliography) -> Mapping[str, Any]:
    """The entries by their keys; of several with one key the first."""
    return {entry.key: entry for entry in reversed(bibliography.references) if entry.key}


class _Checker:
    """Checks pairs of a sentence and a reference."""

    def __init__(
        self, library: Library, entries: _Entries, day: str | None, as_of: str | None, judge: Judging | None
    ) -> None:
        self._library = library
        self._entries = entries
        self._day = day
        self._as_of = as_of
        self._judge = judge

    def __call__(self, pair: Pair) -> CitedClaim:
        sentence, key = pair
        entry = self._entries.of(key)
        claim = sentence.claim[:MAX_CLAIM]
        values = compare_with(self._library, claim, entry.checked, self._as_of, self._judge)
        paper = entry.checked.paper
        retracted = paper.retraction_date if paper is not None else None
        near = values["sentences"][0] if values.get("sentences") else None
        if values["label"] == "not_found" and paper is not None and (near is None or near.score < COMPARED):
            values["said_by"] = self._elsewhere(claim, paper.id)
        values |= {
            "reference": entry.status,
            "reference_reason": entry.reason + _relative(retracted, self._day),
            "sentences": values.get("sentences", ())[:1],
        }
        return CitedClaim(
            line=sentence.line,
            key=key,
            claim=sentence.claim,
            retraction_date=retracted,
            differences=entry.checked.differences,
            matches=entry.checked.matches,
            **values,
        )

    def _elsewhere(self, claim: str, cited: str) -> SaidElsewhere | UnsetType:
        """A paper whose abstract has a sentence with most words of a claim."""
        query = claim[:MAX_QUERY_LENGTH]
        if not self._library.has_bm25_terms(query):
            return UNSET
        response = self._library.search(
            query,
            mode="sparse",
            engine="bm25",
            syntax="plain",
            negation="off",
            limit=OTHERS,
            as_of=self._as_of,
            fields=("id", "title", "abstract", "authors", "year"),
        )
        for hit in response.results:
            compared = compare_claim(without_citation(claim, hit.paper), [(0, hit.paper.abstract or "")])
            best = compared.sentences[0] if compared.sentences else None
            if best is not None and best.score >= JUDGED and hit.paper.id != cited:
                return SaidElsewhere(hit.paper.id, hit.paper.title or "", best.text)
        return UNSET


def _relative(retracted: str | None, day: str | None) -> str:
    """When a paper was retracted, against the day of the draft, as a sentence."""
    if retracted is None or day is None:
        return ""
    first, last = date_bounds(day, "date")
    number = int(retracted.replace("-", ""))
    when = "before" if number < first else "after" if number > last else "at the time of"
    return f" That was {when} the draft ({day})."

"""Where candidates come from: the library in each mode, and files of recorded results."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, get_args

from scholarbase.errors import ConstructionError, InvalidRequest, NothingLeft
from scholarbase.evaluation.answers import MIN_SCORE, folded_title, match_titles
from scholarbase.evaluation.papers import resolve
from scholarbase.files import text_lines
from scholarbase.identifiers import parse
from scholarbase.models.limits import ENGINES, MODES, Engine, Mode
from scholarbase.models.source import Source
from scholarbase_research.construction.questions import orjson_row

MAX_RECORDED: Final = 1000
"""Recorded results of one query."""


class Returned(NamedTuple):
    """A result as a source returned it. ``paper`` is its id in the library, where the source knows it."""

    id: str | None
    title: str | None
    paper: str | None = None


class LibrarySource:
    """The library itself, in one mode, with one sparse engine."""

    def __init__(self, source: Source, mode: Mode, engine: Engine | None = None) -> None:
        self.name = f"library:{mode}" + (f":{engine}" if engine else "")
        self._source = source
        self._mode: Mode = mode
        self._engine = engine

    def search(self, text: str, depth: int, to: str | None) -> list[Returned]:
        """At most ``depth`` results, best first, with dates up to ``to``. Raises as ``Library.search``."""
        found = self._source.search(
            text,
            syntax="plain",
            mode=self._mode,
            engine=self._engine,
            limit=depth,
            to=to,
            fields=["id", "title"],
        )
        return [Returned(hit.paper.id, hit.paper.title, hit.paper.id) for hit in found.results]


class RecordedSource:
    """Recorded results of another system: JSON lines with ``query`` and ``results``, each with an id or a title.

    ``sha256`` is the hash of the lines.
    """

    def __init__(self, path: Path) -> None:
        self.name = f"recorded:{path.name.partition('.')[0]}"
        self._results: dict[str, list[Returned]] = {}
        digest = hashlib.sha256()
        for number, line in text_lines(path):
            digest.update(line.encode())
            if line.strip():
                self._read(orjson_row(line, f"{path}, line {number}"), f"{path}, line {number}")
        self.sha256 = digest.hexdigest()

    def _read(self, row: dict[str, Any], where: str) -> None:
        query, results = row.get("query"), row.get("results")
        if not isinstance(query, str) or not isinstance(results, list) or len(results) > MAX_RECORDED:
            raise ConstructionError(
                f"{where} is not a recorded search: it needs query, a text, and results, a list of at most "
                f"{MAX_RECORDED:,} objects with an id, a link or a title."
            )
        self._results[_folded(query)] = [returned(one, where) for one in results]

    def search(self, text: str, depth: int, to: str | None) -> list[Returned] | None:
        """The first recorded results; None where there is no record of the text."""
        found = self._results.get(_folded(text))
        return None if found is None else found[:depth]


CandidateSource: TypeAlias = LibrarySource | RecordedSource


def open_sources(source: Source, names: Sequence[str]) -> list[CandidateSource]:
    """The sources with these names. Raises as :func:`open_library_sources` and :class:`RecordedSource`."""
    opened: list[CandidateSource] = []
    for name in names:
        kind, _, rest = name.partition(":")
        if kind == "library":
            opened += open_library_sources(source, name)
        elif kind == "recorded":
            opened.append(RecordedSource(Path(rest)))
        else:
            raise InvalidRequest(f"Unknown source {name!r}: use library or recorded:FILE.")
    return opened


def returned(row: Any, where: str) -> Returned:
    """A result of another system: an object with ``id``, ``link`` or ``title``.

    Raises:
        ConstructionError: it has none of them.
    """
    if isinstance(row, dict):
        values = [row.get(key) for key in ("id", "link", "title")]
        texts = [value.strip() if isinstance(value, str) and value.strip() else None for value in values]
        if any(texts):
            return Returned(texts[0] or texts[1], texts[2])
    raise ConstructionError(f"{where} has a result without id, link and title: give one of them.")


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


def open_library_sources(source: Source, name: str) -> list[LibrarySource]:
    """``library`` is the library in every mode that it has; ``library:MODE`` or ``library:MODE:ENGINE`` one.

    Raises:
        InvalidRequest: an unknown mode or engine.
        UnsupportedMode: the library lacks the mode.
    """
    _, _, rest = name.partition(":")
    mode, _, engine = rest.partition(":")
    if not rest:
        best = source.search("search", limit=1, fields=["id"]).mode
        modes: Sequence[Mode] = MODES if best == "hybrid" else (best,)
        return [LibrarySource(source, one) for one in modes]
    if mode not in get_args(Mode) or (engine and engine not in get_args(Engine)):
        raise InvalidRequest(
            f"--source {name}: use library, library:MODE or library:MODE:ENGINE, with a mode of {', '.join(MODES)} and "
            f"an engine of {', '.join(ENGINES)}."
        )
    one = LibrarySource(source, mode, engine or None)  # type: ignore[arg-type]  # checked above
    one.search("search", 1, None)
    return [one]


def matched(
    source: Source, results: Sequence[Returned], to: str | None = None
) -> list[tuple[str | None, str]]:
    """The library's paper of each result, and how it was found: ``id``, ``title`` or ``none``. Ids come first.

    A paper that another system returned and that is later than ``to`` is ``later``, without the paper.
    """
    ids = {one.id: _canonical(one.id) for one in results if one.id is not None and one.paper is None}
    held = resolve(source, {found for found in ids.values() if found is not None})
    papers: list[tuple[str | None, str]] = []
    titles: dict[str, str] = {}
    for one in results:
        paper = one.paper or held.get(ids.get(one.id or "") or "")
        papers.append((paper, "id" if paper else "none"))
        if paper is None and one.title:
            titles[folded_title(one.title)] = one.title
    by_title = match_titles(source, titles, MIN_SCORE) if titles else {}
    for place, one in enumerate(results):
        if papers[place][0] is None and one.title and (found := by_title.get(folded_title(one.title))):
            papers[place] = (found, "title")
    if to is None:
        return papers
    foreign = [paper for (paper, _), one in zip(papers, results, strict=True) if paper and not one.paper]
    later = _later(source, foreign, to)
    return [(None, "later") if paper in later else (paper, found) for paper, found in papers]


def _later(source: Source, ids: Sequence[str], to: str) -> set[str]:
    """The papers that are later than a date."""
    if not ids:
        return set()
    try:
        held = source.papers(ids, as_of=to if len(to) > 4 else f"{to}-12", fields=["id"])
    except NothingLeft:
        return set(ids)
    return {paper for paper, found in zip(ids, held, strict=True) if found is None}


def _canonical(name: str) -> str | None:
    try:
        return str(parse(name))
    except InvalidRequest:  # such as a link to a page that is not a paper
        return None

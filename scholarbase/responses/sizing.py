"""Answers sized for a context window: as much of an answer as fits into a number of tokens.

Works on the plain JSON of an answer (what ``to_dict`` gives). Sizes are counted in *units*: bytes, of which those other
than lower-case letters and spaces count three times; 4.5 of them are estimated as a token (:func:`estimate_tokens`).
Units of parts add up to those of the whole, so that every part is measured once, whatever is tried.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple

import orjson

from scholarbase.errors import InvalidRequest
from scholarbase.responses import text as prose
from scholarbase.responses.sentences import sentence_ends
from scholarbase.responses.text import compact_authors

__all__ = ["check_max_tokens", "compact_authors", "estimate_tokens", "fit"]

MIN_TOKENS: Final = 100
MAX_TOKENS: Final = 1_000_000

_CHEAP: Final = b"abcdefghijklmnopqrstuvwxyz "
_COMMA: Final = 3
_MARK: Final = " ..."
"""What stands at the end of a cut abstract."""


def estimate_tokens(text: str | bytes) -> int:
    """About how many tokens a language model reads in ``text``: an estimate on the safe side, in microseconds.

    A token for every 4.5 lower-case ASCII letters or spaces, and for every 1.5 other bytes of UTF-8: capitals, digits
    and punctuation, of which ids and JSON are full, make more tokens than words do, and so do other scripts.

    Measured on 120 answers over the sample library (ten searches; all fields, titles and authors, or ids alone; JSON
    and text): 1.05 to 1.49 times what a byte-pair encoding of 65,000 tokens makes of each, 1.09 to 1.36 times where
    there are abstracts, which leaves room for tokenizers that split more finely. Bytes divided by a constant would do
    worse: a token has 2.2 bytes in a list of ids, and 5.2 among abstracts. BERT's WordPiece, to which every
    punctuation mark is a token, takes 0.72 to 1.25 times the estimate.
    """
    return _tokens(_units(text.encode() if isinstance(text, str) else text))


def check_max_tokens(value: int) -> int:
    """Raises InvalidRequest: not a whole number from 100 to 1,000,000."""
    if isinstance(value, bool) or not isinstance(value, int) or not MIN_TOKENS <= value <= MAX_TOKENS:
        raise InvalidRequest(
            f"max_tokens is {value!r}: it must be a whole number from {MIN_TOKENS} to {MAX_TOKENS}."
        )
    return value


def fit(
    answer: dict[str, Any],
    max_tokens: int,
    *,
    offset: int | Sequence[int] = 0,
    text: bool = False,
    again: bool = False,
) -> dict[str, Any]:
    """A new answer, estimated at no more than ``max_tokens`` tokens as JSON, or as text.

    Authors become a line. Papers are kept whole and in order, as many as fit without their abstracts; then half of
    what is left goes to the texts around citations and the rest to the abstracts, evenly, each cut at the end of a
    sentence. What one part does not use goes to the others.

    Parameters:
        offset: of the first result, to number the results and to say where to go on; of a batch of searches each one's.
        text: the answer will be sent as :func:`scholarbase.responses.text.as_text` gives it, and not as JSON.
        again: whoever goes on asks with the same offset, since what was given is then left out. Not for a batch.

    Returns:
        The answer with ``tokens``, its own estimate, and ``left_out`` if something was: how many ``papers``; of the
        papers that are there how many ``abstracts_cut``, and ``abstracts`` and ``contexts`` left out; and ``how`` to
        get them.

    Raises:
        InvalidRequest: ``max_tokens`` cannot be right, or the answer takes more even without its papers.
    """
    check_max_tokens(max_tokens)
    form = _Text() if text else _Json()
    room = max_tokens * 9 // 2 - form.reserve
    answer = {key: value for key, value in answer.items() if key != "tokens"}
    if "results" in answer and prose.is_search_batch(answer):
        fitted = _batch(answer, room, offset, form)
    else:
        fitted = _single(answer, room, offset, form, again=again)
    fitted["tokens"] = _own_tokens(fitted, offset, form)
    return fitted


def _units(data: bytes) -> int:
    return 3 * len(data) - 2 * (len(data) - len(data.translate(None, _CHEAP)))


def _tokens(units: int) -> int:
    return -(-units * 2 // 9)


def _own_tokens(answer: dict[str, Any], offset: int | Sequence[int], form: _Form) -> int:
    """The estimate of an answer that will hold it, at its end."""
    if isinstance(form, _Text):
        return _tokens(form.whole(answer, offset))
    units, digits = form.whole(answer, offset) + _units(b',"tokens":'), 1
    while digits < len(str(_tokens(units + 3 * digits))):
        digits += 1
    return _tokens(units + 3 * digits)


class _Json:
    """Units of the parts of an answer that is sent as JSON."""

    reserve = _units(b',"tokens":') + 3 * len(str(MAX_TOKENS))

    def whole(self, answer: Mapping[str, Any], offset: int | Sequence[int]) -> int:
        return _units(orjson.dumps(answer))

    def frame(self, answer: Mapping[str, Any], shown: int, offset: int) -> int:
        """An answer without its results, of which there are ``shown``."""
        return _units(orjson.dumps({**answer, "results": []} if "results" in answer else answer))

    def item(self, item: Any, rank: int) -> int:
        return _units(orjson.dumps(item)) + _COMMA

    def group(self, place: int, empty: bool) -> int:
        """The list around the matches of a title."""
        return _units(b"[],")

    def search(self, place: int) -> int:
        return _COMMA

    def source(self, text: str) -> str:
        """A text as it will stand in the answer."""
        return text

    def part(self, text: str) -> int:
        """A part of a text."""
        return _units(orjson.dumps(text)[1:-1])

    def abstract(self, text: str) -> int:
        """What an abstract adds to a paper where it was null."""
        return _units(orjson.dumps(text)) - _units(b"null")

    def context(self, text: str) -> int:
        return _units(orjson.dumps(text)) + _COMMA


class _Text:
    """Units of the parts of an answer that is sent as text."""

    reserve = 0
    gap = _units(prose.GAP.encode())

    def whole(self, answer: Mapping[str, Any], offset: int | Sequence[int]) -> int:
        return _units(prose.as_text(answer, offset=offset).encode())

    def frame(self, answer: Mapping[str, Any], shown: int, offset: int) -> int:
        if "results" not in answer:
            return self.whole(answer, offset)
        if not shown:
            answer = {**answer, "results": []}
        return _units((prose.head(answer, shown) + prose.GAP + prose.tail(answer)).encode())

    def item(self, item: Any, rank: int) -> int:
        return _units(prose.block(item, rank).encode()) + self.gap

    def group(self, place: int, empty: bool) -> int:
        if empty:
            return _units(prose.title_blocks([], place)[0].encode()) + self.gap
        return _units(f"{prose.title_heading(place)}\n".encode())

    def search(self, place: int) -> int:
        return _units(prose.search_heading(place).encode()) + self.gap

    def source(self, text: str) -> str:
        return prose.plain(text)

    def part(self, text: str) -> int:
        return _units(text.encode())

    def abstract(self, text: str) -> int:
        return _units(prose.abstract_line(text).encode())

    def context(self, text: str) -> int:
        return _units(prose.context_line(text).encode())


_Form = _Json | _Text


class _Counts(NamedTuple):
    """What is left out, by the names that the answer gives it."""

    papers: int = 0
    abstracts_cut: int = 0
    abstracts: int = 0
    contexts: int = 0


class _Piece(NamedTuple):
    """A result: at ``place`` (from 0) of the answer's results, without its abstract and contexts, and those."""

    place: int
    item: dict[str, Any] | None
    abstract: str | None
    contexts: list[str]
    units: int

    @property
    def paper(self) -> dict[str, Any]:
        assert self.item is not None
        paper: dict[str, Any] = self.item.get("paper", self.item)
        return paper


class _Cuts(NamedTuple):
    """Where an abstract may end, from nothing to the whole of it, and the units of each."""

    ends: list[int]
    units: list[int]


class _Page:
    """An answer other than a batch of searches, taken apart.

    ``need`` is what it takes with nothing left out, ``least`` what it takes without its papers.
    """

    def __init__(self, answer: Mapping[str, Any], offset: int, form: _Form, *, again: bool = False) -> None:
        self._form, self._offset = form, offset
        self._step = 0 if again else 1
        self.answer = _compact(answer)
        self.need = form.whole(self.answer, offset)
        self._one = "results" not in answer
        self._titles = not self._one and prose.is_title_batch(answer)
        self._ids = not self._one and prose.is_id_batch(answer)

    def prepare(self) -> None:
        """Measure the parts: only of an answer that does not fit as it is."""
        self._pieces = list(self._taken_apart())
        self._papers = sum(piece.item is not None for piece in self._pieces)
        abstracts = sum(piece.abstract is not None for piece in self._pieces)
        most = _Counts(self._papers, abstracts, abstracts, sum(len(piece.contexts) for piece in self._pieces))
        # Numbers only get shorter than these, so that no frame is larger, whatever comes to stand in it.
        self._frame = max(map(self._largest, (len(self._pieces),) * 2, (most, most._replace(papers=0))))
        self.least = self._frame if self._one else self._largest(0, _Counts(papers=self._papers))

    def _largest(self, count: int, counts: _Counts) -> int:
        """The units of an answer without its results, its numbers of tokens as long as they can be."""
        return self._form.frame(self._frame_of(count, counts, MAX_TOKENS, MAX_TOKENS), count, self._offset)

    def _taken_apart(self) -> Iterator[_Piece]:
        if self._one:
            yield self._piece(0, self.answer, 1)
            return
        for place, item in enumerate(self.answer["results"]):
            if not isinstance(item, list):
                yield self._piece(place, item, self._offset + place + 1)
                continue
            group = self._form.group(place + 1, not item)
            if not item:
                yield _Piece(place, None, None, [], group)
            for rank, match in enumerate(item, 1):
                piece = self._piece(place, match, rank)
                yield piece._replace(units=piece.units + group) if rank == 1 else piece

    def _piece(self, place: int, item: dict[str, Any] | None, rank: int) -> _Piece:
        if item is None:
            return _Piece(place, None, None, [], self._form.item(None, rank))
        bare, paper = dict(item), dict(item.get("paper", item))
        abstract = self._form.source(paper["abstract"]) if paper.get("abstract") else None
        if abstract:
            paper["abstract"] = None
        if "paper" in item:
            bare["paper"] = paper
        else:
            bare = paper
        contexts = list(item.get("contexts") or ()) if "paper" in item else []
        if contexts:
            bare["contexts"] = []
        return _Piece(place, bare, abstract, contexts, 0 if self._one else self._form.item(bare, rank))

    def cut(self, room: int, tokens: int) -> dict[str, Any]:
        """The answer in ``room`` units, of which there are ``least`` or more: said to be so many ``tokens``. Once."""
        left = max(room - self._frame, 0)
        sums = list(accumulate(piece.units for piece in self._pieces))
        count = bisect_right(sums, left)
        pieces = self._pieces[:count]
        left -= sums[count - 1] if count else 0
        whole = [self._form.abstract(piece.abstract) if piece.abstract else 0 for piece in pieces]
        spent = self._give_contexts(pieces, left - min(sum(whole), left // 2))
        cut, gone = self._give_abstracts(pieces, whole, left - spent)
        kept = sum(piece.item is not None for piece in pieces)
        contexts = sum(
            len(piece.contexts) - len((piece.item or {}).get("contexts", ()))
            for piece in pieces
            if piece.contexts
        )
        counts = _Counts(self._papers - kept, cut, gone, contexts)
        first = self._frame + self._form.reserve + self._pieces[0].units
        out = self._frame_of(count, counts, tokens, _tokens(first))
        if not self._one:
            out["results"] = self._results(pieces)
        return out

    def _give_contexts(self, pieces: Sequence[_Piece], room: int) -> int:
        """Give the first context to as many papers as there is room for, from the first, then the others."""
        spent = 0
        for chosen in (slice(0, 1), slice(1, None)):
            for piece in pieces:
                units = sum(map(self._form.context, piece.contexts[chosen]))
                if spent + units > room:
                    return spent
                if piece.item is not None and piece.contexts:
                    piece.item["contexts"] = [*piece.item["contexts"], *piece.contexts[chosen]]
                spent += units
        return spent

    def _give_abstracts(self, pieces: Sequence[_Piece], whole: Sequence[int], room: int) -> tuple[int, int]:
        """Share ``room`` among the abstracts. How many were cut, and how many left out."""
        chosen = [(piece, units) for piece, units in zip(pieces, whole, strict=True) if piece.abstract]
        if sum(units for _, units in chosen) <= room:
            cuts = [_Cuts([0, len(piece.abstract or "")], [0, units]) for piece, units in chosen]
        else:
            cuts = [_cuts(piece.abstract or "", units, self._form) for piece, units in chosen]
        cut = gone = 0
        for (piece, _), (ends, _), step in zip(
            chosen, cuts, _shared([c.units for c in cuts], room), strict=True
        ):
            abstract = piece.abstract or ""
            if step == len(ends) - 1:
                piece.paper["abstract"] = abstract
            elif step:
                piece.paper["abstract"] = abstract[: ends[step]] + _MARK
                cut += 1
            else:
                gone += 1
        return cut, gone

    def _results(self, pieces: Sequence[_Piece]) -> list[Any]:
        if not self._titles:
            return [piece.item for piece in pieces]
        results: list[list[Any]] = [[] for _ in range(pieces[-1].place + 1)] if pieces else []
        for piece in pieces:
            if piece.item is not None:
                results[piece.place].append(piece.item)
        return results

    def _frame_of(self, count: int, counts: _Counts, tokens: int, first: int) -> dict[str, Any]:
        """The answer, its results as they are, with what was left out when ``count`` pieces are kept."""
        out = dict(self._pieces[0].paper if self._one else self.answer)
        if counts.papers and "next_offset" in out:
            out["next_offset"] = self._offset + count * self._step
        said = {name: number for name, number in counts._asdict().items() if number}
        out["left_out"] = {**said, "how": self._how(count, counts, tokens, first)}
        return out

    def _how(self, count: int, counts: _Counts, tokens: int, first: int) -> str:
        """How to get what was left out, in a sentence; the first piece alone takes ``first`` tokens."""
        if self._one:
            return (
                f"The abstract is cut to fit into {tokens} tokens: ask again with more for the whole of it."
            )
        everything = len(self._pieces)
        noun = "ids" if self._ids else "papers"
        ways = []
        if counts.papers or count < everything:
            if not count:
                return (
                    f"None of {everything} {noun} fits into {tokens} tokens: "
                    f"ask again with at least {first}, or for fewer fields."
                )
            if self._titles:
                kept, everything = self._papers - counts.papers, self._papers
                said = f"{kept} of {everything} matches {'fits' if kept == 1 else 'fit'} into {tokens} tokens"
            else:
                said = (
                    f"{count} of {everything} {noun} {'fits' if count == 1 else 'fit'} into {tokens} tokens"
                )
            ways.append(self._rest(count))
        else:
            said = f"The {noun} fit into {tokens} tokens, but not all that belongs to them"
        if counts.abstracts_cut or counts.abstracts:
            ways.append("look papers up with get_papers for their whole abstracts")
        if counts.contexts:
            ways.append("ask for fewer papers at a time for all contexts")
        return f"{said}: {', or '.join(ways)}."

    def _rest(self, count: int) -> str:
        """How to get the pieces from ``count`` on."""
        if "next_offset" in self.answer:
            return f"ask again with offset {self._offset + count * self._step} for the rest"
        if self._ids:
            return f"ask again with the ids from place {count + 1} on"
        if self._titles:
            # A title some of whose matches are here has had its best ones.
            after = self._pieces[count - 1].place + 1 if count < len(self._pieces) else 0
            if after < len(self.answer["results"]):
                return f"ask again with the titles from place {after + 1} on"
        return "ask for fewer fields, or for a paper by its exact title"


def _check_room(room: int, least: int, form: _Form) -> None:
    """Raises InvalidRequest: there is less room than an answer takes at least."""
    if least > room:
        raise InvalidRequest(
            f"max_tokens is {_tokens(room + form.reserve)}: this answer takes at least "
            f"{max(_tokens(least + form.reserve), MIN_TOKENS)}, so give as much, or ask for less."
        )


def _single(
    answer: dict[str, Any], room: int, offset: int | Sequence[int], form: _Form, *, again: bool
) -> dict[str, Any]:
    """An answer other than a batch of searches, in ``room`` units."""
    if not isinstance(offset, int):
        raise InvalidRequest(f"offset is {offset!r}: only a batch of searches has several.")
    page = _Page(answer, offset, form, again=again)
    if page.need <= room:
        return page.answer
    page.prepare()
    _check_room(room, min(page.least, page.need), form)
    return page.cut(room, _tokens(room + form.reserve))


def _batch(answer: dict[str, Any], room: int, offset: int | Sequence[int], form: _Form) -> dict[str, Any]:
    """A batch of searches in ``room`` units, shared among them."""
    answers = answer["results"]
    offsets = [offset] * len(answers) if isinstance(offset, int) else offset
    if len(offsets) != len(answers):
        raise InvalidRequest(
            f"offset holds {len(offsets)} numbers for {len(answers)} searches: give one for each."
        )
    pages = [_Page(one, start, form) for one, start in zip(answers, offsets, strict=True)]
    out = {**answer, "results": [page.answer for page in pages]}
    frame = form.frame(out, len(pages), 0) + sum(form.search(place) for place in range(1, len(pages) + 1))
    if frame + sum(page.need for page in pages) <= room:
        return out
    for page in pages:
        page.prepare()
    _check_room(room, frame + sum(min(page.least, page.need) for page in pages), form)
    # Between the least and all that it needs, each takes the same, or what others leave.
    most = max(page.need for page in pages)
    level = _level(lambda level: sum(_share(page, level) for page in pages), room - frame, most)
    spare = room - frame - sum(_share(page, level) for page in pages)
    for place, page in enumerate(pages):
        share = _share(page, level) + spare
        if page.need <= share:
            spare = share - page.need
            continue
        out["results"][place] = page.cut(share, _tokens(share))
        spare = share - form.whole(out["results"][place], offsets[place])
    return out


def _share(page: _Page, level: int) -> int:
    """What an answer of a batch takes when each may take ``level``."""
    return min(page.need, max(page.least, level))


def _level(spent: Callable[[int], int], room: int, most: int) -> int:
    """The greatest level up to ``most`` at which no more than ``room`` is spent; ``spent`` never falls."""
    low = 0
    while low < most:
        middle = (low + most + 1) // 2
        if spent(middle) <= room:
            low = middle
        else:
            most = middle - 1
    return low


def _shared(steps: Sequence[Sequence[int]], room: int) -> list[int]:
    """Which step each may take, so that ``room`` is shared evenly; steps rise, from 0."""
    most = max((units[-1] for units in steps), default=0)
    level = _level(lambda level: sum(s[bisect_right(s, level) - 1] for s in steps), room, most)
    taken = [bisect_right(units, level) - 1 for units in steps]
    left = room - sum(units[step] for units, step in zip(steps, taken, strict=True))
    # What is too little for one more step of all may do for some, the first of them first.
    for place, units in enumerate(steps):
        if taken[place] + 1 < len(units) and (more := units[taken[place] + 1] - units[taken[place]]) <= left:
            taken[place] += 1
            left -= more
    return taken


def _cuts(abstract: str, whole: int, form: _Form) -> _Cuts:
    cuts = _Cuts([0], [0])
    mark = form.part(_MARK)
    begin, units = 0, form.abstract("x") - form.part("x")
    for end in sentence_ends(abstract):
        units += form.part(abstract[begin:end])
        begin = end
        if units + mark >= whole:
            break
        cuts.ends.append(end)
        cuts.units.append(units + mark)
    cuts.ends.append(len(abstract))
    cuts.units.append(whole)
    return cuts


def _compact(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The answer with the authors of each paper on a line."""
    if "results" not in answer:
        return _compact_item(answer)
    results = [
        [_compact_item(match) for match in item]
        if isinstance(item, list)
        else None
        if item is None
        else _compact_item(item)
        for item in answer["results"]
    ]
    return {**answer, "results": results}


def _compact_item(item: Mapping[str, Any]) -> dict[str, Any]:
    paper = item.get("paper", item)
    if paper.get("authors") is None:
        return dict(item)
    compact = {**paper, "authors": compact_authors(paper["authors"])}
    return {**item, "paper": compact} if "paper" in item else compact

"""Pages of papers cut to a size: as many papers as fit, then citation contexts and abstracts, each cut at a sentence.

Sizes are measured in *units*: a lower-case ASCII letter or a space is one unit, every other byte is three, and 4.5
units are estimated as one token. Units are additive, so each part of a response is measured once.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple

import orjson

from scholarbase.models.limits import MAX_TOKENS
from scholarbase.responses import text as text_format
from scholarbase.responses.text import plain, with_author_lines

_CHEAP: Final = b"abcdefghijklmnopqrstuvwxyz "
_COMMA: Final = 3
_ELLIPSIS: Final = " ..."
"""The end of a cut abstract."""


def units_of(data: bytes) -> int:
    return 3 * len(data) - 2 * (len(data) - len(data.translate(None, _CHEAP)))


def tokens_of(units: int) -> int:
    return -(-units * 2 // 9)


def greatest(most: int, fits: Callable[[int], bool]) -> int:
    """The greatest number from 0 to ``most`` that fits, if all smaller ones do; 0 if none does."""
    low = 0
    while low < most:
        middle = (low + most + 1) // 2
        if fits(middle):
            low = middle
        else:
            most = middle - 1
    return low


class JsonForm:
    """Units of the parts of a response in JSON."""

    reserve = units_of(b',"tokens":') + 3 * len(str(MAX_TOKENS))

    def whole(self, response: Mapping[str, Any], offset: int | Sequence[int]) -> int:
        return units_of(orjson.dumps(response))

    def frame(self, response: Mapping[str, Any], shown: int, offset: int) -> int:
        """A response without its ``shown`` results."""
        return units_of(orjson.dumps({**response, "results": []} if "results" in response else response))

    def item(self, item: Any, rank: int) -> int:
        return units_of(orjson.dumps(item)) + _COMMA

    def group(self, number: int, empty: bool) -> int:
        """The list around the matches of a title."""
        return units_of(b"[],")

    def search(self, number: int) -> int:
        return _COMMA

    def source(self, text: str) -> str:
        """A text as it appears in the response."""
        return text

    def part(self, text: str) -> int:
        """A part of a text."""
        return units_of(orjson.dumps(text)[1:-1])

    def abstract(self, text: str) -> int:
        """The units that an abstract has more than null."""
        return units_of(orjson.dumps(text)) - units_of(b"null")

    def context(self, text: str) -> int:
        return units_of(orjson.dumps(text)) + _COMMA


class TextForm:
    """Units of the parts of a response as text."""

    reserve = 0
    gap = units_of(text_format.GAP.encode())

    def whole(self, response: Mapping[str, Any], offset: int | Sequence[int]) -> int:
        return units_of(text_format.as_text(response, offset=offset).encode())

    def frame(self, response: Mapping[str, Any], shown: int, offset: int) -> int:
        if "results" not in response:
            return self.whole(response, offset)
        if not shown:
            response = {**response, "results": []}
        return units_of(
            (text_format.head(response, shown) + text_format.GAP + text_format.tail(response)).encode()
        )

    def item(self, item: Any, rank: int) -> int:
        return units_of(text_format.block(item, rank).encode()) + self.gap

    def group(self, number: int, empty: bool) -> int:
        if empty:
            return units_of(text_format.title_blocks([], number)[0].encode()) + self.gap
        return units_of(f"{text_format.title_heading(number)}\n".encode())

    def search(self, number: int) -> int:
        return units_of(text_format.search_heading(number).encode()) + self.gap

    def source(self, text: str) -> str:
        return plain(text)

    def part(self, text: str) -> int:
        return units_of(text.encode())

    def abstract(self, text: str) -> int:
        return units_of(text_format.abstract_line(text).encode())

    def context(self, text: str) -> int:
        return units_of(text_format.context_line(text).encode())


Form = JsonForm | TextForm


class _Counts(NamedTuple):
    """The numbers in ``left_out``."""

    papers: int = 0
    abstracts_cut: int = 0
    abstracts: int = 0
    contexts: int = 0


class _Piece(NamedTuple):
    """A result at ``place`` (from 0), split into the item without abstract and contexts, and these."""

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
    """The possible lengths of an abstract, from 0 to all of it, and the units of each."""

    ends: list[int]
    units: list[int]


class Page:
    """A response other than a batch of searches, split into pieces.

    ``need`` is its size in units, ``least`` its size without papers.
    """

    def __init__(
        self, response: Mapping[str, Any], offset: int, form: Form, *, same_offset: bool = False
    ) -> None:
        self._form, self._offset = form, offset
        self._step = 0 if same_offset else 1
        self.response: dict[str, Any] = with_author_lines(response)
        self.need = form.whole(self.response, offset)
        self._is_paper = "results" not in response
        self._is_titles = not self._is_paper and text_format.is_title_batch(response)
        self._is_check = "counts" in response
        self._is_ids = not self._is_paper and text_format.is_id_batch(response)
        self._noun = text_format.plural(response)

    def prepare(self) -> None:
        """Split and measure a response that does not fit."""
        self._pieces = list(self._split())
        self._papers = sum(piece.item is not None for piece in self._pieces)
        abstracts = sum(piece.abstract is not None for piece in self._pieces)
        most = _Counts(self._papers, abstracts, abstracts, sum(len(piece.contexts) for piece in self._pieces))
        # No number in a frame is longer than these, so no frame is larger.
        self._frame = max(map(self._largest, (len(self._pieces),) * 2, (most, most._replace(papers=0))))
        self.least = self._frame if self._is_paper else self._largest(0, _Counts(papers=self._papers))

    def _largest(self, count: int, counts: _Counts) -> int:
        """The units of a response without results, with the longest possible numbers of tokens."""
        return self._form.frame(self._frame_of(count, counts, MAX_TOKENS, MAX_TOKENS), count, self._offset)

    def _split(self) -> Iterator[_Piece]:
        if self._is_paper:
            yield self._piece(0, self.response, 1)
            return
        for index, item in enumerate(self.response["results"]):
            if not isinstance(item, list):
                yield self._piece(index, item, self._offset + index + 1)
                continue
            group = self._form.group(index + 1, not item)
            if not item:
                yield _Piece(index, None, None, [], group)
            for rank, match in enumerate(item, 1):
                piece = self._piece(index, match, rank)
                yield piece._replace(units=piece.units + group) if rank == 1 else piece

    def _piece(self, index: int, item: dict[str, Any] | None, rank: int) -> _Piece:
        if item is None:
            return _Piece(index, None, None, [], self._form.item(None, rank))
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
        return _Piece(index, bare, abstract, contexts, 0 if self._is_paper else self._form.item(bare, rank))

    def cut(self, room: int, tokens: int) -> dict[str, Any]:
        """The response in ``room`` units (``least`` or more), reported as ``tokens``. Call it once."""
        left = max(room - self._frame, 0)
        sums = list(accumulate(piece.units for piece in self._pieces))
        count = bisect_right(sums, left)
        pieces = self._pieces[:count]
        left -= sums[count - 1] if count else 0
        whole = [self._form.abstract(piece.abstract) if piece.abstract else 0 for piece in pieces]
        spent = self._add_contexts(pieces, left - min(sum(whole), left // 2))
        cut, omitted = self._add_abstracts(pieces, whole, left - spent)
        kept = sum(piece.item is not None for piece in pieces)
        contexts = sum(
            len(piece.contexts) - len((piece.item or {}).get("contexts", ()))
            for piece in pieces
            if piece.contexts
        )
        counts = _Counts(self._papers - kept, cut, omitted, contexts)
        first = self._frame + self._form.reserve + self._pieces[0].units
        out = self._frame_of(count, counts, tokens, tokens_of(first))
        if not self._is_paper:
            out["results"] = self._results(pieces)
        return out

    def _add_contexts(self, pieces: Sequence[_Piece], room: int) -> int:
        """Add the first context of each paper while there is room, then the others. Return the units used."""
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

    def _add_abstracts(self, pieces: Sequence[_Piece], whole: Sequence[int], room: int) -> tuple[int, int]:
        """Share ``room`` among the abstracts. Return how many were cut, and how many left out."""
        chosen = [(piece, units) for piece, units in zip(pieces, whole, strict=True) if piece.abstract]
        if sum(units for _, units in chosen) <= room:
            cuts = [_Cuts([0, len(piece.abstract or "")], [0, units]) for piece, units in chosen]
        else:
            cuts = [_cuts(piece.abstract or "", units, self._form) for piece, units in chosen]
        cut = omitted = 0
        for (piece, _), (ends, _), step in zip(
            chosen, cuts, _shared([c.units for c in cuts], room), strict=True
        ):
            abstract = piece.abstract or ""
            if step == len(ends) - 1:
                piece.paper["abstract"] = abstract
            elif step:
                piece.paper["abstract"] = abstract[: ends[step]] + _ELLIPSIS
                cut += 1
            else:
                omitted += 1
        return cut, omitted

    def _results(self, pieces: Sequence[_Piece]) -> list[Any]:
        if not self._is_titles:
            return [piece.item for piece in pieces]
        results: list[Any] = [[] for _ in range(pieces[-1].place + 1)] if pieces else []
        for piece in pieces:
            if piece.item is not None and text_format.is_unfinished(piece.item):
                results[piece.place] = piece.item
            elif piece.item is not None:
                results[piece.place].append(piece.item)
        return results

    def _frame_of(self, count: int, counts: _Counts, tokens: int, first: int) -> dict[str, Any]:
        """The response with all results and the ``left_out`` of ``count`` kept pieces."""
        out = dict(self._pieces[0].paper if self._is_paper else self.response)
        if counts.papers and "next_offset" in out:
            out["next_offset"] = self._offset + count * self._step
        numbers = {name: number for name, number in counts._asdict().items() if number}
        if self._noun != "papers" and "papers" in numbers:
            numbers = {self._noun.replace(" ", "_"): numbers["papers"]}
        out["left_out"] = {**numbers, "how": self._how(count, counts, tokens, first)}
        return out

    def _how(self, count: int, counts: _Counts, tokens: int, first: int) -> str:
        """A sentence about what was left out; the first piece alone takes ``first`` tokens."""
        if self._is_paper:
            return f"The abstract is cut to fit into {tokens} tokens: ask again with more for all of it."
        everything = len(self._pieces)
        noun = "ids" if self._is_ids else "references" if self._is_check else self._noun
        ways = []
        if counts.papers or count < everything:
            if not count:
                which = (
                    f"None of {everything} {noun} fits" if everything > 1 else "The only result does not fit"
                )
                return (
                    f"{which} into {tokens} tokens: "
                    f"ask again with at least {first}{', or for fewer fields' if self._noun == 'papers' else ''}."
                )
            if self._is_titles:
                kept, everything = self._papers - counts.papers, self._papers
                noun = "matches"
            else:
                kept = count
            fact = f"{kept} of {everything} {noun} {'fits' if kept == 1 else 'fit'} into {tokens} tokens"
            ways.append(self._rest(count))
        else:
            fact = f"The {noun} fit into {tokens} tokens, but not all their abstracts and contexts"
        if counts.abstracts_cut or counts.abstracts:
            ways.append("look papers up with get_papers for their whole abstracts")
        if counts.contexts:
            ways.append("ask for fewer papers at a time for all contexts")
        return f"{fact}: {', or '.join(ways)}."

    def _rest(self, count: int) -> str:
        """How to get the pieces from ``count`` on."""
        if "next_offset" in self.response:
            seen = "" if self._step else ", since these are left out now"
            return f"ask again with offset {self._offset + count * self._step} for the rest{seen}"
        if self._is_ids:
            return f"ask again with the ids from place {count + 1} on"
        if self._is_check:
            return f"ask again with the references from place {count + 1} on"
        if self._is_titles:
            # A title whose matches were cut already has its best ones.
            after = self._pieces[count - 1].place + 1 if count < len(self._pieces) else 0
            if after < len(self.response["results"]):
                return f"ask again with the titles from place {after + 1} on"
        return "ask for fewer fields, or for a paper by its exact title"


def _shared(steps: Sequence[Sequence[int]], room: int) -> list[int]:
    """The step of each list that shares ``room`` evenly; steps ascend from 0."""
    most = max((units[-1] for units in steps), default=0)
    level = greatest(most, lambda level: sum(s[bisect_right(s, level) - 1] for s in steps) <= room)
    chosen = [bisect_right(units, level) - 1 for units in steps]
    left = room - sum(units[step] for units, step in zip(steps, chosen, strict=True))
    # The remainder may allow one more step for some, in order.
    for index, units in enumerate(steps):
        following = units[chosen[index] + 1 :]
        if following and (extra := following[0] - units[chosen[index]]) <= left:
            chosen[index] += 1
            left -= extra
    return chosen


def _cuts(abstract: str, whole: int, form: Form) -> _Cuts:
    cuts = _Cuts([0], [0])
    ellipsis = form.part(_ELLIPSIS)
    begin, units = 0, form.abstract("x") - form.part("x")
    for end in sentence_ends(abstract):
        units += form.part(abstract[begin:end])
        begin = end
        if units + ellipsis >= whole:
            break
        cuts.ends.append(end)
        cuts.units.append(units + ellipsis)
    cuts.ends.append(len(abstract))
    cuts.units.append(whole)
    return cuts


# -- sentences, where abstracts are cut ------------------------------------------------------------------------

# Possessive and only from the beginning of a run, so that a long run of dots is read once.
_END: Final = re.compile(
    r"""(?<![.!?])[.!?]++["'”’»)\]]*+(?=\s+(\S))|(?<![。！？｡])[。！？｡]++[」』”’»)）]*+(?=\s*\S)"""
)
_ABBREVIATIONS: Final = frozenset(
    """
    al approx ca cf ch chap dr ed eds eq eqn eqns eqs etc ex fig figs inc jr lem mr mrs ms no nos p pp prof prop ref
    refs resp sec sect sects sr st tab thm viz vol vols vs
    """.split()  # noqa: SIM905
)
_LETTERS: Final = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]")


def sentence_ends(text: str) -> Iterator[int]:
    """Yield the index after each sentence but the last, closing quotes and brackets included.

    Ambiguous places are skipped: after an abbreviation or a single letter (``e.g.``, ``et al.``, ``Fig. 3``,
    ``J. Doe``), and before a lower-case letter. Ideographic full stops need no following space.
    """
    for match in _END.finditer(text):
        if match[1] is not None and match[1].islower():
            continue
        if match[0][0] == "." and _abbreviated(text, match.start()):
            continue
        yield match.end()


def _abbreviated(text: str, end: int) -> bool:
    words = text[max(0, end - 24) : end].rsplit(None, 1)
    word = words[-1].lstrip("([{\"'“‘$~") if words else ""
    return word.lower() in _ABBREVIATIONS or _LETTERS.fullmatch(word) is not None

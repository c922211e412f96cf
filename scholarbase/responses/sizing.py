"""Responses cut to a number of tokens, for a context window.

Works on the JSON of a response (``to_dict()``). :mod:`.pages` measures responses and cuts pages of papers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from scholarbase.errors import InvalidRequest
from scholarbase.models.checks import check_whole
from scholarbase.models.limits import MAX_TOKENS, MIN_TOKENS
from scholarbase.responses import text as text_format
from scholarbase.responses.pages import Form, JsonForm, Page, TextForm, greatest, tokens_of, units_of

SHORTEST: Final = 20
"""Characters of a value that a response keeps at least."""
CUT: Final = "[The rest is cut: ask for less.]"


def estimate_tokens(text: str | bytes) -> int:
    """Estimate the tokens of a text for a language model, in microseconds.

    One token for every 4.5 lower-case ASCII letters or spaces, and for every 1.5 other bytes of UTF-8. Capitals,
    digits, punctuation and other scripts make more tokens than lower-case words, and ids and JSON are full of them.

    Measured on 120 responses of the sample library (ten searches; all fields, titles and authors, or ids alone; JSON
    and text): the estimate is 1.05 to 1.49 times the tokens of a byte-pair encoding with 65,000 entries (1.09 to 1.36
    times with abstracts). Bytes divided by a constant would do worse: a token has 2.2 bytes in a list of ids, and 5.2
    in abstracts. BERT's WordPiece, which makes a token of every punctuation mark, has 0.72 to 1.25 times the estimate.
    """
    return tokens_of(units_of(text.encode() if isinstance(text, str) else text))


def check_max_tokens(value: int) -> int:
    """Return ``value``; raise InvalidRequest unless it is a whole number from 100 to 1,000,000."""
    return check_whole(value, "max_tokens", MIN_TOKENS, MAX_TOKENS)


def fit_response(
    response: dict[str, Any],
    max_tokens: int,
    *,
    offset: int | Sequence[int] = 0,
    text: bool = False,
    same_offset: bool = False,
) -> dict[str, Any]:
    """Return a copy of a response, cut to an estimated ``max_tokens`` as JSON or as text.

    Authors become one line. Papers are kept in order, as many as fit without their abstracts. Half of the remaining
    tokens go to citation contexts and the rest to abstracts, shared evenly, each abstract cut at the end of a
    sentence. Tokens that one part does not use go to the others.

    Parameters:
        offset: of the first result, for result numbers and the next offset; for a batch of searches one offset each.
        text: size the response for :func:`scholarbase.responses.text.as_text` instead of JSON.
        same_offset: the next page has the same offset, because returned papers are excluded from it. Not for a batch.

    Returns:
        The response with ``tokens``, its own estimate. If something was left out, also ``left_out``: the number of
        ``papers``; for the returned papers the number of ``abstracts_cut``, ``abstracts`` and ``contexts`` left out;
        and ``how`` to get them.

    Raises:
        InvalidRequest: ``max_tokens`` is invalid, or too small even without papers.
    """
    check_max_tokens(max_tokens)
    form = TextForm() if text else JsonForm()
    room = max_tokens * 9 // 2 - form.reserve
    response = {key: value for key, value in response.items() if key != "tokens"}
    if "observation" in response or text_format.is_record(response):
        shorten = _observation if "observation" in response else _record
        fitted = shorten(response, lambda candidate: form.whole(candidate, 0) <= room)
        _check_room(room, form.whole(fitted, 0), form)
    elif "document" in response:
        fitted = _text(response, room, form)
    elif text_format.has_rows(response):
        fitted = _rows(response, lambda candidate: _size(candidate, 0, form), max_tokens)
    elif "results" in response and text_format.is_search_batch(response):
        fitted = _batch(response, room, offset, form)
    else:
        fitted = _single(response, room, offset, form, same_offset=same_offset)
    fitted["tokens"] = _size(fitted, offset, form)
    return fitted


def _size(response: dict[str, Any], offset: int | Sequence[int], form: Form) -> int:
    """The estimate of a response, including its own key ``tokens``."""
    if isinstance(form, TextForm):
        return tokens_of(form.whole(response, offset))
    units, digits = form.whole(response, offset) + units_of(b',"tokens":'), 1
    while digits < len(str(tokens_of(units + 3 * digits))):
        digits += 1
    return tokens_of(units + 3 * digits)


def _check_room(room: int, least: int, form: Form) -> None:
    """Raise InvalidRequest if a response of ``least`` units does not fit."""
    if least > room:
        raise InvalidRequest(
            f"max_tokens is {tokens_of(room + form.reserve)}: this response needs at least "
            f"{max(tokens_of(least + form.reserve), MIN_TOKENS)}. Raise max_tokens, or request less."
        )


def _text(response: dict[str, Any], room: int, form: Form) -> dict[str, Any]:
    """An outline or a part of a text."""
    fitted = _outline(
        response, lambda candidate: form.whole(candidate, 0) <= room, tokens_of(room + form.reserve)
    )
    least = form.whole(fitted, 0)
    _check_room(room, least, form)
    if fitted.get("text") == "" and response["text"]:
        _check_room(0, least + form.part(response["text"][:100]), form)
    return fitted


def _single(
    response: dict[str, Any], room: int, offset: int | Sequence[int], form: Form, *, same_offset: bool
) -> dict[str, Any]:
    assert isinstance(offset, int)  # only a batch has several
    page = Page(response, offset, form, same_offset=same_offset)
    if page.need <= room:
        return page.response
    page.prepare()
    _check_room(room, min(page.least, page.need), form)
    return page.cut(room, tokens_of(room + form.reserve))


def _batch(response: dict[str, Any], room: int, offset: int | Sequence[int], form: Form) -> dict[str, Any]:
    responses = response["results"]
    offsets = [offset] * len(responses) if isinstance(offset, int) else offset
    pages = [Page(one, start, form) for one, start in zip(responses, offsets, strict=True)]
    out = {**response, "results": [page.response for page in pages]}
    frame = form.frame(out, len(pages), 0) + sum(form.search(number) for number in range(1, len(pages) + 1))
    if frame + sum(page.need for page in pages) <= room:
        return out
    for page in pages:
        page.prepare()
    _check_room(room, frame + sum(min(page.least, page.need) for page in pages), form)
    # Each gets the same number of units, but never less than ``least`` nor more than ``need``.
    most = max(page.need for page in pages)
    level = greatest(most, lambda level: sum(_share(page, level) for page in pages) <= room - frame)
    spare = room - frame - sum(_share(page, level) for page in pages)
    for index, page in enumerate(pages):
        share = _share(page, level) + spare
        if page.need <= share:
            spare = share - page.need
            continue
        out["results"][index] = page.cut(share, tokens_of(share))
        spare = share - form.whole(out["results"][index], offsets[index])
    return out


def _share(page: Page, level: int) -> int:
    return min(page.need, max(page.least, level))


# -- other responses ---------------------------------------------------------------------------------------


def _observation(response: dict[str, Any], fits: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """A response whose observation is cut at the end of a line, or else of a character, until it ``fits``. Without any
    of it, it may still not fit."""
    if fits(response):
        return response
    text: str = response["observation"]

    def cut(length: int) -> dict[str, Any]:
        return {**response, "observation": f"{text[:length]}\n{CUT}"}

    length = greatest(len(text), lambda kept: fits(cut(kept)))
    line = text.rfind("\n", length // 2, length)
    return cut(line if line > 0 else length)


def _record(response: dict[str, Any], fits: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """A response with fields of its own, its lists and then its texts cut until it ``fits``. With lists empty and texts
    of :data:`SHORTEST` characters, it may still not fit."""
    if fits(response):
        return response
    lists = {key: value for key, value in response.items() if isinstance(value, list)}
    longest = max((len(value) for value in response.values() if isinstance(value, str)), default=0)

    def cut(items: int, characters: int) -> dict[str, Any]:
        left = {key: len(value) - items for key, value in lists.items() if len(value) > items}
        if characters < longest:
            left["characters"] = longest - characters
        shorter = {key: _shortened(value, characters) for key, value in response.items()}
        shorter |= {key: value[:items] for key, value in lists.items()}
        return {**shorter, "left_out": {**left, "how": "Ask again with more tokens for all of it."}}

    items = greatest(max(map(len, lists.values()), default=0), lambda count: fits(cut(count, longest)))
    if items or fits(cut(0, longest)):
        return cut(items, longest)
    return cut(0, max(SHORTEST, greatest(longest, lambda characters: fits(cut(0, characters)))))


def _outline(response: dict[str, Any], fits: Callable[[dict[str, Any]], bool], tokens: int) -> dict[str, Any]:
    """A response with an outline or a part of a text, cut until it ``fits``: figures and the end of the outline are
    left out, and a text ends after a paragraph, a line or a word, where it is read on.

    A response without all of these may still not fit.
    """
    if fits(response):
        return response
    if response.get("text") is not None:
        return _fit_text(response, fits)
    sections, figures = response.get("sections") or [], response.get("figures") or []

    def cut(kept: int) -> dict[str, Any]:
        first = min(kept, len(sections))
        left = {"sections": len(sections) - first, "figures": len(figures) - (kept - first)}
        counts = {name: count for name, count in left.items() if count}
        how = f"The outline does not fit into {tokens} tokens: ask again with more, or read by section or from_offset."
        changed = {**response, "sections": sections[:first], "figures": figures[: kept - first]}
        return {**changed, "left_out": {**counts, "how": how}} if counts else changed

    return cut(greatest(len(sections) + len(figures), lambda kept: fits(cut(kept))))


def _fit_text(response: dict[str, Any], fits: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    text, start = response["text"], response["start"]

    def cut(length: int) -> dict[str, Any]:
        return {**response, "text": text[:length], "end": start + length, "next_offset": start + length}

    length = greatest(len(text) - 1, lambda kept: fits(cut(kept)))
    for mark in ("\n\n", "\n", " "):
        position = text.rfind(mark, length // 2, length)
        if position >= 0:
            return cut(position + len(mark))
    return cut(length)


def _rows(
    response: Mapping[str, Any], tokens_of: Callable[[dict[str, Any]], int], max_tokens: int
) -> dict[str, Any]:
    """As many first rows as fit. If none does, the first one with its long values cut.

    Args:
        tokens_of: the estimate of a response.

    Raises:
        InvalidRequest: not even the first row fits.
    """
    rows = response["rows"]
    if tokens_of(dict(response)) <= max_tokens:
        return dict(response)

    def first(count: int) -> dict[str, Any]:
        left = len(rows) - count
        how = (
            f"{left:,} rows are left out: ask for the next ones with LIMIT {max(count, 1)} OFFSET {count}, for fewer "
            "columns, or for more tokens."
        )
        return _cut(response, rows[:count], {"rows": left, "how": how})

    count = greatest(len(rows), lambda kept: tokens_of(first(kept)) <= max_tokens)
    if count:
        return first(count)
    if not rows:
        raise _too_small(max_tokens)

    def cut(characters: int) -> dict[str, Any]:
        row = [_shortened(value, characters) for value in rows[0]]
        left = len(rows) - 1
        how = "Long values of the row end early, with ...: read the parts with substr(text, start, length)."
        if left:
            how += f" {left:,} rows are left out: ask for them with OFFSET 1."
        return _cut(response, [row], {"rows": left, "how": how})

    longest = max((len(value) for value in rows[0] if isinstance(value, str)), default=0)
    characters = greatest(longest, lambda kept: tokens_of(cut(kept)) <= max_tokens)
    if characters < SHORTEST:
        raise _too_small(max_tokens)
    return cut(characters)


def _cut(response: Mapping[str, Any], rows: list[Any], left_out: dict[str, Any]) -> dict[str, Any]:
    return {**response, "rows": rows, "row_count": len(rows), "truncated": True, "left_out": left_out}


def _shortened(value: Any, characters: int) -> Any:
    is_long = isinstance(value, str) and len(value) > characters
    return f"{value[:characters]}..." if is_long else value


def _too_small(max_tokens: int) -> InvalidRequest:
    return InvalidRequest(
        f"max_tokens is {max_tokens}, too small for the columns and one row: select fewer columns, or raise it."
    )

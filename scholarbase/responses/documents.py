"""Full texts and passages in responses: as text, and cut to a size.

As everywhere in text, each line of a paper's content is indented, so that it cannot imitate another part of the
response.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from scholarbase.responses.fitting import greatest
from scholarbase.responses.lines import INDENT, plain

MAX_REFERENCE: Final = 300
"""Characters of an entry of a bibliography."""


COUNTED: Final = ("passages", "matches", "citation_marks")
"""What ``left_out`` counts of results with passages."""


def noun(response: Mapping[str, Any]) -> str:
    """What the results of a response are."""
    first = next(iter(response.get("results") or ()), None)
    if not isinstance(first, Mapping) or "passage" not in first:
        return "paper"
    return "match" if "match" in first else "citation mark" if "mark" in first else "passage"


def plural(response: Mapping[str, Any]) -> str:
    """What the results of a response are, in the plural."""
    word = noun(response)
    return f"{word}es" if word.endswith("ch") else f"{word}s"


def passage_lines(item: Mapping[str, Any], number: str) -> Iterator[str]:
    """The lines of a passage, a match or a citation context, from its JSON."""
    paper, passage = item.get("paper") or {}, item["passage"]
    title = plain(paper.get("title")) or plain(paper.get("id"))
    yield f"{number}{title or 'a paper that the library does not hold'}"
    facts = [plain(paper["id"])] if paper.get("title") and paper.get("id") else []
    if paper.get("year"):
        facts.append(plain(paper["year"]))
    if passage.get("version"):
        facts.append(f"version {passage['version']}")
    if passage.get("section"):
        facts.append(f"section {plain(passage['section'])}")
    if passage.get("page"):
        facts.append(f"page {passage['page']}")
    facts.append(f"offset {passage['start']} to {passage['end']}")
    if item.get("score") is not None:
        facts.append(f"score {item['score']:.4g}")
    yield f"{INDENT}{'; '.join(facts)}"
    if item.get("match"):
        yield f"{INDENT}Match at {item['match_start']}: {plain(item['match'])}"
    if item.get("reference"):
        yield f"{INDENT}Reference {plain(item.get('mark'))}: {plain(item['reference'])[:MAX_REFERENCE]}"
    for line in passage["text"].split("\n"):
        if text := plain(line):
            yield f"{INDENT}{text}"


def as_text(response: Mapping[str, Any]) -> str:
    """An outline or a part of a text, from its JSON."""
    about = response["document"]
    version = f", version {about['version']}" if about.get("version") else ""
    pages = f", {about['pages']:,} pages" if about.get("pages") else ""
    lines = [
        f"{plain(response.get('title')) or plain(response['id'])}",
        f"{INDENT}{plain(response['id'])}{version}, from {plain(about['source'])}: {about['tokens']:,} tokens, "
        f"{about['characters']:,} characters{pages}",
    ]
    if response.get("snapshot"):
        lines.append(f"{INDENT}snapshot {plain(response['snapshot'])}")
    for one in response.get("sections") or ():
        name = " ".join(filter(None, (plain(one.get("number")), plain(one["title"]))))
        size = f"#{one['place']}, {one['tokens']:,} tokens, offset {one['start']}"
        lines.append(f"{INDENT * one['level']}{name or '(no title)'} ({size})")
    if response.get("sections") == [] and not response.get("left_out"):
        lines.append(f"{INDENT}The text has no sections: read it from offset 0 on.")
    elif response.get("sections") is not None:
        lines.append(f"{INDENT}Read a section by its number, its title or # and its place.")
    for one in response.get("figures") or ():
        page = f", page {one['page']}" if one.get("page") else ""
        lines.append(f"{INDENT}{plain(one['label']) or plain(one['kind'])}{page}: {plain(one['caption'])}")
    if response.get("text") is not None:
        lines += [f"{INDENT}Warning: {plain(warning)}" for warning in response.get("warnings", ())]
        where = f"section {plain(response['section'])}, " if response.get("section") else ""
        lines.append(f"{INDENT}{where}offset {response['start']} to {response['end']}:")
        lines += [f"{INDENT}{plain(line)}" if line.strip() else "" for line in response["text"].split("\n")]
    if response.get("left_out"):
        lines.append(plain(response["left_out"]["how"]))
    if response.get("next_offset") is not None:
        lines.append(f"There is more: read on with from_offset {response['next_offset']}.")
    if response.get("budget"):
        budget = (f"{plain(name)} {left:,}" for name, left in response["budget"].items())
        lines.append(f"Left of the budget: {', '.join(budget)}.")
    return "\n".join(lines)


def fit(response: dict[str, Any], fits: Callable[[dict[str, Any]], bool], tokens: int) -> dict[str, Any]:
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
        place = text.rfind(mark, length // 2, length)
        if place >= 0:
            return cut(place + len(mark))
    return cut(length)

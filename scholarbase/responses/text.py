"""Answers as plain text, for whoever reads rather than parses: the same content as the JSON, in fewer tokens.

Works on the plain JSON of an answer (what ``to_dict`` gives, or what :func:`responses.sizing.fit` made of it). A
text is a head, a block for each result, and a tail that says how to go on, with an empty line between them. Whatever
comes from a paper stands behind its number or an indent, its white space collapsed: no title and no abstract can begin
a line of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

GAP: Final = "\n\n"
"""What stands between the head, the blocks and the tail."""
INDENT: Final = "   "
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


def as_text(answer: Mapping[str, Any], *, offset: int | Sequence[int] = 0) -> str:
    """The answer as text. Its results are numbered from ``offset`` + 1, those of a batch of searches each from its own.

    What the answer does not hold is not shown: only the id of a paper is certain.
    """
    if "results" not in answer:
        return GAP.join(filter(None, (head(answer, 1), block(answer), tail(answer))))
    results = answer["results"]
    parts = [head(answer, len(results))]
    if is_search_batch(answer):
        starts = [offset] * len(results) if isinstance(offset, int) else offset
        parts += [
            f"{search_heading(place)}{as_text(one, offset=start)}"
            for place, (one, start) in enumerate(zip(results, starts, strict=True), 1)
        ]
    else:
        assert isinstance(offset, int)
        for place, item in enumerate(results, 1):
            if isinstance(item, list):
                parts += title_blocks(item, place)
            else:
                parts.append(block(item, offset + place))
    return GAP.join(filter(None, (*parts, tail(answer))))


def is_search_batch(answer: Mapping[str, Any]) -> bool:
    """Whether the results are themselves answers."""
    first = next(iter(answer["results"]), None)
    return isinstance(first, Mapping) and "results" in first


def is_id_batch(answer: Mapping[str, Any]) -> bool:
    """Whether the results are papers, or null in the place of one that is not there."""
    results = answer["results"]
    return bool(results) and all(item is None or "id" in item for item in results)


def is_title_batch(answer: Mapping[str, Any]) -> bool:
    """Whether the results are lists of matches, one for each title."""
    return bool(answer["results"]) and isinstance(answer["results"][0], list)


def head(answer: Mapping[str, Any], shown: int) -> str:
    """The first line: what this is, how much of it there is, and of which snapshot; a line for each leg that failed.

    ``shown`` is how many results stand below, or how many titles or ids or searches are answered.
    """
    snapshot = f", snapshot {plain(answer['snapshot'])}" if answer.get("snapshot") else ""
    total = answer.get("total")
    if "results" not in answer:
        what = "1 paper"
    elif is_search_batch(answer):
        what = _count(shown, "search", "searches")
    elif is_title_batch(answer):
        what = _count(shown, "title")
    elif is_id_batch(answer):
        what = _count(shown, "id")
    elif total is not None and (total or shown):
        least = "at least " if answer.get("total_relation") == "gte" else ""
        what = f"{shown:,} of {least}{_count(total, 'paper')}"
    elif shown or answer.get("left_out"):
        what = _count(shown, "paper")
    else:
        what = ""
    legs = ", ".join(plain(answer[key]) for key in ("mode", "engine") if answer.get(key))
    lines = [what + (f" ({legs})" if legs else "") + snapshot if what else "Nothing matched."]
    lines += [
        f"Without the leg {plain(failed['leg'])}: {plain(failed['detail'])}"
        for failed in answer.get("failed_legs", ())
    ]
    return "\n".join(lines)


def tail(answer: Mapping[str, Any]) -> str:
    """The last lines: what was left out, where the next page begins, what is left of a budget; perhaps nothing."""
    lines = []
    left_out = answer.get("left_out") or {}
    if left_out.get("how"):
        lines.append(plain(left_out["how"]))
    if answer.get("next_offset") is not None and not left_out.get("papers"):
        lines.append(f"There are more: ask again with offset {answer['next_offset']}.")
    if answer.get("budget"):
        budget = (f"{plain(name)} {_number(left)}" for name, left in answer["budget"].items())
        lines.append(f"Left of the budget: {', '.join(budget)}.")
    return "\n".join(lines)


def block(item: Mapping[str, Any] | None, rank: int | None = None) -> str:
    """A result, or a paper: its number and title, then a line for each thing that is known of it, indented."""
    number = "" if rank is None else f"{rank}. "
    if item is None:
        return f"{number}not in this library"
    paper = item.get("paper", item)
    title = plain(paper.get("title"))
    lines = [f"{number}{title or plain(paper['id'])}"]
    if about := "; ".join(_about(paper)):
        lines.append(f"{INDENT}{about}")
    if title:
        lines.append(f"{INDENT}{plain(paper['id'])}")
    if names := ", ".join(_other_ids(paper)):
        lines.append(f"{INDENT}{names}")
    if paper.get("url"):
        lines.append(f"{INDENT}{plain(paper['url'])}")
    if "paper" in item and (why := "; ".join(_why(item))):
        lines.append(f"{INDENT}{why}")
    if paper.get("tldr"):
        lines.append(f"{INDENT}In short: {plain(paper['tldr'])}")
    text = "\n".join(lines)
    if paper.get("abstract"):
        text += abstract_line(paper["abstract"])
    if "paper" in item:
        text += "".join(map(context_line, item.get("contexts") or ()))
    return text


def abstract_line(abstract: str) -> str:
    """What an abstract adds to a block."""
    text = plain(abstract)
    return f"\n{INDENT}{text}" if text else ""


def context_line(context: str) -> str:
    """What the text around a citation adds to a block."""
    return f"\n{INDENT}Context: {plain(context)}"


def title_blocks(matches: Sequence[Mapping[str, Any]], place: int) -> list[str]:
    """The matches of one title of a batch, the first with the heading."""
    if not matches:
        return [f"{title_heading(place)} nothing matched."]
    blocks = [block(match, rank) for rank, match in enumerate(matches, 1)]
    return [f"{title_heading(place)}\n{blocks[0]}", *blocks[1:]]


def title_heading(place: int) -> str:
    return f"Title {place}:"


def search_heading(place: int) -> str:
    return f"Search {place}: "


def compact_authors(authors: Sequence[Mapping[str, Any]] | str | None) -> str:
    """``first, second`` of up to two authors, ``first, second, ... (n)`` of n; what is compact already stays."""
    if isinstance(authors, str):
        return authors
    names = [str(author["name"]) for author in (authors or ())[:2]]
    count = len(authors or ())
    return ", ".join(names) + (f", ... ({count})" if count > len(names) else "")


def plain(value: Any) -> str:
    """A field on one line: runs of white space become one space, other control characters go."""
    if value is None:
        return ""
    text = " ".join(str(value).split())
    return text if text.isprintable() else " ".join(_CONTROL.sub(" ", text).split())


def _about(paper: Mapping[str, Any]) -> Iterator[str]:
    if paper.get("authors"):
        yield plain(compact_authors(paper["authors"]))
    if date := paper.get("publication_date") or paper.get("year"):
        yield plain(date)
    if paper.get("venue"):
        yield plain(paper["venue"])
    if paper.get("categories"):
        yield plain(" ".join(paper["categories"]))
    if paper.get("citation_count") is not None:
        yield f"cited by {_number(paper['citation_count'])}"
    if paper.get("reference_count") is not None:
        yield f"cites {_number(paper['reference_count'])}"


def _other_ids(paper: Mapping[str, Any]) -> Iterator[str]:
    """Ids that are not the paper's own."""
    known = {f"{scheme}:{value}": None for scheme, value in (paper.get("external_ids") or {}).items()}
    if paper.get("corpus_id") is not None:
        known[f"CorpusId:{paper['corpus_id']}"] = None
    known.pop(paper["id"], None)
    yield from map(plain, known)


def _why(item: Mapping[str, Any]) -> Iterator[str]:
    """Why a result is here: scores and legs of a search, seeds and hops of an expansion, the kind of a citation."""
    if item.get("score") is not None:
        yield f"score {_number(item['score'])}"
    for leg in item.get("explain") or ():
        said = [f"{name} {_number(leg[name])}" for name in ("rank", "score", "share") if name in leg]
        if leg.get("terms"):
            said.append(f"terms {_terms(leg['terms'])}")
        yield f"{plain(leg['leg'])}: {', '.join(said)}"
    if item.get("seeds") is not None:
        yield f"reached by {_count(item['seeds'], 'seed')}"
    if item.get("hops") is not None:
        yield f"over {_count(item['hops'], 'hop')}"
    if item.get("is_influential"):
        yield "influential"
    if item.get("intents"):
        yield f"intents: {', '.join(map(plain, item['intents']))}"


def _terms(terms: Any) -> str:
    """Terms with what each gave: a mapping, a list of texts, or a list of objects."""
    if isinstance(terms, Mapping):
        return ", ".join(f"{plain(term)} {_number(value)}" for term, value in terms.items())
    shown = (term.values() if isinstance(term, Mapping) else [term] for term in terms)
    return ", ".join(" ".join(map(_number, values)) for values in shown)


def _number(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else plain(value)


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"

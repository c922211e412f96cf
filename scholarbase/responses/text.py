"""Responses as plain text: the content of the JSON in fewer tokens.

Works on the JSON of a response (``to_dict()``, or the result of
:func:`scholarbase.responses.sizing.fit_response`). A text is a head, a block for each result and a tail with the next
step, separated by empty lines. Every line of a paper starts with its number or an indent and has its white space
collapsed, so that no title or abstract can imitate another part of the response.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from scholarbase.models.papers import Paper
from scholarbase.terminal import printable

INDENT: Final = "   "
GAP: Final = "\n\n"
LABELS: Final[Mapping[str, str]] = {
    "held": "held",
    "near": "near",
    "withdrawn": "withdrawn",
    "retracted": "retracted",
    "not_in_snapshot": "not in this snapshot",
    "unreadable": "unreadable",
}
"""The statuses in words."""
MAX_COMMENT: Final = 200
"""Characters of a comment."""
MAX_REFERENCE: Final = 300
"""Characters of an entry of a bibliography."""
COUNTED: Final = ("passages", "matches", "citation_marks")
"""What ``left_out`` counts of results with passages."""
_NO_RECORD: Final = frozenset(("results", "observation", "document", "columns", "id"))
_AFTER_RECORD: Final = frozenset(("left_out", "next_offset", "budget", "tokens"))
"""Keys that :func:`tail` shows, or that no text has."""


def plain(value: Any) -> str:
    """A field on one line: white space and control characters as single spaces, and no change of direction."""
    if value is None:
        return ""
    text = " ".join(str(value).split())
    return text if text.isprintable() else " ".join(printable(text).split())


def as_text(response: Mapping[str, Any], *, offset: int | Sequence[int] = 0) -> str:
    """Format a response as text, its results numbered from ``offset`` + 1.

    A batch of searches may have one offset for each search. Fields that the response lacks are left out; only a
    paper's id is required.
    """
    if is_unfinished(response):
        return plain(response["error"])
    if "observation" in response:
        return "\n".join(filter(None, (response["observation"], _budget(response))))
    if "answer" in response:  # of a tool of another service, in its form
        return orjson.dumps(response["answer"], option=orjson.OPT_INDENT_2).decode()
    if "document" in response:
        return "\n".join(_document_lines(response))
    if "results" not in response:
        return GAP.join(filter(None, (*_parts(response), tail(response))))
    results = response["results"]
    parts = [head(response, len(results))]
    if is_search_batch(response):
        starts = [offset] * len(results) if isinstance(offset, int) else offset
        parts += [
            f"{search_heading(number)}{as_text(result, offset=start)}"
            for number, (result, start) in enumerate(zip(results, starts, strict=True), 1)
        ]
    else:
        assert isinstance(offset, int)
        for number, item in enumerate(results, 1):
            if isinstance(item, list):
                parts += title_blocks(item, number)
            else:
                parts.append(block(item, offset + number))
    return GAP.join(filter(None, (*parts, tail(response))))


def _parts(response: Mapping[str, Any]) -> Iterator[str]:
    """The parts before the tail of a response without results."""
    if is_record(response):
        yield "\n".join(_record_lines(response))
        return
    yield head(response, 1)
    yield rows_as_text(response) if has_rows(response) else block(response)


def is_record(response: Mapping[str, Any]) -> bool:
    """Whether a response is neither a paper nor a list of results, but has fields of its own."""
    return not response.keys() & _NO_RECORD


def _record_lines(record: Mapping[str, Any]) -> Iterator[str]:
    """A line for each field that is not empty, and one for each item of a list of objects."""
    for key, value in record.items():
        if key in _AFTER_RECORD or value in (None, "", [], {}):
            continue
        label = plain(key).replace("_", " ")
        if isinstance(value, list) and isinstance(value[0], Mapping):
            yield f"{label}:"
            yield from (f"{INDENT}{number}. {_on_a_line(item)}" for number, item in enumerate(value, 1))
        else:
            yield f"{label}: {_on_a_line(value)}"


def _on_a_line(value: Any) -> str:
    """A value of a record on one line: a paper as in lists, an object as ``key value; key value``."""
    if isinstance(value, Mapping):
        if "id" in value and "title" in value:
            return paper_line(value)
        parts = (
            f"{plain(key).replace('_', ' ')} {_on_a_line(item)}"
            for key, item in value.items()
            if item is not None
        )
        return "; ".join(parts)
    if isinstance(value, list):
        return ", ".join(map(_on_a_line, value))
    return f"{value:.4g}" if isinstance(value, float) else plain(value)


def is_unfinished(item: Any) -> bool:
    """Whether an item of a batch is the error of a search or title that took too long."""
    return isinstance(item, Mapping) and "status" in item and "error" in item


def is_search_batch(response: Mapping[str, Any]) -> bool:
    """Whether the results are themselves responses."""
    first = next((item for item in response["results"] if not is_unfinished(item)), None)
    if first is None and response["results"]:
        return is_unfinished(response["results"][0])
    return isinstance(first, Mapping) and "results" in first


def is_id_batch(response: Mapping[str, Any]) -> bool:
    """Whether the results are papers, or null for missing ones."""
    results = response["results"]
    return bool(results) and all(item is None or "id" in item for item in results)


def is_title_batch(response: Mapping[str, Any]) -> bool:
    """Whether the results are lists of matches, one for each title."""
    return any(isinstance(item, list) for item in response["results"])


def is_checked(item: Any) -> bool:
    """Whether an item is a checked reference."""
    return isinstance(item, Mapping) and "status" in item and "reason" in item


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


def head(response: Mapping[str, Any], shown: int) -> str:
    """The first line, with the kind and number of results and the snapshot, and a line for each failed leg and
    warning.

    ``shown`` is the number of results, titles, ids or searches in the response.
    """
    snapshot = f", snapshot {plain(response['snapshot'])}" if response.get("snapshot") else ""
    total = response.get("total")
    if has_rows(response):
        what = counted(response["row_count"], "row")
    elif "results" not in response:
        what = "1 paper"
    elif "counts" in response:
        what = f"{counted(shown, 'reference')}: {counts_line(response['counts'])}"
    elif is_search_batch(response):
        what = counted(shown, "search", "searches")
    elif is_title_batch(response):
        what = counted(shown, "title")
    elif is_id_batch(response):
        what = counted(shown, "id")
    elif total is not None and (total or shown):
        least = "at least " if response.get("total_relation") == "gte" else ""
        what = f"{shown:,} of {least}{counted(total, noun(response), plural(response))}"
    elif shown or response.get("left_out"):
        what = counted(shown, noun(response), plural(response))
    else:
        what = ""
    legs = ", ".join(plain(response[key]) for key in ("mode", "engine") if response.get(key))
    if response.get("rerank"):
        legs += f", first {response['reranked']:,} reranked by {plain(response['rerank'])}"
    lines = [what + (f" ({legs})" if legs else "") + snapshot if what else "Nothing matched."]
    lines += [
        f"Without the leg {plain(failed['leg'])}: {plain(failed['detail'])}"
        for failed in response.get("failed_legs", ())
    ]
    if understood := response.get("understood"):
        names = {"wanted": "Searched for", "excluded": "Left out", "avoided": "Last"}
        read = (understood.get(name) for name in names)
        lines += [
            f"{label}: {plain(phrases if isinstance(phrases, str) else ', '.join(phrases))}"
            for label, phrases in zip(names.values(), read, strict=True)
            if phrases
        ]
    lines += [f"Warning: {plain(warning)}" for warning in response.get("warnings", ())]
    return "\n".join(lines)


def tail(response: Mapping[str, Any]) -> str:
    """The last lines: what was left out, the next offset and the remaining budget; may be empty."""
    lines = []
    left_out = response.get("left_out") or {}
    if left_out.get("how"):
        lines.append(plain(left_out["how"]))
    elif response.get("truncated"):
        lines.append("There is more: ask again with a larger limit, with LIMIT and OFFSET, or with substr.")
    if response.get("next_offset") is not None and not left_out.keys() & {"papers", *COUNTED}:
        offset = response["next_offset"]
        seen = "" if offset else ", since these are left out now"  # as with exclude_seen
        lines.append(f"There are more: ask again with offset {offset}{seen}.")
    return "\n".join(filter(None, (*lines, _budget(response))))


def _budget(response: Mapping[str, Any]) -> str:
    """What the limits of the session have left; empty without limits."""
    left = (f"{plain(name)} {_number(number)}" for name, number in (response.get("budget") or {}).items())
    text = ", ".join(left)
    return f"Left of the budget: {text}." if text else ""


def block(item: Mapping[str, Any] | None, rank: int | None = None) -> str:
    """A result or a paper: number and title, then an indented line for each of its other fields."""
    number = "" if rank is None else f"{rank}. "
    if item is None:
        return f"{number}not in this library"
    if item.get("error"):
        return f"{number}{plain(item['error'])}"
    if is_checked(item) or "passage" in item:
        lines_of = passage_lines if "passage" in item else reference_lines
        return "\n".join(lines_of(item, number))
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
    if "paper" in item and (relevance := "; ".join(_relevance(item))):
        lines.append(f"{INDENT}{relevance}")
    if paper.get("comment"):
        comment = plain(paper["comment"])
        lines.append(f"{INDENT}Comment: {comment[:MAX_COMMENT]}{'...' if len(comment) > MAX_COMMENT else ''}")
    if paper.get("tldr"):
        lines.append(f"{INDENT}In short: {plain(paper['tldr'])}")
    text = "\n".join(lines)
    if paper.get("abstract"):
        text += abstract_line(paper["abstract"])
    if "paper" in item:
        text += "".join(map(context_line, item.get("contexts") or ()))
    return text


def passage_lines(item: Mapping[str, Any], number: str) -> Iterator[str]:
    """The lines of a passage, a match or a citation context, from its JSON."""
    paper, passage = item.get("paper") or {}, item["passage"]
    title = plain(paper.get("title")) or plain(paper.get("id"))
    yield f"{number}{title or 'a paper that the library does not hold'}"
    facts = (
        plain(paper.get("id")) if paper.get("title") else "",
        plain(paper.get("year")),
        *(f"{key} {plain(passage[key])}" for key in ("version", "section", "page") if passage.get(key)),
        f"offset {passage['start']} to {passage['end']}",
        "" if item.get("score") is None else f"score {item['score']:.4g}",
    )
    yield f"{INDENT}{'; '.join(filter(None, facts))}"
    if item.get("match"):
        yield f"{INDENT}Match at {item['match_start']}: {plain(item['match'])}"
    if item.get("reference"):
        yield f"{INDENT}Reference {plain(item.get('mark'))}: {plain(item['reference'])[:MAX_REFERENCE]}"
    for line in passage["text"].split("\n"):
        if text := plain(line):
            yield f"{INDENT}{text}"


def reference_lines(item: Mapping[str, Any], number: str) -> Iterator[str]:
    """The lines of one checked reference, from its JSON."""
    yield f"{number}{LABELS.get(item['status'], plain(item['status']))}: {plain(item['reason'])}"
    yield f"{INDENT}Reference: {plain(item['text'])}"
    if item.get("paper"):
        yield f"{INDENT}Paper: {paper_line(item['paper'])}"
    for difference in item.get("differences") or ():
        reference, library = plain(difference["reference"]), plain(difference["library"])
        yield f"{INDENT}{plain(difference['field'])}: {reference} (library: {library})"
    for match in item.get("matches") or ():
        yield f"{INDENT}Near ({match['score']:.2f}): {paper_line(match['paper'])}"


def paper_line(paper: Mapping[str, Any]) -> str:
    """A paper on one line."""
    parts = (
        plain(paper.get("title")),
        _status(paper),
        plain(compact_authors(paper.get("authors"))),
        plain(paper.get("year")),
        plain(paper.get("venue")),
        plain(paper["id"]),
    )
    return "; ".join(part for part in parts if part)


def _status(paper: Mapping[str, Any]) -> str:
    """The status, with the day of the last retraction if ``notices`` have it; empty without a status."""
    status = (paper.get("status") or "").upper()
    dates = [notice["date"] for notice in paper.get("notices") or () if notice["kind"] == "retraction"]
    return f"{status} on {dates[-1]}" if status == "RETRACTED" and dates and dates[-1] else status


def counts_line(counts: Mapping[str, int]) -> str:
    """The counts of the statuses, without zeros."""
    return ", ".join(f"{count:,} {LABELS.get(name, name)}" for name, count in counts.items() if count)


def abstract_line(abstract: str) -> str:
    text = plain(abstract)
    return f"\n{INDENT}{text}" if text else ""


def context_line(context: str) -> str:
    return f"\n{INDENT}Context: {plain(context)}"


def title_blocks(matches: Sequence[Mapping[str, Any]], number: int) -> list[str]:
    """The blocks of the matches of one title, the first with the heading."""
    if not matches:
        return [f"{title_heading(number)} nothing matched."]
    blocks = [block(match, rank) for rank, match in enumerate(matches, 1)]
    return [f"{title_heading(number)}\n{blocks[0]}", *blocks[1:]]


def title_heading(number: int) -> str:
    return f"Title {number}:"


def search_heading(number: int) -> str:
    return f"Search {number}: "


def compact_authors(authors: Sequence[Mapping[str, Any]] | str | None) -> str:
    """Authors as a line: ``first, second``, or ``first, second, ... (n)`` for n > 2. A line is returned unchanged."""
    if isinstance(authors, str):
        return authors
    names = [str(author["name"]) for author in (authors or ())[:2]]
    count = len(authors or ())
    return ", ".join(names) + (f", ... ({count})" if count > len(names) else "")


def with_author_lines(content: Any) -> Any:
    """A copy of a response, or of a part of one, with the authors of each paper as a line."""
    if isinstance(content, list):
        return [with_author_lines(item) for item in content]
    if not isinstance(content, Mapping):
        return content
    copy = dict(content)
    if "authors" in copy:
        copy["authors"] = compact_authors(copy["authors"])
    for key in ("results", "paper", "matches"):
        if key in copy:
            copy[key] = with_author_lines(copy[key])
    return copy


def has_rows(response: Mapping[str, Any]) -> bool:
    """Whether a response has rows and columns, of an SQL statement."""
    return "columns" in response and "rows" in response


def rows_as_text(response: Mapping[str, Any]) -> str:
    """The rows below the names of the columns, separated by vertical bars, which are escaped in values."""
    lines = [response["columns"], *response["rows"]]
    return "\n".join(" | ".join(map(_cell, line)) for line in lines)


def _cell(value: Any) -> str:
    return "null" if value is None else plain(value).replace("\\", "\\\\").replace("|", "\\|")


def _document_lines(response: Mapping[str, Any]) -> list[str]:
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
    lines += [f"{INDENT}Warning: {plain(warning)}" for warning in response.get("warnings", ())]
    for section in response.get("sections") or ():
        name = " ".join(filter(None, (plain(section.get("number")), plain(section["title"]))))
        page = f", page {section['page']}" if section.get("page") else ""
        size = f"#{section['place']}, {section['tokens']:,} tokens, offset {section['start']}{page}"
        lines.append(f"{INDENT * section['level']}{name or '(no title)'} ({size})")
    if response.get("sections") == [] and not response.get("left_out"):
        if about["characters"]:
            lines.append(f"{INDENT}The text has no sections: read it from offset 0 on.")
    elif response.get("sections") is not None:
        lines.append(f"{INDENT}Read a section by its number, its title or # and its place.")
    for figure in response.get("figures") or ():
        page = f", page {figure['page']}" if figure.get("page") else ""
        lines.append(
            f"{INDENT}{plain(figure['label']) or plain(figure['kind'])}{page}: {plain(figure['caption'])}"
        )
    if response.get("text") is not None:
        where = f"section {plain(response['section'])}, " if response.get("section") else ""
        lines.append(f"{INDENT}{where}offset {response['start']} to {response['end']}:")
        lines += [f"{INDENT}{plain(line)}" if line.strip() else "" for line in response["text"].split("\n")]
    if response.get("left_out"):
        lines.append(plain(response["left_out"]["how"]))
    if response.get("next_offset") is not None:
        lines.append(f"There is more: read on with from_offset {response['next_offset']}.")
    return [*lines, *filter(None, [_budget(response)])]


def _about(paper: Mapping[str, Any]) -> Iterator[str]:
    if status := _status(paper):
        yield status
    if paper.get("authors"):
        yield plain(compact_authors(paper["authors"]))
    if date := paper.get("publication_date") or paper.get("year"):
        yield plain(date)
    if paper.get("venue"):
        yield plain(paper["venue"])
    if (journal := _journal(paper.get("journal") or {})) and journal != plain(paper.get("venue")):
        yield journal
    if paper.get("publication_types"):
        yield plain(", ".join(paper["publication_types"]))
    if paper.get("categories"):
        yield plain(" ".join(paper["categories"]))
    elif paper.get("fields_of_study"):
        yield plain(", ".join(paper["fields_of_study"]))
    if len(versions := paper.get("versions") or []) > 1:
        yield f"version {len(versions)}" + (f" of {plain(versions[-1][:10])}" if versions[-1] else "")
    if paper.get("is_open_access") and not paper["id"].startswith("arXiv:"):
        yield "open access"
    if paper.get("citation_count") is not None:
        yield f"cited by {_number(paper['citation_count'])}"
    if paper.get("reference_count") is not None:
        yield f"cites {_number(paper['reference_count'])}"


def _journal(journal: Mapping[str, Any]) -> str:
    """``name volume: pages``, of what is known. A name alone may hold all of them."""
    name, volume, pages = (plain(journal.get(key)) for key in ("name", "volume", "pages"))
    return " ".join(filter(None, (name, volume))) + (f": {pages}" if pages and (name or volume) else pages)


def _other_ids(paper: Mapping[str, Any]) -> Iterator[str]:
    known = {f"{scheme}:{value}": None for scheme, value in (paper.get("external_ids") or {}).items()}
    if paper.get("corpus_id") is not None:
        known[f"CorpusId:{paper['corpus_id']}"] = None
    known.pop(paper["id"], None)
    yield from map(plain, known)


def _relevance(item: Mapping[str, Any]) -> Iterator[str]:
    """Scores and legs of a search, seeds and hops of an expansion, the kind of a citation."""
    if item.get("score") is not None:
        yield f"score {_number(item['score'])}"
    for leg in item.get("explain") or ():
        facts = [f"{name} {_number(leg[name])}" for name in ("rank", "score", "share") if name in leg]
        lists = (("terms", "terms"), ("cited_by", "cited by"), ("cites", "cites"))
        facts += [f"{name} {', '.join(map(plain, leg[key]))}" for key, name in lists if leg.get(key)]
        yield f"{plain(leg['leg'])}: {', '.join(facts)}"
    if item.get("seeds") is not None:
        yield f"reached by {counted(item['seeds'], 'seed')}"
    if item.get("hops") is not None:
        yield f"over {counted(item['hops'], 'hop')}"
    if item.get("is_influential"):
        yield "influential"
    if item.get("intents"):
        yield f"intents: {', '.join(map(plain, item['intents']))}"


def _number(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else plain(value)


def counted(number: int, one: str, many: str | None = None) -> str:
    """``1 paper``, ``2 papers``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def papers_in(response: Mapping[str, Any]) -> list[Paper]:
    """The papers of a response's JSON in their order: one paper, papers, or results that have one each."""
    if "results" not in response:
        return [Paper.from_dict(response)]
    return [Paper.from_dict(item.get("paper", item)) for item in response["results"]]

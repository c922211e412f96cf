"""Checked references as a report in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from scholarbase.models.responses import CheckedReference, CheckResponse
from scholarbase.responses.text import LABELS, counts_line, paper_line

NOTE: Final = "A paper that is not in this snapshot may exist all the same."
_MARKS: Final = re.compile(r"([\\`*_{}\[\]<>#|!])")


def as_markdown(response: CheckResponse, name: str) -> str:
    """A report in Markdown on the references of the file ``name``: a summary, then all but those that are held without
    differences."""
    lines = [
        f"# References of {_escaped(name)}",
        "",
        f"{counts_line(response.counts)}. Snapshot {response.snapshot}.",
    ]
    lines += ["", NOTE, ""]
    for one in _notable(response):
        key = f" ({_escaped(one.key)})" if one.key else ""
        lines += [
            f"## {one.position}{key}, line {one.line}: {LABELS[one.status]}",
            "",
            f"> {_escaped(one.text)}",
            "",
        ]
        lines += [_escaped(one.reason), ""]
        lines += [f"- {_escaped(text)}" for text in _facts(one)]
        lines += [""]
    return "\n".join(lines).rstrip() + "\n"


def _notable(response: CheckResponse) -> list[CheckedReference]:
    found = [one for one in response.results if isinstance(one, CheckedReference)]
    return [one for one in found if one.status != "held" or one.differences]


def _facts(one: CheckedReference) -> Iterator[str]:
    if one.paper is not None:
        yield f"Paper: {paper_line(one.paper.to_dict())}"
    for difference in one.differences:
        yield f"{difference.field}: {difference.reference} (library: {difference.library})"
    for match in one.matches:
        yield f"Near ({match.score:.2f}): {paper_line(match.paper.to_dict())}"


def _escaped(text: str) -> str:
    """Text that Markdown shows as it is."""
    return _MARKS.sub(r"\\\1", " ".join(text.split()))

"""Checked references as a report in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from scholarbase.models.responses import CheckedReference, CheckResponse
from scholarbase.responses.text import LABELS, counts_line, paper_line

NOTE: Final = "A paper that is not in this snapshot may exist all the same."
_MARKS: Final = re.compile(r"([\\`*_{}\[\]<>#|!])")


def summary_line(response: CheckResponse) -> str:
    """The counts of the statuses, and how many of the held references differ from their papers."""
    line = counts_line(response.counts)
    different = sum(
        isinstance(one, CheckedReference) and one.status == "held" and bool(one.differences)
        for one in response.results
    )
    held = f"{response.counts['held']:,} {LABELS['held']}"
    return line.replace(held, f"{held} ({different:,} of them different)", 1) if different else line


def as_markdown(response: CheckResponse, name: str) -> str:
    """A report in Markdown on the references of the file ``name``: a summary, then all but those that are held without
    differences."""
    lines = [
        f"# References of {_escaped(name)}",
        "",
        f"{summary_line(response)}. Snapshot {response.snapshot}.",
    ]
    lines += ["", NOTE, ""]
    for reference in response.results:
        if not isinstance(reference, CheckedReference):
            continue
        if reference.status == "held" and not reference.differences:
            continue
        key = f" ({_escaped(reference.key)})" if reference.key else ""
        lines += [
            f"## {reference.position}{key}, line {reference.line}: {LABELS[reference.status]}",
            "",
            f"> {_escaped(reference.text)}",
            "",
        ]
        lines += [_escaped(reference.reason), ""]
        lines += [f"- {_escaped(text)}" for text in _facts(reference)]
        lines += [""]
    return "\n".join(lines).rstrip() + "\n"


def _facts(reference: CheckedReference) -> Iterator[str]:
    if reference.paper is not None:
        yield f"Paper: {paper_line(reference.paper.to_dict())}"
    for difference in reference.differences:
        yield f"{difference.field}: {difference.reference} (library: {difference.library})"
    for match in reference.matches:
        yield f"Near ({match.score:.2f}): {paper_line(match.paper.to_dict())}"


def _escaped(text: str) -> str:
    """Text that Markdown shows as it is."""
    return _MARKS.sub(r"\\\1", " ".join(text.split()))

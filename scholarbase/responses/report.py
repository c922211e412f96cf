"""Checked references as a report in Markdown or HTML."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from typing import Final

from scholarbase.models.responses import CheckedReference, CheckResponse
from scholarbase.responses.text import LABELS, counts_line, paper_line

NOTE: Final = "A paper that is not in this snapshot may exist all the same."
_MARKS: Final = re.compile(r"([\\`*_{}\[\]<>#|!])")
_STYLE: Final = (
    "body{font:16px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em}table{border-collapse:collapse}"
    "td,th{border:1px solid #bbb;padding:.3em .6em;text-align:left;vertical-align:top}"
    ".held{color:#176117}.near,.withdrawn{color:#8a5000}.retracted,.not_in_snapshot,.unreadable{color:#9b1c1c}"
)


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


def as_html(response: CheckResponse, name: str) -> str:
    """The same report as a page of HTML."""
    rows = []
    for one in _notable(response):
        facts = "".join(f"<li>{escape(text)}</li>" for text in _facts(one))
        key = f" {escape(one.key)}" if one.key else ""
        rows.append(
            f'<tr><td>{one.position}{key}<br>line {one.line}</td><td class="{one.status}">{LABELS[one.status]}</td>'
            f"<td>{escape(one.text)}<p>{escape(one.reason)}</p>{f'<ul>{facts}</ul>' if facts else ''}</td></tr>"
        )
    table = (
        f"<table><tr><th>reference</th><th>status</th><th>why</th></tr>{''.join(rows)}</table>"
        if rows
        else ""
    )
    title = f"References of {escape(name)}"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
        f"<h1>{title}</h1><p>{counts_line(response.counts)}. Snapshot {escape(response.snapshot)}.</p>"
        f"<p>{NOTE}</p>{table}</html>\n"
    )


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

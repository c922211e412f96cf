r"""Reads drafts in LaTeX and Markdown: the sentences that cite, each with the keys of what it cites.

LaTeX: ``\cite`` and the commands of natbib (https://ctan.org/pkg/natbib) and biblatex (https://ctan.org/pkg/biblatex),
with optional arguments and several keys, and ``thebibliography``. Markdown: the citations of pandoc
(https://pandoc.org/MANUAL.html#citation-syntax), ``[see @key, p. 3; @other]`` and ``@key``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, Literal, NamedTuple

from scholarbase.documents.sentences import sentence_spans
from scholarbase.markup import plain

DraftFormat = Literal["auto", "latex", "markdown"]

MIN_WORDS: Final = 4
"""Words of a part of a sentence that is compared with its own citation."""
MAX_CITATIONS: Final = 60_000
"""Citations of a draft that are read."""
_FIRST: Final = 0xF0000
_MARK: Final = "[\U000f0000-\U000ffffd]"
"""A citation in a text: a character for private use, which no text has otherwise."""
_MARKS: Final = re.compile(_MARK)
_LATEX: Final = re.compile(r"\\(?:documentclass|begin\{|section|[a-zA-Z]*cite[a-z]*\b)")

# LaTeX
_COMMENT: Final = re.compile(r"(?<!\\)((?:\\\\)*)%[^\n]*")
_HIDDEN: Final = re.compile(r"\\begin\{((?:verbatim|lstlisting|minted|comment)\*?)\}")
_BIBLIOGRAPHY: Final = re.compile(
    r"\\begin\{thebibliography\}(?:\{[^{}]*\})?(.*?)(?:\\end\{thebibliography\}|\Z)", re.DOTALL
)
_BODY: Final = re.compile(r"\\begin\{document\}(.*?)(?:\\end\{document\}|\Z)", re.DOTALL)
_GROUP: Final = r"(?:\s*(?:\[[^\[\]]*\]|\([^()]*\)))*\s*\{[^{}]*\}"
_CITE: Final = re.compile(
    r"\\(?P<name>(?:[Pp]aren|[Tt]ext|[Aa]uto|[Ff]oot(?:full)?|[Ss]mart|[Ss]uper|[Ff]ull|[Pp]?[Nn]ote|online|short|new"
    r"|(?P<volume>[A-Za-z]{0,2}[Vv]ol))?[Cc]ite"
    r"(?:(?P<many>s)|p|t|alp|alt|author|fullauthor|year|yearpar|title|num|date|url|poss)?)\*?(?![A-Za-z])"
    rf"(?(volume){_GROUP})(?P<groups>{_GROUP}(?(many)(?:{_GROUP})*))"
)
_KEYS_IN_BRACES: Final = re.compile(r"\{([^{}]*)\}")
_TEXTUAL: Final = re.compile(r"(?i)textcites?|citet|newcite|onlinecite|cite(?:full)?author|citealt|citeposs")
_DISPLAY: Final = re.compile(
    r"\\begin\{((?:equation|align|gather|multline|eqnarray|displaymath|math)\*?)\}|(?<!\\)(?:\\\\)*\\\["
)
_DROPPED: Final = re.compile(
    r"\\(?:label|eqref|[a-z]*ref|[vh]space|input|include|includegraphics|bibliography(?:style)?|nocite|usepackage)\*?"
    r"(?:\[[^\[\]]*\])*\{[^{}]*\}|\\\\\*?\[[^\[\]\n]{0,40}\]"
)
_FOOTNOTE: Final = re.compile(r"\\footnote(?:text)?\s*\{((?:[^{}]|\{[^{}]*\})*)\}")
_OPTION: Final = r"\[[^\[\]\U000f0000-\U000ffffd]*\]"
"""An option without a citation."""
_BREAK: Final = re.compile(
    rf"\\(?:begin|end)\{{[^{{}}]*\}}(?:{_OPTION}|\{{[^{{}}]*\}})*"
    r"|\\(?:sub)*(?:section|paragraph|chapter)\*?\{[^{}]*\}"
    rf"|\\(?:item\b(?:{_OPTION})?|caption\b|par\b|maketitle\b|bigskip\b)"
)
_DATE: Final = re.compile(r"\\date\{\s*(\d{4}(?:-\d\d){0,2})\s*\}")

# Markdown
_FRONT: Final = re.compile(r"\A---[ \t]*\n(.*?\n)(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_FRONT_DATE: Final = re.compile(r"^date:\s*[\"']?(\d{4}(?:-\d\d){0,2})[\"']?\s*$", re.MULTILINE)
_CODE: Final = re.compile(r"^ {0,3}(```+|~~~+).*?(?:^ {0,3}\1|\Z)|`[^`\n]+`|<!--", re.DOTALL | re.MULTILINE)
_KEY: Final = r"(?<![\w@./])-?@(?:\{([^{}\s]+)\}|(\w(?:[\w:.#$%&+?<>~/-]*[\w/])?))"
_KEYS: Final = re.compile(_KEY)
_PANDOC: Final = re.compile(rf"\[([^\[\]]*)\](?!\()|{_KEY}(?:\s*\[[^\[\]@]*\](?!\())?")
_NOTE: Final = re.compile(r"\[\^[^\[\]\s]+\](?!:)")
_LINK: Final = re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*(?:\s+\"[^\"]*\")?\)")
_EMPHASIS: Final = re.compile(r"(\$[^$]+\$)|(?<!\w)[*_]{1,3}|[*_]{1,3}(?!\w)")
"""Marks of emphasis, and the formulas in which they are none."""
_LINE_BREAK: Final = re.compile(
    r"^(?:[ \t]{0,3}#{1,6}[ \t].*|[ \t]*(?:[-*+]|\d{1,9}[.)]|>|\||\[\^[^\[\]\n]+\]:)(?=[ \t]))", re.MULTILINE
)

_EMPTY_LINES: Final = re.compile(r"\n[ \t]*\n\s*")
_BEFORE_STOP: Final = re.compile(rf"(?<![.,;:!?])([.,;:!?]+)((?:{_MARK})+)")
_SPACED: Final = re.compile(r"\s+([.,;:!?)])")
_EMPTY: Final = re.compile(r"\(\s*(?:see|e\.g\.,?|cf\.)?[\s,;]*\)")


class Cited(NamedTuple):
    """A sentence that cites, or the part of one that belongs to its citation.

    Args:
        line: the line of the first citation, from 1.
        claim: its plain text, without the citations.
        keys: what it cites, each once.
    """

    line: int
    claim: str
    keys: tuple[str, ...]


class Draft(NamedTuple):
    """What a draft cites. ``bibliography`` is the content of ``thebibliography``, ``date`` that of the draft, as
    ``YYYY-MM-DD``, ``YYYY-MM`` or ``YYYY``."""

    format: DraftFormat
    cited: tuple[Cited, ...]
    bibliography: str | None
    date: str | None


class _Citation(NamedTuple):
    keys: tuple[str, ...]
    line: int
    is_textual: bool


class _Marked:
    """The citations of a text, each replaced by a character."""

    def __init__(
        self,
        pattern: re.Pattern[str],
        read: Callable[[re.Match[str]], tuple[tuple[str, ...], bool]],
        text: str,
    ) -> None:
        self.citations: list[_Citation] = []
        parts: list[str] = []
        start = line = 0
        for match in pattern.finditer(text):
            between = text[start : match.start()]
            line += between.count("\n")
            keys, is_textual = read(match)
            if keys and len(self.citations) < MAX_CITATIONS:
                parts.append(between + chr(_FIRST + len(self.citations)))
                self.citations.append(_Citation(keys, line + 1, is_textual))
            else:
                parts.append(between + match[0])
            line += match[0].count("\n")
            start = match.end()
        self.text = "".join((*parts, text[start:]))

    def of(self, mark: str) -> _Citation:
        return self.citations[ord(mark) - _FIRST]


def read_draft(text: str, draft_format: DraftFormat = "auto") -> Draft:
    """The sentences that cite of a draft; by default its content shows the format."""
    text = _MARKS.sub("", text.replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff"))
    if draft_format == "auto":
        draft_format = "latex" if _LATEX.search(text) else "markdown"
    return _read_latex(text) if draft_format == "latex" else _read_markdown(text)


def _read_latex(text: str) -> Draft:
    text = _COMMENT.sub(r"\1", text)
    date = _DATE.search(text)
    listed = _BIBLIOGRAPHY.search(text)
    body = _BODY.search(text)
    if body is not None:
        text = _blank(text[: body.start(1)]) + body[1]
    text = _BIBLIOGRAPHY.sub(lambda match: _blank(match[0]), text)
    marked = _Marked(_CITE, _latex_keys, _without(text, _HIDDEN, _latex_end, _blank))
    text = _without(marked.text, _DISPLAY, _latex_end, lambda _: " ")
    notes = _FOOTNOTE.findall(text)
    text = _BREAK.sub("\n\n", _DROPPED.sub(" ", "\n\n".join((_FOOTNOTE.sub("", text), *notes))))
    # The notes are at the end of the text.
    cited = tuple(sorted(_sentences(text, marked, braces=True), key=lambda sentence: sentence.line))
    return Draft("latex", cited, None if listed is None else listed[1], date and date[1])


def _read_markdown(text: str) -> Draft:
    front = _FRONT.match(text)
    date = None if front is None else _FRONT_DATE.search(front[1])
    if front is not None:
        text = _blank(front[0]) + text[front.end() :]
    marked = _Marked(_PANDOC, _pandoc_keys, _without(text, _CODE, _markdown_end, _blank))
    text = _LINE_BREAK.sub("\n\n", _LINK.sub(r"\1", _NOTE.sub("", marked.text)))
    cited = tuple(_sentences(_EMPHASIS.sub(lambda match: match[1] or "", text), marked, braces=False))
    return Draft("markdown", cited, None, date and date[1])


def _blank(text: str) -> str:
    """As many lines without content."""
    return "\n" * text.count("\n")


def _without(
    text: str, begin: re.Pattern[str], end_of: Callable[[re.Match[str]], str], instead: Callable[[str], str]
) -> str:
    """The text with ``instead`` for what ``begin`` and the end that it has enclose. What never ends stays; its end is
    looked for once, since many beginnings without an end would take quadratic time."""
    endless: set[str] = set()
    pieces: list[str] = []
    start = at = 0
    while (match := begin.search(text, at)) is not None:
        at, end = match.end(), end_of(match)
        stop = -1 if end in endless else text.find(end, at)
        if stop < 0:
            endless.add(end)
            continue
        at = stop + len(end)
        pieces += (text[start : match.start()], instead(text[match.start() : at]))
        start = at
    return "".join((*pieces, text[start:]))


def _latex_end(begin: re.Match[str]) -> str:
    return f"\\end{{{begin[1]}}}" if begin[1] else "\\]"


def _markdown_end(begin: re.Match[str]) -> str:
    """The end of a comment. Code is matched to its end."""
    return "-->" if begin[0] == "<!--" else ""


def _latex_keys(match: re.Match[str]) -> tuple[tuple[str, ...], bool]:
    without_options = re.sub(r"\[[^\[\]]*\]", "", match["groups"])
    keys = (key.strip() for group in _KEYS_IN_BRACES.findall(without_options) for key in group.split(","))
    return tuple(filter(None, keys)), _TEXTUAL.match(match["name"]) is not None


def _pandoc_keys(match: re.Match[str]) -> tuple[tuple[str, ...], bool]:
    keys = tuple(braced or bare for braced, bare in _KEYS.findall(match[0]))
    return keys, match[1] is None


def _sentences(text: str, marked: _Marked, *, braces: bool) -> Iterator[Cited]:
    """The sentences with citations. One with several citations is divided behind each of those in brackets, and before
    those that are words of the sentence, where each part has words enough."""
    for written in filter(_MARKS.search, _EMPTY_LINES.split(text)):
        block = _BEFORE_STOP.sub(r"\2\1", plain(written, braces=braces))
        for start, end in sentence_spans(block):
            yield from _parts(block[start:end], marked)


def _parts(sentence: str, marked: _Marked) -> Iterator[Cited]:
    """The parts of a sentence that have a citation and words enough each."""
    marks = list(_MARKS.finditer(sentence))
    words = [len(text.split()) for text in _MARKS.split(sentence)]
    before, after = 0, sum(words)
    start = first = 0
    for number, mark in enumerate(marks):
        before += words[number]
        after -= words[number]
        is_textual = marked.of(mark[0]).is_textual
        next_first = number if is_textual else number + 1
        if min(before, after) >= MIN_WORDS and first < next_first < len(marks):
            end = mark.start() if is_textual else mark.end()
            yield from _cited(sentence[start:end], marked)
            start, first, before = end, next_first, 0
    yield from _cited(sentence[start:], marked)


def _cited(part: str, marked: _Marked) -> Iterator[Cited]:
    citations = [marked.of(mark) for mark in _MARKS.findall(part)]
    if citations:
        claim = _SPACED.sub(r"\1", " ".join(_EMPTY.sub(" ", _MARKS.sub(" ", part)).split()))
        keys = dict.fromkeys(key for citation in citations for key in citation.keys)
        yield Cited(citations[0].line, claim.lstrip(",;:. "), tuple(keys))

"""What a paper has, read from its TeX: for comparison with what a reader makes of the HTML of the same paper."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

LEVELS: Final = ("chapter", "section", "subsection", "subsubsection", "paragraph")
_MACROS: Final = {r"\model": "SparseNet", r"\R": r"\mathbb{R}"}
_ROWS: Final = ("align", "eqnarray", "gather")
_DISPLAYED: Final = ("equation*", "equation", "multline", *_ROWS)
_SYNONYMS: Final = {
    r"\le": r"\leq",
    r"\ge": r"\geq",
    r"\ne": r"\neq",
    r"\gets": r"\leftarrow",
    r"\to": r"\rightarrow",
}
_CITE: Final = re.compile(r"\\cite[tp]?(?:\[[^\]]*\])*\{([^}]*)\}")
_IDS: Final = re.compile(
    r"arXiv:(\d{4}\.\d{5})|arxiv\.org/abs/(\d{4}\.\d{5})|(hep-th/\d{7})|(10\.\d{4,5}/[^\s}]*[^\s}.])"
)


@dataclass
class Expected:
    """The parts of a paper. Texts are :func:`compact`."""

    sections: list[tuple[str, str]] = field(default_factory=list)
    """The level and the title of each."""
    numbers: list[str] = field(default_factory=list)
    """The numbers of the sections in a class with Arabic numbers; empty without one."""
    formulas: Counter[str] = field(default_factory=Counter)
    captions: list[tuple[str, str, str]] = field(default_factory=list)
    """``figure``, ``table`` or ``algorithm``, its number, such as ``2(a)``, and the caption."""
    footnotes: list[str] = field(default_factory=list)
    references: list[str] = field(default_factory=list)
    ids: list[tuple[str, ...]] = field(default_factory=list)
    citations: Counter[str] = field(default_factory=Counter)
    """How often each key is cited."""
    keys: list[str] = field(default_factory=list)
    """The keys of the entries of the bibliography in their order."""


def read_tex(tex: str) -> Expected:
    """The parts of a paper whose bibliography is in the TeX."""
    expected = Expected()
    _, _, body = tex.partition(r"\begin{document}")
    body, _, end = body.partition(r"\begin{thebibliography}")
    body = body.partition(r"\bibliographystyle")[0]
    body = re.sub(r"\\begin\{verbatim\}.*?\\end\{verbatim\}", "", body, flags=re.DOTALL)
    for name, text in _MACROS.items():
        body = re.sub(re.escape(name) + r"(?![a-zA-Z])", lambda _, text=text: text, body)
    _read_sections(body, expected)
    expected.formulas = Counter(map(compact, formulas(body)))
    expected.captions = [(kind, number, compact(text)) for kind, number, text in _captions(body)]
    expected.footnotes = [compact(text) for text in _arguments(body, r"\footnote")]
    for match in _CITE.finditer(body):
        expected.citations.update(key.strip() for key in match[1].split(","))
    for item in end.split(r"\bibitem")[1:]:
        match = re.match(r"(?:\[[^\]]*\])?\{(\w+)\}(.*?)(?:\\end\{thebib|$)", item, re.DOTALL)
        assert match is not None
        expected.keys.append(match[1])
        expected.references.append(compact(match[2]))
        found = [next(filter(None, one)) for one in _IDS.findall(match[2])]
        expected.ids.append(tuple(f"DOI:{x.lower()}" if x.startswith("10.") else f"arXiv:{x}" for x in found))
    return expected


def compact(text: str) -> str:
    """TeX, or the text of a reader, without the differences that have no meaning: white space, braces and fonts."""
    text = re.sub(r"\\(?:newblock|displaystyle|nonumber|noindent|centering)(?![a-zA-Z])", "", text)
    text = re.sub(r"\\label\{[^}]*\}", "", text)
    text = re.sub(r"\\href\{[^}]*\}", "", text)
    text = _CITE.sub("", text)
    text = re.sub(r"\\(?:emph|textbf|texttt|textsc|url|item)(?![a-zA-Z])", "", text)
    text = (
        text.replace("---", "\u2014").replace("--", "\u2013").replace("``", "\u201c").replace("''", "\u201d")
    )
    text = text.replace("'", "\u2019") if "$" not in text else text
    text = re.sub(r"\\([%&$_#])", r"\1", text)
    for name, other in _SYNONYMS.items():
        text = re.sub(re.escape(name) + r"(?![a-zA-Z])", lambda _, other=other: other, text)
    return re.sub(r"[\s{}~&]+", "", text).replace(r"\\", "")


def formulas(body: str) -> Iterator[str]:
    """The formulas, a row of aligned equations as one."""
    for name in _DISPLAYED:
        pattern = re.compile(rf"\\begin\{{{re.escape(name)}\}}(.*?)\\end\{{{re.escape(name)}\}}", re.DOTALL)
        for match in pattern.finditer(body):
            yield from re.split(r"\\\\", match[1]) if name in _ROWS else [match[1]]
        body = pattern.sub(" ", body)
    displayed = re.compile(r"\\\[(.*?)\\\]", re.DOTALL)
    for match in displayed.finditer(body):
        yield match[1]
    for match in re.finditer(r"(?<!\\)\$([^$]+)\$", displayed.sub(" ", body)):
        yield match[1]


def _read_sections(body: str, expected: Expected) -> None:
    counts = [0] * len(LEVELS)
    top = 0 if r"\chapter" in body else 1
    is_appendix = False
    for match in re.finditer(
        r"\\(chapter|section|subsection|subsubsection|paragraph)(\*?)\{|\\(appendix)\b", body
    ):
        if match[3]:
            is_appendix, counts = True, [0] * len(LEVELS)
            continue
        level = LEVELS.index(match[1])
        number = ""
        if not match[2] and match[1] != "paragraph" and level < top + 3:
            counts[level] += 1
            counts[level + 1 :] = [0] * (len(LEVELS) - level - 1)
            parts = [str(count) for count in counts[top : level + 1]]
            parts[0] = chr(64 + counts[top]) if is_appendix else parts[0]
            number = ".".join(parts)
        expected.sections.append((match[1], compact(_braced(body, match.end() - 1))))
        expected.numbers.append(number)


def _captions(body: str) -> Iterator[tuple[str, str, str]]:
    open_kinds: list[str] = []
    counts: Counter[str] = Counter()
    letters = 0
    for match in re.finditer(r"\\(begin|end)\{(figure|subfigure|table|algorithm)\*?\}|\\caption\{", body):
        if match[1] == "begin":
            open_kinds.append(match[2])
            letters = letters if match[2] == "subfigure" else 0
        elif match[1] == "end":
            open_kinds.pop()
        else:
            kind = open_kinds[-1]
            if kind == "subfigure":
                letters += 1
                kind, number = "figure", f"{counts['figure'] + 1}({chr(96 + letters)})"
            else:
                counts[kind] += 1
                number = str(counts[kind])
            yield kind, number, _braced(body, match.end() - 1)


def _arguments(body: str, command: str) -> Iterator[str]:
    for match in re.finditer(re.escape(command) + r"\{", body):
        yield _braced(body, match.end() - 1)


def _braced(text: str, start: int) -> str:
    depth = 0
    for place in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0) if text[place - 1] != "\\" else 0
        if not depth:
            return text[start + 1 : place]
    raise ValueError(text[start : start + 80])

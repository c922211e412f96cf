r"""TeX as plain text: ``Erd{\H o}s`` as Erdős, ``CO$_2$`` as CO2, ``$\tilde O(n^{5/3})$`` as Õ(n^(5/3)).

One pass over the tokens of a text, in time linear in its length. Accents and letters are composed; symbols and Greek
letters become characters; letters of formulas lose their fonts. Digits below the line join what stands before them, as
in the names of molecules; other indices keep ``_``, exponents ``^``. A command that is not known is dropped, and its
arguments stay. Text that only looks like TeX stays: ``$5 to $10``, ``{0, 1}``.

pylatexenc (https://pylatexenc.readthedocs.io) needs 2.8 ms for a title or abstract with TeX, fifty times as much.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final

from scholarbase.markup.symbols import (
    ACCENTS,
    FENCES,
    FUNCTIONS,
    GREEK,
    IN_FORMULAS,
    MATH_ACCENTS,
    NOT_IN_PROSE,
    STYLES,
    SYMBOLS,
    WITHOUT_ARGUMENT,
)

MARKS: Final = ("\\", "$", "{", "}", "~", "``", "''")
"""A text without these has no TeX."""
_SPECIAL: Final = "\\{}$^_~"
_TOKEN: Final = re.compile(r"\\[A-Za-z]+\*?|\\.|\\|[{}$^_~]|[^\\{}$^_~]+", re.DOTALL)
_GREEK_NAMES: Final = frozenset(GREEK.values())
_DEPTH: Final = 40
"""Nested braces and accents that are read as such."""
_LONGEST_FORMULA: Final = 3000
"""Tokens of a formula: a dollar sign that no other closes within so many stands for itself."""
_LONGEST_OPTION: Final = 20
"""Tokens in square brackets."""
_SHORT: Final = 40
_MARK: Final = re.compile(r"[\\{}~]")
_SCRIPT_OR_COMMAND: Final = re.compile(r"[\\^_]")
_OPERATOR: Final = re.compile(r"\s+[-+=<>/|]")
_QUOTED: Final = re.compile(r'(?<![^\s(\[])\\"(?=\w)([^"\\]{1,300})\\"(?!\w)')
"""A quotation whose marks were escaped twice, and no umlaut."""
_DASHES: Final = re.compile(r"--+")
_ESCAPES: Final = {
    ",": " ", ";": " ", ":": " ", ">": " ", " ": " ", "\n": " ", "\t": " ", "\\": " ", "!": "", "-": "", "/": "",
    "@": "", "&": "&", "%": "%", "$": "$", "#": "#", "_": "_", "{": "{", "}": "}", "|": "‖", "*": "", "+": "",
}  # fmt: skip
_ACCENTED: Final = frozenset("aceghijklnorstuwxyzdbmpfvq")
_PLAIN_GROUP: Final = re.compile(r"[^\W_]+(?:[ .'-][^\W_]+)*|[^\x00-\x7f]+")
"""A word in braces, which protect its capitals."""
_NUMERIC: Final = re.compile(r"[-+\u2212]?[0-9.]+")
_ORDINALS: Final = frozenset(("th", "st", "nd", "rd"))
_RAISED: Final = {
    "'": "′",
    "∘": "°",
    "*": "*",
    "+": "+",
    "-": "-",
    "\u2212": "-",
    "†": "†",
    "‡": "‡",
    "±": "±",
}
"""Exponents that are written beside their base."""


def decode(text: str, *, braces: bool = False) -> str:
    """The text without TeX. White space stays as it is.

    Args:
        braces: every brace is markup, as in BibTeX. Otherwise those of sets and placeholders stay.
    """
    if '\\"' in text:
        text = _QUOTED.sub(r'"\1"', text)
    parts = text.split("$")
    if len(parts) % 2 == 0 or len(parts) == 1 or not _are_whole(text, parts):
        return _Reader(_TOKEN.findall(text), braces).read()
    out = _Text()
    has_marks, has_quotes = _MARK.search("".join(parts[::2])), "--" in text or "``" in text or "''" in text
    for number, part in enumerate(parts):
        if number % 2:
            out.add_formula(_short_formula(part) if len(part) <= _SHORT else _formula_text(part))
        elif has_marks and _MARK.search(part):
            _Reader(_TOKEN.findall(part), braces, "$" if number < len(parts) - 1 else " ").read(out)
        else:
            out.add(quotes(part) if has_quotes else part)
    return out.joined()


def _are_whole(text: str, parts: list[str]) -> bool:
    """Whether parts between dollar signs are in turn text and formulas, without groups that have both."""
    return (
        _SCRIPT_OR_COMMAND.search(text) is not None
        and "\\$" not in text
        and all(parts[1::2])
        and ("{" not in text or all(part.count("{") == part.count("}") for part in parts))
    )


def _formula_text(tex: str) -> str:
    tokens = _TOKEN.findall(tex)
    return _Reader(tokens, False).math()


_short_formula = lru_cache(8192)(_formula_text)
"""Short formulas occur again and again."""


class _Reader:
    """Reads tokens from left to right."""

    def __init__(self, tokens: list[str], braces: bool, after: str = " ") -> None:
        self._tokens = tokens
        self._after = after
        """The character behind the tokens."""
        self._braces = braces
        self._at = 0
        self._closing = _pairs(tokens)
        self._without: dict[str, int] = {}
        """Up to where no command closes a formula."""
        has_tex = any(token[0] in "\\^_" for token in tokens)
        self._all_formulas = has_tex and tokens.count("$") % 2 == 0
        """Whether dollar signs enclose formulas only: prices stand in texts without TeX, or after a backslash."""

    def read(self, out: _Text | None = None) -> str:
        """The text, which is added to ``out``."""
        return self._text(len(self._tokens), 0, math=False, out=out)

    def math(self) -> str:
        """The tokens of a formula as text."""
        return self._text(len(self._tokens), 0, math=True)

    # -- text -----------------------------------------------------------------------------------------------

    def _text(self, end: int, depth: int, *, math: bool, out: _Text | None = None) -> str:
        """The text of the tokens before ``end``, which is added to ``out``."""
        tokens, out = self._tokens, out or _Text()
        after_command = False
        while self._at < end:
            token = tokens[self._at]
            self._at += 1
            match token[0]:
                case "\\":
                    self._command(token, out, end, depth, math=math)
                    after_command = True
                    continue
                case "{":
                    self._group(out, end, depth, math=math, is_argument=after_command)
                    continue
                case "}":
                    if not (self._braces or math):
                        out.add("}")
                case "$":
                    if not math:
                        self._formula(out, end, depth)
                case "^" | "_" if math:
                    self._script(token, out, end, depth)
                case "~":
                    is_space = math or self._braces or self._joins(out, end)
                    out.add(" " if is_space else "~")
                case _:
                    out.add(token if math else quotes(token))
            after_command = False
        return out.joined()

    def _joins(self, out: _Text, end: int) -> bool:
        """Whether a tilde is a space that does not break: between two words, as in ``E.~coli``."""
        before, after = out.last, self._tokens[self._at][0] if self._at < end else self._after
        return (
            (before.isalnum() or before in ".,)")
            and before != ""
            and not after.isspace()
            and after not in "/~"
        )

    def _group(self, out: _Text, end: int, depth: int, *, math: bool, is_argument: bool) -> None:
        """A group, of which the opening brace is read."""
        begin = self._at
        content = self._closed(end, depth, math=math)
        if content is None:  # no brace closes it
            if not (self._braces or math or is_argument):
                out.add("{")
            return
        if out.last in ("^", "_"):  # a script outside a formula, as in n^{4/3}
            out.add(_enclosed(content))
            return
        is_markup = self._braces or math or not content or is_argument or _PLAIN_GROUP.fullmatch(content)
        if is_markup or any(token[0] == "\\" for token in self._tokens[begin : self._at]):
            out.add(content)
        else:
            out.add(f"{{{content}}}")

    def _closed(self, end: int, depth: int, *, math: bool) -> str | None:
        """The text of the group whose opening brace is read, up to its other brace; None if it has none."""
        close = self._closing.get(self._at - 1, end)
        if close >= end:
            return None
        if close - self._at == 1 and (token := self._tokens[self._at])[0] not in _SPECIAL:
            self._at = close + 1
            return token if math else quotes(token)
        if depth < _DEPTH:
            content = self._text(close, depth + 1, math=math)
        else:
            content = "".join(token for token in self._tokens[self._at : close] if token not in ("{", "}"))
        self._at = close + 1
        return content

    def _formula(self, out: _Text, end: int, depth: int) -> None:
        """What a dollar sign begins: a formula, or nothing."""
        tokens = self._tokens
        width = 2 if self._at < end and tokens[self._at] == "$" else 1
        begin = self._at + width - 1
        try:
            close = tokens.index("$", begin, min(end, begin + _LONGEST_FORMULA))
        except ValueError:
            close = -1
        if close > begin and self._is_formula(begin, close, end):
            self._at = begin
            out.add_formula(self._text(close, 0, math=True))
            self._at = close + 1
            if width == 2 and self._at < end and tokens[self._at] == "$":
                self._at += 1
        elif width == 2:
            self._at += 1
            out.add("$$")
        else:
            out.add("$")

    def _is_formula(self, begin: int, close: int, end: int) -> bool:
        """Whether tokens between two dollar signs are a formula, and not a price and the text after it."""
        first, last = self._tokens[begin], self._tokens[close - 1]
        if self._all_formulas or any(token[0] in "\\^_" for token in self._tokens[begin:close]):
            return True
        after = self._tokens[close + 1][0] if close + 1 < end else ""
        spaced = first[0].isspace(), last[-1].isspace()
        if after.isdigit() and first[0].isdigit():
            return False
        return not any(spaced) or (all(spaced) and len(first) < 40)

    def _argument(self, end: int, depth: int, *, math: bool) -> str:
        """The next group, command or character."""
        while self._at < end and self._tokens[self._at].isspace():
            self._at += 1
        if self._at >= end:
            return ""
        token = self._tokens[self._at]
        if token[0].isspace():
            token = token.lstrip()
        if token == "}" or (token == "$" and not math):
            return ""
        self._at += 1
        if token == "{":
            return self._closed(end, depth, math=math) or ""
        if token[0] == "\\" and depth < _DEPTH:
            out = _Text()
            self._command(token, out, end, depth + 1, math=math)
            return out.joined()
        if len(token) > 1:
            self._at -= 1
            self._tokens[self._at] = token[1:]
        return token[0]

    # -- commands -------------------------------------------------------------------------------------------

    def _command(self, token: str, out: _Text, end: int, depth: int, *, math: bool) -> None:  # noqa: PLR0912, PLR0915
        name = token[1:].rstrip("*") or token[1:]
        if name in ACCENTS and not (math and name.isalpha()):
            self._accent(name, out, end, depth)
        elif not name.isalpha():
            self._escape(name, out, end, depth)
        elif name == "deg" and not math and (out.last.isdigit() or self._at == end):
            out.add("°")
        elif name in FUNCTIONS and (math or name not in IN_FORMULAS):
            self._skip_space(end)
            out.add_word(name)
        elif name in SYMBOLS and (math or name not in NOT_IN_PROSE):
            self._symbol(SYMBOLS[name], out, end, keeps=not math and name.lower() in _GREEK_NAMES)
        elif name in MATH_ACCENTS and math:
            base = self._argument(end, depth, math=True)
            out.add(_with_mark(base, MATH_ACCENTS[name]) if len(base) == 1 else base)
        elif name in ("frac", "tfrac", "dfrac", "nicefrac", "sfrac"):
            above, below = (self._argument(end, depth, math=True) for _ in range(2))
            out.add(f"{_enclosed(above)}/{_enclosed(below)}")
        elif name in ("binom", "tbinom", "dbinom"):
            above, below = (self._argument(end, depth, math=True) for _ in range(2))
            out.add(f"({above} choose {below})")
        elif name == "sqrt":
            self._skip_option(end)
            out.add(f"√{_enclosed(self._argument(end, depth, math=True))}")
        elif name in ("SI", "qty", "SIrange", "qtyrange"):
            count = 3 if name.endswith("range") else 2
            *numbers, unit = (self._argument(end, depth, math=True) for _ in range(count))
            out.add("\u2013".join(numbers) + f" {unit}")
        elif name == "ce":
            out.add(self._molecule(end, depth))
        elif name in ("textsuperscript", "textsubscript", "sp", "sb"):
            raised = self._argument(end, depth, math=math)
            out.add(script(out.last, raised) if name in ("textsuperscript", "sp") else raised)
        elif name == "ensuremath":
            out.add(self._argument(end, depth, math=True))
        elif name in ("enquote", "textquote"):
            out.add(f"\u201c{self._argument(end, depth, math=math)}\u201d")
        elif name in ("text", "mbox", "hbox", "textrm", "textnormal", "textup") and math:
            out.add(self._argument(end, depth, math=False))
        elif name in WITHOUT_ARGUMENT:
            self._skip_option(end)
            self._argument(end, depth, math=False)
        elif name == "not":
            out.add(unicodedata.normalize("NFC", f"{self._argument(end, depth, math=math)}\u0338"))
        elif name in STYLES:
            self._skip_space(end)
        elif name in FENCES:
            if self._at < end and self._tokens[self._at][:1] == ".":
                self._tokens[self._at] = self._tokens[self._at][1:] or " "
        elif len(name) == 1 and out.last.isalnum() and not math:  # a difference of sets: V\U
            out.add(token)
        elif name[0] == "n" and name[1:2].isupper() and not math:  # a written end of a line: \nWe
            out.add(f" {name[1:]}")
        else:
            out.drop_command()
            self._skip_option(end, before="{")
            self._skip_space(end)

    def _skip_space(self, end: int) -> None:
        if self._at < end and self._tokens[self._at][:1].isspace():
            rest = self._tokens[self._at].lstrip()
            if rest:
                self._tokens[self._at] = rest
            else:
                self._at += 1

    def _skip_option(self, end: int, before: str = "") -> None:
        """Skip an argument in square brackets, if what follows it starts so."""
        if self._at == end or self._tokens[self._at][:1] != "[":
            return
        for at in range(self._at, min(end, self._at + _LONGEST_OPTION)):
            _, bracket, rest = self._tokens[at].partition("]")
            following = rest or (self._tokens[at + 1] if at + 1 < end else "")
            if bracket and following.startswith(before):
                self._tokens[at] = rest
                self._at = at if rest else at + 1
            if bracket:
                return

    def _symbol(self, symbol: str, out: _Text, end: int, *, keeps: bool) -> None:
        """A symbol. TeX reads no space after its command; one on both sides stays, and all of them if it ``keeps``
        them: between a Greek letter of prose and a word, authors mean it."""
        following = self._tokens[self._at] if self._at < end else ""
        spaced = out.last.isspace() and (not symbol[-1:].isalnum() or _OPERATOR.match(following) is not None)
        if self._at + 1 < end and self._tokens[self._at] == "{" and self._tokens[self._at + 1] == "}":
            self._at += 2
        elif not keeps and (not spaced or symbol == "\\"):
            self._skip_space(end)
        out.add(symbol)

    def _escape(self, name: str, out: _Text, end: int, depth: int) -> None:
        """A command of one character that is no letter."""
        closing = {"(": "\\)", "[": "\\]"}.get(name)
        if closing is not None:
            last = min(end, self._at + _LONGEST_FORMULA)
            try:
                close = self._tokens.index(closing, max(self._at, self._without.get(closing, 0)), last)
            except ValueError:
                self._without[closing] = last
                out.add(name)
                return
            out.add_formula(self._text(close, 0, math=True))
            self._at = close + 1
        else:
            out.add(_ESCAPES.get(name, name))

    def _accent(self, name: str, out: _Text, end: int, depth: int) -> None:
        begin = self._at
        if name == "~" and out.last == "/":  # in a link
            out.add(name)
            return
        base = self._argument(end, depth + 1, math=False)
        base = {"ı": "i", "ȷ": "j"}.get(base, base)
        if base[:1].isalpha() and (name.isalpha() or base[:1].lower() in _ACCENTED or not base[0].isascii()):
            out.add(_with_mark(base[0], ACCENTS[name]) + base[1:])
        elif name.isalpha():
            out.drop_command()
            out.add(base)
        elif name in "^~" and not base:
            out.add(name)
        else:
            # No letter that takes the accent: the mark itself is meant, as in \"quoted\".
            self._at = begin
            out.add(name if name in "\"'`^~=" else "")

    def _script(self, mark: str, out: _Text, end: int, depth: int) -> None:
        """An index below or above the line of a formula."""
        argument = self._argument(end, depth, math=True).strip()
        if not argument:
            return
        if mark == "_":
            out.add(argument if argument.isdigit() else f"_{_enclosed(argument)}")
        else:
            out.add_exponent(argument)

    def _molecule(self, end: int, depth: int) -> str:
        """A formula of the package mhchem: ``H2O``, ``Ca^2+``, ``A -> B``."""
        text = self._argument(end, depth, math=False)
        text = text.replace("<=>", "⇌").replace("<->", "↔").replace("->", "→")
        return re.sub(r"[\^_]", "", text)


class _Text:
    """The pieces of a text, and its last character."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self.last = ""
        self._apart = False
        """Whether a letter must not follow the last one directly: a function or a dropped command stood between."""

    def add(self, text: str) -> None:
        if not text:
            return
        if self._apart and text[0].isalnum() and self.last.isalnum():
            self._pieces.append(" ")
        self._apart = False
        self._pieces.append(text)
        self.last = text[-1]

    def add_word(self, name: str) -> None:
        """The name of a function."""
        self._apart = True
        self.add(name)
        self._apart = True

    def drop_command(self) -> None:
        self._apart = True

    def add_formula(self, text: str) -> None:
        """A formula. What it begins with may be an index of the text before it, as in ``CO$_2$`` and ``m$^2$``."""
        text = text.strip()
        if text[:1] == "^" and len(text) > 1:
            self.add(script(self.last, text[1:]).strip("()"))
        else:
            self.add(text)

    def add_exponent(self, argument: str) -> None:
        raised = _RAISED.get(argument)
        if raised is None and (argument in _ORDINALS or (set(argument) <= set("′'*+-†"))):
            raised = argument
        self.add(raised if raised is not None else f"^{_enclosed(argument)}")

    def joined(self) -> str:
        return "".join(self._pieces)


def _pairs(tokens: list[str]) -> dict[int, int]:
    """The position of the closing brace of each opening one."""
    pairs: dict[int, int] = {}
    opened: list[int] = []
    for position, token in enumerate(tokens):
        if token == "{":
            opened.append(position)
        elif token == "}" and opened:
            pairs[opened.pop()] = position
    return pairs


def script(before: str, raised: str) -> str:
    """Raised text after a character: ``10`` and ``-3`` give ``10^-3``, ``21`` and ``st`` give ``21st``."""
    return f"^{raised}" if before.isdigit() and _NUMERIC.fullmatch(raised) else raised


def _enclosed(text: str) -> str:
    """A part of a formula in parentheses, if it has more parts itself."""
    text = text.strip()
    is_word = text.replace(".", "").replace(",", "").removeprefix("-").isalnum()
    if is_word or len(text) == 1 or (text[:1] == "(" and text[-1:] == ")" and "(" not in text[1:]):
        return text
    return f"({text})"


def _with_mark(letter: str, mark: str) -> str:
    return unicodedata.normalize("NFC", letter + mark)


def quotes(text: str) -> str:
    """TeX's quotation marks and dashes in prose."""
    if "``" in text or "''" in text:
        text = text.replace("``", "\u201c").replace("''", "\u201d")
    return dashes(text) if "--" in text else text


def dashes(text: str) -> str:
    """Two and three hyphens as dashes. Those before an option of a command stay: ``--help``."""
    return _DASHES.sub(_dash, text)


def _dash(hyphens: re.Match[str]) -> str:
    before, after = (
        hyphens.string[max(0, hyphens.start() - 1) : hyphens.start()],
        hyphens.string[hyphens.end() : hyphens.end() + 1],
    )
    if before.isspace() and not after.isspace():
        return hyphens[0]
    return {2: "\u2013", 3: "\u2014"}.get(len(hyphens[0]), hyphens[0])

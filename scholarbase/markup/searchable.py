"""The form of a text whose words are searched: names with symbols as words, and one spelling for equal ones.

Tokenizers drop symbols, so that *C++*, *C#* and *C* would be one word, and take *β* and *beta* for two. Indexes,
static encoders and queries all tokenize this form; what is stored and shown stays as it is written.

======================================  ==========================================
``C++``, ``PointNet++``                 ``Cplusplus``, ``PointNet plusplus``
``C#``, ``C♯``, ``#P``, ``#SAT``        ``Csharp``, ``sharpP``, ``sharpSAT``
``.NET``                                ``dotnet``
``A*``, ``C^*``, ``RRT*``               ``Astar``, ``Cstar``, ``RRT star``
``β-VAE``, ``ϕ``, ``Δ9``, ``delta-9``   ``beta-VAE``, ``phi``, ``delta9``, ``delta9``
``H∞``, ``H_∞``, ``L^∞``                ``H infinity``, ``L infinity``
``L²``, ``L^2``, ``L_p``, ``ℓ₁``        ``L2``, ``L2``, ``Lp``, ``l1``
``k-NN``, ``3-D``                       ``kNN``, ``3D``
``i.i.d.``, ``I/O``, ``CO_2``, ``5 Å``  ``iid.``, ``IO``, ``CO2``, ``5 angstrom``
``ё``                                   ``е``
======================================  ==========================================
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final

from scholarbase.markup.symbols import GREEK

_ODD: Final = re.compile("[²³¹µϐϑϕϖϰϱϴϵ⁰-ₜℓℏᴬ-ᵪ\u2010\u2011∗⋆♯ёЁΑ-Ωα-ω]")
"""Other shapes of letters, digits and symbols, and Greek letters."""
_USUAL: Final = {"\u2010": "-", "\u2011": "-", "∗": "*", "⋆": "*", "♯": "#", "ё": "е", "Ё": "Е", "ℏ": "ħ"}
_NAMES: Final = GREEK | {"ς": "sigma"}
_IN_GREEK: Final = re.compile("[Ͱ-Ͽἀ-῿]")
_RULES: Final = [
    # Each pattern begins with the symbol, which is found much faster than what stands before it.
    (symbol, re.compile(pattern), spelling)
    for symbol, pattern, spelling in (
        ("∞", "∞", " infinity "),
        ("^", r"\^(?<=\w\^)(?=[\w*])", ""),
        ("_", r"_(?<=(?<![^\W_])[A-Za-z]_)(?=[A-Za-z0-9]{1,2}(?![^\W_]))", ""),
        ("_", r"_(?:(?<=[A-Za-z]O_)|(?<=[CN]H_))(?=[0-9]{1,2}(?![^\W_]))", ""),
        ("/", r"/(?<=(?<![^\W_])I/)(?=O(?![^\W_]))", ""),
        (
            ".",
            r"\.(?:(?<=(?<![\w.])[iI]\.)(?=[iI]\.[dD](?![^\W_]))|(?<=(?<![\w.])[iI]\.[iI]\.)(?=[dD](?![^\W_])))",
            "",
        ),
        ("\u00c5", r"\u00c5(?<![^\W\d_]\u00c5)(?![^\W_])", " angstrom "),
        # One word with a single letter; else two, so that the word is found without the symbol too.
        ("+", r"\+\+(?<=(?<![^\W_])[^\W_]\+\+)(?![^\W\d_])", "plusplus "),
        ("+", r"\+\+(?<=[^\W_]\+\+)(?![^\W\d_])", " plusplus "),
        ("#", r"#(?<=(?<![^\W_])[A-Za-z]#)(?![^\W\d_])", "sharp "),
        ("#", r"#(?<![\w&]#)(?=(?:P|\w?[A-Z]*SAT|CSP|BIS)(?![^\W_]))", "sharp"),
        ("*", r"\*(?<=(?<![^\W_])[A-Za-z]\*)(?![\w*])", "star "),
        ("*", r"\*(?<=[A-Z]{2}\*)(?![\w*])", " star "),
        (".", r"\.(?:(?<![^\W_]\.)(?i:net)|(?<=[A-Z]\.)NET)(?![^\W_])", " dotnet"),
        (
            "-",
            r"-(?:(?<=(?<![^\W_])[kK]-)(?=(?:NN|nn)(?![^\W_]))|(?<=(?<![\w.])[1-9]-)(?=[dD](?![^\W_]))"
            r"|(?=\d)(?:(?<=alpha-)|(?<=[bB]eta-)|(?<=gamma-)|(?<=[dD]elta-)))",
            "",
        ),
    )
]


@lru_cache(16)  # title match, BM25 and static encoder need the form of the same query
def searchable(text: str) -> str:
    """A text in the form in which its words are searched. Most are returned unchanged.

    What changes depends on what stands between two spaces, so that parts of a text have the form of the whole.
    """
    if not text.isascii():
        text = _ODD.sub(_spelt, text)
    for symbol, pattern, spelling in _RULES:
        if symbol in text:
            text = pattern.sub(spelling, text)
    return text


def _spelt(match: re.Match[str]) -> str:
    """The usual spelling of a character. A Greek letter that is no part of a Greek word becomes its name."""
    char = match[0]
    char = _USUAL.get(char) or unicodedata.normalize("NFKC", char)
    name = _NAMES.get(char.lower())
    if name is None:
        return char
    text, position = match.string, match.start()
    around = text[max(position - 1, 0) : position] + text[position + 1 : position + 2]
    return char if _IN_GREEK.search(around) else name

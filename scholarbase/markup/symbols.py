"""TeX commands and the characters that they stand for.

The names are those of LaTeX (https://ctan.org/pkg/comprehensive), amssymb and textcomp; the characters those of
https://www.w3.org/TR/xml-entity-names/.
"""

from __future__ import annotations

from typing import Final


def names(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


ACCENTS: Final = {
    "`": "\u0300", "'": "\u0301", "^": "\u0302", "~": "\u0303", "=": "\u0304", "u": "\u0306", ".": "\u0307",
    '"': "\u0308", "r": "\u030a", "H": "\u030b", "v": "\u030c", "d": "\u0323", "c": "\u0327", "k": "\u0328",
    "b": "\u0331", "t": "\u0361",
}  # fmt: skip
"""The combining character of each accent of text."""

MATH_ACCENTS: Final = {
    "grave": "\u0300", "acute": "\u0301", "hat": "\u0302", "widehat": "\u0302", "tilde": "\u0303",
    "widetilde": "\u0303", "bar": "\u0304", "overline": "\u0304", "breve": "\u0306", "dot": "\u0307",
    "ddot": "\u0308", "mathring": "\u030a", "check": "\u030c", "vec": "\u20d7", "underline": "\u0332",
}  # fmt: skip
"""Those of formulas. Over more than one character they are left out."""

_LETTERS: Final = {
    "ss": "ß", "SS": "ẞ", "o": "ø", "O": "Ø", "l": "ł", "L": "Ł", "ae": "æ", "AE": "Æ", "oe": "œ", "OE": "Œ",
    "aa": "å", "AA": "Å", "i": "ı", "j": "ȷ", "dh": "ð", "DH": "Ð", "th": "þ", "TH": "Þ", "dj": "đ", "DJ": "Đ",
    "ng": "ŋ", "NG": "Ŋ",
}  # fmt: skip

_GREEK: Final = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau upsilon phi "
    "chi psi omega",
    "αβγδεζηθικλμνξοπρστυφχψω",
)
_GREEK_NAMES: Final = dict(zip(_GREEK[0].split(), _GREEK[1], strict=True))

GREEK: Final = {letter: name for name, letter in _GREEK_NAMES.items()}
"""The names of the Greek letters, small ones."""

_OTHERS: Final = {
    # text
    "textendash": "\u2013", "textemdash": "\u2014", "textquoteleft": "\u2018", "textquoteright": "\u2019",
    "textquotedblleft": "\u201c", "textquotedblright": "\u201d", "textquotesingle": "'", "textquotedbl": '"',
    "textellipsis": "\u2026", "textasciitilde": "~", "textless": "<", "textgreater": ">", "textbar": "|",
    "textdegree": "°", "textbullet": "\u2022", "textregistered": "®", "texttrademark": "\u2122",
    "textcopyright": "©", "copyright": "©", "textasciicircum": "^", "textbackslash": "\\", "textbraceleft": "{",
    "textbraceright": "}", "textunderscore": "_", "textdollar": "$", "textasteriskcentered": "*",
    "texttimes": "×", "textdiv": "÷", "textpm": "±", "textmu": "μ", "textmicro": "μ", "textohm": "Ω",
    "textcelsius": "°C", "textperiodcentered": "·", "texteuro": "€", "textsterling": "£", "pounds": "£", "euro": "€",
    "textyen": "¥", "textsection": "§", "S": "§", "textparagraph": "¶", "P": "¶", "textonehalf": "½",
    "textonequarter": "¼", "textthreequarters": "¾", "textminus": "\u2212", "textrightarrow": "→",
    "textleftarrow": "←", "textgreek": "", "guillemotleft": "«", "guillemotright": "»",
    "guillemetleft": "«", "guillemetright": "»", "glqq": "\u201e", "grqq": "\u201c", "flqq": "«", "frqq": "»",
    "quotedblbase": "\u201e",
    "quotesinglbase": "\u201a", "textexclamdown": "¡", "textquestiondown": "¿", "slash": "/", "textdagger": "†",
    "dag": "†", "ddag": "‡", "degree": "°", "micro": "μ", "celsius": "°C", "ohm": "Ω", "angstrom": "Å",
    "TeX": "TeX", "LaTeX": "LaTeX", "LaTeXe": "LaTeX2e", "BibTeX": "BibTeX", "XeTeX": "XeTeX",
    # spaces
    "quad": " ", "qquad": " ", "newline": " ", "par": " ", "newblock": " ", "space": " ", "thinspace": " ",
    "hfill": " ", "linebreak": " ", "nobreakspace": " ", "enspace": " ",
    "allowbreak": "", "nobreak": "", "relax": "", "null": "",
    # variants of Greek letters
    "varepsilon": "ε", "vartheta": "θ", "varpi": "π", "varrho": "ρ", "varsigma": "σ", "varphi": "φ",
    "varkappa": "κ", "Upsilon": "Υ", "textalpha": "α", "textbeta": "β", "textgamma": "γ", "digamma": "ϝ",
    # letters of formulas
    "ell": "l", "hbar": "ħ", "hslash": "ħ", "imath": "i", "jmath": "j", "Re": "Re", "Im": "Im", "wp": "p",
    "aleph": "ℵ", "partial": "∂", "nabla": "∇", "infty": "∞", "emptyset": "∅", "varnothing": "∅", "Bbbk": "k",
    "eth": "ð", "complement": "∁",
    # operators and relations
    "times": "×", "div": "÷", "pm": "±", "mp": "∓", "cdot": "·", "ast": "*", "star": "*", "circ": "∘",
    "bullet": "\u2022", "cap": "∩", "cup": "∪", "uplus": "⊎", "sqcap": "⊓", "sqcup": "⊔", "vee": "∨", "lor": "∨",
    "wedge": "∧", "land": "∧", "lnot": "¬", "neg": "¬", "setminus": "\\", "smallsetminus": "\\", "backslash": "\\",
    "oplus": "⊕", "ominus": "⊖", "otimes": "⊗", "oslash": "⊘", "odot": "⊙", "dagger": "†", "ddagger": "‡",
    "ltimes": "⋉", "rtimes": "⋊", "wr": "≀", "amalg": "⨿", "triangle": "△", "bigtriangleup": "△",
    "square": "□", "Box": "□", "Diamond": "◇", "diamond": "⋄", "leq": "≤", "le": "≤", "leqslant": "≤", "geq": "≥",
    "ge": "≥", "geqslant": "≥", "ll": "≪", "gg": "≫", "lesssim": "≲", "gtrsim": "≳", "lessapprox": "⪅",
    "gtrapprox": "⪆", "lt": "<", "gt": ">", "neq": "≠", "ne": "≠", "equiv": "≡", "sim": "∼", "simeq": "≃",
    "approx": "≈", "cong": "≅", "propto": "∝", "varpropto": "∝", "asymp": "≍", "doteq": "≐", "prec": "≺",
    "succ": "≻", "preceq": "⪯", "succeq": "⪰", "subset": "⊂", "supset": "⊃", "subseteq": "⊆", "supseteq": "⊇",
    "subsetneq": "⊊", "in": "∈", "ni": "∋", "notin": "∉", "mid": "|", "nmid": "∤", "parallel": "∥", "perp": "⊥",
    "bot": "⊥", "top": "⊤", "models": "⊨", "vdash": "⊢", "dashv": "⊣", "Vdash": "⊩", "vDash": "⊨", "bowtie": "⋈",
    "forall": "∀", "exists": "∃", "nexists": "∄", "therefore": "∴", "because": "∵", "coloneqq": "≔", "colon": ":",
    "prime": "′", "angle": "∠", "surd": "√", "flat": "♭", "natural": "♮", "sharp": "♯", "checkmark": "✓",
    # large operators
    "sum": "∑", "prod": "∏", "coprod": "∐", "int": "∫", "iint": "∬", "iiint": "∭", "oint": "∮", "bigcap": "⋂",
    "bigcup": "⋃", "bigoplus": "⨁", "bigotimes": "⨂", "bigvee": "⋁", "bigwedge": "⋀", "bigsqcup": "⨆",
    # arrows
    "to": "→", "ra": "→", "rightarrow": "→", "longrightarrow": "→", "xrightarrow": "→",
    "lra": "→", "leftarrow": "←", "gets": "←",
    "longleftarrow": "←", "leftrightarrow": "↔", "longleftrightarrow": "↔", "Rightarrow": "⇒", "Longrightarrow": "⇒",
    "implies": "⇒", "Leftarrow": "⇐", "Leftrightarrow": "⇔", "Longleftrightarrow": "⇔", "iff": "⇔", "mapsto": "↦",
    "longmapsto": "↦", "hookrightarrow": "↪", "hookleftarrow": "↩", "uparrow": "↑", "downarrow": "↓",
    "updownarrow": "↕", "rightharpoonup": "⇀", "rightleftharpoons": "⇌", "leadsto": "⇝", "rightsquigarrow": "⇝",
    "twoheadrightarrow": "↠", "nearrow": "↗", "searrow": "↘", "leftrightarrows": "⇆",
    # brackets and dots
    "langle": "⟨", "rangle": "⟩", "lfloor": "⌊", "rfloor": "⌋", "lceil": "⌈", "rceil": "⌉", "lbrace": "{",
    "rbrace": "}", "lbrack": "[", "rbrack": "]", "vert": "|", "lvert": "|", "rvert": "|", "Vert": "‖", "lVert": "‖",
    "rVert": "‖", "ldots": "\u2026", "cdots": "\u2026", "dots": "\u2026", "dotsc": "\u2026", "dotsb": "\u2026",
    "vdots": "\u2026", "ddots": "\u2026", "hdots": "\u2026", "over": "/", "atop": "/", "choose": " choose ",
    # units of siunitx
    "percent": "%", "meter": "m", "metre": "m", "second": "s", "gram": "g", "kilogram": "kg", "kelvin": "K",
    "hertz": "Hz", "electronvolt": "eV", "volt": "V", "watt": "W", "joule": "J", "tesla": "T", "pascal": "Pa",
    "kilo": "k", "mega": "M", "giga": "G", "tera": "T", "milli": "m", "nano": "n", "pico": "p", "femto": "f",
    "centi": "c", "per": "/",
    # sets that papers name by commands of their own
    "N": "N", "Z": "Z", "Q": "Q", "R": "R", "C": "C", "F": "F", "E": "E", "RR": "R", "CC": "C", "NN": "N", "ZZ": "Z",
    "QQ": "Q", "FF": "F", "PP": "P",
}  # fmt: skip

SYMBOLS: Final = {
    **_OTHERS,
    **_LETTERS,
    **_GREEK_NAMES,
    **{name.capitalize(): letter.upper() for name, letter in _GREEK_NAMES.items()},
}
"""The text of each command without arguments."""

NOT_IN_PROSE: Final = frozenset(["N", "Z", "Q", "R", "C", "F", "E"])
"""Names of sets, which outside formulas are parts of paths and the like."""

FUNCTIONS: Final = names(
    """
    arccos arcsin arctan arg bmod coker cos cosh cot coth csc deg det diag dim erf exp gcd grad hom id
    inf injlim ker lg lim liminf limsup ln log max min mod pmod Pr projlim rank sec sgn sin sinh span sup
    supp tan tanh tr Tr
    """
)
"""Names of functions, which stand apart from their arguments."""

IN_FORMULAS: Final = frozenset(["sin", "cos", "tan"])
"""Functions that are left out of prose, as in the texts of existing snapshots."""

WITHOUT_ARGUMENT: Final = names(
    """
    begin bibitem cite citeauthor citep citet citealt citenum citeyear cline color colorbox documentclass
    eqref fontsize fontfamily hspace hypersetup includegraphics input label natexlab nocite pageref ref
    setcounter textcolor usepackage vskip hskip vspace href bibinfo bibfield foreignlanguage selectlanguage
    end phantom hphantom vphantom tag
    """
)
"""Commands whose first argument is no text. Those of ``href`` and ``textcolor`` have a second, which is."""

FENCES: Final = names("left right middle big Big bigg Bigg bigl bigr Bigl Bigr")
"""Sizes of the brackets that follow them; a full stop stands for none."""

STYLES: Final = names(
    """
    emph textit textbf textrm textsf texttt textsc textup textsl textmd textnormal textmdbf text mbox hbox
    fbox it bf rm sf tt sc em sl cal bm mathit mathbf mathrm mathsf mathtt mathcal mathbb mathds mathfrak
    mathscr mathnormal boldsymbol pmb frak Bbb operatorname mkbibemph mkbibbold mkbibquote mkbibitalic
    uppercase lowercase MakeUppercase MakeLowercase textlf textsuperscript displaystyle textstyle scriptstyle
    scriptscriptstyle limits nolimits tiny small large Large underbrace overbrace underset overset stackrel
    xspace protect noopsort bibinitperiod ifmmode fi normalfont itshape bfseries sffamily ttfamily scshape
    rmfamily unskip ignorespaces selectfont num si unit
    """
)
"""Commands that change how their arguments look, and not what they say."""

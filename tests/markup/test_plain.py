"""Plain text of TeX, HTML, JATS, MathML and odd Unicode.

Expected values were written by hand from the manuals of LaTeX, mhchem, biblatex, JATS and MathML, or computed by
pylatexenc, lxml and the standard library, as each test says.
"""

import html

import lxml.html
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pylatexenc.latex2text import LatexNodes2Text

from scholarbase.ingest.records import PaperRecord
from scholarbase.ingest.sources.cleaning import clean_paper
from scholarbase.markup import formulas_of, plain, plain_abstract

ACCENTS = [
    (r"B\"acklund", "Bäcklund"),
    (r"B{\"a}cklund", "Bäcklund"),
    (r"B\"{a}cklund", "Bäcklund"),
    (r"K\"ahler and Calder\'on", "Kähler and Calderón"),
    (r"Erd{\H o}s, Erd\H{o}s, Erd\H os", "Erdős, Erdős, Erdős"),
    (r"Ha\v{c}ek, Fran{\c c}ois, Fran\c{c}ois", "Haček, François, François"),
    (r"Na\"{\i}ve and \'{\i}ndice", "Naïve and índice"),
    (r"Nguy{\~\^e}n", "Nguyễn"),
    (r"Th\'{\^e}", "Thế"),
    (r"Nguy\~{\^e}n", "Nguyễn"),
    (r"\.Zelazny, \=o, \u{g}, \r{a}, \k{a}, \d{s}, \b{k}", "Żelazny, ō, ğ, å, ą, ṣ, ḵ"),
    (r"Ko\c{c}, G\"ur, Kuzu\u{g}\"uden", "Koç, Gür, Kuzuğüden"),
    (r"\'Etale cohomology", "Étale cohomology"),
    (r"Poincar\'e--Birkhoff", "Poincaré\u2013Birkhoff"),
    (r"Ti\^{e}n D\~ung", "Tiên Dũng"),
]
LETTERS = [
    (r"Stra\ss e", "Straße"),
    (r"Stra{\ss}e", "Straße"),
    (r"\O{}rsted and {\o}re", "Ørsted and øre"),
    (r"\L{}ukasz \L{}o\'s", "Łukasz Łoś"),
    (r"\AA ngstr\"om, \AE ther, {\oe}uvre", "Ångström, Æther, œuvre"),
    (r"\DJ okovi\'c, \dh, \TH orn", "Đoković, ð, Þorn"),
]
COMMANDS = [
    (r"H\textsubscript{2}O", "H2O"),
    (r"CO\textsubscript{2} and m\textsuperscript{2}", "CO2 and m2"),
    (r"10\textsuperscript{-3} M", "10^-3 M"),
    (r"the 21\textsuperscript{st} century", "the 21st century"),
    (r"\ce{CO2} capture", "CO2 capture"),
    (r"\ce{Ca^2+} channels", "Ca2+ channels"),
    (r"\ce{H2 + O -> H2O}", "H2 + O → H2O"),
    (r"\enquote{Big} data", "\u201cBig\u201d data"),
    (r"On \mkbibemph{Drosophila}", "On Drosophila"),
    (r"3\texttimes3 kernels", "3×3 kernels"),
    (r"3 \texttimes{} 3", "3 × 3"),
    (r"5 \textmu m", "5 μm"),
    ("Erdos--Renyi, a---b, 1 -- 2", "Erdos\u2013Renyi, a\u2014b, 1 \u2013 2"),
    (r"5\,kHz and 3\;mm", "5 kHz and 3 mm"),
    (r"hy\-phen\-ation", "hyphenation"),
    (r"\ensuremath{\alpha}-helix", "α-helix"),
    (r"\emph{In vivo} and {\it in vitro}", "In vivo and in vitro"),
    (r"\textbf{Bold}\textit{italic}", "Bolditalic"),
    (r"{\bf Deep} learning", "Deep learning"),
    (r"\unknowncommand{kept} words", "kept words"),
    (r"before\unknowncommand after", "before after"),
    (r"a\foo b", "a b"),
    (r"AT\&T, 50\%, \#1, a\_b, \$5", "AT&T, 50%, #1, a_b, $5"),
    (r"``quoted'' text", "\u201cquoted\u201d text"),
    (r"E.~coli and Fig.~2", "E. coli and Fig. 2"),
    (r"http://a.org/~user", "http://a.org/~user"),
    (r"~100 papers", "~100 papers"),
    (r"A survey \cite{smith99} of graphs", "A survey of graphs"),
    (r"\url{https://a.org/x}", "https://a.org/x"),
    (r"\href{https://a.org}{the page}", "the page"),
    (r"\textendash{} and \textemdash{} and \ldots", "\u2013 and \u2014 and \u2026"),
    (r"\LaTeX{} and \TeX", "LaTeX and TeX"),
    (r"\copyright{} 2020 \textregistered", "© 2020 ®"),
    (r"20\degree C", "20°C"),
    (r"85{\deg}C and 5\deg", "85°C and 5°"),
    (r"O(n \log n), \max\{a, b\}, \exp x and \Pr(A)", "O(n log n), max{a, b}, exp x and Pr(A)"),
    (r"As in \cite[p.~5]{b} and \foo[opt]{x}", "As in and x"),
    (r"a \SIrange{1}{5}{\micro\metre} gap", "a 1\u20135 μm gap"),
    (r"\guillemetleft{}a\guillemetright{} and {\glqq}b{\grqq}", "«a» and \u201eb\u201c"),
    (r"First.\nSecond", "First. Second"),
]
FORMULAS = [
    ("CO$_2$ emission", "CO2 emission"),
    ("CO$_{2}$", "CO2"),
    (r"$\mathrm{CO}_2$", "CO2"),
    (r"$\alpha$ decay", "α decay"),
    (r"$N=4$ super Yang-Mills", "N=4 super Yang-Mills"),
    (r"${\cal N}=4$", "N=4"),
    (r"$\mathcal{O}(n\log n)$", "O(n log n)"),
    (r"$\tilde{O}(n^{5/3})$ time", "Õ(n^(5/3)) time"),
    (r"$x^2 + y_i$", "x^2 + y_i"),
    (r"$10^{-3}$ and $10^6$", "10^-3 and 10^6"),
    (r"$\mathbb{F}_q$", "F_q"),
    (r"$\frac{1}{2}$ and $\sqrt{s}$", "1/2 and √s"),
    (r"$p<0.05$", "p<0.05"),
    (r"$a \leq b$ and $a\neq b$", "a ≤ b and a≠b"),
    (r"\(x+y\) and \[z\]", "x+y and z"),
    (r"$$E=mc^2$$", "E=mc^2"),
    (r"m$^2$ and 20$^\circ$C", "m2 and 20°C"),
    (r"$K^*\to K^+\pi^-$", "K*→K+π-"),
    (r"$L_{\infty}$-algebra", "L_∞-algebra"),
    (r"$\sin\theta$", "sin θ"),
    (r"SU(2)$\times$U(1)", "SU(2)×U(1)"),
    (r"$\Lambda$CDM", "ΛCDM"),
    (r"H$\alpha$", "Hα"),
    ("O(n^{4/3}), 10^{-3}, K_{3,3} and x_{i+1}", "O(n^(4/3)), 10^-3, K_3,3 and x_(i+1)"),
    (r"$4 \alpha + 1$ and $2 \alpha x$", "4 α + 1 and 2 αx"),
    (r"{}From $B \ra K$", "From B → K"),
    (r"$\hbar\omega$", "ħω"),
]
NOT_TEX = [
    "It costs $5 to $10 each",
    "from $5",
    "a $100,000 prize and $2 fees",
    "the set {0, 1}",
    "{0,1}-valued and {a_i}",
    "p<0.05 and n>3",
    "a < b and c > d",
    "List<T> and Map<String, Integer>",
    "<b> is a tag",
    "AT&T and R&D",
    "C# and C++ && more",
    "snake_case and x^2",
    "100% of 3 items",
    "50 & more",
    "vector<int>",
    "x <- y",
    "don't",
    r"vertices of V\U have",
    "the option --help and -----",
    "The <img> tag",
]
HTML = [
    ("CO<sub>2</sub> &amp; water", "CO2 & water"),
    ("m<sup>2</sup>, 10<sup>-3</sup>, 1<sup>st</sup>", "m2, 10^-3, 1st"),
    ("<i>Escherichia coli</i> O157", "Escherichia coli O157"),
    ("<scp>DNA</scp> and <b>bold</b>", "DNA and bold"),
    ("Caf&eacute; &lt;5&#37;", "Café <5%"),
    ("a&nbsp;b &ndash; c", "a b \u2013 c"),
    ("B&amp;auml;cklund &amp;amp; sons", "Bäcklund & sons"),
    ("&amp;lt;i&amp;gt;p&amp;lt;/i&amp;gt; values", "p values"),
    ("<jats:p>First.</jats:p><jats:p>Second.</jats:p>", "First. Second."),
    ("<jats:italic>in situ</jats:italic>", "in situ"),
    ("<p>One</p><p>two</p>", "One two"),
    ("line<br/>break<br>again", "line break again"),
    ('<span class="x">text</span>', "text"),
    ("<a href='https://a.org'>link</a>", "link"),
    ("&#945;-helix &#x3b2;-sheet", "α-helix β-sheet"),
    ("<SUB>2</SUB> <I>x</I>", "2 x"),
    ("<!-- hidden -->shown", "shown"),
    (
        "<mml:math><mml:msub><mml:mi>H</mml:mi><mml:mn>2</mml:mn></mml:msub><mml:mi>O</mml:mi></mml:math>",
        "H2O",
    ),
    ("<math><msup><mi>x</mi><mn>2</mn></msup></math>", "x^2"),
    ("<math><mfrac><mn>1</mn><mn>2</mn></mfrac></math>", "1/2"),
    ('<mml:math xmlns:mml="http://www.w3.org/1998/Math/MathML"><mml:mi>α</mml:mi></mml:math> rays', "α rays"),
    ("<inline-formula><tex-math>$\\alpha_1$</tex-math></inline-formula>", "α1"),
    ("<math><mi>p</mi><mo>&lt;</mo><mn>0.05</mn></math>", "p<0.05"),
    (
        "<mml:math><mml:msub><mml:mi>&alpha;</mml:mi><mml:mn>2</mml:mn></mml:msub><mml:mo>&lt;</mml:mo></mml:math>",
        "α2<",
    ),
    ("<math><mi>a</mi><broken></math>", "a"),
    ("a<o:p></o:p> <p class=MsoNormal>W</p> <a href=http://x>l</a> <hi rend='i'>h</hi>", "a W l h"),
    ("<center>c</center> super<wbr>long <img src='a.png'>x <graphic/>y", "c superlong x y"),
]
UNICODE = [
    ("soft\u00adhyphen", "softhyphen"),
    ("zero\u200bwidth\ufeff", "zerowidth"),
    ("ﬁnite ﬂow eﬀect", "finite flow effect"),
    ("𝒜-modules over 𝔽 and ℝ", "A-modules over F and R"),
    ("H₂O and CO₂", "H2O and CO2"),
    ("ＢＥＲＴ", "BERT"),
    ("e\u0301tude", "étude"),
    ("x² ½ ™", "x² ½ ™"),
    ("a\u00a0b\u2009c", "a b c"),
    ("می\u200cخواهم", "می\u200cخواهم"),
    ("two\n  lines\t", "two lines"),
]


@pytest.mark.parametrize(("text", "expected"), [*ACCENTS, *LETTERS, *COMMANDS, *FORMULAS, *HTML, *UNICODE])
def test_markup_becomes_plain_text(text: str, expected: str) -> None:
    assert plain(text) == expected


@pytest.mark.parametrize("text", NOT_TEX)
def test_what_only_looks_like_markup_stays(text: str) -> None:
    assert plain(text) == text


@pytest.mark.parametrize(("text", "expected"), [*ACCENTS, *LETTERS])
def test_pylatexenc_reads_the_same_letters(text: str, expected: str) -> None:
    if "Nguy" not in text:  # pylatexenc drops an accent that stands before a braced accent
        decoded = LatexNodes2Text().latex_to_text(text).replace("--", "\u2013")
        assert plain(decoded) == plain(text) == expected


@pytest.mark.parametrize("text", [text for text, _ in HTML if "math" not in text and "<sup>" not in text])
def test_lxml_reads_the_same_words(text: str) -> None:
    for _ in range(3):
        text = html.unescape(text)
    words = " ".join(lxml.html.fromstring(f"<div>{text}</div>").itertext()).split()
    assert "".join(plain(text).split()) == "".join(words)


@given(st.text(st.characters(max_codepoint=0x2FF, exclude_characters="\\$~`{}&<-\u00ad")))
def test_text_without_markup_stays(text: str) -> None:
    assert plain(text) == " ".join(text.split())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{DNA} and {RNA} in {0, 1}", "DNA and RNA in 0, 1"),
        ("{{The ATLAS Collaboration}}", "The ATLAS Collaboration"),
        ("pages 1--10 and a---b", "pages 1\u201310 and a\u2014b"),
        (r"{\"O}sterreich {\&} {S}chweiz", "Österreich & Schweiz"),
        (r"\textasciitilde{}x \textbackslash{}n \{a\}", "~x \\n {a}"),
        (r"b -\textgreater{} s \textbackslash gamma decays", "b -> s γ decays"),
        (r"Phases of \$N=2\$ and \$5", "Phases of N=2 and $5"),
        (r"Codes over {$\mathbb{F}_q$}", "Codes over F_q"),
    ],
)
def test_every_brace_of_bibtex_is_markup(text: str, expected: str) -> None:
    assert plain(text, braces=True) == expected


def test_headings_and_rights_are_no_part_of_an_abstract() -> None:
    for text, expected in (
        ("Abstract: We show this.", "We show this."),
        ("ABSTRACT We show this.", "We show this."),
        ("Abstract\nWe show this.", "We show this."),
        ("Abstract. We show this.", "We show this."),
        ("Abstract We show this.", "We show this."),
        ("Summary: We show this.", "We show this."),
        ("<jats:title>Abstract</jats:title><jats:p>We show this.</jats:p>", "We show this."),
        ("Abstract interpretation of programs is sound.", "Abstract interpretation of programs is sound."),
        ("Abstract algebra: an introduction", "Abstract algebra: an introduction"),
        ("Summary statistics are used.", "Summary statistics are used."),
        ("Abstract Background: We show this.", "Background: We show this."),
        ("Abstract Neural networks are shown.", "Neural networks are shown."),
        ("<p><b>Abstract</b></p><p>We show this.</p>", "We show this."),
        ("<sec><title>Abstract</title><p>We show this.</p></sec>", "We show this."),
        ("<i>Abstract</i> interpretation is sound.", "Abstract interpretation is sound."),
        (
            "Abstract Meaning Representation (AMR) is a graph.",
            "Abstract Meaning Representation (AMR) is a graph.",
        ),
        ("We show this. (C) 2000 American Institute of Physics.", "We show this."),
        ("(b) 1 control and (c) 2000 samples. The effect was large.",) * 2,
        ("We show X. Copyright 2019 reform changed Europe. We analyse it.",) * 2,
        ("We show this. © 2019 Elsevier Ltd. All rights reserved.", "We show this."),
        ("We show this. Copyright (c) 2004 John Wiley & Sons, Ltd.", "We show this."),
        ("© 2015 The Authors. We show this.", "We show this."),
        ("Copyright law of 1976 is discussed.", "Copyright law of 1976 is discussed."),
        ("The © sign and the year 2020 are discussed.", "The © sign and the year 2020 are discussed."),
    ):
        assert plain_abstract(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CO$_2$  and\n water", "CO$_2$ and water"),
        (r"\(x\) and \ce{H2O}", r"\(x\) and \ce{H2O}"),
        (r"B\"acklund", None),
        ("It costs $5", None),
        ("CO<sub>2</sub>", None),
        ("plain", None),
    ],
)
def test_texts_with_formulas_are_kept_as_written(text: str, expected: str | None) -> None:
    assert formulas_of(text, plain(text)) == expected


def test_a_record_has_plain_texts_and_those_of_its_author() -> None:
    paper = PaperRecord(
        title=r"B\"acklund: $\alpha$ &amp; more",
        abstract="Abstract: CO$_2$.",
        authors=[(r"K. G{\"o}del", None)],
        venue="Phys. Rev. &amp; Co",
        details={"journal": [r"Ann. Poincar\'e", "1", None]},
    )
    clean_paper(paper)
    assert (paper.title, paper.abstract) == ("Bäcklund: α & more", "CO2.")
    assert (paper.written_title, paper.written_abstract) == (
        r"B\"acklund: $\alpha$ &amp; more",
        "CO$_2$.",
    )
    assert (paper.authors, paper.venue) == ([("K. Gödel", None)], "Phys. Rev. & Co")
    assert paper.details["journal"] == ["Ann. Poincaré", "1", None]

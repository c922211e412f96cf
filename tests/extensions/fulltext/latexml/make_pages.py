"""Writes the 30 papers of ``pages.tar.xz``: TeX made of the pieces below, and the HTML that LaTeXML makes of it.

``python make_pages.py FOLDER`` writes the TeX, runs ``latexmlc`` (Debian's package latexml) and packs both. Each class
of documents is used by several papers, and each piece too, in other sections and with other citations.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Final

CLASSES: Final = (
    r"\documentclass{article}",
    r"\documentclass[11pt,twocolumn]{article}\usepackage[round]{natbib}",
    r"\documentclass[aps,prd]{revtex4-1}",
    r"\documentclass{amsart}",
    r"\documentclass[conference]{IEEEtran}",
    r"\documentclass{llncs}",
    r"\documentclass{elsarticle}",
    r"\documentclass[twocolumn]{aastex}",
    r"\documentclass[sigconf]{acmart}",
    r"\documentclass{report}",
)
PACKAGES: Final = r"""
\usepackage[utf8]{inputenc}
\usepackage{amsmath,amssymb,graphicx,booktabs,multirow,subcaption,algorithm,algorithmic,hyperref,enumitem,listings}
"""
THEOREMS: Final = r"""
\newtheorem{theorem}{Theorem}
\newtheorem{lemma}[theorem]{Lemma}
"""
MACROS: Final = r"""
\newcommand{\model}{\textsc{SparseNet}}
\newcommand{\R}{\mathbb{R}}
"""
TITLES: Final = (
    r"Sparse retrieval of long documents", r"Vortex lattices in thin films", r"A bound on $p$-adic heights",
    r"Learning to rank without labels", r"Über die Stabilität dünner Schalen", r"Sur les variétés de Fano",
    r"Dark matter in dwarf galaxies", r"Querying tables with language models", r"Cálculo rápido de trayectorias",
    r"О сходимости рядов", r"稀疏检索的方法", r"Graph transformers for chemistry",
)  # fmt: skip
SECTIONS: Final = (
    "Introduction", "Related work", "Methods", "Data and preprocessing", r"The case $n = 2$", "Experiments",
    "Results", "Ablation: what matters?", "Discussion", "Limitations", "Conclusion", "Ergebnisse und Ausblick",
    "Définitions préliminaires", r"Training of \emph{deep} models", "Notation \\& conventions", "Постановка задачи",
)  # fmt: skip
PIECES: Final = (
    r"""Retrieval is an old problem \cite{@1,@2}. As shown before~\cite{@3}, a query $q$ has a score
$s(q, d) = \sum_{t \in q} w_t f_{t,d}$ for each document $d$.\footnote{Weights $w_t$ are not negative.}

A second paragraph with \textbf{bold}, \emph{emphasis} and \texttt{code}, 50\% of \$5 and a dash---here. See
\url{https://example.org/data_set} for the data.""",
    r"""We minimize the loss
\begin{equation}\label{eq:loss}
\mathcal{L}(\theta) = \frac{1}{N} \sum_{i=1}^{N} \log\left(1 + e^{-y_i f_\theta(x_i)}\right)
\end{equation}
as in \cite{@1}, and Equation~\eqref{eq:loss} holds for all $\theta \in \R^d$.""",
    r"""The dynamics are
\begin{align}
\dot{x} &= v, \\
\dot{v} &= -\nabla \Phi(x) - \gamma v \nonumber \\
\frac{dE}{dt} &= -\gamma v^2 .
\end{align}
Here $\gamma > 0$ is friction \cite{@2}, and $\Phi$ a potential.""",
    r"""There are three reasons:
\begin{itemize}
\item it is fast, in $O(n \log n)$;
\item it is simple \cite{@1};
\begin{enumerate}
\item no training,
\item no labels;
\end{enumerate}
\item it is exact.
\end{itemize}
Each of them suffices.""",
    r"""\begin{figure}
\centering
\includegraphics[width=0.5\linewidth]{plot}
\caption{Recall as a function of $k$ for all methods. Error bars are standard deviations.}
\end{figure}
The figure shows that recall grows with $k$, see also \cite{@3}.""",
    r"""\begin{table}
\caption{Scores on the test set.}
\centering
\begin{tabular}{lrr}
\toprule
\multirow{2}{*}{Method} & \multicolumn{2}{c}{nDCG} \\
 & dev & test \\
\midrule
BM25 & 0.41 & 0.43 \\
\model & $\mathbf{0.52}$ & 0.50 \\
\bottomrule
\end{tabular}
\end{table}
All differences are significant ($p < 0.01$).""",
    r"""\begin{figure}
\begin{subfigure}{0.45\textwidth}\includegraphics{left}\caption{Without noise}\end{subfigure}
\begin{subfigure}{0.45\textwidth}\includegraphics{right}\caption{With noise $\sigma = 0.1$}\end{subfigure}
\caption{Reconstructions of the signal.}
\end{figure}
Noise has little effect\footnote{Except where the signal is constant.} in practice \cite{@2,@4}.""",
    r"""\begin{theorem}
Let $X$ be compact. Then every continuous $f \colon X \to \R$ attains its maximum.
\end{theorem}
\begin{lemma}
If $a \le b$ then $a^2 \le b^2$ for $a, b \ge 0$.
\end{lemma}
These are standard \cite{@4}.""",
    r"""\begin{algorithm}
\caption{Greedy selection}
\begin{algorithmic}
\STATE $S \gets \emptyset$
\FOR{$i = 1$ to $k$}
\STATE add the best element to $S$
\ENDFOR
\RETURN $S$
\end{algorithmic}
\end{algorithm}
The loop runs $k$ times.""",
    r"""A matrix has an inverse if
\[ \det \begin{pmatrix} a & b \\ c & d \end{pmatrix} = ad - bc \neq 0 . \]
For blocks this needs $A \in \R^{m \times m}$ \cite{@3}. We write
\begin{equation*}
f(x) = \begin{cases} 1 & \text{if } x > 0 \\ 0 & \text{otherwise} \end{cases}
\end{equation*}
for the step function.""",
    r"""\begin{quote}
Das Ganze ist mehr als die Summe seiner Teile.
\end{quote}
\begin{description}
\item[Precision] the share of results that are relevant,
\item[Recall] the share of relevant papers that are found.
\end{description}
\begin{verbatim}
for q in queries:
    run(q)
\end{verbatim}
The code is short.""",
    r"""\begin{eqnarray}
H &=& \sum_i \frac{p_i^2}{2m} + V, \\
Z &=& \mathrm{Tr}\, e^{-\beta H}
\end{eqnarray}
defines the partition function $Z(\beta)$ \cite{@1,@3,@4}. Note that $\hbar = 1$.""",
    r"""\begin{table*}
\begin{tabular}{|l|c|}
\hline
\textbf{Language} & Size \\ \hline
Français & $10^6$ \\
中文 & $2 \times 10^6$ \\ \hline
\end{tabular}
\caption{Corpora by language, in tokens.}
\end{table*}
Naïve Bayes and Erdős--Rényi graphs are baselines \cite{@2}; so is ``random''.""",
    r"""\paragraph{Complexity.} The cost is $\Theta(n^2)$ in time and $\mathcal{O}(n)$ in space.
\paragraph{Hyperparameters.} We set $\alpha = 10^{-3}$, $\beta_1 = 0.9$ and $\beta_2 = 0.999$ \cite{@4}.""",
    r"""\begin{multline}
a_1 + a_2 + a_3 + a_4 \\
+ a_5 + a_6 = 0
\end{multline}
\begin{gather}
x^2 + y^2 = 1 \\
\int_{-\infty}^{\infty} e^{-x^2}\,dx = \sqrt{\pi}
\end{gather}
hold by symmetry.""",
)
ENTRIES: Final = (
    r"A. Lovelace and C. Babbage. \newblock Notes on the analytical engine. \newblock "
    r"\emph{Taylor's Memoirs}, 3, 1843.",
    r"J. Devlin, M.-W. Chang. \newblock BERT: pre-training of transformers. \newblock In \emph{NAACL}, 2019. "
    r"doi:10.18653/v1/N19-1423.",
    r"A. Vaswani et al. \newblock Attention is all you need. \newblock \emph{NeurIPS}, 2017. arXiv:1706.03762.",
    r"E. Witten, Adv. Theor. Math. Phys. \textbf{2}, 253 (1998), hep-th/9802150.",
    r"K. Gödel. \newblock Über formal unentscheidbare Sätze. \newblock \emph{Monatshefte}, 38:173--198, 1931.",
    r"P. Erdős and A. Rényi. \newblock On random graphs {I}. \newblock \url{https://doi.org/10.5486/pmd.1959.6.3-4.12}",
    r"T. Brown et al. \newblock Language models are few-shot learners. \newblock "
    r"\href{https://arxiv.org/abs/2005.14165}{arXiv preprint}, 2020.",
    r"P. W. Anderson, Phys. Rev. \textbf{109}, 1492 (1958).",
)
BIBTEX: Final = r"""
@article{k1, author={Ada Lovelace and Charles Babbage}, title={Notes on the engine}, journal={Memoirs}, year=1843}
@inproceedings{k2, author={Jacob Devlin and Ming-Wei Chang}, title={Pre-training of transformers}, booktitle={NAACL},
  year=2019, doi={10.18653/v1/N19-1423}}
@article{k3, author={Ashish Vaswani}, title={Attention is all you need}, journal={NeurIPS}, year=2017,
  eprint={1706.03762}, archiveprefix={arXiv}}
@book{k4, author={Kurt Weil}, title={Foundations of everything}, publisher={Springer}, year=1962}
"""


def paper(number: int) -> str:
    """The TeX of a paper, from 0."""
    document = CLASSES[number % len(CLASSES)]
    is_natbib = "natbib" in document or number % 7 == 3
    has_bibtex = number % 10 == 6
    head = [document, PACKAGES, "" if "llncs" in document or "acmart" in document else THEOREMS, MACROS]
    if (
        is_natbib
        and "natbib" not in document
        and not any(x in document for x in ("revtex", "acmart", "elsart"))
    ):
        head.append(r"\usepackage{natbib}")
    title = TITLES[number % len(TITLES)]
    abstract = f"\\begin{{abstract}}\nWe study case {number}, for $n = {number}$ and more.\n\\end{{abstract}}"
    authors = r"\author{Ada Lovelace \and Carl Gau\ss}"
    front = [f"\\title{{{title}}}", authors]
    early = any(x in document for x in ("revtex", "acmart", "amsart", "elsart"))
    begin = [
        *front,
        "\\begin{document}",
        *([abstract, "\\maketitle"] if early else ["\\maketitle", abstract]),
    ]
    body: list[str] = []
    sections = "chapter" if "report" in document else "section"
    inner = {"chapter": ("section", "subsection"), "section": ("subsection", "subsubsection")}[sections]
    for place in range(4):
        name = SECTIONS[(number * 5 + place * 3) % len(SECTIONS)]
        star = "*" if place == 3 and number % 4 == 1 else ""
        body.append(f"\\{sections}{star}{{{name}}}\\label{{s{place}}}")
        body.append(_piece(number, place * 3))
        body.append(f"\\{inner[0]}{{Part {place} of {name}}}\nIt follows Section~\\ref{{s0}}.")
        body.append(_piece(number, place * 3 + 1))
        if place == 1:
            body.append(f"\\{inner[1]}{{A closer look}}")
            body.append(_piece(number, place * 3 + 2))
    if number % 3:
        body += [
            "\\appendix",
            f"\\{sections}{{Proofs}}",
            _piece(number, 13),
            f"\\{inner[0]}{{More proofs}}",
            "Omitted.",
        ]
    text = "\n".join(body)
    if is_natbib:
        text = re.sub(r"\\cite\{", lambda m: "\\citet{" if m.start() % 2 else "\\citep[e.g.][]{", text)
    if has_bibtex:
        style = "plainnat" if is_natbib else "plain"
        end = f"\\bibliographystyle{{{style}}}\n\\bibliography{{refs}}"
    else:
        end = (
            "\\begin{thebibliography}{9}\n"
            + "\n".join(_entries(number, is_natbib))
            + "\n\\end{thebibliography}"
        )
    return "\n".join([*head, *begin, text, end, "\\end{document}", ""])


def _piece(number: int, place: int) -> str:
    text = PIECES[(number * 4 + place) % len(PIECES)]
    text = text.replace("{eq:loss}", f"{{eq:loss{place}}}")
    return re.sub(r"@(\d)", lambda m: f"k{(int(m[1]) + number + place) % 4 + 1}", text)


def _entries(number: int, is_natbib: bool) -> list[str]:
    entries = []
    for place in range(4):
        label = f"[Author {place}({2000 + place})]" if is_natbib else ""
        entries.append(f"\\bibitem{label}{{k{place + 1}}} {ENTRIES[(number + place * 3) % len(ENTRIES)]}")
    return entries


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "refs.bib").write_text(BIBTEX)
    with tarfile.open(Path(__file__).with_name("pages.tar.xz"), "w:xz") as archive:
        archive.add(folder / "refs.bib", "refs.bib")
        for number in range(30):
            tex, html = folder / f"{number:02}.tex", folder / f"{number:02}.html"
            tex.write_text(paper(number))
            command = [
                "latexmlc",
                "--quiet",
                "--format=html5",
                "--nodefaultresources",
                f"--dest={html}",
                str(tex),
            ]
            if not html.exists():
                subprocess.run(command, cwd=folder, check=True)
            archive.add(tex, tex.name)
            archive.add(html, html.name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

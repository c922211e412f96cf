"""Corrected bibliographies. The values are those of the paper, and what BibTeX's styles make of capitals is in its
manual (https://ctan.org/pkg/bibtex, ``btxhak``)."""

import httpx
import pytest

from scholarbase.bibliographies.latex import with_protected_capitals
from scholarbase.models.papers import ALL_FIELDS
from scholarbase.responses.correcting import corrected
from scholarbase.search.library import Library

_AUTHOR = "author = {D. J. Gross and W. Taylor}"
_TITLE = "title = {Two Dimensional QCD is a String Theory}"
_ABSTRACT = "abstract = {It says\n@foo{bar}, year = 1990,\n title = {Two Dimensional} and\n  @cite{this}}"


def _corrected(library: Library, text: str) -> str:
    return corrected(text, library.check_references(text, fields=ALL_FIELDS))


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (f"@misc{{a, {_AUTHOR}, {_TITLE}, date = {{1990-05-01}}}}\n", None),
        (f"@misc{{a, {_AUTHOR}, {_TITLE}, year = 1990 % wrong\n}}\n", None),
        (f"@misc{{a, {_AUTHOR}, {_TITLE}, year = 1990, YEAR = 1990}}\n", None),
        (f"@misc(a, {_AUTHOR}, {_TITLE}, year = {{1990}})\n", ("{1990}", "{1993}")),
        (f"@misc{{a, {_TITLE} {_AUTHOR} year = 1990}}\n", ("1990", "{1993}")),
        (f"\ufeff% a = b\r\n@misc{{a, {_AUTHOR}, {_TITLE},\n year = 1990}}\r\n", ("1990", "{1993}")),
        (f"@misc{{a, {_ABSTRACT}, {_AUTHOR}, {_TITLE}, year = 1990}}\n", ("year = 1990}", "year = {1993}}")),
        (
            f"@misc{{a, shorttitle = {{Two Dimensional QCD is a Strng Theory}}, {_AUTHOR}}}\n",
            ("a,", "a,\n  title = {Two Dimensional {QCD} is a String Theory},"),
        ),
    ],
    ids=("date", "comment", "twice", "parentheses", "no comma", "line ends", "entry in abstract", "lacking"),
)
def test_entries_were_damaged_where_they_were_corrected(
    sample: Library, entry: str, expected: tuple[str, str] | None
) -> None:
    """A correction that is not certain is a comment, which a second one does not repeat."""
    written = _corrected(sample, entry)
    assert _corrected(sample, written) == written
    if expected is None:
        assert written.startswith("% not corrected: ")
        assert written.endswith(f" of the next entry\n{entry}")
    else:
        assert written == entry.replace(*expected)


@pytest.mark.parametrize(
    ("title", "written", "expected"),
    [
        ("Two Dimensional QCD", '"Two {D}imensional QDC"', "Two {D}imensional {QCD}"),
        ("Bayesian inference by Markov chains", "{{B}ayesian inferenc}", "{B}ayesian inference by {Markov} chains"),
        ("Markov Chains of DNA", "{{{Markov} Chain of {DNA}}}", "{Markov Chains of DNA}"),
        ("Part I: The $SU(N)$ and $x$ Case", "{}", "Part {I}: The {$SU(N)$} and $x$ Case"),
        (r"A {\'E}tude on AT\&T and \LaTeX{}", "{}", r"A {\'E}tude on {AT}\&{T} and {\LaTeX}{}"),
    ],
)  # fmt: skip
def test_styles_lowered_capitals_of_corrected_titles(title: str, written: str, expected: str) -> None:
    assert with_protected_capitals(title, written) == expected


def test_a_server_corrects_the_chosen_fields(server: str) -> None:
    entry = f"@misc{{a, {_AUTHOR}, title = {{Two Dimensional QCD is a Strng Theory}}, year = 1995}}\n"
    right = entry.replace("Strng", "String").replace("QCD", "{QCD}")
    for corrections, expected in (
        (None, right),
        ({}, entry),
        ({"1": ["year"]}, entry.replace("1995", "{1993}")),
        ({"1": ["title", "year"]}, right.replace("1995", "{1993}")),
    ):
        body = {"references": entry, "corrections": corrections}
        response = httpx.post(f"{server}/v1/references/correct", json=body)
        assert (response.status_code, response.text) == (200, expected)
        assert response.headers["content-type"].startswith("application/x-bibtex")
    for wrong, message in (({"2": []}, "the position 2"), ({"a": []}, "key 'a'"), ({"1": ["doi"]}, "'doi'")):
        response = httpx.post(
            f"{server}/v1/references/correct", json={"references": entry, "corrections": wrong}
        )
        assert (response.status_code, message in response.json()["detail"]) == (400, True)

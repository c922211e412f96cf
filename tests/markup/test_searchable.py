"""Names with symbols are words, and equal spellings are one."""

from collections.abc import Iterator
from typing import Any

import pytest

from scholarbase.markup import plain, searchable
from scholarbase.models.responses import CheckedReference
from scholarbase.search.library import Library
from tests.libraries import opened_library, papers_of

SAME = [
    ("C#", "C♯"),
    ("C*-algebra", "C^*-algebra", "C∗-algebra"),
    ("π-calculus", "pi-calculus", "𝜋-calculus"),
    ("β-VAE", "beta-VAE"),
    ("Δ9-THC", "Δ⁹-THC", "Δ^9-THC", "delta-9-THC", "delta9-THC"),
    ("α-synuclein", "alpha-synuclein"),
    ("ϕ", "φ", "phi"),
    ("ℓ1", "ℓ₁", "l1", "l_1", "l^1", "ℓ¹"),
    ("L²", "L^2", "L2"),
    ("H∞", "H_∞", "H^∞", "H-infinity"),
    ("k-NN", "kNN"),
    ("3-D", "3D"),
    ("ΛCDM", "LambdaCDM"),
    ("Семён", "Семен"),
    ("i.i.d.", "iid"),
    ("I/O", "IO"),
    ("CO_2", "CO2", "CO₂"),
    ("5 Å", "5 angstrom"),
]
OTHER = [
    "C++",
    "C#",
    "C",
    "F#",
    "F",
    ".NET",
    "net",
    "A*",
    "k-means",
    "k-means++",
    "RRT",
    "RRT*",
    "#P",
    "P",
    "IL-6",
]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    """A paper for each spelling, by its title."""
    folder = tmp_path_factory.mktemp("symbols")
    names = [*(name for spellings in SAME for name in spellings), *OTHER]
    titles = [f"Notes on {name} in practice" for name in dict.fromkeys(names)]
    with opened_library(folder, papers_of((title, "A text.") for title in titles)) as opened:
        yield opened


def names_found(library: Library, q: str, **options: Any) -> set[str]:
    results = library.search(q, limit=100, **options).results
    return {(hit.paper.title or "").removeprefix("Notes on ").removesuffix(" in practice") for hit in results}


@pytest.mark.parametrize("engine", ["bm25", "fts5"])
def test_equal_spellings_find_each_other(library: Library, engine: Any) -> None:
    for spellings in SAME:
        for name in spellings:
            assert set(map(plain, spellings)) <= names_found(library, name, mode="sparse", engine=engine), (
                name
            )
    for name in ("C++", "C#", "F#", ".NET", "A*", "#P", "IL-6"):
        assert names_found(library, name, mode="sparse", engine=engine) & set(OTHER) == {name}


def test_a_word_with_a_symbol_is_found_without_it(library: Library) -> None:
    assert {"k-means", "k-means++"} <= names_found(library, "means", mode="sparse")
    results = library.search("RRT*", mode="sparse", syntax="plain").results
    assert results[0].paper.title == "Notes on RRT* in practice"


def test_titles_and_references_tell_c_plus_plus_from_c_sharp(library: Library) -> None:
    for name in ("C++", "F#", "C", "F"):
        title = f"Notes on {name} in practice"
        assert [hit.paper.title for hit in library.match_title(title).results if hit.score == 1.0] == [title]
        [checked] = library.check_references(f"Notes on {name} in practice. arXiv, 2020.").results
        assert isinstance(checked, CheckedReference)
        assert checked.paper is not None
        assert checked.paper.title == title


def test_other_uses_of_a_symbol_stay() -> None:
    for text in (
        *("2*x*y", "a**b", "sourceforge.net", "#MeToo", "x_train", "http://a.org/#x", "φιλοσοφία", "10^-3"),
        *("i.e. and e.g.", "AI/OR, input/output", "AdS_5", "Åberg"),
    ):
        assert searchable(text) == text

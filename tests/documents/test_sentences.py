"""Sentences of real papers, marked by hand, and what holds for all texts."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scholarbase.documents.sentences import LONGEST, sentence_spans

MARKED = [
    line.split("\t")
    for line in (Path(__file__).parent / "sentences.tsv").read_text().splitlines()
    if not line.startswith("#")
]


def sentences(text: str) -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text)]


@pytest.mark.parametrize(
    ("part", "bounds", "precision", "recall"), [("rules", 169, 0.97, 1.0), ("held", 57, 0.98, 0.98)]
)
def test_bounds_marked_by_hand(part: str, bounds: int, precision: float, recall: float) -> None:
    """The figures of docs/measurements.md."""
    found = right = marked = 0
    for name, _, text in MARKED:
        if name == part:
            expected = {place + 1 for place, character in enumerate(text) if character == "‖"}
            starts = {start for start, _ in sentence_spans(text.replace("‖", " "))[1:]}
            marked += len(expected)
            found += len(starts)
            right += len(expected & starts)
    assert marked == bounds
    assert right / found >= precision
    assert right / marked >= recall


@pytest.mark.parametrize(
    "text",
    [
        "See Fig. 3 and Figs. 4 and 5.",
        "By Eq. (2) and Eqs. (3) it holds, cf. Sec. 4 and Ref. [5].",
        "Zhou et al. [12] perform it, i.e. Their method works, e.g. for all.",
        "It is 0.3 or 1.5 in all cases.",
        "This was done by J. K. Smith and J.-P. Ansermet.",
        "It has i.i.d. variables x_1, ..., x_n and a.k.a. others.",
        "(1) The first item.",
    ],
)
def test_one_sentence(text: str) -> None:
    assert sentences(text) == [text]


@pytest.mark.parametrize(
    "parts",
    [
        ["This was shown before [12].", "We do it again.[13]", "(It works.)", "So does this."],
        ["Let it be $x = 0$ .", "Then we have y .", "In all cases, it holds."],
        ["It is 5 m.", "We see it in C.", "The end?", '"Yes!"', "He left…"],
        ["Is it so?", "It is!", "See Appendix A.", "The rest follows from Thm. 2."],
    ],
)
def test_several_sentences(parts: list[str]) -> None:
    assert sentences(" ".join(parts)) == parts


def test_offsets_count_code_points() -> None:
    assert sentence_spans("  Übung 𝔸𝔹 hält.\n\u00a0Né à J.\u00a0Paul.  Oui.") == [(2, 16), (18, 31), (33, 37)]


def test_a_no_break_space_after_an_initial_stops_nothing() -> None:
    """sentencex 1.0.32 panics at this text."""
    assert sentences("Seen by Y.\u00a0Zhang. It holds.") == ["Seen by Y.\u00a0Zhang.", "It holds."]


def test_a_long_sentence_is_divided_at_white_space() -> None:
    spans = sentence_spans("word " * 2500)
    assert [end - start for start, end in spans] == [4999, 4999, 2499]
    assert max(end - start for start, end in sentence_spans("x" * 12_000)) == LONGEST


PARTS = [
    "Fig. ", "et al. ", "i.e. ", "A.", " ", "\u00a0", "\n", "ß", "𝔸", ".", "?!", ')"', "[3]", "(", "x", "The ",
    "\u2028", "…", "\x1f",
]  # fmt: skip


@settings(max_examples=50, deadline=None)
@given(st.one_of(st.text(), st.lists(st.sampled_from(PARTS), max_size=40).map("".join)))
def test_sentences_cover_the_text(text: str) -> None:
    spans = sentence_spans(text)
    assert spans == sentence_spans(text)
    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert all(a[1] <= b[0] for a, b in pairwise(spans))
    assert "".join("".join(text[start:end].split()) for start, end in spans) == "".join(text.split())
    assert all(text[start:end] == text[start:end].strip() for start, end in spans)

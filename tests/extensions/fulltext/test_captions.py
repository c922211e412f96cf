"""Captions: their forms, and sentences that only begin like them."""

import pytest

from scholarbase_fulltext.captions import Line, box_of, find_label, starts_caption, without_breaks
from tests import tables


def test_labels_have_one_form() -> None:
    for text, kind, label, rest in tables.rows("captions"):
        known = find_label(text)
        assert known is not None
        assert (known.kind, known.label, text[known.end :], known.is_separated) == (kind, label, rest, True)


@pytest.mark.parametrize(
    "text",
    [
        "figure 3: a cat",
        "Tables 1 and 2 show",
        "Figures",
        "Table of contents",
        "Figure it out.",
        "Figure i shows",
        "Tabular 3.",
    ],
)
def test_other_words_are_no_labels(text: str) -> None:
    assert find_label(text) is None


def line(text: str, bottom: float, left: float = 50.0, right: float = 300.0, **more: bool) -> Line:
    return Line(text, left, bottom, right, bottom + 10, **more)


def test_a_caption_is_known_by_its_form_and_the_line_above() -> None:
    for lines, is_caption in (
        ([line("Figure 3: A cat.", 100)], True),
        ([line("Figure 3 shows a cat.", 100)], False),
        ([line("Figure 3 A cat.", 100)], True),
        ([line("Fig. 3 shows a cat.", 100, is_set_off=True)], True),
        ([line("as is seen in", 112), line("Figure 3. The cat sits.", 100)], False),
        ([line("The cat sits.", 112), line("Figure 3. A cat.", 100)], True),
        ([line("as is seen in", 130), line("Figure 3. A cat.", 100)], True),
        ([line("as is seen in", 112, 310, 560), line("Figure 3. A cat.", 100)], True),
        ([line("Figure 3: A cat . . . . . . . . . 12", 100)], False),
        ([line("Figure 3). The cat sits.", 100)], False),
    ):
        assert (starts_caption(lines, len(lines) - 1) is not None) is is_caption


def test_a_line_broken_at_a_superscript_is_one_line() -> None:
    parts = [
        line("Figure 1: In m", 100, 50, 110),
        Line("3", 110.2, 104, 114, 110),
        line("] of air.", 100, 114, 160),
    ]
    assert [part.text for part in without_breaks(parts)] == ["Figure 1: In m3] of air."]


def test_boxes_of_turned_lines_are_on_the_page() -> None:
    upward = Line("Table 1: Turned.", 300, -110, 400, -100, turns=3)
    assert box_of([upward], 600, 800) == (100, 400, 10, 100)

"""Titles within a longer text, on the sample's papers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from scholarbase.indexes.catalog import FILE_NAME, Catalog
from scholarbase.indexes.filters import NO_FILTERS, ResolvedFilters
from scholarbase.indexes.title_spans import title_span

TITLE = "Two Dimensional QCD is a String Theory"


@pytest.fixture(scope="module")
def catalog(sample_library: Path) -> Iterator[Catalog]:
    catalog = Catalog(sample_library / FILE_NAME, readers=1)
    yield catalog
    catalog.close()


@pytest.mark.parametrize(
    "text",
    [
        f"D. Gross and W. Taylor, {TITLE}, Nucl. Phys. B400",
        f"Gross (1993) {TITLE} (preprint)",
        f"Gross, \u201c{TITLE.lower()},\u201d 1993",
        f"{TITLE}. 1993",
        "Gross: Two-dimensional QCD is a string the- ory. 1993",
    ],
)
def test_a_title_between_boundaries_is_found(catalog: Catalog, text: str) -> None:
    found = catalog.exact_titles(text, NO_FILTERS)[:2]
    papers = catalog.papers([one.id for one in found], ("id", "title"))
    assert {paper.id for paper in papers} == {"arXiv:hep-th/9301068", "arXiv:hep-th/9408140"}, "both have it"
    assert all(one.is_bounded and one.end - one.start > 20 for one in found)


def test_a_title_inside_a_sentence_or_after_in_is_not(catalog: Catalog) -> None:
    assert catalog.exact_titles(f"we show that {TITLE} holds", NO_FILTERS) == []
    assert catalog.exact_titles(f"A. B. Another paper. In {TITLE}, 1993", NO_FILTERS) == []
    assert catalog.exact_titles("", NO_FILTERS) == []


def test_filters_hold(catalog: Catalog) -> None:
    assert catalog.exact_titles(TITLE, ResolvedFilters(last_day=19921231)) == []
    assert len(catalog.exact_titles(TITLE, ResolvedFilters(last_day=19931231))) == 1


def test_the_most_similar_part_and_its_score() -> None:
    text = "D. Gross and W. Taylor, Two Dimensional QDC is a String Theory, Nucl. Phys. B400"
    span = title_span(text, 7, TITLE)
    assert span is not None
    assert text[span.start : span.end] == "Two Dimensional QDC is a String Theory,"
    assert span.score == pytest.approx(1 - 2 / 64)  # two edits of 2 x 32 letters
    assert span.is_bounded


def test_the_words_of_a_title_in_another_order() -> None:
    text = "D. Gross and W. Taylor, String Theory is a Two Dimensional QCD, Nucl. Phys. B400"
    span = title_span(text, 7, TITLE)
    assert span is not None
    assert text[span.start : span.end] == "String Theory is a Two Dimensional QCD,"
    assert span.score >= 0.9
    assert title_span("too short", 7, TITLE) is None

"""A title without its subtitle finds the paper, and an unrelated title finds nothing."""

from collections.abc import Iterator, Sequence

import pytest

from scholarbase.indexes.titles import normalize_title
from scholarbase.search.library import Library
from tests.conftest import arxiv_rows, sample_rows

LEAST_FOUND = 0.95


def beginnings(titles: Sequence[str]) -> list[str]:
    """The parts before ": " of the titles that have one."""
    parts = [title.partition(": ") for title in titles]
    return [main for main, colon, _ in parts if colon and normalize_title(main)]


def best(library: Library, titles: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """Each title with the title of its best match."""
    found = library.match_titles(titles, fields="title")
    for title, response in zip(titles, found, strict=True):
        yield title, response.results[0].paper.title if response.results else None


def begins_with(title: str | None, beginning: str) -> bool:
    return title is not None and normalize_title(title).startswith(normalize_title(beginning))


def share_found(library: Library, titles: Sequence[str]) -> float:
    queries = beginnings(titles)
    assert len(queries) > 100
    return sum(begins_with(match, query) for query, match in best(library, queries)) / len(queries)


@pytest.mark.slow
def test_on_the_sample(sample: Library) -> None:
    titles = [str(row["title"]) for row in sample_rows("papers")] + [
        str(row["title"]) for row in arxiv_rows()
    ]
    held = [title for title, match in best(sample, titles) if begins_with(match, title)]
    assert share_found(sample, held) >= LEAST_FOUND


def test_the_most_cited_of_equal_beginnings_comes_first(sample: Library) -> None:
    responses = [sample.match_title(title, limit=100) for title in ("Supersymmetry", "Quantum gravity")]
    for response in responses:
        alike = [match.paper.citation_count or 0 for match in response.results if match.score == 0.9]
        assert alike == sorted(alike, reverse=True)

"""Libraries of a few papers, whose floor of similarity is that of the encoder."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from scholarbase.encoders import open_encoder
from scholarbase.ingest.job import ingest
from scholarbase.models.encoders import PACKAGED
from scholarbase.search.library import Library
from tests.conftest import SAMPLE
from tests.libraries import opened_library, sample_papers
from tests.search.test_defaults import NONSENSE

OTHER_FIELDS = (
    *("monetary policy and inflation", "protein folding", "prime gaps", "enzyme kinetics", "gene editing"),
    *("speech recognition", "cooking recipes for beginners", "recommender systems", "traffic congestion"),
)
"""Questions whose words no paper of the small libraries has, or few do in other meanings."""


@pytest.fixture(scope="module")
def bibliography(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    """The 50 papers of the sample's bibliography."""
    path = tmp_path_factory.mktemp("own") / "library"
    with closing(open_encoder(PACKAGED)) as encoder:
        ingest([SAMPLE / "own" / "zotero.bib"], path, encoder=encoder, encoder_location=PACKAGED)
    with Library.open(path) as library:
        yield library


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    """The first papers of the sample, most of them on physics."""
    folder = tmp_path_factory.mktemp("small")
    with opened_library(folder, sample_papers()[:20], dense=True) as library:
        yield library


@pytest.mark.parametrize("way", [{}, {"mode": "dense", "exact": True}, {"mode": "sparse", "engine": "fts5"}])
def test_nonsense_found_every_paper_of_a_small_library(
    small: Library, bibliography: Library, way: dict[str, Any]
) -> None:
    for library in (small, bibliography):
        assert {q: library.search(q, **way).total for q in NONSENSE} == dict.fromkeys(NONSENSE, 0)


def test_a_question_of_another_field_finds_few_papers(bibliography: Library) -> None:
    """It found all. Those that have a word of the question are still found."""
    for q in OTHER_FIELDS:
        assert bibliography.search(q, mode="dense").total <= 5, q


def test_a_question_on_images_found_einstein_on_brownian_motion(bibliography: Library) -> None:
    found = bibliography.search("deep learning of images")
    assert [hit.paper.title for hit in found.results] == ["Deep Residual Learning for Image Recognition"]
    assert (found.total, found.total_relation) == (1, "eq")


@pytest.mark.parametrize("way", [{}, {"mode": "dense"}])
def test_questions_still_find_the_papers_of_a_small_library(
    small: Library, bibliography: Library, way: dict[str, Any]
) -> None:
    """The first half of each title, as a question."""
    for library in (small, bibliography):
        papers = [hit.paper for hit in library.search("the of", min_similarity=-1, limit=50).results]
        missed = []
        for paper in papers:
            words = (paper.title or "").split()
            found = library.search(" ".join(words[: max(3, len(words) // 2)]), limit=1000, **way)
            if paper.id not in {hit.paper.id for hit in found.results}:
                missed.append(paper.title)
        assert len(papers) >= 20
        assert missed == []


def test_words_that_no_paper_has_need_a_greater_similarity(bibliography: Library) -> None:
    random = bibliography.manifest.vectors["random_similarity"]
    assert 0.1 < random["p95"] < 0.2 < random["p999"] < 0.5
    for q, known in (("convnets", False), ("recognition", True)):
        every = bibliography.search(q, mode="dense", min_similarity=-1, limit=50).results
        expected = sum(hit.score >= random["p95" if known else "p999"] for hit in every)
        assert bibliography.search(q, mode="dense").total == expected


def test_the_floor_is_the_encoders_whatever_the_library(small: Library, bibliography: Library) -> None:
    ours, theirs = (library.manifest.vectors["random_similarity"] for library in (small, bibliography))
    assert ours == theirs


def test_nonsense_beside_words_of_papers_finds_those(bibliography: Library) -> None:
    words = bibliography.search("supersymmetric", mode="sparse", limit=50)
    both = bibliography.search("zxqwv supersymmetric", mode="sparse", limit=50)
    assert {hit.paper.id for hit in both.results} == {hit.paper.id for hit in words.results}
    assert both.total > 0

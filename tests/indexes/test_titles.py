"""Titles: one normalised form for many spellings, exact matches first, then similar ones."""

import difflib
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scholarbase.indexes import fulltext, titles
from scholarbase.indexes.filters import NO_FILTERS, ResolvedFilters
from scholarbase.indexes.schema import open_for_building
from scholarbase.indexes.title_spans import exact_titles
from scholarbase.models.limits import MIN_TITLE_SCORE

TITLES = {
    1: "Attention Is All You Need",
    2: "Adam: A Method for Stochastic Optimization",
    3: "Deep Residual Learning for Image Recognition",
    4: "Attention is all you need.",
    5: "On the $\\alpha$-decay of {\\it heavy} nuclei",
    6: "Erdős–Rényi graphs and their giant components",
    7: "Learning",
    8: "深度学习中的注意力机制",
    9: "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding",
    10: "A deep survey of language models",
    11: "???",
    12: "Deep learning for image segmentation in medicine",
}


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = open_for_building(tmp_path / "catalog.sqlite")
    connection.executemany(
        "INSERT INTO papers(id, title, title_hash, citation_count) VALUES (?, ?, ?, ?)",
        [(i, title, titles.title_hash(title), i) for i, title in TITLES.items()],
    )
    fulltext.index_range(connection, 1, 100)
    yield connection
    connection.close()


def test_spellings_of_one_title_are_one() -> None:
    for one, other in (
        ("Attention Is All You Need", "attention is all\n  you need."),
        ("On the $\\alpha$-decay of {\\it heavy} nuclei", "On the α-decay of heavy nuclei"),
        ("Erd\\H{o}s--R\\'enyi graphs", "Erdős–Rényi Graphs"),
        ("$\\mathcal{N}=4$ super Yang-Mills", "N = 4 Super Yang–Mills"),
        ('\\AA ngstr\\"om, \\L ukasz and stra\\ss e', "Ångström, Łukasz and Straße"),
        ("$B \\to K^* \\ell^+ \\ell^-$ decays", "B → K* l+ l- decays"),
        ("CO<sub>2</sub> &amp; H<sub>2</sub>O", "CO₂ & H₂O"),
        ("e\u0301tude", "étude"),
        ("ＢＥＲＴ", "bert"),
        ("Λ and $\\Lambda$", "$\\lambda$ and λ"),
        ("TNF-α", "TNF alpha"),
        ("Nguy{\\~\\^e}n and Th\\'{\\^e}", "Nguyên and The"),
        ("&lt;i&gt;p&lt;/i&gt;-adic", "p-adic"),
    ):
        assert titles.normalize_title(one) == titles.normalize_title(other) != ""
        assert titles.title_hash(one) == titles.title_hash(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Part 1", "Part 2"),
        ("The α-decay", "The β-decay"),
        ("Αλφα", "α λ φ α"),
        ("γ-лучи", "γ-лучи II"),
        ("हिन्दी", "हन्द"),
        ("がん", "かん"),
        ("深度学习", "深度网络"),
    ],
)
def test_different_titles_stay_apart(one: str, other: str) -> None:
    assert titles.normalize_title(one) != titles.normalize_title(other)


@given(st.text())
@example("ἀ-β")
@example("ώ b")
@example("ϲ")
def test_a_normal_form_is_its_own_normal_form(text: str) -> None:
    once = titles.normalize_title(text)
    assert titles.normalize_title(once) == once
    assert 0 <= titles.title_hash(text) < 2**63


def test_hashes_are_the_same_in_every_process() -> None:
    """Computed with ``printf attentionisallyouneed | b2sum -l 64``, then shifted right by one bit."""
    assert titles.title_hash("Attention Is All You Need") == 0x12286C43E70EFBAB >> 1


def test_exact_matches_come_first_with_score_one(catalog: sqlite3.Connection) -> None:
    hits = titles.match(catalog, "ATTENTION IS ALL YOU NEED", 5)
    assert hits == [(1, 1.0), (4, 1.0)]
    assert titles.match(catalog, "attention is all you need", 1) == [(1, 1.0)]


def test_a_title_with_the_hash_of_another_is_no_exact_match(catalog: sqlite3.Connection) -> None:
    """Paper 3 gets the hashes of paper 2, as if the hash function gave both titles the same."""
    adam, alone = titles.title_hash(TITLES[2]), titles.title_hash("Adam")
    catalog.execute("UPDATE papers SET title_hash = ?, main_title_hash = ? WHERE id IN (2, 3)", (adam, alone))
    assert titles.match(catalog, TITLES[2], 5) == [(2, 1.0)]
    assert titles.match(catalog, TITLES[2], 5, 1.0) == [(2, 1.0)]
    assert [hit.id for hit in titles.match(catalog, "Adam", 5)] == [2]
    assert [paper.id for paper in titles.titled(catalog, TITLES[2], NO_FILTERS, 5)] == [2]
    assert [paper.id for paper in titles.titled(catalog, "Adam", NO_FILTERS, 5)] == [2]
    spans = exact_titles(catalog, f"D. Kingma. {TITLES[2]}. 2015", NO_FILTERS)
    assert [(span.id, span.start) for span in spans] == [(2, 11)]


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("Atention is al you need", 1),
        ("Adam: a metod for stochastic optimisation", 2),
        ("Adam A Method of Stochastic Optimization", 2),
        ("Deep residual lerning for imgae recognition", 3),
        ("Deep Residual Learning for Image Recognition (extended abstract)", 3),
        ("Erdos-Renyi graphs and the giant component", 6),
        ("BERT: pretraining of deep bidirectional transformers for language understanding", 9),
        ("Learnnig", 7),
        ("深度学习中的注意力", 8),
    ],
)
def test_similar_titles_are_found(catalog: sqlite3.Connection, typed: str, found: int) -> None:
    hits = titles.match(catalog, typed, 3)
    assert hits[0].id == found
    assert hits[0].score >= MIN_TITLE_SCORE


def test_a_score_is_the_share_of_letters_in_common(catalog: sqlite3.Connection) -> None:
    """2 * 19 / (19 + 21): two letters of 21 are missing, and nothing else differs."""
    assert titles.match(catalog, "Atention is al you need", 1)[0].score == pytest.approx(38 / 40)
    theirs = difflib.SequenceMatcher(None, "attentionisalluneed", "attentionisallyouneed").ratio()
    assert titles.similarity("attentionisalluneed", "attentionisallyouneed") == pytest.approx(theirs)


def test_a_missing_subtitle_scores_lower_than_a_typing_error(catalog: sqlite3.Connection) -> None:
    whole = "Adam: A Method for Stochastic Optimization"
    short = titles.match(catalog, "A Method for Stochastic Optimization", 1)[0]
    typo = titles.match(catalog, whole.replace("Stochastic", "Stochstic"), 1)[0]
    assert short.id == typo.id == 2
    assert 0.7 < short.score < typo.score < 1.0
    assert titles.match(catalog, "Adam", 1) == []


@pytest.mark.parametrize(
    "typed",
    [
        "Quantum frobnication of imaginary zebras",
        "xyzzy",
        "The",
        "?!",
        "",
        "'); DROP TABLE papers; --",
        '"',
        "AND NOT (",
    ],
)
def test_a_title_that_no_paper_has_matches_nothing(catalog: sqlite3.Connection, typed: str) -> None:
    assert titles.match(catalog, typed, 5) == []


def test_filters_hold_for_exact_and_similar_matches(catalog: sqlite3.Connection) -> None:
    cited = ResolvedFilters(min_citations=2)
    assert titles.match(catalog, TITLES[1], 5, filters=cited) == [(4, 1.0)]
    similar = titles.match(catalog, "Atention is al you need", 5, filters=cited)
    assert [hit.id for hit in similar] == [4]


def test_titles_of_common_words_are_found_among_thousands_like_them(catalog: sqlite3.Connection) -> None:
    """Each word alone is in too many titles, so that pairs of words must find the paper."""
    words = ["graph", "neural", "model", "image"]
    catalog.executemany(
        "INSERT INTO papers(id, title, title_hash) VALUES (?, ?, ?)",
        [
            (1000 + i, title, titles.title_hash(title))
            for i in range(2 * titles._MAX_MATCHES + 8)
            for title in [f"{words[i % 4]} of number {i} in a long series of titles"]
        ],
    )
    catalog.execute(
        "INSERT INTO papers(id, title, title_hash) VALUES (?, ?, ?)",
        (100_000, "Neural model for the graph image", 1),
    )
    fulltext.index_range(catalog, 1000, 100_000)
    assert titles.match(catalog, "A neural model of graph image", 3)[0].id == 100_000


def test_a_filter_holds_before_every_cut(tmp_path: Path) -> None:
    """Words are counted and candidates are chosen among the papers that pass, whatever other papers there are."""
    few = {number: f"Spectral gaps of random lattices part {number:04}" for number in range(5001, 5161)}
    many = {number: f"Spectral gaps of random lattices volume {number:04}" for number in range(1, 5001)}
    passing = ResolvedFilters(min_citations=1)
    typed = "Spectral gaps of random latices part 5077"
    found = []
    for name, held in (("few", few), ("all", many | few)):
        with closing(open_for_building(tmp_path / name)) as connection:
            connection.executemany(
                "INSERT INTO papers(id, title, title_hash, citation_count) VALUES (?, ?, ?, ?)",
                [(i, title, titles.title_hash(title), int(i in few)) for i, title in held.items()],
            )
            fulltext.index_range(connection, 1, 10_000)
            found.append(titles.match(connection, typed, 100, filters=passing))
    assert found[0] == found[1]
    assert len(found[0]) == 100
    assert found[0][0].id == 5077

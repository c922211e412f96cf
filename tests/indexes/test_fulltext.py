"""Full text over real SQLite, with BM25 computed here by the published formula."""

import math
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from scholarbase.errors import InvalidRequest, LibraryCorrupt, LibraryError
from scholarbase.indexes import fulltext, query_syntax
from scholarbase.indexes.filters import ResolvedFilters
from scholarbase.indexes.schema import open_for_building

# title, abstract, categories, venue key, citations, first day, last day
PAPERS = {
    1: ("Attention is all you need", "We propose the Transformer.", "cs.CL cs.LG", "neurips", 90, 20170612, 20170612),
    2: ("Graph attention networks", "Nodes attend to neighbours.", "stat.ML cs.LG", "iclr", 50, 20171030, 20171030),
    3: ("Decoding with recurrent networks", "We add attention.", "cs.CL", None, 3, 20180101, 20181231),
    4: ("Erdős numbers of naïve authors", None, "math.CO", None, None, None, None),
    5: ("Attention and the galaxy", "Not the attention you know.", "astro-ph", "mnras", 0, 19990101, 19990131),
    6: ("A case study", "The gas of csmath.", None, "neurips", 1, 20200101, 20200101),
}  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "catalog.sqlite"
    connection = open_for_building(path)
    for i, (title, abstract, categories, venue, cited, first, last) in PAPERS.items():
        connection.execute(
            "INSERT INTO papers(id, title, categories, venue_key, citation_count, first_day, last_day) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (i, title, categories, venue, cited, first, last),
        )
        if abstract is not None:
            connection.execute("INSERT INTO abstracts VALUES (?, ?)", (i, abstract))
    assert fulltext.index_range(connection, 1, 4) == 4
    assert fulltext.index_range(connection, 5, 100) == 2
    fulltext.optimize(connection)
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()
    return path


@pytest.fixture
def reader(path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    yield connection
    connection.close()


@pytest.fixture
def writer(path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(path, isolation_level=None)
    yield connection
    connection.close()


def ids(connection: sqlite3.Connection, expression: str, **filters: object) -> list[int]:
    hits = fulltext.search(connection, expression, 10, ResolvedFilters(**filters))  # type: ignore[arg-type]
    assert fulltext.count(connection, expression, ResolvedFilters(**filters)) == len(hits)  # type: ignore[arg-type]
    return [hit.id for hit in hits]


def test_scores_are_bm25_with_the_title_counted_twice(reader: sqlite3.Connection) -> None:
    """Robertson's formula with k1 = 1.2 and b = 0.75, as https://sqlite.org/fts5.html#the_bm25_function has it."""
    texts = {i: (p[0].split(), (p[1] or "").rstrip(".").split()) for i, p in PAPERS.items()}
    mean = sum(len(t) + len(a) for t, a in texts.values()) / len(texts)
    holds = 2  # "network" is in two papers
    idf = math.log((len(texts) - holds + 0.5) / (holds + 0.5))
    expected = {}
    for i in (2, 3):
        title, abstract = texts[i]
        frequency = fulltext.TITLE_WEIGHT * 1
        length = len(title) + len(abstract)
        expected[i] = idf * frequency * 2.2 / (frequency + 1.2 * (0.25 + 0.75 * length / mean))
    hits = fulltext.search(reader, '"network"', 10)
    assert {hit.id: hit.score for hit in hits} == pytest.approx(expected)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_fault_1_a_question_finds_papers(reader: sqlite3.Connection) -> None:
    question = query_syntax.free_text("Which studies show that networks are decoded recurrently?")
    assert question is not None
    assert ids(reader, question)[0] == 3


def test_fault_8_letters_beyond_ascii_are_found_with_and_without_accents(reader: sqlite3.Connection) -> None:
    for text in ("naïve", "naive", "ERDŐS", "erdos"):
        assert ids(reader, query_syntax.free_text(text) or "") == [4]


def test_words_are_stemmed_and_columns_are_separate(reader: sqlite3.Connection) -> None:
    assert ids(reader, '"transformers"') == [1]
    assert sorted(ids(reader, 'title : ("attention")')) == [1, 2, 5]
    assert sorted(ids(reader, 'abstract : ("attention")')) == [3, 5]


@pytest.mark.parametrize(
    ("filters", "passing"),
    [
        ({}, [1, 2, 3, 5]),
        ({"first_day": 20170701}, [2, 3]),
        ({"last_day": 20171231}, [1, 2, 5]),
        # Only the year of paper 3 is known: it passes filters for the whole year, not for a part of it.
        ({"first_day": 20180101, "last_day": 20181231}, [3]),
        ({"first_day": 20180101, "last_day": 20180601}, []),
        ({"categories": ("cs.CL",)}, [1, 3]),
        ({"categories": ("cs",)}, [1, 2, 3]),
        ({"categories": ("stat", "astro-ph")}, [2, 5]),
        ({"categories": ("c", "CS", "cs.C", "cs.CL cs.LG", "L")}, []),
        ({"venues": ("neurips", "mnras")}, [1, 5]),
        ({"min_citations": 0}, [1, 2, 3, 5]),
        ({"min_citations": 50}, [1, 2]),
        ({"within": frozenset({2, 4, 5})}, [2, 5]),
        ({"within": frozenset()}, []),
        ({"exclude": frozenset({1, 2})}, [3, 5]),
        ({"categories": ("cs",), "min_citations": 10, "exclude": frozenset({1})}, [2]),
    ],
)
def test_every_filter_passes_the_right_papers(
    reader: sqlite3.Connection, filters: dict[str, object], passing: list[int]
) -> None:
    assert sorted(ids(reader, '"attention" OR "attend"', **filters)) == passing


def test_fault_2_filters_come_before_the_cut(reader: sqlite3.Connection) -> None:
    best = fulltext.search(reader, '"attention"', 1)[0].id
    others = ResolvedFilters(exclude=frozenset({best}))
    assert len(fulltext.search(reader, '"attention"', 1, others)) == 1
    assert fulltext.count(reader, '"attention"', others) == 3


def test_ties_break_by_id(writer: sqlite3.Connection) -> None:
    for i in (12, 10, 11):
        writer.execute("INSERT INTO papers(id, title) VALUES (?, 'Twin sumrule')", (i,))
    fulltext.index_range(writer, 10, 12)
    hits = fulltext.search(writer, '"sumrule"', 2)
    assert [hit.id for hit in hits] == [10, 11]
    assert hits[0].score == hits[1].score > 0


def test_matching_ids_stop_at_the_limit(reader: sqlite3.Connection) -> None:
    assert fulltext.matching_ids(reader, '"attention"', 10) == {1, 2, 3, 5}
    assert fulltext.matching_ids(reader, '"attention"', 2) == {1, 2}


@pytest.mark.parametrize("expression", ["", "(", "a AND", '"open', "venue : x", "*x", "NEAR(a b, c)", "-a"])
def test_fault_5_a_malformed_expression_is_an_error_and_not_an_empty_list(
    reader: sqlite3.Connection, expression: str
) -> None:
    for run in (fulltext.search, fulltext.matching_ids):
        with pytest.raises(InvalidRequest, match="is malformed"):
            run(reader, expression, 10)
    with pytest.raises(InvalidRequest, match="is malformed"):
        fulltext.count(reader, expression)


def test_an_interrupted_search_is_not_a_corrupt_library(reader: sqlite3.Connection) -> None:
    reader.set_progress_handler(lambda: 1, 1)
    with pytest.raises(sqlite3.OperationalError, match="interrupted"):
        fulltext.search(reader, '"attention"', 10)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE papers SET title = 'Another title' WHERE id = 2",
        "DELETE FROM abstracts WHERE paper_id = 1",
        "INSERT INTO papers(id, title) VALUES (7, 'Never indexed')",
        "INSERT INTO fulltext(rowid, title) VALUES (3, 'Indexed twice')",
    ],
)
def test_check_finds_an_index_that_differs_from_the_texts(writer: sqlite3.Connection, damage: str) -> None:
    writer.execute(damage)
    with pytest.raises(LibraryCorrupt, match="differs from the titles and abstracts"):
        fulltext.check(writer)


def test_check_needs_a_writable_connection(reader: sqlite3.Connection) -> None:
    with pytest.raises(LibraryError, match="read-only"):
        fulltext.check(reader)

"""Document frequencies by month, compared with counts by hand and with the sample's stored vectors."""

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from scholarbase.errors import LibraryCorrupt
from scholarbase.indexes import frequencies
from scholarbase.indexes.catalog import FILE_NAME, Catalog
from scholarbase.indexes.frequencies import ANY_TERM, UNDATED, FrequencyCounter
from scholarbase.indexes.vectors.base import BM25
from scholarbase.indexes.vectors.index import EdgeIndex

DAYS = {1: 20150110, 2: 20150131, 3: 20150302, 4: None, 6: 20150302, 7: 20160101}
TERMS = {1: [5, 9], 2: [5], 3: [5, 4_294_967_295], 4: [9], 7: [5, 7, 9]}
"""The terms of papers. Paper 6 has none."""
ROWS = [
    (ANY_TERM, 201501, 2),
    (ANY_TERM, 201503, 3),
    (ANY_TERM, 201601, 4),
    (ANY_TERM, UNDATED, 5),
    (5, 201501, 2),
    (5, 201503, 3),
    (5, 201601, 4),
    (7, 201601, 1),
    (9, 201501, 1),
    (9, 201601, 2),
    (9, UNDATED, 3),
    (4_294_967_295, 201503, 1),
]


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE papers (id INTEGER PRIMARY KEY, last_day INTEGER)")
        connection.executemany("INSERT INTO papers VALUES (?, ?)", DAYS.items())
        connection.executescript(frequencies.SCHEMA)
        yield connection


def counted(db: sqlite3.Connection, folder: Path, batch: int) -> FrequencyCounter:
    folder.mkdir()
    counter = FrequencyCounter(db, folder)
    papers = list(TERMS.items())
    for start in range(0, len(papers), batch):
        some = papers[start : start + batch]
        counter.add(
            np.array([paper for paper, _ in some], np.int64),
            np.array([len(terms) for _, terms in some], np.uint32),
            np.array([term for _, terms in some for term in terms], np.uint32),
        )
    return counter


@pytest.mark.parametrize(("batch", "buffered"), [(1, 1), (2, 4), (5, 1), (2, 1000)])
def test_rows_count_the_papers_up_to_the_end_of_each_month(
    db: sqlite3.Connection, tmp_path: Path, batch: int, buffered: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frequencies, "_BUFFERED", buffered)
    assert list(counted(db, tmp_path / "terms", batch).rows()) == ROWS


def test_writing_twice_leaves_the_same_rows(db: sqlite3.Connection, tmp_path: Path) -> None:
    db.execute("INSERT INTO document_frequencies VALUES (1, 201501, 77)")  # of an earlier attempt
    for folder in ("one", "two"):
        counter = counted(db, tmp_path / folder, 2)
        counter.write(db)
        assert counter.check(db) == len(ROWS)
        assert db.execute("SELECT * FROM document_frequencies ORDER BY term, month").fetchall() == ROWS


def test_no_papers_have_no_rows(db: sqlite3.Connection, tmp_path: Path) -> None:
    counter = FrequencyCounter(db, tmp_path)
    counter.write(db)
    assert counter.check(db) == 0


def test_a_paper_that_the_catalogue_lacks_is_an_error(db: sqlite3.Connection, tmp_path: Path) -> None:
    counter = FrequencyCounter(db, tmp_path)
    for ids in ([5], [1, 5], [5, 7], [8]):
        with pytest.raises(LibraryCorrupt, match="that the catalogue lacks"):
            counter.add(np.array(ids), np.ones(len(ids), np.uint32), np.ones(len(ids), np.uint32))


def test_a_look_up_is_of_the_last_full_month(db: sqlite3.Connection) -> None:
    db.executemany("INSERT INTO document_frequencies VALUES (?, ?, ?)", ROWS)
    for day, expected in (
        (None, {ANY_TERM: 5, 5: 4, 9: 3}),
        (99991231, {ANY_TERM: 4, 5: 4, 9: 2}),
        (20160131, {ANY_TERM: 4, 5: 4, 9: 2}),
        (20160130, {ANY_TERM: 3, 5: 3, 9: 1}),  # not the end of January
        (20150331, {ANY_TERM: 3, 5: 3, 9: 1}),
        (20150228, {ANY_TERM: 2, 5: 2, 9: 1}),
        (20150131, {ANY_TERM: 2, 5: 2, 9: 1}),
        (20150130, {}),
        (20141231, {}),
    ):
        month = frequencies.UNDATED if day is None else frequencies.last_full_month(day)
        rows = db.execute(frequencies.OF_TERMS, (f"[{ANY_TERM}, 5, 9, 12345]", month))
        assert {term: count for term, count in rows if count is not None} == expected, day


def test_the_last_full_month() -> None:
    days = (20150630, 20150629, 20160228, 20160229, 20150115)
    assert list(map(frequencies.last_full_month, days)) == [201506, 201505, 201601, 201602, 201500]


def test_the_samples_rows_count_its_stored_vectors(sample_library: Path) -> None:
    with closing(sqlite3.connect(sample_library / FILE_NAME)) as db:
        days = dict(db.execute("SELECT id, last_day FROM papers"))
    with closing(EdgeIndex.open(sample_library / "vectors")) as index:
        stored = [(point.id, point.sparse[BM25].indices) for batch in index.points() for point in batch]
    with closing(Catalog(sample_library / FILE_NAME, readers=1)) as catalog:
        for day in (None, 19930331, 20011231):
            of_day = [terms for number, terms in stored if day is None or (days[number] or 10**8) <= day]
            expected = Counter(term for terms in of_day for term in terms)
            assert len(of_day) > 100
            found = catalog.document_frequencies(list(expected), day)
            assert found == expected | {ANY_TERM: len(of_day)}

"""The catalogue over a real library, compared with its SQLite file and with the sample's raw records."""

import shutil
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from scholarbase.errors import LibraryCorrupt, LibraryError
from scholarbase.identifiers import Identifier, parse
from scholarbase.indexes.catalog import FILE_NAME, Catalog, canonical_id
from scholarbase.markup import plain
from scholarbase.models.papers import PAPER_FIELDS
from tests.conftest import sample_rows


@pytest.fixture(scope="module")
def catalog(sample_library: Path) -> Iterator[Catalog]:
    catalog = Catalog(sample_library / FILE_NAME, readers=2)
    yield catalog
    catalog.close()


@pytest.fixture(scope="module")
def numbers(sample_library: Path) -> list[int]:
    """The catalogue ids of the sample's first papers."""
    with closing(sqlite3.connect(sample_library / FILE_NAME)) as db:
        return [row[0] for row in db.execute("SELECT id FROM papers ORDER BY id LIMIT 8")]


def test_every_id_of_a_paper_resolves(catalog: Catalog) -> None:
    rows = list(sample_rows("papers"))[::50]
    for row in rows:
        ids = row["externalids"]
        names = [f"CorpusId:{row['corpusid']}", f"arXiv:{ids['ArXiv']}"]
        if ids["DOI"] and " " not in ids["DOI"]:  # arXiv's authors write two of them side by side
            names.append(f"DOI:{ids['DOI']}")
        found = catalog.resolve([parse(name) for name in names])
        assert len(set(found)) == 1
        (paper,) = catalog.papers([found[0] or 0], ["corpus_id", "title"])
        assert (paper.corpus_id, paper.title) == (row["corpusid"], plain(row["title"]))


def test_unknown_ids_are_none(catalog: Catalog) -> None:
    known, unknown = parse("arXiv:hep-th/9302103"), parse("arXiv:2912.00001")
    number = catalog.resolve([known])[0]
    assert number is not None
    mixed = [unknown, known, parse("MAG:1"), Identifier("CorpusId", str(2**80)), known]
    assert catalog.resolve(mixed) == [None, number, None, None, number]
    assert catalog.resolve([]) == []


def test_thousands_of_ids_at_once(catalog: Catalog, sample_library: Path) -> None:
    with closing(sqlite3.connect(sample_library / FILE_NAME)) as db:
        rows = db.execute("SELECT id, arxiv_id FROM papers ORDER BY id DESC").fetchall()
    assert len(rows) == 2440
    assert (
        catalog.resolve([Identifier("arXiv", name) for _, name in rows] * 4)
        == [number for number, _ in rows] * 4
    )
    papers = catalog.papers([number for number, _ in rows], ["id"])
    assert [paper.id for paper in papers] == [f"arXiv:{name}" for _, name in rows]


def test_papers_are_returned_in_the_requested_order_with_repetitions(
    catalog: Catalog, numbers: list[int]
) -> None:
    papers = catalog.papers([numbers[7], numbers[3], numbers[7]], PAPER_FIELDS)
    assert papers[0] == papers[2]
    assert papers[1] == catalog.papers([numbers[3]], PAPER_FIELDS)[0]
    assert catalog.papers([], PAPER_FIELDS) == []


def test_an_id_without_a_row_is_an_error(catalog: Catalog, numbers: list[int]) -> None:
    with pytest.raises(LibraryCorrupt, match="names paper 999999"):
        catalog.papers([numbers[0], 999_999], ["title"])


def test_venues_by_key(catalog: Catalog) -> None:
    assert catalog.venue_keys(["  ArXiv.ORG "]) == ("arxiv.org",)
    assert catalog.venue_keys([]) == ()


def test_a_venue_is_found_by_any_of_its_names(sample_library: Path, tmp_path: Path) -> None:
    """Papers whose source calls the venue NIPS were not found by its full name."""
    full = "neural information processing systems"
    copy = shutil.copy(sample_library / FILE_NAME, tmp_path / FILE_NAME)
    with closing(sqlite3.connect(copy)) as db, db:
        db.executemany(
            "INSERT INTO venue_names VALUES (?, ?)",
            [(full, full), ("nips", full), ("neurips", full), ("icml", "icml")],
        )
    catalog = Catalog(copy, readers=1)
    for name in (full, "NeurIPS", " Nips "):
        assert catalog.venue_keys([name]) == (full, "neurips", "nips")
    assert catalog.venue_keys(["NIPS", "other"]) == (full, "neurips", "nips", "other")
    assert catalog.venue_keys(["ICML"]) == ("icml",)
    catalog.close()


def test_a_paper_without_arxiv_id_has_its_corpus_id() -> None:
    assert canonical_id("1706.03762", 5) == "arXiv:1706.03762"
    assert canonical_id(None, 5) == "CorpusId:5"


def test_more_threads_than_connections_can_read(catalog: Catalog, numbers: list[int]) -> None:
    gate = threading.Barrier(8)

    def read(number: int) -> str:
        gate.wait(10)
        return catalog.papers([number], ["id"])[0].id

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(read, numbers))
    assert found == [paper.id for paper in catalog.papers(numbers, ["id"])]


def test_connections_are_read_only(catalog: Catalog) -> None:
    with pytest.raises(sqlite3.OperationalError, match="readonly"), catalog.reading() as connection:
        connection.execute("DELETE FROM papers")


def test_a_catalogue_that_replaces_an_open_one_is_not_read(
    sample_library: Path, numbers: list[int], tmp_path: Path
) -> None:
    """New connections opened the new file, so papers of another library came under the old snapshot id."""
    path = Path(shutil.copy(sample_library / FILE_NAME, tmp_path / FILE_NAME))
    other = Path(shutil.copy(path, tmp_path / "other"))
    with closing(sqlite3.connect(other)) as db, db:
        db.execute("UPDATE papers SET title = 'of another library'")
    with closing(Catalog(path, readers=2)) as catalog:
        before = catalog.papers([numbers[0]], ["title"])
        other.replace(path)
        with ThreadPoolExecutor(16) as threads:
            found = list(threads.map(lambda _: catalog.papers([numbers[0]], ["title"]), range(64)))
    assert all(papers == before for papers in found)


def test_only_damage_is_reported_as_damage(sample_library: Path, numbers: list[int], tmp_path: Path) -> None:
    path = Path(shutil.copy(sample_library / FILE_NAME, tmp_path / FILE_NAME))
    with (
        closing(Catalog(path, readers=1)) as catalog,
        pytest.raises(sqlite3.OperationalError, match="no such table"),
        catalog.reading() as connection,
    ):
        connection.execute("SELECT * FROM absent")
    with closing(sqlite3.connect(path)) as db, db:
        [page_size] = db.execute("PRAGMA page_size").fetchone()
        [root] = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'abstracts'").fetchone()
    with path.open("r+b") as file:
        file.seek((root - 1) * page_size)
        file.write(b"\xff" * page_size)
    with (
        closing(Catalog(path, readers=1)) as catalog,
        pytest.raises(LibraryCorrupt, match="is damaged: database disk image is malformed"),
    ):
        catalog.papers([numbers[0]], ["abstract"])


def test_a_file_that_is_not_a_catalogue_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(LibraryCorrupt, match="is missing"):
        Catalog(tmp_path / FILE_NAME)
    (tmp_path / FILE_NAME).write_bytes(b"no database" * 100)
    with pytest.raises(LibraryCorrupt, match="is not a catalogue"):
        Catalog(tmp_path / FILE_NAME)
    (tmp_path / FILE_NAME).unlink()
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as db:
        db.execute("CREATE TABLE others (id)")
    with pytest.raises(
        LibraryCorrupt,
        match="has no abstracts, aliases, author_names, author_papers",
    ):
        Catalog(tmp_path / FILE_NAME)


def test_a_closed_catalogue_is_an_error(sample_library: Path) -> None:
    catalog = Catalog(sample_library / FILE_NAME, readers=1)
    catalog.close()
    catalog.close()
    with pytest.raises(LibraryError, match="is closed"):
        catalog.meta("snapshot")

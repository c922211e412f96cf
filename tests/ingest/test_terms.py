from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from scholarbase.errors import VectorIndexError
from scholarbase.indexes.vectors.bm25 import Bm25Parameters, Bm25Text
from scholarbase.ingest import terms
from scholarbase.ingest.job import ingest
from tests.conftest import SAMPLE

PARAMETERS = Bm25Parameters(average_length=90.0)


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("terms") / "library"
    ingest([SAMPLE / "arxiv"], library)
    return library / "catalog.sqlite"


def read(catalog: Path, after: int) -> list[tuple[int, dict[int, float]]]:
    with terms.bm25_vectors(catalog, after, PARAMETERS, 1000) as pairs:
        return [(paper, dict(zip(v.indices, v.values, strict=True))) for paper, v in pairs]


@pytest.mark.parametrize("after", [0, 777, 10**9])
def test_a_process_of_its_own_makes_the_same_vectors(
    catalog: Path, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = Bm25Text(PARAMETERS)
    with closing(sqlite3.connect(catalog)) as db:
        rows = db.execute(
            "SELECT id, title, abstract FROM papers LEFT JOIN abstracts ON paper_id = id WHERE id > ? ORDER BY id",
            (after,),
        ).fetchall()
    expected = []
    for paper, title, abstract in rows:
        vector = text.document(title, abstract)
        expected.append((paper, dict(zip(vector.indices, vector.values, strict=True))))
    assert read(catalog, after) == expected
    monkeypatch.setattr(terms, "WORTH_A_PROCESS", 1)
    assert read(catalog, after) == expected


def test_a_process_that_fails_is_an_error_and_no_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(terms, "WORTH_A_PROCESS", 1)
    (tmp_path / "empty.sqlite").touch()
    with pytest.raises(VectorIndexError, match="ended with status 1 before its work was done"):
        read(tmp_path / "empty.sqlite", 0)
    assert "no such table" in capfd.readouterr().err

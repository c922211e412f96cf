from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from scholarbase import workers
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


def vectors_after(catalog: Path, after: int) -> list[tuple[int, dict[int, float]]]:
    with terms.bm25_vectors(catalog, after, PARAMETERS, 1000) as pairs:
        return [(paper, dict(zip(v.indices, v.values, strict=True))) for paper, v in pairs]


@pytest.mark.slow
@pytest.mark.parametrize("after", [0, 777, 10**9])
def test_a_subprocess_computes_the_same_vectors(
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
    assert vectors_after(catalog, after) == expected
    monkeypatch.setattr(workers, "SUBPROCESS_PAPERS", 1)
    assert vectors_after(catalog, after) == expected


def test_a_failed_subprocess_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(workers, "SUBPROCESS_PAPERS", 1)
    (tmp_path / "empty.sqlite").touch()
    with pytest.raises(VectorIndexError, match="ended with status 1"):
        vectors_after(tmp_path / "empty.sqlite", 0)
    assert "no such table" in capfd.readouterr().err

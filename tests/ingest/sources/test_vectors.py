"""Vectors computed elsewhere: all layouts give the same vectors, and faults are errors."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from scholarbase.errors import SourceError
from scholarbase.ingest.sources.vectors import open_vectors

IDS = [f"2001.{n:05}" for n in range(1, 11)]
VECTORS = np.random.default_rng(7).normal(size=(10, 4)).astype(np.float32)
UNIT = np.array([row / np.sqrt(sum(float(x) ** 2 for x in row)) for row in VECTORS], dtype=np.float32)


def save(folder: Path, vectors: npt.NDArray[Any] = VECTORS, ids: list[str] | None = None) -> Path:
    np.save(folder / "vectors.npy", vectors)
    (folder / "ids.txt").write_text("\n".join(IDS if ids is None else ids) + "\n")
    return folder


def read(path: Path, batch: int = 4) -> tuple[list[str], npt.NDArray[np.float32]]:
    batches = list(open_vectors(path, batch))
    assert all(len(ids) == len(rows) <= batch and rows.dtype == np.float32 for ids, rows in batches)
    return [name for ids, _ in batches for name in ids], np.vstack([rows for _, rows in batches])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_reads_an_array_with_its_ids(tmp_path: Path, dtype: type) -> None:
    ids, rows = read(save(tmp_path, VECTORS.astype(dtype)))
    assert ids == IDS
    np.testing.assert_allclose(rows, UNIT, atol=1e-3 if dtype is np.float16 else 1e-6)
    np.testing.assert_array_equal(read(tmp_path / "vectors.npy")[1], rows)


@pytest.mark.parametrize("kind", ["list", "large_list", "fixed"])
@pytest.mark.parametrize("columns", [("id", "vector"), ("arxiv_id", "embedding"), ("paper_id", "vector")])
def test_reads_parquet(tmp_path: Path, kind: str, columns: tuple[str, str]) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    types = {
        "list": pa.list_(pa.float32()),
        "large_list": pa.large_list(pa.float64()),
        "fixed": pa.list_(pa.float32(), 4),
    }
    table = pa.table({"title": IDS, columns[0]: IDS, columns[1]: pa.array(VECTORS.tolist(), types[kind])})
    pq.write_table(table.slice(0, 7), tmp_path / "0.parquet")
    pq.write_table(table.slice(7), tmp_path / "1.parquet")
    ids, rows = read(tmp_path)
    assert ids == IDS
    np.testing.assert_allclose(rows, UNIT, atol=1e-6)
    assert len(read(tmp_path / "1.parquet")[0]) == 3


def parquet(folder: Path, **columns: object) -> Path:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), folder / "v.parquet")
    return folder / "v.parquet"


def test_a_numeric_corpus_id_names_its_scheme(tmp_path: Path) -> None:
    assert read(parquet(tmp_path, corpus_id=[12, 7], vector=[[1.0, 0.0], [0.0, 2.0]]))[0] == [
        "CorpusId:12",
        "CorpusId:7",
    ]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"name": ["a"], "vector": [[1.0]]},
            "columns name, vector: its column of ids must be named id or paper_id",
        ),
        ({"id": ["a"], "v": [[1.0]]}, "column of vectors must be named vector or embedding"),
        ({"id": ["a", None], "vector": [[1.0], [2.0]]}, "column id has a null value"),
        ({"id": ["a", "b"], "vector": [[1.0], None]}, "vector is null"),
        ({"id": ["a", "b"], "vector": [[1.0], [None]]}, "value of a vector is null"),
        ({"id": ["a", "b"], "vector": [[1.0], [1.0, 2.0]]}, "empty or differ in dimensions"),
        ({"id": ["a", "b"], "vector": [[], []]}, "empty or differ in dimensions"),
        ({"id": ["a", "b"], "vector": [[1], [2]]}, "int64"),
        ({"arxiv_id": [2001.00001], "vector": [[1.0]]}, "lose their zeros"),
    ],
)
def test_refuses_other_parquet_tables(tmp_path: Path, columns: dict[str, object], message: str) -> None:
    with pytest.raises(SourceError, match=message):
        read(parquet(tmp_path, **columns))


def changed(row: int, value: float) -> npt.NDArray[np.float32]:
    vectors = VECTORS.copy()
    vectors[row] = value
    return vectors


@pytest.mark.parametrize(
    ("vectors", "ids", "message"),
    [
        (VECTORS, IDS[:9], "9 lines and vectors.npy 10 rows"),
        (VECTORS, [*IDS[:9], IDS[0]], "'2001.00001' in row 10 is repeated"),
        (VECTORS, [*IDS[:4], "", *IDS[5:]], "row 5 is empty"),
        (changed(6, np.nan), IDS, r"'2001.00007' \(row 7\) has values that are not finite"),
        (changed(6, np.inf), IDS, "not finite"),
        (changed(6, 0), IDS, "row 7.* is zero"),
        (VECTORS[0], IDS, "shape"),
        (VECTORS.astype(np.int64), IDS, "int64"),
        (VECTORS[:0], [], "has no vectors|lines and"),
    ],
)
def test_refuses_invalid_vectors(
    tmp_path: Path, vectors: npt.NDArray[Any], ids: list[str], message: str
) -> None:
    with pytest.raises(SourceError, match=message):
        read(save(tmp_path, vectors, ids))


def test_a_list_of_ids_far_too_long_is_not_read(tmp_path: Path) -> None:
    path = save(tmp_path, VECTORS, IDS)
    (tmp_path / "ids.txt").write_bytes(bytes(20_000))
    with pytest.raises(SourceError, match="has 20,000 bytes for 10 rows"):
        read(path)


def test_a_small_file_of_huge_vectors_is_not_read(tmp_path: Path) -> None:
    """Parquet stores a million equal numbers in some bytes."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    path = tmp_path / "0.parquet"
    pq.write_table(pa.table({"id": ["a"], "vector": [np.zeros(1_000_000, np.float32)]}), path)
    assert path.stat().st_size < 10_000
    with pytest.raises(SourceError, match="1 rows have 1,000,000 values"):
        read(path)


def test_refuses_missing_files_and_other_formats(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="No vectors at"):
        read(tmp_path / "missing")
    with pytest.raises(SourceError, match=r"no \.npy and no \.parquet"):
        read(tmp_path)
    np.save(tmp_path / "a.npy", VECTORS)
    with pytest.raises(SourceError, match=r"No ids\.txt beside"):
        read(tmp_path)
    (tmp_path / "a.npy").write_bytes(b"not an array")
    (tmp_path / "ids.txt").write_text("a\n")
    with pytest.raises(SourceError, match="not a NumPy array"):
        read(tmp_path)
    (tmp_path / "b.npy").write_bytes(b"")
    with pytest.raises(SourceError, match=r"more than one \.npy"):
        read(tmp_path)
    (tmp_path / "x.parquet").write_bytes(b"PAR1 but no more")
    with pytest.raises(SourceError, match="is not a whole Parquet file"):
        read(tmp_path)

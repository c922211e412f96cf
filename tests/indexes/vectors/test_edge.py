import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from scholarbase.errors import VectorIndexError
from scholarbase.indexes.filters import NO_FILTERS, ResolvedFilters
from scholarbase.indexes.vectors.base import (
    BM25,
    DENSE,
    LEARNED,
    Payload,
    SparseVector,
    VectorConfig,
    VectorPoint,
    read_config,
    search_threads,
)
from scholarbase.indexes.vectors.edge import EdgeWriter
from scholarbase.indexes.vectors.index import EdgeIndex
from tests.indexes.vectors.conftest import CONFIG, Corpus

BUILD = """
import sys
from pathlib import Path
import numpy as np
from scholarbase.indexes.vectors.base import Payload, SparseVector, VectorConfig, VectorPoint
from scholarbase.indexes.vectors.edge import EdgeWriter

writer = EdgeWriter.open(Path(sys.argv[1]), VectorConfig(dimensions=16))
for start in range(int(sys.argv[2]), 1_000_000, 100):
    writer.upsert([
        VectorPoint(n, Payload(first_day=20200101 + n % 9), np.random.default_rng(n).standard_normal(16),
                    {"bm25": SparseVector([n % 50, 50 + n % 7], [1.0, 0.5 + n % 3])})
        for n in range(start, start + 100)
    ])
    writer.flush()
    print(start + 100, flush=True)
"""


def points(numbers: range) -> list[VectorPoint]:
    return [
        VectorPoint(
            n,
            Payload(first_day=20200101 + n % 9),
            np.random.default_rng(n).standard_normal(16).astype(np.float32),
            {BM25: SparseVector([n % 50, 50 + n % 7], [1.0, 0.5 + n % 3])},
        )
        for n in numbers
    ]


def contents(path: Path) -> list[tuple]:
    index = EdgeIndex.open(path)
    found = [(p.id, p.payload, p.sparse[BM25], p.dense.tolist()) for batch in index.points() for p in batch]
    query = np.ones(16, dtype=np.float32)
    found.append(tuple(index.search_dense(query, 50, NO_FILTERS, exact=True)))
    found.append(tuple(index.search_sparse(BM25, SparseVector([3, 51], [1.0, 1.0]), 50, NO_FILTERS)))
    index.close()
    return found


@pytest.mark.slow
def test_a_build_killed_twice_equals_an_undisturbed_one(tmp_path: Path) -> None:
    config = VectorConfig(dimensions=16)
    killed, undisturbed = tmp_path / "killed", tmp_path / "undisturbed"
    done = 0
    for _ in range(2):
        process = subprocess.Popen(
            [sys.executable, "-c", BUILD, str(killed), str(done)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        for _ in range(3):
            done = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=120)
    writer = EdgeWriter.open(killed, config)
    # Flushed points are there, later ones may be.
    for start in range(done, done + 1000, 100):
        writer.upsert(points(range(start, start + 100)))
    writer.finish()
    writer.close()
    index = EdgeIndex.open(killed)
    found = list(index.ids())
    index.close()
    assert found[: done + 1000] == list(range(done + 1000))
    writer = EdgeWriter.open(undisturbed, config)
    writer.upsert(points(range(len(found))))
    writer.finish()
    writer.close()
    assert contents(killed) == contents(undisturbed)


def test_an_unfinished_shard_is_created_again(tmp_path: Path) -> None:
    (tmp_path / "vectors.new" / "segments").mkdir(parents=True)
    (tmp_path / "vectors.new" / "edge_config.json").write_text("{")
    writer = EdgeWriter.open(tmp_path / "vectors", CONFIG)
    writer.close()
    assert [path.name for path in tmp_path.iterdir()] == ["vectors"]


def test_an_unfinished_segment_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "vectors"
    writer = EdgeWriter.open(path, CONFIG)
    writer.close()
    (path / "temp_segments" / "segment_builder_Xy12Za").mkdir(parents=True)
    (path / "temp_segments" / "segment_builder_Xy12Za" / "matrix.dat").write_bytes(b"half")
    writer = EdgeWriter.open(path, CONFIG)
    writer.finish()
    writer.close()
    assert not (path / "temp_segments").exists() or list((path / "temp_segments").iterdir()) == []


def segments(path: Path) -> int:
    """The number of sealed segments, the only ones with posting lists in a file."""
    return len(list(path.glob("segments/*/vector_index-bm25/inverted_index.dat")))


@pytest.mark.slow
def test_points_in_several_segments_are_found_as_in_one(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for path, cuts in ((one, [100]), (two, [60, 100])):
        writer = EdgeWriter.open(path, VectorConfig(dimensions=16))
        for start, end in zip([0, *cuts], cuts, strict=False):
            writer.upsert(points(range(start, end)))
            writer.seal()
        writer.close()
    assert (segments(one), segments(two)) == (1, 2)
    # A thread for each segment with points, and no more than the caller allows.
    assert [search_threads(*of) for of in ((one, 4), (two, 4), (two, 1), (tmp_path, 4))] == [1, 2, 1, 1]
    assert contents(one) == contents(two)


@pytest.mark.slow
def test_a_point_upserted_again_after_its_segment_was_sealed_counts_once(tmp_path: Path) -> None:
    path = tmp_path / "vectors"
    writer = EdgeWriter.open(path, VectorConfig(dimensions=16))
    writer.upsert(points(range(200)))
    writer.finish()
    writer.close()
    writer = EdgeWriter.open(path, VectorConfig(dimensions=16))
    writer.upsert(points(range(190, 300)))
    writer.finish()
    writer.finish()
    writer.close()
    writer.close()
    index = EdgeIndex.open(path)
    assert list(index.ids()) == list(range(300))
    # Of 300 points, six have term 3. Scores are dot products, without an IDF of Qdrant's.
    hits = index.search_sparse(BM25, SparseVector([3], [1.0]), 400, NO_FILTERS)
    assert [hit.score for hit in hits] == [1.0] * 6
    index.close()


def test_the_layout_is_read_back(tmp_path: Path) -> None:
    for number, config in enumerate(
        [
            VectorConfig(learned=True),
            VectorConfig(dimensions=8, m=8, ef_construct=64),
            VectorConfig(dimensions=8, quantization=None, learned=True),
        ]
    ):
        path = tmp_path / str(number)
        writer = EdgeWriter.open(path, config)
        writer.finish()
        writer.close()
        assert read_config(path) == config
        index = EdgeIndex.open(path)
        assert index.config == config
        assert index.count(NO_FILTERS) == 0
        assert list(index.ids()) == []
        index.close()


def test_an_unsupported_quantization_is_rejected(tmp_path: Path) -> None:
    EdgeWriter.open(tmp_path / "vectors", VectorConfig(dimensions=8)).close()
    file = tmp_path / "vectors" / "edge_config.json"
    written = json.loads(file.read_bytes())
    written["vectors"]["dense"]["quantization_config"] = {"scalar": {"type": "int8"}}
    file.write_text(json.dumps(written))
    with pytest.raises(VectorIndexError, match=r"unsupported quantization.*int8.*build the library again"):
        EdgeIndex.open(tmp_path / "vectors")


def test_another_layout_is_rejected(tmp_path: Path) -> None:
    EdgeWriter.open(tmp_path / "vectors", VectorConfig(dimensions=8)).close()
    with pytest.raises(VectorIndexError, match=r"dimensions=8.*dimensions=9"):
        EdgeWriter.open(tmp_path / "vectors", VectorConfig(dimensions=9))


def test_learned_weights_are_a_plain_dot_product(tmp_path: Path) -> None:
    writer = EdgeWriter.open(tmp_path / "vectors", VectorConfig(learned=True))
    writer.upsert(
        [
            VectorPoint(1, Payload(), sparse={LEARNED: SparseVector([4, 9], [0.5, 0.25])}),
            VectorPoint(
                2, Payload(), sparse={LEARNED: SparseVector([9], [2.0]), BM25: SparseVector([9], [1.0])}
            ),
            VectorPoint(3, Payload(), sparse={BM25: SparseVector([4], [1.0])}),
            VectorPoint(4, Payload(), sparse={LEARNED: SparseVector([], [])}),
        ]
    )
    writer.finish()
    writer.close()
    index = EdgeIndex.open(tmp_path / "vectors")
    assert index.search_sparse(LEARNED, SparseVector([4, 9], [1.0, 0.5]), 10, NO_FILTERS) == [
        (2, 1.0),
        (1, 0.625),
    ]
    assert [index.count(NO_FILTERS, vector=name) for name in (LEARNED, BM25)] == [2, 2]
    assert index.count(NO_FILTERS) == 4
    index.close()


def test_an_invalid_point_is_rejected_with_its_batch(tmp_path: Path, corpus: Corpus) -> None:
    writer = EdgeWriter.open(tmp_path / "vectors", CONFIG)
    good = corpus.points[0]
    for bad, message in [
        (VectorPoint(7, Payload(), np.full(32, np.nan, dtype=np.float32)), "Paper 7 has NaN"),
        (VectorPoint(8, Payload(), np.ones(31, dtype=np.float32)), "Paper 8 has a dense vector of shape"),
        (VectorPoint(9, Payload(), sparse={LEARNED: SparseVector([1], [1.0])}), "Paper 9.*learned"),
        (VectorPoint(10, Payload(), sparse={BM25: SparseVector([1, 2], [1.0])}), "Paper 10 has 2 bm25 indices"),
        (VectorPoint(11, Payload(), sparse={BM25: SparseVector([1], [float("inf")])}), "Paper 11 has NaN or infinity"),
        (VectorPoint(-1, Payload()), "-1 is not a valid point id"),
    ]:  # fmt: skip
        with pytest.raises(VectorIndexError, match=message):
            writer.upsert([good, bad])
    writer.finish()
    writer.close()
    index = EdgeIndex.open(tmp_path / "vectors")
    assert index.count(NO_FILTERS) == 0
    index.close()


def test_filters_take_ten_thousand_ids(edge: EdgeIndex, corpus: Corpus) -> None:
    many = frozenset(range(200, 10_200))
    assert edge.count(ResolvedFilters(within=many)) == 141
    assert edge.count(ResolvedFilters(exclude=many)) == 199
    assert edge.count(ResolvedFilters(within=many, exclude=frozenset({200})), vector=DENSE) == sum(
        point.dense is not None for point in corpus.points[200:]
    )


def test_a_damaged_shard_is_an_error(shard: Path, tmp_path: Path) -> None:
    subprocess.run(["cp", "-r", str(shard), str(tmp_path / "vectors")], check=True)
    for path in (tmp_path / "vectors").rglob("segment.json"):
        path.write_text("{}")
    with pytest.raises(VectorIndexError, match="failed to open"):
        EdgeIndex.open(tmp_path / "vectors")
    assert list(tmp_path.iterdir()) == [tmp_path / "vectors"]
    (tmp_path / "vectors" / "edge_config.json").write_text("[]")
    with pytest.raises(VectorIndexError, match=r"edge_config\.json is not a valid layout"):
        EdgeIndex.open(tmp_path / "vectors")


def test_searching_a_closed_index_is_an_error(shard: Path, corpus: Corpus) -> None:
    index = EdgeIndex.open(shard)
    index.close()
    with pytest.raises(VectorIndexError, match="failed to search"):
        index.search_sparse(BM25, corpus.bm25.query("networks"), 10, NO_FILTERS)

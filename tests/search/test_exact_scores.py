"""BM25's scores do not depend on how the index was built: ids and scores are compared bit for bit."""

import itertools
import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from scholarbase.indexes.catalog import FILE_NAME, Catalog
from scholarbase.indexes.contents import OpenedFiles
from scholarbase.indexes.vectors.edge import EdgeWriter
from scholarbase.indexes.vectors.index import EdgeIndex, VectorIndex
from scholarbase.indexes.vectors.shards import LocalIndex, ShardWriters, open_local
from scholarbase.manifest import read_manifest
from scholarbase.models.limits import Engine
from scholarbase.search.library import Library
from scholarbase.search.opening import Opened
from scholarbase.settings import Settings
from tests.conftest import SAMPLE

pytestmark = pytest.mark.slow

SEGMENTS = (1, 3)
ENGINES: tuple[Engine, ...] = ("bm25", "feedback")
FILTERS: tuple[dict[str, Any], ...] = (
    {},
    {"category": ["cs.CL"]},
    {"from_": "1993-06", "to": "1994-02"},
    {"min_citations": 3, "category": ["hep-th"]},
    {"as_of": "1994-03"},
    {"as_of": "2018-06-15"},
)


def segmented(shard: Path, path: Path, segments: int) -> EdgeIndex:
    """The points of a shard in another one with this many segments."""
    with closing(EdgeIndex.open(shard)) as index:
        points = [point for batch in index.points() for point in batch]
        writer = EdgeWriter.open(path, index.config)
    for number in range(segments):
        writer.upsert(points[number::segments])
        writer.seal()
    writer.finish()
    writer.close()
    assert len(list(path.glob("segments/*/vector_index-bm25/inverted_index.dat"))) == segments
    return EdgeIndex.open(path)


def divided(index: EdgeIndex, path: Path) -> LocalIndex:
    """The points of an index in two shards."""
    with closing(ShardWriters.open(path, 2, index.config)) as writers:
        for points in index.points():
            writers.upsert(points)
        writers.finish()
    return open_local(path)


def opened(path: Path, index: VectorIndex) -> Library:
    manifest, snapshot = read_manifest(path)
    papers = Catalog(path / FILE_NAME, readers=2)
    return Library(Opened(path, manifest, snapshot, Settings(), OpenedFiles(()), papers, index))


@pytest.fixture(scope="module")
def libraries(sample_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Library]]:
    """The sample with its vectors in each number of segments, and in two shards."""
    folder = tmp_path_factory.mktemp("segments")
    with ExitStack() as stack:
        shards: list[LocalIndex] = [
            segmented(sample_library / "vectors", folder / f"{n}", n) for n in SEGMENTS
        ]
        shards.append(divided(shards[0], folder / "divided"))
        yield [stack.enter_context(closing(opened(sample_library, index))) for index in shards]


def questions() -> list[str]:
    asked = [json.loads(line)["final_query"] for line in (SAMPLE / "queries.jsonl").read_text().splitlines()]
    return [*asked[:10], "string theory and two-dimensional QCD", "quark", " ".join(asked)]


def check_equal(libraries: list[Library], some: list[str]) -> None:
    found = 0
    for engine, filters, question in itertools.product(ENGINES, FILTERS, some):
        responses = [
            library.search(question, mode="sparse", engine=engine, limit=300, fields=["id"], **filters)
            for library in libraries
        ]
        results = [[(hit.paper.id, hit.score) for hit in response.results] for response in responses]
        assert all(other == results[0] for other in results[1:]), (engine, filters, question)
        found += len(results[0])
    assert found > 1000
    for question in some:
        totals = {library.search(question, mode="sparse", exact=True, limit=1).total for library in libraries}
        assert len(totals) == 1


def test_scores_are_the_same_in_any_number_of_segments_and_shards(libraries: list[Library]) -> None:
    check_equal(libraries, questions()[-3:])


@pytest.mark.whole
def test_scores_are_the_same_on_a_server(libraries: list[Library], sample_library: Path) -> None:
    """Of two nodes."""
    from scholarbase_cluster.qdrant.nodes import Nodes
    from scholarbase_cluster.qdrant.server import ServerIndex
    from tests.qdrant.cluster import qdrant_cluster
    from tests.qdrant.loading import fill

    _, snapshot = read_manifest(sample_library)
    with ExitStack() as stack:
        nodes = stack.enter_context(closing(Nodes(stack.enter_context(qdrant_cluster(2)).urls)))
        fill(libraries[0]._vectors, nodes, "sample", snapshot)
        server = ServerIndex.open(nodes, "sample", snapshot)
        library = stack.enter_context(closing(opened(sample_library, server)))
        check_equal([libraries[0], library], questions()[-3:])

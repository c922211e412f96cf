"""300 real arXiv papers, and copies of 40 for ties, in both kinds of vector index."""

from __future__ import annotations

import gzip
import json
import math
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pytest

from scholarbase.indexes.filters import category_keys
from scholarbase.indexes.frequencies import ANY_TERM
from scholarbase.indexes.vectors.base import BM25, Payload, VectorConfig, VectorPoint, ascending
from scholarbase.indexes.vectors.bm25 import Bm25Parameters, Bm25Text
from scholarbase.indexes.vectors.edge import EdgeWriter
from scholarbase.indexes.vectors.index import EdgeIndex, VectorIndex
from scholarbase.indexes.vectors.shards import ShardedIndex, ShardWriters, open_local
from scholarbase.markup import searchable
from scholarbase.search.legs import Bm25Queries

if TYPE_CHECKING:
    from scholarbase_cluster.qdrant.nodes import Nodes
    from scholarbase_cluster.qdrant.server import ServerIndex
    from tests.qdrant.cluster import Cluster

PAPERS = Path(__file__).parents[2] / "data" / "papers.jsonl.gz"
DIMENSIONS = 32
COPIES = 40
SNAPSHOT = "0123456789abcdef0123456789abcdef"
CONFIG = VectorConfig(dimensions=DIMENSIONS)


def words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", searchable(text).lower())


@dataclass(frozen=True)
class Corpus:
    """Points by ascending id, their texts, and the encoders of queries."""

    texts: list[tuple[str, str]]
    points: list[VectorPoint]
    bm25: Bm25Text
    queries: Bm25Queries
    project: Callable[[str], npt.NDArray[np.float32]]


def projection(texts: list[str]) -> Callable[[str], npt.NDArray[np.float32]]:
    """Tf-idf, each word a random direction seeded by its checksum: similar texts have similar vectors."""
    counts = Counter(word for text in texts for word in set(words(text)))
    directions: dict[str, npt.NDArray[np.float64]] = {}

    def project(text: str) -> npt.NDArray[np.float32]:
        total = np.zeros(DIMENSIONS)
        for word, frequency in Counter(words(text)).items():
            if word not in directions:
                directions[word] = np.random.default_rng(zlib.crc32(word.encode())).standard_normal(
                    DIMENSIONS
                )
            idf = math.log((1 + len(texts)) / (1 + counts[word]))
            total += (1 + math.log(frequency)) * idf * directions[word]
        return (total / np.linalg.norm(total)).astype(np.float32)

    return project


def payload(number: int, paper: dict) -> Payload:
    """The paper's own date and categories; some dates have only the year, or are missing. arXiv's snapshot has neither
    venues nor citations: the archive and the abstract's length are used instead."""
    year, month, day = (int(part) for part in paper["date"].split("-"))
    first = last = year * 10000 + month * 100 + day
    if number % 7 == 0:
        first, last = year * 10000 + 101, year * 10000 + 1231
    undated = number % 11 == 0
    return Payload(
        first_day=None if undated else first,
        last_day=None if undated else last,
        categories=[] if number % 13 == 0 else category_keys(paper["categories"]),
        venue=None if number % 3 == 0 else paper["categories"][0].split(".")[0],
        citation_count=None if number % 5 == 0 else len(paper["abstract"]) % 50,
        sets=[name for name, step in (("halves", 2), ("quarters", 4)) if number % step == 0],
        types=[name for name, step in (("JournalArticle", 6), ("Review", 4)) if number % step == 0],
        status="retracted" if number % 17 == 0 else "withdrawn" if number % 19 == 0 else None,
    )


@pytest.fixture(scope="session")
def corpus() -> Corpus:
    with gzip.open(PAPERS, "rt", encoding="utf-8") as lines:
        papers = [json.loads(line) for line in lines]
    papers += papers[100 : 100 + COPIES]
    texts = [(paper["title"], paper["abstract"]) for paper in papers]
    bm25 = Bm25Text(Bm25Parameters(average_length=110.0))
    project = projection([f"{title}\n{abstract}" for title, abstract in texts])
    points = [
        VectorPoint(
            id=number,
            payload=payload(number, paper),
            # One paper in 17 has no dense vector.
            dense=None if number % 17 == 0 else project(f"{paper['title']}\n{paper['abstract']}"),
            sparse={BM25: ascending(bm25.document(paper["title"], paper["abstract"]))},
        )
        for number, paper in enumerate(papers, start=1)
    ]
    holding = Counter(term for point in points for term in point.sparse[BM25].indices)
    queries = Bm25Queries(bm25, lambda terms, day: holding | {ANY_TERM: len(points)})
    return Corpus(texts, points, bm25, queries, project)


def shuffled(points: list[VectorPoint]) -> list[VectorPoint]:
    order = np.random.default_rng(5).permutation(len(points))
    return [points[i] for i in order]


@pytest.fixture(scope="session")
def shard(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished shard."""
    path = tmp_path_factory.mktemp("library") / "vectors"
    writer = EdgeWriter.open(path, CONFIG)
    writer.upsert(shuffled(corpus.points))
    writer.finish()
    writer.close()
    return path


@pytest.fixture(scope="session")
def edge(shard: Path) -> Iterator[EdgeIndex]:
    index = EdgeIndex.open(shard)
    yield index
    index.close()


@pytest.fixture(scope="session")
def sharded(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShardedIndex]:
    """The same points in three shards, so that copies of a paper are in different ones."""
    path = tmp_path_factory.mktemp("sharded-library") / "vectors"
    with closing(ShardWriters.open(path, 3, CONFIG)) as writers:
        writers.upsert(shuffled(corpus.points))
        writers.finish()
    with closing(open_local(path)) as index:
        assert isinstance(index, ShardedIndex)
        yield index


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A Qdrant server without collections."""
    from tests.qdrant.cluster import qdrant_cluster

    with qdrant_cluster() as cluster:
        yield cluster


@pytest.fixture
def nodes(cluster: Cluster) -> Iterator[Nodes]:
    from scholarbase_cluster.qdrant.nodes import Nodes

    with closing(Nodes(cluster.urls)) as nodes:
        yield nodes


@pytest.fixture(scope="session")
def server(edge: EdgeIndex) -> Iterator[ServerIndex]:
    """The same points on a server."""
    from scholarbase_cluster.qdrant.nodes import Nodes
    from scholarbase_cluster.qdrant.server import ServerIndex
    from tests.qdrant.cluster import qdrant_cluster
    from tests.qdrant.loading import fill

    with qdrant_cluster() as cluster, closing(Nodes(cluster.urls)) as nodes:
        fill(edge, nodes, "papers", SNAPSHOT)
        yield ServerIndex.open(nodes, "papers", SNAPSHOT)


SERVER = pytest.param("server", marks=pytest.mark.whole)


@pytest.fixture(params=["edge", "sharded", SERVER])
def index(request: pytest.FixtureRequest) -> VectorIndex:
    return request.getfixturevalue(request.param)

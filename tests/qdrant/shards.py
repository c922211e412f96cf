"""A restored shard of a collection of :mod:`tests.qdrant.cluster`: Qdrant Edge, with the methods of qdrant-client's
local mode that the nodes use."""

import io
import shutil
import tarfile
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import qdrant_edge
from qdrant_client import models

from scholarbase.indexes.vectors.base import DENSE, VectorConfig, edge_config
from scholarbase.indexes.vectors.index import _engine_condition


class RestoredShard:
    """The shard in a snapshot, opened with the layout of its collection. The snapshot is read once."""

    def __init__(self, snapshot: Path, config: VectorConfig) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="restored-shard-"))
        try:
            unpacked = self.folder / "shard"
            qdrant_edge.EdgeShard.unpack_snapshot(str(snapshot), str(unpacked))
            shutil.rmtree(unpacked / "wal")  # written to by servers only
            self.shard = qdrant_edge.EdgeShard.load(str(unpacked), edge_config(config))
        except BaseException:
            shutil.rmtree(self.folder)
            raise

    def close(self) -> None:
        self.shard.close()
        shutil.rmtree(self.folder)

    def query_points(
        self,
        name: str,
        *,
        query: Any,
        using: str | None,
        limit: int,
        query_filter: models.Filter | None = None,
        with_vectors: Any = False,
        search_params: models.SearchParams | None = None,
        **_: Any,
    ) -> Any:
        vector = qdrant_edge.SparseVector(query.indices, query.values) if using != DENSE else query
        request = qdrant_edge.QueryRequest(
            limit=limit,
            query=qdrant_edge.Query.Nearest(vector, using=using),
            filter=engine_filter(query_filter),
            params=engine_params(search_params),
            with_vector=with_vectors or False,
        )
        points = [
            models.ScoredPoint(id=one.id, version=0, score=one.score, vector=client_vectors(one.vector))
            for one in self.shard.query(request)
        ]
        return SimpleNamespace(points=points)

    def count(self, name: str, *, count_filter: models.Filter | None = None, exact: bool = True) -> Any:
        request = qdrant_edge.CountRequest(exact=exact, filter=engine_filter(count_filter))
        return models.CountResult(count=self.shard.count(request))

    def retrieve(
        self, name: str, ids: Sequence[int], *, with_payload: Any, with_vectors: Any
    ) -> list[models.Record]:
        records = self.shard.retrieve(list(ids), with_payload=with_payload, with_vector=with_vectors)
        return [client_record(record) for record in records]

    def scroll(
        self,
        name: str,
        *,
        limit: int,
        scroll_filter: models.Filter | None = None,
        offset: Any = None,
        order_by: Any = None,
        with_payload: Any = True,
        with_vectors: Any = False,
    ) -> tuple[list[models.Record], Any]:
        order = None
        if order_by is not None:
            order = qdrant_edge.OrderBy(
                order_by.key, getattr(qdrant_edge.Direction, order_by.direction.value.title())
            )
        records, following = self.shard.scroll(
            qdrant_edge.ScrollRequest(
                offset, limit, engine_filter(scroll_filter), bool(with_payload), with_vectors, order
            )
        )
        return [client_record(record) for record in records], following

    def facet(self, name: str, key: str, facet_filter: models.Filter | None, limit: int) -> Any:
        assert facet_filter is None
        hits = self.shard.facet(qdrant_edge.FacetRequest(key, limit)).hits
        return models.FacetResponse(
            hits=[models.FacetValueHit(value=hit.value, count=hit.count) for hit in hits]
        )


class RestoredShards:
    """The restored shards of a collection, each of which is asked."""

    def __init__(self) -> None:
        self.shards: dict[int, RestoredShard] = {}

    def put(self, number: int, shard: RestoredShard) -> None:
        """Serve a shard, instead of the one with its number."""
        if number in self.shards:
            self.shards[number].close()
        self.shards[number] = shard

    def points(self, number: int) -> int:
        return self.shards[number].count("").count if number in self.shards else 0

    def close(self) -> None:
        for shard in self.shards.values():
            shard.close()

    def query_points(self, name: str, **options: Any) -> Any:
        found = [one for shard in self.shards.values() for one in shard.query_points(name, **options).points]
        return SimpleNamespace(points=sorted(found, key=lambda one: -one.score)[: options["limit"]])

    def count(self, name: str, **options: Any) -> Any:
        return models.CountResult(count=sum(one.count(name, **options).count for one in self.shards.values()))

    def retrieve(self, name: str, ids: Sequence[int], **options: Any) -> list[models.Record]:
        return [one for shard in self.shards.values() for one in shard.retrieve(name, ids, **options)]

    def scroll(self, name: str, *, limit: int, **options: Any) -> tuple[list[models.Record], Any]:
        if len(self.shards) == 1:
            return next(iter(self.shards.values())).scroll(name, limit=limit, **options)
        assert options.get("order_by") is None
        read = [shard.scroll(name, limit=limit, **options) for shard in self.shards.values()]
        records = sorted((one for some, _ in read for one in some), key=lambda one: one.id)
        following = [offset for _, offset in read if offset is not None] + [
            one.id for one in records[limit : limit + 1]
        ]
        return records[:limit], min(following, default=None)

    def facet(self, name: str, key: str, facet_filter: models.Filter | None, limit: int) -> Any:
        counts: Counter[Any] = Counter()
        for shard in self.shards.values():
            counts.update({hit.value: hit.count for hit in shard.facet(name, key, facet_filter, 10**6).hits})
        return models.FacetResponse(
            hits=[
                models.FacetValueHit(value=value, count=count) for value, count in counts.most_common(limit)
            ]
        )


def engine_filter(written: models.Filter | None) -> Any:
    return None if written is None else _engine_condition(written.model_dump(exclude_none=True))


def engine_params(written: models.SearchParams | None) -> Any:
    if written is None:
        return None
    codes = written.quantization
    return qdrant_edge.SearchParams(
        hnsw_ef=written.hnsw_ef,
        exact=bool(written.exact),
        quantization=None
        if codes is None
        else qdrant_edge.QuantizationSearchParams(
            ignore=bool(codes.ignore), rescore=codes.rescore, oversampling=codes.oversampling
        ),
    )


def client_vectors(vectors: Any) -> Any:
    if not isinstance(vectors, dict):
        return None
    return {
        name: list(one) if name == DENSE else models.SparseVector(indices=one.indices, values=one.values)
        for name, one in vectors.items()
    }


def client_record(record: Any) -> models.Record:
    return models.Record(id=record.id, payload=record.payload, vector=client_vectors(record.vector))


def empty_snapshot() -> bytes:
    """The snapshot of an empty shard as a node sends it, with an empty segment that nobody wants."""
    with tempfile.TemporaryDirectory() as folder:
        shard = qdrant_edge.EdgeShard.create(
            folder, qdrant_edge.EdgeConfig(vectors=qdrant_edge.EdgeVectorParams(4, qdrant_edge.Distance.Dot))
        )
        shard.close()
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as tar:
            for file in sorted(Path(folder).rglob("*")):
                name = file.relative_to(folder)
                if name.parts[0] == "wal" or name.parts[0] == "segments":
                    tar.add(file, str(name), recursive=False)
            for name_, text in (
                ("shard_config.json", b'{"type":"ReplicaSet"}'),
                ("replica_state.json", b'{"is_local":true,"this_peer_id":1000,"peers":{}}'),
            ):
                about = tarfile.TarInfo(name_)
                about.size = len(text)
                tar.addfile(about, io.BytesIO(text))
        return out.getvalue()

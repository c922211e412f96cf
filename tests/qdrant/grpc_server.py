"""The gRPC interface of a node of :mod:`tests.qdrant.cluster`: what uploads and searches use."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import grpc
from qdrant_client import grpc as qdrant
from qdrant_client import models
from qdrant_client.conversions.conversion import GrpcToRest, RestToGrpc
from qdrant_client.grpc.collections_service_pb2_grpc import (
    CollectionsServicer,
    add_CollectionsServicer_to_server,
)
from qdrant_client.grpc.points_service_pb2_grpc import PointsServicer, add_PointsServicer_to_server
from qdrant_client.grpc.qdrant_pb2_grpc import QdrantServicer, add_QdrantServicer_to_server

from tests.qdrant.cluster import Failed, Node

CODES = {
    404: grpc.StatusCode.NOT_FOUND,
    400: grpc.StatusCode.INVALID_ARGUMENT,
    500: grpc.StatusCode.INTERNAL,
    503: grpc.StatusCode.UNAVAILABLE,
}

Answer = Callable[[Any], Any]


class _Service:
    def __init__(self, node: Node) -> None:
        self.node = node
        self.cluster = node.cluster

    def answer(self, path: str, request: Any, context: grpc.ServicerContext, answer: Answer) -> Any:
        """The response of a function. A search has it after ``search_seconds``, not earlier."""
        began = time.monotonic()
        try:
            self.node.enter(path)
            if self.cluster.search_seconds is None or not isinstance(self, PointsServicer):
                return answer(request)
            key = path, request.SerializeToString()
            if key not in self.cluster.answers:
                self.cluster.answers[key] = answer(request)
            time.sleep(max(0.0, began + self.cluster.search_seconds - time.monotonic()))
            return self.cluster.answers[key]
        except Failed as failure:
            context.abort(CODES.get(failure.status, grpc.StatusCode.UNKNOWN), str(failure))


class _Points(_Service, PointsServicer):
    def Upsert(self, request: Any, context: grpc.ServicerContext) -> Any:
        cluster = self.cluster
        try:
            self.node.enter("/qdrant.Points/Upsert")
            points = request.points
            if cluster.storing:
                converted = [GrpcToRest.convert_point_struct(point) for point in points]
            else:
                converted = [SimpleNamespace(id=point.id.num) for point in points]
            cluster.upsert(request.collection_name, converted)
        except Failed as failure:
            context.abort(CODES.get(failure.status, grpc.StatusCode.UNKNOWN), str(failure))
        result = qdrant.UpdateResult(operation_id=0, status=qdrant.UpdateStatus.Completed)
        return qdrant.PointsOperationResponse(result=result, time=0.0)

    def QueryBatch(self, request: Any, context: grpc.ServicerContext) -> Any:
        return self.answer("/qdrant.Points/QueryBatch", request, context, self._query_batch)

    def _query_batch(self, request: Any) -> Any:
        name = request.collection_name
        found = [
            self.cluster.query(name, GrpcToRest.convert_query_points(query), self.node)
            for query in request.query_points
        ]
        results = [qdrant.BatchResult(result=map(RestToGrpc.convert_scored_point, one)) for one in found]
        return qdrant.QueryBatchResponse(result=results)

    def Count(self, request: Any, context: grpc.ServicerContext) -> Any:
        def count(request: Any) -> Any:
            body = models.CountRequest(filter=_filter(request), exact=request.exact)
            number = self.cluster.count(request.collection_name, body)
            return qdrant.CountResponse(result=qdrant.CountResult(count=number))

        return self.answer("/qdrant.Points/Count", request, context, count)

    def Facet(self, request: Any, context: grpc.ServicerContext) -> Any:
        def facet(request: Any) -> Any:
            body = models.FacetRequest(key=request.key, filter=_filter(request), limit=request.limit)
            hits = self.cluster.facet(request.collection_name, body).hits
            return qdrant.FacetResponse(hits=map(RestToGrpc.convert_facet_value_hit, hits))

        return self.answer("/qdrant.Points/Facet", request, context, facet)

    def Get(self, request: Any, context: grpc.ServicerContext) -> Any:
        def get(request: Any) -> Any:
            body = models.PointRequest(ids=[one.num for one in request.ids], **_selected(request))
            records = self.cluster.records(request.collection_name, body)
            return qdrant.GetResponse(result=map(_record, records))

        return self.answer("/qdrant.Points/Get", request, context, get)

    def Scroll(self, request: Any, context: grpc.ServicerContext) -> Any:
        def scroll(request: Any) -> Any:
            body = models.ScrollRequest(
                filter=_filter(request),
                limit=request.limit,
                offset=request.offset.num if request.HasField("offset") else None,
                order_by=GrpcToRest.convert_order_by(request.order_by)
                if request.HasField("order_by")
                else None,
                **_selected(request),
            )
            records, following = self.cluster.scroll(request.collection_name, body)
            return qdrant.ScrollResponse(
                result=map(_record, records),
                next_page_offset=None if following is None else qdrant.PointId(num=following),
            )

        return self.answer("/qdrant.Points/Scroll", request, context, scroll)


class _Collections(_Service, CollectionsServicer):
    def CollectionExists(self, request: Any, context: grpc.ServicerContext) -> Any:
        def exists(request: Any) -> Any:
            is_there = self.cluster.exists(request.collection_name)
            return qdrant.CollectionExistsResponse(result=qdrant.CollectionExists(exists=is_there))

        return self.answer("/qdrant.Collections/CollectionExists", request, context, exists)

    def Get(self, request: Any, context: grpc.ServicerContext) -> Any:
        def get(request: Any) -> Any:
            metadata = self.cluster.info(request.collection_name, self.node).config.metadata or {}
            config = qdrant.CollectionConfig(metadata=RestToGrpc.convert_payload(metadata))
            return qdrant.GetCollectionInfoResponse(result=qdrant.CollectionInfo(config=config))

        return self.answer("/qdrant.Collections/Get", request, context, get)


class _Health(_Service, QdrantServicer):
    def HealthCheck(self, request: Any, context: grpc.ServicerContext) -> Any:
        def check(request: Any) -> Any:
            return qdrant.HealthCheckReply(title="tests", version="1.18.3")

        return self.answer("/qdrant.Qdrant/HealthCheck", request, context, check)


def _filter(request: Any) -> models.Filter | None:
    return GrpcToRest.convert_filter(request.filter) if request.HasField("filter") else None


def _record(record: models.Record) -> Any:
    return RestToGrpc.convert_record(record.model_copy(update={"payload": record.payload or {}}))


def _selected(request: Any) -> dict[str, Any]:
    """The arguments of what a record has besides its id."""
    has_payload, has_vectors = request.HasField("with_payload"), request.HasField("with_vectors")
    return {
        "with_payload": has_payload and GrpcToRest.convert_with_payload_selector(request.with_payload),
        "with_vector": has_vectors and GrpcToRest.convert_with_vectors_selector(request.with_vectors),
    }


class GrpcServer:
    """A server on a free port, which it keeps when it stops and starts again."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.port = 0
        self._server: grpc.Server | None = self._bound()

    def start(self) -> None:
        self._server = self._server or self._bound()
        self._server.start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop(0).wait()
        self._server = None

    def _bound(self) -> grpc.Server:
        server = grpc.server(
            ThreadPoolExecutor(64),
            options=[("grpc.max_receive_message_length", -1), ("grpc.so_reuseport", 0)],
        )
        add_PointsServicer_to_server(_Points(self.node), server)
        add_CollectionsServicer_to_server(_Collections(self.node), server)
        add_QdrantServicer_to_server(_Health(self.node), server)
        self.port = server.add_insecure_port(f"127.0.0.1:{self.port}")
        return server


def serve_grpc(node: Node) -> GrpcServer:
    return GrpcServer(node)

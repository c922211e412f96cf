"""The gRPC interface of a node of :mod:`tests.qdrant.cluster`: upserts."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import grpc
from qdrant_client import grpc as qdrant
from qdrant_client.conversions.conversion import GrpcToRest
from qdrant_client.grpc.points_service_pb2_grpc import PointsServicer, add_PointsServicer_to_server

from tests.qdrant.cluster import Failed, Node

CODES = {
    404: grpc.StatusCode.NOT_FOUND,
    400: grpc.StatusCode.INVALID_ARGUMENT,
    500: grpc.StatusCode.INTERNAL,
    503: grpc.StatusCode.UNAVAILABLE,
}


class _Points(PointsServicer):
    def __init__(self, node: Node) -> None:
        self.node = node

    def Upsert(self, request: Any, context: grpc.ServicerContext) -> Any:
        cluster = self.node.cluster
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


class GrpcServer:
    def __init__(self, node: Node) -> None:
        self.node = node
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]

    def start(self) -> None:
        self.server = grpc.server(
            ThreadPoolExecutor(16),
            options=[("grpc.max_receive_message_length", -1), ("grpc.so_reuseport", 0)],
        )
        add_PointsServicer_to_server(_Points(self.node), self.server)
        assert self.server.add_insecure_port(f"127.0.0.1:{self.port}") == self.port
        self.server.start()

    def stop(self) -> None:
        self.server.stop(0).wait()


def serve_grpc(node: Node) -> GrpcServer:
    return GrpcServer(node)

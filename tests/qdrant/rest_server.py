"""The REST interface of a node of :mod:`tests.qdrant.cluster`."""

import os
import re
import socket
import tempfile
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote, urlsplit

import orjson
from pydantic import TypeAdapter, ValidationError
from qdrant_client import models

from tests.qdrant.cluster import Cluster, Failed, Node, as_stored
from tests.qdrant.shards import empty_snapshot

ALIASES: TypeAdapter[Any] = TypeAdapter(models.ChangeAliasesOperation)
UPSERT: TypeAdapter[Any] = TypeAdapter(models.PointInsertOperations)

ZEROS = bytes(1 << 20)

Call = Callable[[Cluster, Node, str, bytes], Any]


def _status(cluster: Cluster, node: Node) -> Any:
    if len(cluster.nodes) == 1:
        return {"status": "disabled"}
    peers = {str(one.peer): {"uri": f"http://qdrant-{one.peer}:6335/"} for one in cluster.nodes}
    return {
        "status": "enabled",
        "peer_id": node.peer,
        "peers": peers,
        "raft_info": {
            "term": 1,
            "commit": 1,
            "pending_operations": 0,
            "leader": None,
            "role": None,
            "is_voter": True,
        },
        "consensus_thread_status": {
            "consensus_thread_status": "working",
            "last_update": "2026-01-01T00:00:00Z",
        },
        "message_send_failures": {},
    }


def _index(cluster: Cluster, name: str, body: bytes) -> Any:
    models.CreateFieldIndex.model_validate_json(body)
    cluster.named(name)
    return {"operation_id": 0, "status": "completed"}


def _upsert(cluster: Cluster, name: str, body: bytes) -> Any:
    if cluster.storing:
        points = UPSERT.validate_json(body).points
    else:
        points = [SimpleNamespace(id=point["id"]) for point in orjson.loads(body)["points"]]
    cluster.upsert(name, points)
    return {"operation_id": 0, "status": "completed"}


def _aliases(cluster: Cluster, body: bytes) -> Any:
    actions = ALIASES.validate_json(body).actions
    with cluster.lock:
        cluster.local.update_collection_aliases(actions)
    return True


def _queue(cluster: Cluster, node: Node, name: str) -> Any:
    cluster.named(name)
    queued = [{"optimizer": one, "segments": []} for one in node.queued]
    summary = {
        "queued_optimizations": len(queued),
        "queued_segments": 0,
        "queued_points": 0,
        "idle_segments": 2,
    }
    return {"summary": summary, "running": [], "queued": queued}


ROUTES: list[tuple[str, str, Call]] = [
    ("GET", "/collections/{}/optimizations", lambda c, n, name, body: _queue(c, n, name)),
    ("GET", "/cluster", lambda c, n, name, body: _status(c, n)),
    ("GET", "/aliases", lambda c, n, name, body: c.local.get_aliases().model_dump(mode="json")),
    ("POST", "/collections/aliases", lambda c, n, name, body: _aliases(c, body)),
    (
        "GET",
        "/collections",
        lambda c, n, name, body: {"collections": [{"name": one} for one in c.collections]},
    ),
    ("GET", "/collections/{}/exists", lambda c, n, name, body: {"exists": c.exists(name)}),
    ("GET", "/collections/{}/cluster", lambda c, n, name, body: c.placement(name, n).model_dump(mode="json")),
    ("GET", "/collections/{}", lambda c, n, name, body: c.info(name, n).model_dump(mode="json")),
    ("PUT", "/collections/{}/index", lambda c, n, name, body: _index(c, name, body)),
    ("PUT", "/collections/{}/points", lambda c, n, name, body: _upsert(c, name, body)),
    (
        "POST",
        "/collections/{}/points/count",
        lambda c, n, name, body: {"count": c.count(name, models.CountRequest.model_validate_json(body))},
    ),
    (
        "POST",
        "/collections/{}/points",
        lambda c, n, name, body: list(
            map(as_stored, c.records(name, models.PointRequest.model_validate_json(body)))
        ),
    ),
    (
        "PUT",
        "/collections/{}",
        lambda c, n, name, body: _done(c.create(name, models.CreateCollection.model_validate_json(body))),
    ),
    (
        "PATCH",
        "/collections/{}",
        lambda c, n, name, body: _done(c.update(name, models.UpdateCollection.model_validate_json(body))),
    ),
    ("DELETE", "/collections/{}", lambda c, n, name, body: _done(c.delete(name))),
]


def _done(result: None) -> bool:
    return True


class RestServer:
    """Serves a node on a port of its own, which it keeps when it is started again."""

    def __init__(self, node: Node) -> None:
        self.node = node
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]

    def start(self) -> None:
        node = self.node

        class Handler(_Handler):
            pass

        Handler.node = node
        self.server = _Server(("127.0.0.1", self.port), Handler)
        self.thread = Thread(target=lambda: self.server.serve_forever(0.02), daemon=True)
        self.thread.start()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.server.drop_connections()
        self.thread.join()


def serve_rest(node: Node) -> RestServer:
    return RestServer(node)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, *args: Any) -> None:
        self._open: set[socket.socket] = set()
        self._lock = Lock()
        super().__init__(*args)

    def get_request(self) -> Any:
        connection, address = super().get_request()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            self._open.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def drop_connections(self) -> None:
        with self._lock:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, *args: Any) -> None:
        """Nothing: clients close connections that hang."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    node: Node

    def _handle(self) -> None:
        path = unquote(urlsplit(self.path).path)
        size = int(self.headers.get("Content-Length") or 0)
        try:
            if re.search(r"/shards/\d+/snapshots/upload$", path):
                status, content = 200, self._restored(path, size)
            else:
                body = self.rfile.read(size)
                self.node.enter(path)
                status, content = 200, self._result(path, body)
        except Failed as failure:
            status, content = failure.status, {"status": {"error": str(failure)}, "time": 0.0}
        except (ValidationError, ValueError) as error:
            status, content = 400, {"status": {"error": f"Wrong input: {error}"}, "time": 0.0}
        data = (
            content
            if isinstance(content, bytes)
            else orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)
        )
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()

    def _restored(self, path: str, size: int) -> Any:
        """Receive a snapshot in a form and restore it. Most of it is zeros, which become holes of the file."""
        cluster, node = self.node.cluster, self.node
        with tempfile.TemporaryDirectory() as folder:
            snapshot = Path(folder) / "snapshot"
            head = [self.rfile.readline()]
            while head[-1] not in (b"", b"\r\n"):
                head.append(self.rfile.readline())
            received = sum(map(len, head))
            after = b"\r\n" + head[0].rstrip() + b"--\r\n"
            with snapshot.open("wb") as file:
                end = b""
                while received < size:
                    chunk = self.rfile.read(min(len(ZEROS), size - received))
                    if not chunk:
                        raise Failed(400, "Wrong input: the body ended early")
                    if chunk == ZEROS:
                        file.seek(len(chunk), os.SEEK_CUR)
                    else:
                        file.write(chunk)
                    end = (end + chunk)[-len(after) :]
                    received += len(chunk)
                    cluster.on_upload(node, received)
                assert any(b'name="snapshot"' in line for line in head)
                assert end == after
                file.truncate(file.tell() - len(after))
            self.node.enter(path)
            cluster.restore(path.split("/")[2], int(path.split("/")[4]), snapshot, node)
        return {"result": True, "status": "ok", "time": 0.0}

    def _result(self, path: str, body: bytes) -> Any:
        if path == "/":
            return {"title": "qdrant - vector search engine", "version": self.node.version}
        if re.search(r"/shards/\d+/snapshot$", path):
            self.node.cluster.named(path.split("/")[2])
            return empty_snapshot()
        if path in ("/readyz", "/healthz", "/livez"):
            return b"all shards are ready"
        for method, pattern, call in ROUTES:
            match = re.fullmatch(pattern.replace("{}", "([^/]+)"), path)
            if match and method == self.command:
                name = match[1] if match.groups() else ""
                return {"result": call(self.node.cluster, self.node, name, body), "status": "ok", "time": 0.0}
        raise Failed(404, f"{self.command} {path} is not a route")

    do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = _handle

    def log_message(self, *args: Any) -> None:
        pass

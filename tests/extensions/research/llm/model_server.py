"""A real HTTP server that replies as a chat completions service, by a script."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from scholarbase_research.llm.base import Completion, ModelRequest, Usage
from scholarbase_research.llm.http import HttpModel


class FunctionModel:
    """A model whose replies are those of ``function``, a text or a completion."""

    def __init__(self, name: str, function: Callable[[ModelRequest], str | Completion]) -> None:
        self.name = name
        self._function = function

    def complete(self, request: ModelRequest) -> Completion:
        reply = self._function(request)
        return reply if isinstance(reply, Completion) else Completion(reply, usage=Usage(1))

    def close(self) -> None:
        pass


@dataclass
class Reply:
    """A response. ``silent`` sends nothing until the server stops; ``cut`` sends only half of the announced body."""

    text: str | None = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    silent: bool = False
    cut: bool = False
    tokens: tuple[int, int] | None = (100, 20)
    finish: str = "stop"
    tool_calls: list[dict[str, Any]] | None = None


def tool_call(name: str, arguments: Any, call_id: str = "c1") -> dict[str, Any]:
    written = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": written}}


class ModelServer:
    """``requests`` are the bodies received, in order; ``most`` the largest number of them at once."""

    def __init__(self, script: Callable[[dict[str, Any]], Reply]) -> None:
        self.script = script
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.most = 0
        self.url = ""
        self.stopped = threading.Event()
        self.lock = threading.Lock()
        self.running = 0
        self.models: list[HttpModel] = []

    def model(self, **options: Any) -> HttpModel:
        """A client, which is closed with the server."""
        model = HttpModel(self.url, **{"backoff": 0.01, "timeout": 30.0, **options})
        self.models.append(model)
        return model


def in_order(*replies: Reply) -> Callable[[dict[str, Any]], Reply]:
    """A script of replies; the last one repeats."""
    left = list(replies)
    lock = threading.Lock()

    def script(body: dict[str, Any]) -> Reply:
        with lock:
            return left.pop(0) if len(left) > 1 else left[0]

    return script


@contextmanager
def model_server(script: Callable[[dict[str, Any]], Reply]) -> Iterator[ModelServer]:
    server = ModelServer(script)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with server.lock:
                server.requests.append(body)
                server.keys.append(self.headers.get("Authorization"))
                server.running += 1
                server.most = max(server.most, server.running)
            try:
                self._send(server.script(body))
            finally:
                with server.lock:
                    server.running -= 1

        def _send(self, reply: Reply) -> None:
            if reply.silent:
                server.stopped.wait(60)
                self.close_connection = True
                return
            message = {"role": "assistant", "content": reply.text, "tool_calls": reply.tool_calls}
            row: dict[str, Any] = {
                "model": "served-model",
                "choices": [{"message": message, "finish_reason": reply.finish}],
            }
            if reply.tokens is not None:
                row["usage"] = {"prompt_tokens": reply.tokens[0], "completion_tokens": reply.tokens[1]}
            body = json.dumps(row).encode() if reply.body is None else reply.body
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2] if reply.cut else body)
            self.close_connection = reply.cut

        def log_message(self, *arguments: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    server.url = f"http://127.0.0.1:{http.server_address[1]}/v1#scripted"
    try:
        yield server
    finally:
        for model in server.models:
            model.close()
        server.stopped.set()
        http.shutdown()
        thread.join(60)
        http.server_close()

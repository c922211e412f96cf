"""The encoder service: one process that loads the model for several serving processes.

It serves OpenAI's ``POST /v1/embeddings`` on a Unix socket or a loopback port. The serving processes open it as
``unix:/path/to.sock`` or ``http://127.0.0.1:port/v1``.

Each request is encoded as its own batch. Batching the queries of several requests would change the last bits of their
vectors, and the same search would not always return the same bytes.
"""

from __future__ import annotations

import asyncio
import base64
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import numpy as np
import orjson
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, StrictStr

from scholarbase.asgi import Embedded, options, serve_until_stopped
from scholarbase.encoders.base import Encoder, Encodings
from scholarbase.encoders.registry import open_encoder
from scholarbase.errors import AddressError, InvalidRequest, ScholarBaseError
from scholarbase.http import BACKLOG, listen

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8790
MAX_CONNECTIONS: Final = 1024
MAX_TEXTS: Final = 2048
"""Texts in one request, as in OpenAI's service."""


class EmbeddingsRequest(BaseModel):
    """OpenAI's request, and ``input_type``. Unknown fields are rejected."""

    model_config = ConfigDict(extra="forbid")

    input: StrictStr | Annotated[list[StrictStr], Field(min_length=1, max_length=MAX_TEXTS)]
    model: str | None = None
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None
    user: str | None = None
    input_type: Literal["query", "document"] | None = None
    """What the texts are; documents by default."""


def create_service(encoder: Encoder) -> FastAPI:
    """The ASGI application that serves ``encoder``. The caller closes ``encoder``."""
    app = FastAPI(title="ScholarBase encoder", docs_url=None, redoc_url=None)
    spec = encoder.spec

    @app.exception_handler(RequestValidationError)
    async def invalid_request(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        parameter = ".".join(str(part) for part in first["loc"] if part != "body") or "body"
        return _problem(400, "invalid_request_error", f"{parameter} is not valid: {first['msg']}.", parameter)

    @app.exception_handler(ScholarBaseError)
    async def failure(request: Request, error: ScholarBaseError) -> Response:
        kind = "invalid_request_error" if error.status < 500 else "server_error"
        return _problem(error.status, kind, str(error), None)

    @app.get("/healthz")
    def healthz() -> dict[str, Any]:
        return {"status": "ok", "encoder": spec.to_dict()}

    @app.post("/v1/embeddings")
    def embeddings(request: EmbeddingsRequest) -> Response:
        if request.model not in (None, spec.name):
            raise InvalidRequest(f"Unknown model {request.model!r}: this service has {spec.name!r}.")
        if request.dimensions not in (None, spec.dimensions):
            raise InvalidRequest(
                f"dimensions is {request.dimensions}: the vectors of {spec.name} have {spec.dimensions}."
            )
        texts = [request.input] if isinstance(request.input, str) else request.input
        encode = encoder.encode_queries if request.input_type == "query" else encoder.encode_documents
        encodings = encode(texts)
        return _json(
            200,
            {
                "object": "list",
                "data": _items(encodings, request.encoding_format),
                "model": spec.name,
                "scholarbase": {"encoder": spec.to_dict()},
            },
        )

    return app


def serve_encoder(
    name: str,
    *,
    uds: str | None = None,
    host: str = DEFAULT_HOST,
    port: int = DEFAULT_PORT,
    device: str | None = None,
    api_key: str | None = None,
    ready: Callable[[], None] | None = None,
) -> None:
    """Serve the encoder ``name`` until SIGTERM or SIGINT.

    ``uds`` is a Unix socket that only this user may connect to; without it the service listens on ``host`` and
    ``port``. The service does not check keys: use a loopback ``host`` or a private network. ``ready`` is
    called once the service listens.

    Raises:
        AddressError: the socket or port is in use, or cannot be used.
        EncoderError: as :func:`scholarbase.encoders.open_encoder`.
    """
    # Before the model is loaded, which takes long. Clients that connect meanwhile wait.
    listener = listen(host, port) if uds is None else _bind_socket(Path(uds))
    try:
        encoder = open_encoder(name, device=device, api_key=api_key)
        try:
            app = create_service(encoder)
            if ready is not None:
                ready()
            asyncio.run(serve_until_stopped(Embedded(app, listener, **options(MAX_CONNECTIONS))))
        finally:
            encoder.close()
    finally:
        listener.close()
        if uds is not None:
            Path(uds).unlink(missing_ok=True)


def _bind_socket(path: Path) -> socket.socket:
    """A Unix socket that only this user may connect to.

    Raises:
        AddressError: a service listens there, the path is not a socket, or it cannot be created.
    """
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            if path.is_socket():
                try:
                    probe.connect(str(path))
                except ConnectionRefusedError:
                    path.unlink()  # left by a killed service
                else:
                    raise AddressError(
                        f"A service already listens on {path}: stop it, or choose another socket."
                    )
        except OSError as error:
            raise AddressError(f"The socket {path} cannot be used ({error.strerror}).") from error
    if path.exists():
        raise AddressError(f"{path} is not a socket and is not replaced: choose another path.")
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise AddressError(
            f"The encoder service cannot create the socket {path} ({error}): choose a short path (at most "
            "about 100 characters) in a folder that exists and is writable."
        ) from error
    return listener


def _items(encodings: Encodings, encoding_format: str) -> list[dict[str, Any]]:
    items = []
    for index, vector in enumerate(encodings.dense):
        embedding: object = vector
        if encoding_format == "base64":
            embedding = base64.b64encode(vector.astype("<f4").tobytes()).decode("ascii")
        item = {"object": "embedding", "index": index, "embedding": embedding}
        if encodings.sparse is not None:
            weights = encodings.sparse[index]
            item["sparse_embedding"] = {
                "indices": np.ascontiguousarray(weights.indices),
                "values": np.ascontiguousarray(weights.values),
            }
        items.append(item)
    return items


def _problem(status: int, kind: str, message: str, param: str | None) -> Response:
    """An error in OpenAI's format."""
    return _json(status, {"error": {"message": message, "type": kind, "param": param, "code": None}})


def _json(status: int, content: object) -> Response:
    body = orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)
    return Response(body, status_code=status, media_type="application/json")

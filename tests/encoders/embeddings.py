"""An embeddings service of another kind, as text-embeddings-inference, vLLM and Infinity are, which can be held."""

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.encoders.servers import running

DIMENSIONS = 16


def vector_of(text: str) -> list[float]:
    """16 numbers between -1 and 1 that depend on the text alone."""
    return [byte / 127.5 - 1 for byte in hashlib.shake_128(text.encode()).digest(DIMENSIONS)]


class Service:
    """Counts how often each text was sent. Holds all requests beyond the first ``allowed``."""

    def __init__(self) -> None:
        self.texts: Counter[str] = Counter()
        self.requests = 0
        self.running = 0
        self.most_running = 0
        self.allowed = 1 << 30
        self.refused: list[Response] = []
        """Responses to the next requests, instead of vectors."""
        self.url = ""

    async def embeddings(self, request: Request) -> Response:
        body = json.loads(await request.body())
        rows = await self._rows(body["input"])
        items = [{"index": index, "embedding": row} for index, row in enumerate(rows)]
        return self.refused.pop() if self.refused else JSONResponse({"data": items})

    async def embed(self, request: Request) -> Response:
        body = json.loads(await request.body())
        assert body["truncate"] is True
        return JSONResponse(await self._rows(body["inputs"]))

    async def _rows(self, texts: list[str]) -> list[list[float]]:
        self.texts.update(texts)
        self.requests += 1
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        number = self.requests
        try:
            while number > self.allowed:
                await asyncio.sleep(0.02)
            await asyncio.sleep(0)
        finally:
            self.running -= 1
        return [vector_of(text) for text in texts]


@contextmanager
def embeddings_service() -> Iterator[Service]:
    service = Service()
    routes = [
        Route("/v1/embeddings", service.embeddings, methods=["POST"]),
        Route("/embed", service.embed, methods=["POST"]),
    ]
    with running(Starlette(routes=routes)) as url:
        service.url = f"{url}#hashes"
        yield service

"""A reranking service that responds as its script says: a real server in a thread."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any

from anyio import to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from scholarbase.rerankers.http import HttpReranker
from tests.encoders.servers import running

Step = Callable[[dict[str, Any]], Response]


def score_of(text: str) -> float:
    """A score that is easy to compute: a hundredth of the text's length."""
    return len(text) / 100


def good(body: dict[str, Any]) -> Response:
    """The response of text-embeddings-inference: best first."""
    ranks = [{"index": place, "score": score_of(text)} for place, text in enumerate(body["texts"])]
    return JSONResponse(sorted(ranks, key=lambda rank: -rank["score"]))


def items(*ranks: Any) -> Step:
    return lambda _: JSONResponse(ranks)


class ScriptedReranker:
    """Responds with the steps of ``script``, one per request, then with valid scores.

    Attributes:
        released: requests wait for it.
        most: the most texts that a request may have, else status ``too_many``.
    """

    def __init__(self) -> None:
        self.released = Event()
        self.reset()
        self.url = ""

    def reset(self) -> None:
        self.script: list[Step] = []
        self.bodies: list[dict[str, Any]] = []
        self.authorization: str | None = None
        self.most, self.too_many = 10_000, 413
        self.released.set()

    async def respond(self, request: Request) -> Response:
        script = self.script  # a request that outlives its test takes no step of the next one
        body = json.loads(await request.body())
        self.bodies.append(body)
        self.authorization = request.headers.get("Authorization")
        await to_thread.run_sync(self.released.wait, 120)
        if len(body["texts"]) > self.most:
            error = f"batch size {len(body['texts'])} > maximum allowed batch size {self.most}"
            return JSONResponse({"error": error, "error_type": "Validation"}, self.too_many)
        return (script.pop(0) if script else good)(body)

    def open(self, **options: Any) -> HttpReranker:
        return HttpReranker(self.url, **{"backoff": 0.01, **options})


@contextmanager
def running_reranker() -> Iterator[ScriptedReranker]:
    scripted = ScriptedReranker()
    with running(Starlette(routes=[Route("/rerank", scripted.respond, methods=["POST"])])) as url:
        scripted.url = url.removesuffix("/v1")
        yield scripted
        scripted.released.set()

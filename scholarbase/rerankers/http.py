"""Rerankers over HTTP: a client for ``POST /rerank`` of Hugging Face's text-embeddings-inference.

A request is ``{"query": "...", "texts": ["..."], "truncate": true}``, its response ``[{"index": 0, "score": 0.9}]``
with each index once, in any order (https://huggingface.github.io/text-embeddings-inference/#/Text%20Embeddings%20Inference/rerank).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from threading import BoundedSemaphore
from typing import Any, Final

import httpx
import msgspec
import numpy as np
import orjson

from scholarbase.deadlines import check, turn
from scholarbase.errors import RerankerError
from scholarbase.rerankers.base import RERANKING, Scores, check_scores, closed
from scholarbase.services import Endpoint, ModelService

log = logging.getLogger("scholarbase.rerankers")

DEFAULT_TIMEOUT: Final = 60.0
"""Seconds for one batch, where the time limit of the search is not lower."""
DEFAULT_RETRIES: Final = 4
DEFAULT_BATCH_SIZE: Final = 32
"""Texts in one request: the default limit of text-embeddings-inference (``--max-client-batch-size``)."""
CONCURRENCY: Final = 8
"""Searches that a process sends to one service at once; others wait."""
MAX_RESPONSE: Final = 2**20
"""Bytes of a response. That to 32 texts has some 2,000."""

_TOO_LARGE: Final = frozenset({413, 422})
"""Responses to more texts than a service accepts in one request."""
_SAMPLE: Final = "scholarly search"
_ROUTE: Final = "/rerank"


def parse_url(name: str) -> Endpoint:
    """Parse ``http://host:8080`` or ``http://host:8080/rerank``, with or without ``#model``.

    Raises:
        RerankerError: not such an address.
    """
    try:
        return Endpoint.parse(name, _ROUTE)
    except ValueError as error:
        raise RerankerError(
            f"Its URL is not valid ({error}): use one such as http://localhost:8080 or "
            "http://localhost:8080#model-name."
        ) from error


class _Scored(msgspec.Struct):
    index: int
    score: float


class HttpReranker:
    """A service with the route ``/rerank``. Opening it scores a short text.

    Args:
        url: as for :func:`parse_url`. A model's name is sent as ``model``, which text-embeddings-inference ignores.
        timeout: seconds for one batch.
        retries: how often a request is retried after a connection error or a status of 429 or 5xx.
        batch_size: the texts of a request. If the service rejects that many (413, 422), they are halved.
        backoff: longest wait before the first retry, in seconds, as for :class:`scholarbase.client.Client`.

    Raises:
        RerankerError: the service does not respond, or its response is not valid.
    """

    fingerprint: Final = None

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        retries: int = DEFAULT_RETRIES,
        *,
        batch_size: int = DEFAULT_BATCH_SIZE,
        backoff: float = 0.5,
    ) -> None:
        self._endpoint = parse_url(url)
        self._batch_size = batch_size
        self._service = ModelService(
            "reranking service",
            self._endpoint,
            error=RerankerError,
            activity=RERANKING,
            advice=_ADVICE,
            api_key=api_key,
            key_setting="SCHOLARBASE_RERANKER_API_KEY",
            timeout=timeout,
            retries=retries,
            backoff=backoff,
            log=log,
            # A compressed response could be larger than MAX_RESPONSE.
            headers={"Accept-Encoding": "identity"},
        )
        self._turns = BoundedSemaphore(CONCURRENCY)
        try:
            self.score(_SAMPLE, [_SAMPLE])
        except BaseException:
            self.close()
            raise

    @property
    def name(self) -> str:
        return self._endpoint.model or self._endpoint.display_name

    def score(self, query: str, texts: Sequence[str]) -> Scores:
        """See :meth:`.Reranker.score`. The timeout of a request is at most what remains of the time limit."""
        scored = [np.empty(0, dtype=np.float32)]
        done, size = 0, self._batch_size
        check(*RERANKING)
        with self._service.errors(), turn(self._turns):
            if self._service.is_closed:
                raise closed(self.name)
            while done < len(texts):
                check(*RERANKING)
                batch = list(texts[done : done + size])
                scores = self._score(query, batch)
                if scores is None:
                    size = (len(batch) + 1) // 2
                    continue
                scored.append(scores)
                done += len(batch)
        self._batch_size = min(size, self._batch_size)
        return np.concatenate(scored)

    def close(self) -> None:
        """Close the connections. Scoring after this raises RerankerError."""
        self._service.close()

    def _score(self, query: str, texts: list[str]) -> Scores | None:
        """The scores of one request; None if the service rejects several texts in one request."""
        body: dict[str, Any] = {"query": query, "texts": texts, "truncate": True}
        if self._endpoint.model is not None:
            body["model"] = self._endpoint.model
        content = orjson.dumps(body)
        response = self._service.send(
            lambda: self._service.post(content, MAX_RESPONSE),
            _TOO_LARGE if len(texts) > 1 else (),
        )
        return self._read(response, len(texts)) if response.is_success else None

    def _read(self, response: httpx.Response, count: int) -> Scores:
        """The scores of a response, in the order of the ``count`` texts.

        Raises:
            RerankerError: it is not a list of one index and one finite score for each text.
        """
        scored = self._service.read_json(response, "a service with the route /rerank", list[_Scored])
        scored.sort(key=lambda item: item.index)
        if [item.index for item in scored] != list(range(count)):
            raise RerankerError(
                f"{self._service} returned {len(scored)} scores for {count} texts, without the indexes 0 to "
                f"{count - 1} once each: use another service."
            )
        with np.errstate(over="ignore"):  # which the check finds
            scores = np.array([item.score for item in scored], dtype=np.float64).astype(np.float32)
        return check_scores(scores, str(self._service))


_ADVICE: Final = {
    413: "it rejects a single text as too large, so use a model for longer texts.",
    424: "check that it serves a reranker.",
}

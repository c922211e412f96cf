"""The encoder over HTTP: a client for OpenAI's ``POST /v1/embeddings``, and for ``POST /embed`` of
text-embeddings-inference.

Formats: https://platform.openai.com/docs/api-reference/embeddings, which vLLM and Infinity serve too, and
https://huggingface.github.io/text-embeddings-inference. ScholarBase's own encoder service
(:mod:`scholarbase.encoders.service`) has three optional additions: the response contains the encoder's spec under
``scholarbase``, an item has a ``sparse_embedding`` beside its ``embedding``, and the request may have an
``input_type``. With them, :class:`HttpEncoder` has the spec of the encoder that is served.
"""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

import msgspec
import numpy as np
import numpy.typing as npt
import orjson
from msgspec import Meta

from scholarbase.encoders.base import Encodings, LearnedSparse, unit_rows
from scholarbase.errors import EncoderError
from scholarbase.models.checks import shown
from scholarbase.models.encoders import STATIC, EncoderSpec
from scholarbase.services import Endpoint, ModelService

log = logging.getLogger("scholarbase.encoders")

DEFAULT_TIMEOUT: Final = 60.0
"""Seconds for one batch."""
DEFAULT_RETRIES: Final = 4
DEFAULT_BATCH_SIZE: Final = 32
"""Texts in one request: within the lowest limits of public services."""
MAX_BYTES_PER_TEXT: Final = 1_000_000
"""The greatest share of a text in a response. 4,096 dimensions take about 90,000 bytes as JSON, and 8,192 learned
weights 200,000."""

_SAMPLE: Final = "scholarly search"
_ROUTE: Final = "/embeddings"
_TEI_ROUTE: Final = "/embed"

InputType = Literal["query", "document"]
_Vectors = tuple[npt.NDArray[np.float32], list[LearnedSparse] | None]


def parse_endpoint(name: str) -> Endpoint:
    """Parse ``https://host/v1``, ``https://host/v1/embeddings``, ``https://host/embed`` (text-embeddings-inference) or
    ``unix:/path/to.sock``, with or without ``#model``.

    Raises:
        EncoderError: not such an address.
    """
    if name.startswith("unix:"):
        path, _, model = name.removeprefix("unix:").partition("#")
        path = f"/{path.lstrip('/')}" if path.startswith("/") else path
        if not path:
            raise EncoderError(f"{name!r} has no socket path: use unix:/path/to/encoder.sock.")
        return Endpoint(f"http://localhost/v1{_ROUTE}", path, model or None)
    try:
        return Endpoint.parse(name, _ROUTE, _TEI_ROUTE)
    except ValueError as error:
        raise EncoderError(
            f"The encoder's URL is not valid ({error}): use one such as https://host/v1#model-name, "
            "or unix:/path/to/encoder.sock."
        ) from error


class _Weights(msgspec.Struct):
    """Learned term weights."""

    indices: list[Annotated[int, Meta(ge=0, le=2**32 - 1)]]
    values: list[Annotated[float, Meta(gt=0)]]

    def __post_init__(self) -> None:
        if not len(set(self.indices)) == len(self.indices) == len(self.values):
            raise ValueError("indices are repeated or do not match values")


class _Item(msgspec.Struct):
    index: int
    embedding: str | list[float]
    sparse_embedding: _Weights | None = None


class _Content(msgspec.Struct):
    """A response. ``scholarbase`` is what a ScholarBase service says of its encoder."""

    data: list[_Item]
    scholarbase: dict[str, Any] | None = None


class HttpEncoder:
    """An embeddings service as an encoder. Opening it encodes a short text to learn the dimensions.

    Args:
        url: as for :func:`parse_endpoint`. Only a ScholarBase service works without a model's name in it.
        timeout: seconds for one batch.
        retries: how often a request is retried after a connection error or a status of 429 or 5xx.
        requests: how many requests may run at once.
        backoff: longest wait before the first retry, in seconds, as for :class:`scholarbase.client.Client`.

    Raises:
        EncoderError: the service does not respond, or its response is not valid.
    """

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        retries: int = DEFAULT_RETRIES,
        *,
        batch_size: int = DEFAULT_BATCH_SIZE,
        requests: int = 1,
        backoff: float = 0.5,
    ) -> None:
        self._endpoint = parse_endpoint(url)
        self._model = self._endpoint.model
        self._batch_size = batch_size
        self._requests = requests
        self._is_tei = urlsplit(self._endpoint.url).path.endswith(_TEI_ROUTE)
        self._service = ModelService(
            "encoder service",
            self._endpoint,
            error=EncoderError,
            activity=("Encoding the query", "retry, or use mode 'sparse'"),
            advice=_ADVICE,
            api_key=api_key,
            key_setting="SCHOLARBASE_ENCODER_API_KEY",
            timeout=timeout,
            retries=retries,
            backoff=backoff,
            log=log,
        )
        self._served: dict[str, Any] | None = None
        self._spec: EncoderSpec | None = None
        try:
            self._spec = self._learn_spec()
        except BaseException:
            self.close()
            raise

    @property
    def spec(self) -> EncoderSpec:
        assert self._spec is not None
        return self._spec

    def encode_documents(self, texts: Sequence[str]) -> Encodings:
        """Encode documents. Only a ScholarBase service gets the input type."""
        return self._encode(texts, "document")

    def encode_queries(self, texts: Sequence[str]) -> Encodings:
        """Encode queries. Only a ScholarBase service gets the input type."""
        return self._encode(texts, "query")

    def close(self) -> None:
        """Close the connections. Encoding raises EncoderError afterwards."""
        self._service.close()

    def _learn_spec(self) -> EncoderSpec:
        content = self._post([_SAMPLE], None)
        served = content.scholarbase
        dense, sparse = self._read_items(content, 1)
        if served is None:
            if self._model is None:
                raise EncoderError(
                    f"{self._service} is not a ScholarBase service and needs a model's name: "
                    "add it to the URL, as in https://host/v1#model-name."
                )
            return EncoderSpec("http", self._model, dense.shape[1], learned_sparse=sparse is not None)
        try:
            spec = EncoderSpec.from_dict(served["encoder"])
        except (TypeError, KeyError) as error:
            raise EncoderError(
                f"{self._service} returned an encoder spec that this version cannot read ({served!r}): "
                "use the same version of ScholarBase on both sides."
            ) from error
        if spec.dimensions != dense.shape[1] or spec.learned_sparse != (sparse is not None):
            raise EncoderError(
                f"{self._service} has a spec of {spec.dimensions} dimensions and learned_sparse {spec.learned_sparse}, "
                f"but returned {dense.shape[1]} and {sparse is not None}: update ScholarBase there."
            )
        self._served = served
        return spec

    def _encode(self, texts: Sequence[str], input_type: InputType) -> Encodings:
        batches = [
            list(texts[start : start + self._batch_size]) for start in range(0, len(texts), self._batch_size)
        ]
        dense = [np.empty((0, self.spec.dimensions), dtype=np.float32)]
        sparse: list[LearnedSparse] = []
        with self._service.errors():
            if self._service.is_closed:
                raise EncoderError(f"The encoder {self.spec.name} is closed: open it again.")
            for batch_dense, batch_sparse in self._encoded(batches, input_type):
                dense.append(batch_dense)
                sparse.extend(batch_sparse or [])
        return Encodings(np.concatenate(dense), sparse if self.spec.learned_sparse else None)

    def _encoded(self, batches: list[list[str]], input_type: InputType) -> Iterator[_Vectors]:
        """The vectors of batches in their order, requested in threads if several requests may run at once."""
        if self._requests == 1 or len(batches) < 2:
            yield from (self._encode_batch(batch, input_type) for batch in batches)
            return
        pool = ThreadPoolExecutor(min(self._requests, len(batches)), thread_name_prefix="encoder")
        try:
            yield from pool.map(self._encode_batch, batches, repeat(input_type))
        finally:
            pool.shutdown(cancel_futures=True)  # after an error the other batches are not sent

    def _encode_batch(self, batch: list[str], input_type: InputType) -> _Vectors:
        content = self._post(batch, input_type)
        if content.scholarbase != self._served:
            raise EncoderError(
                f"{self._service} now serves {shown(content.scholarbase)}, but served {self._served!r} "
                "when it was opened: vectors of two models cannot be mixed, so open it again."
            )
        dense, sparse = self._read_items(content, len(batch))
        if dense.shape[1] != self.spec.dimensions:
            raise EncoderError(
                f"{self._service} returned vectors of {dense.shape[1]} dimensions, but of "
                f"{self.spec.dimensions} when it was opened: check which model it serves."
            )
        if (sparse is not None) != self.spec.learned_sparse:
            raise EncoderError(
                f"{self._service} returned learned sparse weights for some texts and not for others: "
                "check which model it serves."
            )
        return dense, sparse

    def _post(self, texts: list[str], input_type: InputType | None) -> _Content:
        """Send one request, with retries. Returns what the response has."""
        if self._is_tei:
            body: dict[str, Any] = {"inputs": texts, "truncate": True}
        else:
            body = {"input": texts}
            if self._model is not None:
                body["model"] = self._model
        if self._served is not None:  # other services may reject these fields
            body["input_type"] = input_type
            body["encoding_format"] = "base64"
        content = orjson.dumps(body)
        most = MAX_BYTES_PER_TEXT * (1 + len(texts))
        response = self._service.send(lambda: self._service.post(content, most))
        service = "an embeddings service"
        if self._is_tei:
            vectors = self._service.read_json(response, service, list[list[float]])
            return _Content([_Item(index, vector) for index, vector in enumerate(vectors)])
        return self._service.read_json(response, service, _Content)

    def _read_items(self, content: _Content, count: int) -> _Vectors:
        """The vectors, in the order of the texts.

        Raises:
            EncoderError: missing or extra vectors, different lengths, or values that are not numbers.
        """
        items = sorted(content.data, key=lambda item: item.index)
        if [item.index for item in items] != list(range(count)):
            raise EncoderError(
                f"{self._service} returned {len(items)} vectors for {count} texts, without the indexes 0 to "
                f"{count - 1} once each: use another service."
            )
        vectors = [_read_vector(item.embedding, str(self._service)) for item in items]
        lengths = {len(vector) for vector in vectors}
        may_be_zero = _may_be_zero(content.scholarbase)
        if len(lengths) != 1 or (0 in lengths and not may_be_zero):
            raise EncoderError(
                f"{self._service} returned vectors of {sorted(lengths)} dimensions in one response, but all must have "
                "the same: check which model it serves."
            )
        dense = unit_rows(np.stack(vectors), str(self._service), allow_zero=may_be_zero)
        sparse = [_read_sparse(item.sparse_embedding) for item in items if item.sparse_embedding is not None]
        if 0 < len(sparse) < count:
            raise EncoderError(
                f"{self._service} returned learned sparse weights for {len(sparse)} of {count} texts: "
                "check which model it serves."
            )
        return dense, sparse or None


_ADVICE: Final = {
    400: "check the model's name and that the texts are not too long for it.",
    404: "check the URL and the model's name.",
    413: "use a smaller batch size.",
}


def _may_be_zero(served: dict[str, Any] | None) -> bool:
    """Whether the response is of a static encoder, which has no direction for texts without known tokens, or of one
    without dense vectors."""
    spec = (served or {}).get("encoder")
    if not isinstance(spec, dict):
        return False
    query = spec.get("query")
    kinds = (spec.get("kind"), query.get("kind") if isinstance(query, dict) else None)
    return STATIC in kinds or spec.get("dimensions") == 0


def _read_vector(value: str | list[float], service: str) -> npt.NDArray[np.float64]:
    """Numbers, or base64 of little-endian float32."""
    if isinstance(value, list):
        return np.array(value, dtype=np.float64)
    try:
        return np.frombuffer(base64.b64decode(value, validate=True), dtype="<f4").astype(np.float64)
    except (ValueError, binascii.Error) as error:
        raise EncoderError(
            f"{service} returned an embedding that cannot be read ({error}): "
            "check that it is an embeddings service."
        ) from error


def _read_sparse(weights: _Weights) -> LearnedSparse:
    order = np.argsort(weights.indices)
    return LearnedSparse(
        np.array(weights.indices, dtype=np.uint32)[order], np.array(weights.values, dtype=np.float32)[order]
    )

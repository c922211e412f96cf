"""An embeddings service over HTTP, in the form of OpenAI's ``POST /v1/embeddings``.

https://platform.openai.com/docs/api-reference/embeddings is the form. ScholarBase's own encoder service
(:mod:`scholarbase.encoders.service`) speaks it with three additions, all of them optional: the answer carries
the encoder's spec under ``scholarbase``, an item carries ``sparse_embedding`` beside ``embedding``, and the
request may say ``input_type``. With them this encoder stands in for the one served, spec and all.
"""

from __future__ import annotations

import base64
import binascii
import os
import time
from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import urlsplit, urlunsplit

import httpx
import numpy as np
import numpy.typing as npt
import orjson

from scholarbase.encoders.base import Encodings, LearnedSparse, unit_rows
from scholarbase.errors import EncoderError
from scholarbase.http import is_loopback, retry_after
from scholarbase.models.encoders import EncoderSpec

DEFAULT_TIMEOUT: Final = 60.0
"""Seconds for one batch."""
DEFAULT_RETRIES: Final = 4
DEFAULT_BATCH_SIZE: Final = 32
"""Texts in one request: what the services with the lowest limits still take."""
MAX_WAIT: Final = 60.0
"""Seconds. A service that asks to wait longer is taken at its word: the call fails at once."""

_SAMPLE: Final = "scholarly search"
_ROUTE: Final = "/embeddings"

InputType = Literal["query", "document"]


class Endpoint(NamedTuple):
    """Where a service listens: the URL of its route, and its Unix socket where it has one."""

    url: str
    socket: str | None
    model: str | None

    @property
    def shown(self) -> str:
        """How errors name it: without user, password and query, which may be secret."""
        if self.socket is not None:
            return f"unix:{self.socket}"
        parts = urlsplit(self.url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def parse_endpoint(name: str) -> Endpoint:
    """Read ``https://host/v1``, ``https://host/v1/embeddings`` or ``unix:/path/to.sock``, each ``#model``.

    Raises:
        EncoderError: another form.
    """
    if name.startswith("unix:"):
        path, _, model = name.removeprefix("unix:").partition("#")
        path = f"/{path.lstrip('/')}" if path.startswith("/") else path
        if not path:
            raise EncoderError(f"{name!r} names no socket: give unix:/path/to/encoder.sock.")
        return Endpoint(f"http://localhost/v1{_ROUTE}", path, model or None)
    try:
        parts = urlsplit(name)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("no scheme http or https, or no host")
        _ = parts.port  # raises ValueError where it is no number
    except ValueError as error:
        raise EncoderError(
            f"An encoder's URL is not usable ({error}): give one such as https://host/v1#model-name, "
            "or unix:/path/to/encoder.sock."
        ) from error
    path = parts.path.rstrip("/")
    if not path.endswith(_ROUTE):
        path += _ROUTE
    url = urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))
    return Endpoint(url, None, parts.fragment or None)


class HttpEncoder:
    """An embeddings service as an encoder.

    ``url`` is the route or the base before it (``https://host/v1``), or ``unix:/path/to.sock``; ``model`` may
    stand in it as a fragment. Only a ScholarBase service can do without a model's name. ``timeout`` is in
    seconds, for one batch; ``retries`` counts the attempts after the first, ``backoff`` the seconds before
    the second attempt, doubled for each one after it unless the service says how long to wait.

    Opening it encodes one short text, to learn the dimensions and who answers.

    Raises:
        EncoderError: the service does not answer, or its answer cannot be used.
    """

    def __init__(
        self,
        url: str,
        model: str | None = None,
        api_key: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        retries: int = DEFAULT_RETRIES,
        *,
        batch_size: int = DEFAULT_BATCH_SIZE,
        backoff: float = 0.5,
    ) -> None:
        self._endpoint = parse_endpoint(url)
        if model is not None and self._endpoint.model not in (None, model):
            raise EncoderError(f"Two models are named, {model!r} and {self._endpoint.model!r}: name one.")
        self._model = model or self._endpoint.model
        self._api_key = api_key
        self._retries = retries
        self._batch_size = batch_size
        self._backoff = backoff
        self._where = f"The encoder service at {self._endpoint.shown}"
        self._http = _open_client(self._endpoint, api_key, timeout)
        self._served: dict[str, Any] | None = None
        self._spec: EncoderSpec | None = None
        try:
            self._spec = self._learn_spec()
        except BaseException:
            self._http.close()
            raise

    @property
    def spec(self) -> EncoderSpec:
        assert self._spec is not None
        return self._spec

    def encode_documents(self, texts: Sequence[str]) -> Encodings:
        """Encode documents. A service of another make is not told which side a text is on."""
        return self._encode(texts, "document")

    def encode_queries(self, texts: Sequence[str]) -> Encodings:
        """Encode queries. A service of another make is not told which side a text is on."""
        return self._encode(texts, "query")

    def close(self) -> None:
        """Close the connections. Encoding after this raises EncoderError."""
        self._http.close()

    def _learn_spec(self) -> EncoderSpec:
        answer = self._post([_SAMPLE], None)
        served = answer.get("scholarbase")
        dense, sparse = self._read_items(answer, 1)
        if served is None:
            if self._model is None:
                raise EncoderError(
                    f"{self._where} is not ScholarBase's, so it needs a model's name: "
                    "add it to the URL, as in https://host/v1#model-name."
                )
            return EncoderSpec("http", self._model, dense.shape[1], learned_sparse=sparse is not None)
        try:
            spec = EncoderSpec.from_dict(served["encoder"])
        except (TypeError, KeyError) as error:
            raise EncoderError(
                f"{self._where} describes its encoder in a way this version cannot read ({served!r}): "
                "run the same version of ScholarBase on both sides."
            ) from error
        if spec.dimensions != dense.shape[1] or spec.learned_sparse != (sparse is not None):
            raise EncoderError(
                f"{self._where} says {spec.dimensions} dimensions and learned_sparse {spec.learned_sparse}, "
                f"and gave {dense.shape[1]} and {sparse is not None}: update ScholarBase there."
            )
        self._served = served
        return spec

    def _encode(self, texts: Sequence[str], input_type: InputType) -> Encodings:
        if self._http.is_closed:
            raise EncoderError(f"The encoder {self.spec.name} is closed: open it again.")
        dense = [np.empty((0, self.spec.dimensions), dtype=np.float32)]
        sparse: list[LearnedSparse] = []
        for start in range(0, len(texts), self._batch_size):
            batch = list(texts[start : start + self._batch_size])
            answer = self._post(batch, input_type)
            if answer.get("scholarbase") != self._served:
                raise EncoderError(
                    f"{self._where} now serves {answer.get('scholarbase')!r}, and served "
                    f"{self._served!r} when it was opened: vectors of two models cannot be mixed, so open it again."
                )
            batch_dense, batch_sparse = self._read_items(answer, len(batch))
            if batch_dense.shape[1] != self.spec.dimensions:
                raise EncoderError(
                    f"{self._where} gave vectors of {batch_dense.shape[1]} dimensions and, when it was "
                    f"opened, of {self.spec.dimensions}: check which model it serves."
                )
            if (batch_sparse is not None) != self.spec.learned_sparse:
                raise EncoderError(
                    f"{self._where} gave learned sparse weights for some texts and not for others: "
                    "check which model it serves."
                )
            dense.append(batch_dense)
            sparse.extend(batch_sparse or [])
        return Encodings(np.concatenate(dense), sparse if self.spec.learned_sparse else None)

    def _post(self, texts: list[str], input_type: InputType | None) -> dict[str, Any]:
        """One request, with its retries; the answer as JSON."""
        body: dict[str, Any] = {"input": texts}
        if self._model is not None:
            body["model"] = self._model
        if self._served is not None:
            # Another service may refuse what it does not know, so only our own is asked for these.
            body["input_type"] = input_type
            body["encoding_format"] = "base64"
        content = orjson.dumps(body)
        for attempt in range(self._retries + 1):
            wait = min(self._backoff * 2**attempt, MAX_WAIT)
            try:
                response = self._http.post(self._endpoint.url, content=content)
            except httpx.TransportError as error:
                problem = f"{self._where} does not answer ({type(error).__name__}: {error})"
                advice = "check that it runs and that the address is right."
            else:
                if response.is_success:
                    return self._parse(response)
                problem = f"{self._where} answered {response.status_code}{self._detail(response)}"
                advice = _ADVICE.get(response.status_code, "check its log.")
                if response.status_code != 429 and response.status_code < 500:
                    raise EncoderError(f"{problem}: {advice}")
                asked = retry_after(response)
                if asked is not None:
                    wait = asked
                if wait > MAX_WAIT:
                    raise EncoderError(
                        f"{problem} and asks to wait {wait:.0f} s, more than the {MAX_WAIT:.0f} s that are "
                        "waited: try again later."
                    )
            if attempt < self._retries:
                time.sleep(wait)
        raise EncoderError(f"{problem}, in {self._retries + 1} attempts: {advice}")

    def _detail(self, response: httpx.Response) -> str:
        """What the service says of its refusal, short and without our key."""
        text = " ".join(response.text.split())[:300]
        if self._api_key:
            text = text.replace(self._api_key, "***")
        return f" ({text})" if text else ""

    def _parse(self, response: httpx.Response) -> dict[str, Any]:
        try:
            answer = orjson.loads(response.content)
        except orjson.JSONDecodeError as error:
            raise EncoderError(
                f"{self._where} answered with something that is not JSON ({error}): "
                "check that the URL is that of an embeddings service."
            ) from error
        if not isinstance(answer, dict):
            raise EncoderError(f"{self._where} answered with JSON that is no object: check the URL.")
        return answer

    def _read_items(
        self, answer: dict[str, Any], count: int
    ) -> tuple[npt.NDArray[np.float32], list[LearnedSparse] | None]:
        """The vectors of the answer in the order of the texts, checked.

        Raises:
            EncoderError: too few or too many, unequal lengths, or not numbers.
        """
        items = answer.get("data")
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise EncoderError(f"{self._where} answered without a list named data: check the URL.")
        if sorted(str(item.get("index")) for item in items) != sorted(map(str, range(count))):
            raise EncoderError(
                f"{self._where} answered {count} texts with {len(items)} vectors whose indexes are not "
                f"0 to {count - 1}, once each: which vector is whose cannot be told. Use another service."
            )
        items = sorted(items, key=lambda item: int(item["index"]))
        rows = [_read_vector(item.get("embedding"), self._where) for item in items]
        lengths = {len(row) for row in rows}
        if len(lengths) != 1 or 0 in lengths:
            raise EncoderError(
                f"{self._where} gave vectors of {sorted(lengths)} dimensions in one answer: "
                "they must all have the same. Check which model it serves."
            )
        dense = unit_rows(np.stack(rows), self._where)
        with_sparse = sum("sparse_embedding" in item for item in items)
        if with_sparse == 0:
            return dense, None
        if with_sparse < count:
            raise EncoderError(
                f"{self._where} gave learned sparse weights for {with_sparse} of {count} texts: "
                "check which model it serves."
            )
        return dense, [_read_sparse(item["sparse_embedding"], self._where) for item in items]


_ADVICE: Final = {
    400: "check the model's name and that the texts are not too long for it.",
    401: "give a valid key, in SCHOLARBASE_ENCODER_API_KEY.",
    403: "give a key that may use this model, in SCHOLARBASE_ENCODER_API_KEY.",
    404: "check the URL and the model's name.",
    413: "send fewer texts at a time.",
    429: "it is overloaded or a quota is used up; try again later.",
}


def _open_client(endpoint: Endpoint, api_key: str | None, timeout: float) -> httpx.Client:
    headers = {"Content-Type": "application/json"}
    if api_key:
        headers["Authorization"] = f"Bearer {api_key}"
    if endpoint.socket is not None:
        transport = httpx.HTTPTransport(uds=os.fspath(endpoint.socket))
        return httpx.Client(transport=transport, headers=headers, timeout=timeout)
    # A proxy for the world outside cannot reach this machine's own addresses.
    return httpx.Client(
        headers=headers, timeout=timeout, trust_env=not is_loopback(urlsplit(endpoint.url).hostname or "")
    )


def _read_vector(value: object, where: str) -> npt.NDArray[np.float64]:
    """A list of numbers, or base64 of little-endian float32."""
    try:
        if isinstance(value, str):
            return np.frombuffer(base64.b64decode(value, validate=True), dtype="<f4").astype(np.float64)
        if not isinstance(value, list) or not all(type(number) in (float, int) for number in value):
            raise ValueError("it is no list of numbers")
        return np.array(value, dtype=np.float64)
    except (ValueError, OverflowError, binascii.Error) as error:
        raise EncoderError(
            f"{where} gave an embedding that cannot be read ({error}): "
            "check that it is an embeddings service."
        ) from error


def _read_sparse(value: object, where: str) -> LearnedSparse:
    try:
        if not isinstance(value, dict):
            raise ValueError("it is no object")
        indices = np.array(value["indices"], dtype=np.int64).reshape(-1)
        weights = np.array(value["values"], dtype=np.float64).reshape(-1)
        if len(indices) != len(weights) or len(np.unique(indices)) != len(indices):
            raise ValueError("indices and values do not pair up")
        if len(indices) and (indices.min() < 0 or indices.max() > np.iinfo(np.uint32).max):
            raise ValueError("an index is no 32-bit number")
        if not (np.isfinite(weights) & (weights > 0)).all():
            raise ValueError("a value is not above zero")
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise EncoderError(
            f"{where} gave learned sparse weights that cannot be read ({error}): "
            "run the same version of ScholarBase on both sides."
        ) from error
    order = np.argsort(indices)
    return LearnedSparse(indices[order].astype(np.uint32), weights[order].astype(np.float32))

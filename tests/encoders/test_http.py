"""The encoder over HTTP: against ScholarBase's service with real models, and against a scripted service."""

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from scholarbase.encoders import Encoder
from scholarbase.encoders.bge_m3 import BgeM3Encoder
from scholarbase.encoders.http import HttpEncoder, parse_endpoint
from scholarbase.errors import EncoderError
from tests.encoders.servers import running
from tests.encoders.tiny_bge_m3 import SENTENCES

KEY = "sk-not-to-be-shown"


def embed(text: str) -> list[float]:
    """A vector that is easy to calculate: the text's length, and 1."""
    return [float(len(text)), 1.0]


def good(body: dict[str, Any]) -> Response:
    items = [
        {"object": "embedding", "index": i, "embedding": embed(text)} for i, text in enumerate(body["input"])
    ]
    return JSONResponse({"object": "list", "data": items, "model": body["model"]})


def data(make: Callable[[list[str]], list[dict[str, Any]]]) -> Callable[[dict[str, Any]], Response]:
    return lambda body: JSONResponse({"data": make(body["input"])})


Step = Callable[[dict[str, Any]], Response]


class ScriptedService:
    """A service of another kind. Responds with the steps of ``script``, one per request, then with valid vectors."""

    def __init__(self) -> None:
        self.script: list[Step] = []
        self.bodies: list[dict[str, Any]] = []
        self.authorization: str | None = None
        self.url = ""

    async def respond(self, request: Request) -> Response:
        body = json.loads(await request.body())
        self.bodies.append(body)
        self.authorization = request.headers.get("Authorization")
        return (self.script.pop(0) if self.script else good)(body)

    def open(self, **options: Any) -> HttpEncoder:
        return HttpEncoder(f"{self.url}#small-model", backoff=0.01, **options)


@pytest.fixture(scope="module")
def running_service() -> Iterator[ScriptedService]:
    scripted = ScriptedService()
    app = Starlette(routes=[Route("/v1/embeddings", scripted.respond, methods=["POST"])])
    with running(app) as url:
        scripted.url = url
        yield scripted


@pytest.fixture
def service(running_service: ScriptedService) -> ScriptedService:
    running_service.script, running_service.bodies = [], []
    return running_service


@pytest.mark.parametrize(
    "name", ["ftp://host/v1", "http://", "http://host:port/v1", "unix:", "unix:#m", f"http://{'a' * 64}/v1"]
)
def test_invalid_addresses_are_rejected(name: str) -> None:
    with pytest.raises(EncoderError):
        parse_endpoint(name)


def test_it_has_the_spec_and_vectors_of_the_served_model(packaged_service: str, packaged: Encoder) -> None:
    encoder = HttpEncoder(packaged_service)
    assert encoder.spec == packaged.spec
    texts = [f"paper number {i} on citations" for i in range(70)]  # more than two requests
    served = encoder.encode_documents(texts)
    assert served.sparse is None
    np.testing.assert_array_equal(served.dense, packaged.encode_documents(texts).dense)
    np.testing.assert_array_equal(
        encoder.encode_queries(["one query"]).dense, packaged.encode_queries(["one query"]).dense
    )
    assert encoder.encode_queries([]).dense.shape == (0, 256)
    encoder.close()


def test_it_has_the_term_weights_of_the_served_model(bge_m3_service: str, tiny_bge_m3: BgeM3Encoder) -> None:
    encoder = HttpEncoder(bge_m3_service)
    assert encoder.spec == tiny_bge_m3.spec
    served, real = encoder.encode_queries(SENTENCES), tiny_bge_m3.encode_queries(SENTENCES)
    np.testing.assert_allclose(served.dense, real.dense, atol=1e-7)
    assert served.sparse is not None
    assert real.sparse is not None
    for one, other in zip(served.sparse, real.sparse, strict=True):
        assert one.indices.dtype == np.uint32
        np.testing.assert_array_equal(one.indices, other.indices)
        np.testing.assert_array_equal(one.values, other.values)
    encoder.close()


def test_a_service_of_another_kind(service: ScriptedService) -> None:
    encoder = service.open(api_key=KEY)
    assert encoder.spec.to_dict() == {
        "kind": "http",
        "name": "small-model",
        "dimensions": 2,
        "learned_sparse": False,
        "max_tokens": None,
        "fingerprint": None,
    }
    assert service.authorization == f"Bearer {KEY}"
    vectors = encoder.encode_queries(["abc", "abcd"]).dense
    lengths = np.sqrt([[10], [17]])  # 3, 1 and 4, 1
    np.testing.assert_allclose(vectors, [[3, 1], [4, 1]] / lengths, rtol=1e-6)
    # It may reject unknown fields, so the request has OpenAI's fields only.
    assert service.bodies[-1] == {"input": ["abc", "abcd"], "model": "small-model"}
    encoder.close()


def test_vectors_are_ordered_by_their_index(service: ScriptedService) -> None:
    encoder = service.open()
    service.script = [
        data(lambda texts: [{"index": i, "embedding": embed(t)} for i, t in enumerate(texts)][::-1])
    ]
    np.testing.assert_allclose(encoder.encode_queries(["abc", ""]).dense[1], [0, 1])
    encoder.close()


def test_base64_embeddings_are_read(service: ScriptedService) -> None:
    encoder = service.open()
    packed = base64.b64encode(np.array([0.6, 0.8], dtype="<f4").tobytes()).decode()
    service.script = [data(lambda texts: [{"index": 0, "embedding": packed}])]
    np.testing.assert_allclose(encoder.encode_queries(["x"]).dense, [[0.6, 0.8]], rtol=1e-6)
    encoder.close()


def test_a_temporary_failure_is_retried(service: ScriptedService) -> None:
    encoder = service.open()
    service.script = [lambda _, status=status: Response(status_code=status) for status in (429, 500, 502)]
    assert encoder.encode_queries(["abc"]).dense.shape == (1, 2)
    assert len(service.bodies) == 5  # one to open, three failures, one success
    encoder.close()


def test_a_permanent_failure_is_an_error(service: ScriptedService) -> None:
    encoder = service.open(retries=2)
    service.script = [lambda _: Response("out of memory", status_code=500)] * 3
    with pytest.raises(EncoderError, match=r"returned 500 \(out of memory\), in 3 attempts"):
        encoder.encode_queries(["abc"])
    encoder.close()


@pytest.mark.parametrize("key", [f"{KEY}\n", f"{KEY}é"])
def test_a_key_that_no_header_can_have_is_not_shown(key: str) -> None:
    """It ended in a UnicodeEncodeError, or in an error of httpx that quoted it."""
    with pytest.raises(EncoderError, match="SCHOLARBASE_ENCODER_API_KEY has characters") as caught:
        HttpEncoder("http://127.0.0.1:9/v1", api_key=key)
    assert KEY not in str(caught.value)


def test_an_invalid_key_is_not_retried_or_shown(service: ScriptedService) -> None:
    service.script = [lambda _: Response(f"Incorrect API key provided: {KEY}.", status_code=401)]
    with pytest.raises(EncoderError, match="SCHOLARBASE_ENCODER_API_KEY") as caught:
        service.open(api_key=KEY)
    assert KEY not in str(caught.value)
    assert len(service.bodies) == 1


def _sparse(weights: object) -> Step:
    return data(lambda texts: [{"index": 0, "embedding": [1.0, 2.0], "sparse_embedding": weights}])


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        (data(lambda texts: []), "returned 0 vectors for 2 texts"),
        (data(lambda texts: [{"index": 0, "embedding": [1.0, 2.0]}]), "returned 1 vectors for 2 texts"),
        (data(lambda texts: [{"index": 0, "embedding": [1.0, 2.0]}] * 2), "once each"),
        (data(lambda texts: [{"embedding": [1.0, 2.0]}] * 2), "missing required field `index`"),
        (data(lambda texts: [{"index": i, "embedding": [1.0] * (i + 2)} for i in range(2)]), r"of \[2, 3\]"),
        (data(lambda texts: [{"index": i, "embedding": [1.0] * 3} for i in range(2)]), "of 3 dimensions"),
        (data(lambda texts: [{"index": i, "embedding": []} for i in range(2)]), r"of \[0\] dimensions"),
        (data(lambda texts: [{"index": i, "embedding": [0.0, 0.0]} for i in range(2)]), "zero or not finite"),
        (data(lambda texts: [{"index": i, "embedding": [1.0, None]} for i in range(2)]), "got `null`"),
        (data(lambda texts: [{"index": i, "embedding": "no base64"} for i in range(2)]), "cannot be read"),
        (
            lambda _: Response('{"data": [{"index": 0, "embedding": [NaN, 1]}]}'),
            "did not return the JSON",
        ),
        (lambda _: Response("<html>Welcome</html>"), "did not return the JSON"),
        (lambda _: Response("[]"), "Expected `object`, got `array`"),
        (lambda _: JSONResponse({"ok": True}), "missing required field `data`"),
        (lambda _: Response(status_code=302, headers={"Location": "/login"}), "returned 302"),
        (lambda _: Response(b" " * 3_000_001), "returned more than 3,000,000 bytes"),
        (lambda _: Response(b"no gzip", headers={"Content-Encoding": "gzip"}), "compressed content is damaged"),
    ],
)  # fmt: skip
def test_an_invalid_response_is_an_error(service: ScriptedService, step: Step, sentence: str) -> None:
    encoder = service.open(retries=0)
    service.script = [step]
    with pytest.raises(EncoderError, match=sentence):
        encoder.encode_documents(["a", "b"])
    encoder.close()


@pytest.mark.parametrize(
    "weights",
    [
        {"indices": [1, 1], "values": [0.5, 0.5]},
        {"indices": [1], "values": [0.5, 0.5]},
        {"indices": [-1], "values": [0.5]},
        {"indices": [2**32], "values": [0.5]},
        {"indices": [1], "values": [0.0]},
        {"values": [0.5]},
        "none",
    ],
)
def test_invalid_term_weights_are_an_error(service: ScriptedService, weights: object) -> None:
    service.script = [_sparse(weights)]
    with pytest.raises(
        EncoderError, match=r"did not return the JSON of an embeddings service \(.*sparse_embedding"
    ):
        service.open()


def test_term_weights_are_sorted_by_id(service: ScriptedService) -> None:
    step = _sparse({"indices": [9, 4], "values": [0.5, 0.25]})
    service.script = [step, step]
    encoder = service.open()
    assert encoder.spec.learned_sparse
    sparse = encoder.encode_queries(["x"]).sparse
    assert sparse is not None
    assert (sparse[0].indices.tolist(), sparse[0].values.tolist()) == ([4, 9], [0.25, 0.5])
    with pytest.raises(EncoderError, match="for some texts and not for others"):
        encoder.encode_queries(["x"])
    encoder.close()


def test_a_changed_model_is_an_error(service: ScriptedService) -> None:
    def served(fingerprint: str) -> Step:
        spec = {"kind": "sentence-transformers", "name": "m", "dimensions": 2, "fingerprint": fingerprint}
        return lambda body: JSONResponse(
            {"data": [{"index": 0, "embedding": [3, 4]}], "scholarbase": {"encoder": spec}}
        )

    service.script = [served("one"), served("one"), served("two")]
    encoder = service.open()
    assert encoder.spec.fingerprint == "one"
    encoder.encode_queries(["x"])
    assert service.bodies[-1]["input_type"] == "query"
    with pytest.raises(EncoderError, match="vectors of two models cannot be mixed"):
        encoder.encode_documents(["x"])
    assert service.bodies[-1]["input_type"] == "document"
    encoder.close()


def test_a_password_in_the_url_is_not_shown() -> None:
    with pytest.raises(EncoderError) as caught:
        HttpEncoder("http://user:secret@127.0.0.1:9/v1?key=secret#m", retries=0)
    assert "secret" not in str(caught.value)


def test_a_closed_encoder_raises_an_error(service: ScriptedService) -> None:
    encoder = service.open()
    encoder.close()
    with pytest.raises(EncoderError, match="is closed: open it again"):
        encoder.encode_queries(["x"])

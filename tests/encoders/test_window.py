"""Several requests at once to an embeddings service."""

from collections.abc import Iterator
from contextlib import closing
from threading import Thread

import numpy as np
import pytest
from starlette.responses import JSONResponse

from scholarbase.encoders.http import HttpEncoder
from scholarbase.errors import EncoderError
from tests.encoders.embeddings import Service, embeddings_service, vector_of

TEXTS = [f"text {number}" for number in range(20 * 4)]


@pytest.fixture
def service() -> Iterator[Service]:
    with embeddings_service() as service:
        yield service


def unit(texts: list[str]) -> np.ndarray:
    rows = np.array([vector_of(text) for text in texts])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("route", ["v1", "embed"])
def test_vectors_come_in_the_order_of_the_texts(service: Service, route: str) -> None:
    url = service.url.replace("/v1", "/embed") if route == "embed" else service.url
    with closing(HttpEncoder(url, batch_size=4, requests=5)) as encoder:
        assert (encoder.spec.name, encoder.spec.dimensions) == ("hashes", 16)
        service.allowed = service.requests + 5
        found: list[np.ndarray] = []
        thread = Thread(target=lambda: found.append(encoder.encode_documents(TEXTS).dense))
        thread.start()
        while service.requests < service.allowed + 5:  # so many wait for a response
            thread.join(0.01)
        assert service.running == 5
        service.allowed = 1 << 30
        thread.join(60)
    np.testing.assert_allclose(found[0], unit(TEXTS), atol=1e-6)
    assert service.most_running == 5
    assert service.requests == 1 + 20


def test_refused_batches_are_sent_again(service: Service) -> None:
    with closing(HttpEncoder(service.url, batch_size=4, requests=8, backoff=0.01)) as encoder:
        service.refused = [JSONResponse({}, 429, {"Retry-After": "0"}) for _ in range(3)]
        np.testing.assert_allclose(encoder.encode_documents(TEXTS).dense, unit(TEXTS), atol=1e-6)
    assert service.requests == 1 + 20 + 3


def test_a_service_that_asks_for_a_long_wait_is_not_asked_again(service: Service) -> None:
    with closing(HttpEncoder(service.url)) as encoder:
        asked = service.requests
        service.refused = [JSONResponse({}, 503, {"Retry-After": "61"})]
        with pytest.raises(
            EncoderError, match="Retry-After of 61 s, longer than the limit of 60 s: try again later"
        ):
            encoder.encode_documents(TEXTS[:1])
    assert service.requests == asked + 1


def test_after_an_error_the_other_batches_are_not_sent(service: Service) -> None:
    with closing(HttpEncoder(service.url, batch_size=4, requests=2)) as encoder:
        service.refused = [JSONResponse({"error": "no"}, 400)]
        with pytest.raises(EncoderError, match="returned 400"):
            encoder.encode_documents(TEXTS * 20)
    assert service.requests < 100

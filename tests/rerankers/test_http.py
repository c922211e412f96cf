"""Rerankers over HTTP, against a scripted service with the API of text-embeddings-inference."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from starlette.responses import JSONResponse, Response

from scholarbase.deadlines import time_limit
from scholarbase.errors import RerankerError, TimeLimit
from scholarbase.rerankers.http import MAX_RESPONSE, HttpReranker, parse_url
from tests.rerankers.scripted import ScriptedReranker, Step, items, running_reranker, score_of

KEY = "sk-not-to-be-shown"
TEXTS = ["abc", "a", "abcdef", "ab"]


@pytest.fixture(scope="module")
def running_service() -> Iterator[ScriptedReranker]:
    with running_reranker() as service:
        yield service


@pytest.fixture
def service(running_service: ScriptedReranker) -> ScriptedReranker:
    running_service.reset()
    return running_service


@pytest.fixture
def reranker(service: ScriptedReranker) -> Iterator[HttpReranker]:
    opened = service.open(retries=0)
    service.bodies.clear()
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("name", "url", "model"),
    [
        ("http://localhost:8080", "http://localhost:8080/rerank", None),
        ("http://localhost:8080/", "http://localhost:8080/rerank", None),
        ("http://localhost:8080/rerank#m", "http://localhost:8080/rerank", "m"),
        ("https://host/v1#org/m", "https://host/v1/rerank", "org/m"),
        ("https://host/v1?version=1", "https://host/v1/rerank?version=1", None),
    ],
)
def test_valid_addresses(name: str, url: str, model: str | None) -> None:
    assert parse_url(name) == (url, None, model)


@pytest.mark.parametrize("name", ["ftp://host", "http://", "http://host:port", "http:///rerank"])
def test_invalid_addresses_are_rejected(name: str) -> None:
    with pytest.raises(RerankerError, match=r"Its URL is not valid .* use one such as http://localhost:8080"):
        parse_url(name)


def test_scores_are_in_the_order_of_the_texts(service: ScriptedReranker, reranker: HttpReranker) -> None:
    scores = reranker.score("a query", TEXTS)
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, [0.03, 0.01, 0.06, 0.02])
    assert service.bodies == [{"query": "a query", "texts": TEXTS, "truncate": True}]
    assert service.authorization is None
    assert reranker.score("a query", []).shape == (0,)
    assert (reranker.name, reranker.fingerprint) == (f"{service.url}/rerank", None)


def test_the_model_and_the_key_are_sent(service: ScriptedReranker) -> None:
    reranker = HttpReranker(f"{service.url}#some-model", KEY)
    assert (reranker.name, service.bodies[-1]["model"]) == ("some-model", "some-model")
    assert service.authorization == f"Bearer {KEY}"
    reranker.close()


def test_many_texts_are_sent_in_batches(service: ScriptedReranker, reranker: HttpReranker) -> None:
    texts = ["x" * length for length in range(1, 71)]
    np.testing.assert_allclose(reranker.score("q", texts), [score_of(text) for text in texts])
    assert [len(body["texts"]) for body in service.bodies] == [32, 32, 6]


@pytest.mark.parametrize("status", [413, 422])
def test_a_batch_that_is_too_large_is_split(
    service: ScriptedReranker, reranker: HttpReranker, status: int
) -> None:
    service.most, service.too_many = 8, status
    texts = ["x" * length for length in range(1, 21)]
    np.testing.assert_allclose(reranker.score("q", texts), [score_of(text) for text in texts])
    assert [len(body["texts"]) for body in service.bodies] == [20, 10, 5, 5, 5, 5]
    service.bodies.clear()
    reranker.score("q", texts)  # the size is known now
    assert [len(body["texts"]) for body in service.bodies] == [5, 5, 5, 5]


def test_a_text_that_is_too_large_is_an_error(service: ScriptedReranker, reranker: HttpReranker) -> None:
    service.most = 0
    with pytest.raises(RerankerError, match=r"returned 413 \(.*batch size 1 .*\): it rejects a single text"):
        reranker.score("q", ["a", "b"])


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        (items(), "returned 0 scores for 2 texts"),
        (items({"index": 0, "score": 1.0}), "returned 1 scores for 2 texts"),
        (items(*({"index": place, "score": 1.0} for place in range(3))), "returned 3 scores for 2 texts"),
        (items({"index": 0, "score": 1}, {"index": 2, "score": 1}), "without the indexes 0 to 1 once each"),
        (items({"index": 0, "score": 1}, {"index": -1, "score": 1}), "without the indexes 0 to 1 once each"),
        (items({"index": 0, "score": 1}, {"index": True, "score": 1}), "Expected `int`, got `bool`"),
        (items({"index": 0, "score": 1}, {"score": 1}), "missing required field `index`"),
        (items({"index": 1, "score": 1}, {"index": 1, "score": 2}), "without the indexes 0 to 1 once each"),
        (items({"index": 0, "score": 1}, {"index": 1}), "missing required field `score`"),
        (items({"index": 0, "score": 1}, {"index": 1, "score": "0.5"}), "Expected `float`, got `str`"),
        (items({"index": 0, "score": 1e300}, {"index": 1, "score": 1}), "the score inf for text 1 of 2"),
        (
            lambda _: Response('[{"index": 0, "score": NaN}, {"index": 1, "score": 1}]'),
            "did not return the JSON",
        ),
        (lambda _: Response("<html>Welcome</html>"), "did not return the JSON"),
        (lambda _: JSONResponse({"results": []}), "Expected `array`, got `object`"),
        (items(0.5, 0.25), "Expected `object`, got `float`"),
        (lambda _: Response(status_code=302, headers={"Location": "/login"}), "returned 302"),
        (lambda _: Response(status_code=404), "returned 404: check the URL"),
        (lambda _: Response(status_code=424), "returned 424: check that it serves a reranker"),
        (lambda _: Response(b" " * (MAX_RESPONSE + 1)), "returned more than 1,048,576 bytes"),
    ],
)
def test_an_invalid_response_is_an_error(
    service: ScriptedReranker, reranker: HttpReranker, step: Step, sentence: str
) -> None:
    service.script = [step]
    with pytest.raises(RerankerError, match=sentence):
        reranker.score("q", ["a", "b"])
    assert reranker.score("q", ["a"]).shape == (1,)  # the next request is not affected


def test_an_error_with_several_texts_leaves_the_batch_size(
    service: ScriptedReranker, reranker: HttpReranker
) -> None:
    service.script = [lambda _: Response(status_code=422)] * 6
    with pytest.raises(RerankerError, match="returned 422"):
        reranker.score("q", ["x"] * 32)
    service.bodies.clear()
    reranker.score("q", ["x"] * 32)
    assert [len(body["texts"]) for body in service.bodies] == [32]


def test_a_slow_service_ends_at_the_time_limit(service: ScriptedReranker) -> None:
    reranker = service.open()
    service.released.clear()
    with (
        time_limit(0.5),
        pytest.raises(TimeLimit, match=r"Reranking was stopped at the time limit of 0\.5 s"),
    ):
        reranker.score("q", TEXTS)
    service.released.set()
    reranker.close()


def test_an_attempt_that_could_only_begin_after_the_time_limit_was_waited_for(
    service: ScriptedReranker,
) -> None:
    reranker = service.open(backoff=1000)
    service.bodies.clear()
    service.script = [lambda _: Response(status_code=429)] * 2
    with time_limit(4), pytest.raises(RerankerError, match="returned 429, in 1 attempt: it is overloaded"):
        reranker.score("q", TEXTS)
    assert len(service.bodies) == 1
    reranker.close()


def test_a_closed_reranker_is_an_error(service: ScriptedReranker) -> None:
    reranker: Any = service.open()
    reranker.close()
    with pytest.raises(RerankerError, match="is closed: open the library again"):
        reranker.score("q", TEXTS)

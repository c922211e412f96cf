"""A chat completions service: what is sent, read, retried and counted."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from scholarbase.errors import ModelError
from scholarbase_research.llm.base import Completion, Message, ModelRequest, Price, ToolCall, Usage
from scholarbase_research.llm.http import HttpModel
from tests.extensions.research.llm.model_server import Reply, in_order, model_server, tool_call

ASK = ModelRequest((Message("system", "Be brief."), Message("user", "Hello?")))


def test_a_request_in_and_a_completion_out() -> None:
    schema = {"type": "object"}
    request = ModelRequest(ASK.messages, schema, max_tokens=9, temperature=0.0, seed=3)
    with model_server(in_order(Reply("Hi.", tokens=(7, 2)))) as server:
        model = server.model(api_key="secret")
        assert model.name == "scripted"
        assert model.complete(request) == Completion("Hi.", usage=Usage(1, 7, 2), model="served-model")
    assert server.keys == ["Bearer secret"]
    assert server.requests == [
        {
            "model": "scripted",
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello?"}],
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "reply", "strict": True, "schema": schema},
            },
            "max_tokens": 9,
            "temperature": 0.0,
            "seed": 3,
        }
    ]


def test_tool_calls_in_both_directions() -> None:
    call = tool_call("search_papers", {"q": "strings"}, "c7")
    request = ModelRequest(
        (
            Message("user", "Find."),
            Message("assistant", "", (ToolCall("c1", "search_papers", "{"),)),
            Message("tool", "not JSON", tool_call_id="c1"),
        ),
        tools=({"type": "function", "function": {"name": "search_papers"}},),
    )
    with model_server(in_order(Reply(None, tool_calls=[call]))) as server:
        completion = server.model().complete(request)
    assert completion.text == ""
    assert completion.tool_calls == (ToolCall("c7", "search_papers", '{"q": "strings"}'),)
    sent = server.requests[0]
    assert sent["tools"] == list(request.tools)
    assert sent["messages"][1]["tool_calls"] == [tool_call("search_papers", "{")]
    assert sent["messages"][2] == {"role": "tool", "content": "not JSON", "tool_call_id": "c1"}


def test_a_failure_that_passes_is_retried() -> None:
    for failure in (
        Reply(status=429, headers={"Retry-After": "0"}, body=b"{}"),
        Reply(status=500, body=b"oops"),
        Reply("half", cut=True),
        Reply(body=b'{"choices": [{"mess'),
        Reply(body=b'{"choices": []}'),
        Reply(body=b" " * 16_000_001),
    ):
        with model_server(in_order(failure, Reply("Hi."))) as server:
            completion = server.model().complete(ASK)
        assert completion.text == "Hi."
        assert completion.usage.replies == 1  # a failed attempt has no counts
        assert len(server.requests) == 2


@pytest.mark.slow
def test_a_silent_service_is_asked_again_and_then_an_error() -> None:
    with model_server(in_order(Reply(silent=True), Reply("Hi."))) as server:
        assert server.model(timeout=0.3).complete(ASK).text == "Hi."
    with (
        model_server(in_order(Reply(silent=True))) as server,
        pytest.raises(ModelError, match=r"does not respond \(ReadTimeout.*in 2 attempts"),
    ):
        server.model(timeout=0.2, retries=1).complete(ASK)


def test_a_wrong_key_is_not_retried_and_not_shown() -> None:
    reply = Reply(status=401, body=b'{"error": "no such key: secret"}')
    with (
        model_server(in_order(reply)) as server,
        pytest.raises(ModelError, match=r"returned 401.*SCHOLARBASE_MODEL_API_KEY") as caught,
    ):
        server.model(api_key="secret").complete(ASK)
    assert len(server.requests) == 1
    assert "secret" not in str(caught.value)
    assert "127.0.0.1" not in caught.value.for_clients


@pytest.mark.slow
def test_no_more_requests_at_once_than_allowed() -> None:
    with model_server(in_order(Reply("Hi."))) as server:
        model = server.model(concurrency=2)
        with ThreadPoolExecutor(8) as pool:
            assert {c.text for c in pool.map(model.complete, [ASK] * 24)} == {"Hi."}
    assert 1 <= server.most <= 2


def test_the_cost_of_tokens() -> None:
    usage = Usage(1, 1_000_000, 0) + Usage(1, 500_000, 250_000) + Usage(1, uncounted=1)
    assert usage == Usage(3, 1_500_000, 250_000, 1)
    assert Price(2.0, 8.0).cost(usage) == 5.0


def test_a_wrong_url_is_refused() -> None:
    for url in ("host/v1#m", "http://host:x/v1#m", "http://host/v1"):
        with pytest.raises(ModelError, match="URL"):
            HttpModel(url)

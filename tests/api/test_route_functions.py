"""Routes as an extension declares them: functions of a library and a request."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import pytest
from fastapi import APIRouter
from msgspec import Meta
from pydantic import Field
from starlette.testclient import TestClient

from scholarbase.api.app import create_app
from scholarbase.api.responding import Call
from scholarbase.api.routes import problems, resource, route
from scholarbase.errors import AuthorNotFound, LibraryError
from scholarbase.models.requests import Request
from scholarbase.models.responses import Response, Snapshot
from scholarbase.models.values import PaperId, Strings
from scholarbase.search.library import Library


class SharedParameters(Request):
    words: Strings = Field(default=(), description="Words of titles.", examples=[["string"]])


class SharedBody(SharedParameters):
    paper_id: PaperId


class SharedResponse(Response, frozen=True):
    """The words that a title has."""

    snapshot: Snapshot
    shared: Annotated[tuple[str, ...], Meta(description="Those of the title.")]


CALLED: list[SharedBody] = []


def routes() -> APIRouter:
    router = resource("/v1/shared", "shared", LibraryError)

    def shared(library: Library, request: SharedBody) -> SharedResponse:
        CALLED.append(request)
        [paper] = library.papers([request.paper_id])
        words = set("" if paper is None else (paper.title or "").lower().split())
        return SharedResponse(library.snapshot_id, tuple(word for word in request.words if word in words))

    call = Call(shared, SharedBody, SharedResponse)
    about = {"summary": "Words of a title", "description": "The words that the title of a paper has."}
    route(router, "GET /{paper_id:path}", call, name="shared", responses=problems(AuthorNotFound), **about)
    route(
        router,
        "POST /{paper_id:path}",
        call,
        name="shared_by_body",
        summary="With a body",
        description="The same.",
    )
    return router


@pytest.fixture
def client(sample: Library) -> Iterator[TestClient]:
    app = create_app(sample)
    app.router.routes[:0] = routes().routes
    with TestClient(app, base_url="http://127.0.0.1") as client:
        yield client


PATH = "/v1/shared/arXiv:hep-th/9301068"


def test_the_function_is_called_with_the_request_of_path_and_url(client: TestClient, sample: Library) -> None:
    CALLED.clear()
    got = client.get(PATH, params={"words": ["string", "zebra"]})
    assert got.json() == {"snapshot": sample.snapshot_id, "shared": ["string"]}
    [request] = CALLED
    assert request == SharedBody(paper_id="arXiv:hep-th/9301068", words=("string", "zebra"))
    assert client.post(PATH, json={"words": ["string", "zebra"]}).content == got.content
    same = client.get(
        PATH, params={"words": ["string", "zebra"]}, headers={"If-None-Match": got.headers["ETag"]}
    )
    assert same.status_code == 304
    assert client.get(PATH, params={"words": ["string", "zebra"]}).content == got.content
    assert [request] * 2 == CALLED  # equal requests of one method share a response


def test_what_is_not_in_the_request_is_rejected(client: TestClient) -> None:
    unknown = client.get(PATH, params={"word": "string"})
    assert unknown.status_code == 400
    assert unknown.json()["detail"] == f"Unknown parameter 'word': {PATH} takes words."
    assert (
        client.post(PATH, json={"words": "string", "paper_id": "x"})
        .json()["detail"]
        .startswith("The body has")
    )
    assert client.post(PATH, json={"words": [1]}).status_code == 400


def test_the_document_describes_the_signature(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    operations = document["paths"]["/v1/shared/{paper_id}"]
    assert [(one["name"], one["in"]) for one in operations["get"]["parameters"][:2]] == [
        ("paper_id", "path"),
        ("words", "query"),
    ]
    assert operations["get"]["operationId"] == "shared"
    assert operations["get"]["description"] == "The words that the title of a paper has."
    assert {"200", "400", "404", "503", "504"} <= operations["get"]["responses"].keys()
    body: dict[str, Any] = operations["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body == {"$ref": "#/components/schemas/SharedParameters"}
    schema = document["components"]["schemas"]["SharedResponse"]
    assert schema["required"] == ["snapshot", "shared"]  # no max_tokens, so no keys about the size
    assert schema["properties"].keys() == {"snapshot", "shared"}
    assert schema["properties"]["shared"]["description"] == "Those of the title."


class FlatBody(Request):
    words: Strings = ()
    paper_id: PaperId


def test_a_request_that_does_not_fit_its_path_is_named() -> None:
    router = resource("/v1/shared", "shared")

    def run(library: Library, request: Request) -> SharedResponse:
        raise AssertionError

    about = {"name": "shared", "summary": "Words", "description": "Words."}
    with pytest.raises(TypeError, match="SharedBody must have the fields of the path /v1/shared/"):
        route(router, "GET /{author_id}", Call(run, SharedBody, SharedResponse), **about)
    with pytest.raises(TypeError, match=r"FlatBody must have the fields .* and inherit all others"):
        route(router, "GET /{paper_id}", Call(run, FlatBody, SharedResponse), **about)


def test_requests_of_sessions_are_admitted(
    sample: Library, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHOLARBASE_SESSIONS", str(tmp_path))
    app = create_app(sample)
    admitted: list[str] = []

    @asynccontextmanager
    async def thread(http: Any) -> AsyncIterator[None]:
        admitted.append("in")
        yield
        admitted.append("out")

    monkeypatch.setattr(app.state.admission, "thread", thread)
    with TestClient(app, base_url="http://127.0.0.1") as client:
        assert client.post("/v1/sessions", json={"session": "s"}).status_code == 201
        assert client.get("/v1/sessions/s/report").status_code == 200
        assert client.get("/v1/snapshot").status_code == 200
    assert admitted == ["in", "out"] * 2

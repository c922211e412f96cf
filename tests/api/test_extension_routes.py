"""Routes and dialects of extensions: loaded with the first request that no route of the core matches."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastapi import APIRouter, HTTPException, Query
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.testclient import TestClient

from scholarbase import extensions
from scholarbase.api.access.keys import create_key
from scholarbase.api.app import create_app
from scholarbase.api.extension_routes import ServedDialect
from scholarbase.errors import InvalidRequest, ScholarBaseError
from scholarbase.search.library import Library
from scholarbase.settings import load_settings

router = APIRouter()


@router.get("/v1/mine", operation_id="mine")
async def _mine() -> Response:
    return PlainTextResponse("mine")


@router.post("/v1/mine")
async def _typed(
    body: dict[str, int] | list[int], fields: str, word: str = Query("x", examples=["a"])
) -> int:
    raise HTTPException(404, f"No corpus {word}")


@router.get("/v1/mine/exit")
async def _exit() -> None:
    raise SystemExit(3)


async def _echo(request: Request) -> Response:
    return PlainTextResponse(request.url.path)


def _route(prefix: str) -> BaseRoute:
    return Route(prefix + "/{name}", _echo)


def _rejection(error: ScholarBaseError) -> Response:
    return PlainTextResponse(f"original {error.status}", error.status)


ECHO = ServedDialect("/echo", "/alone", _route, _rejection)


class Mine(extensions.Extension):
    def routes(self) -> list[Any]:
        return [*router.routes]

    def dialects(self) -> dict[str, ServedDialect]:
        def broken(prefix: str) -> BaseRoute:
            raise RuntimeError("no such table")

        return {"broken": ECHO._replace(prefix="/broken", route=broken), "echo": ECHO}


class Broken(extensions.Extension):
    def routes(self) -> list[Any]:
        return ["not a route"]


class Missing(extensions.Extension):
    def routes(self) -> list[Any]:
        raise ImportError("no module named 'tables'")


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    def these(*found: extensions.Extension) -> None:
        added = tuple(extensions.Installed(type(one).__name__.lower(), "p", "1", one) for one in found)
        monkeypatch.setattr(extensions, "installed", lambda: added)
        extensions._added.cache_clear()

    yield these
    extensions._added.cache_clear()


def client(library: Library, **settings: Any) -> TestClient:
    return TestClient(create_app(library, settings=load_settings(**settings)), base_url="http://127.0.0.1")


def test_routes_are_loaded_when_no_other_one_matches(
    install: Callable[..., None], sample: Library, caplog: pytest.LogCaptureFixture
) -> None:
    install(Missing(), Mine(), Broken())
    http = client(sample)
    assert http.get("/v1/snapshot").status_code == 200
    assert not caplog.records

    with caplog.at_level(logging.ERROR):
        assert http.get("/v1/mine").text == "mine"
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 3
    assert "The extension missing (p 1) cannot add its routes: ImportError: no module named" in messages[0]
    assert (
        "The extension broken (p 1) cannot add its routes: TypeError: 'not a route' is not a" in messages[1]
    )
    assert messages[2] == "The dialect broken of an extension cannot be served."

    assert http.get("/echo/1").text == "/echo/1"
    assert http.get("/broken/1").status_code == http.get("/none").status_code == 404
    assert len(caplog.records) == 3


def test_the_document_has_the_routes_of_extensions(install: Callable[..., None], sample: Library) -> None:
    install(Mine())
    document = client(sample).get("/openapi.json").json()
    operations = document["paths"]["/v1/mine"]
    assert operations.keys() == {"get", "post"}
    parameters = {one["name"]: one.get("description") for one in operations["post"]["parameters"]}
    assert parameters.items() >= {"fields": None, "word": "Example: `a`."}.items()
    assert "401" in document["paths"]["/v1/search"]["get"]["responses"]


def test_errors_of_a_route_keep_their_message(install: Callable[..., None], sample: Library) -> None:
    install(Mine())
    http = client(sample)
    failed = http.post("/v1/mine?fields=a", json={"a": 1})
    assert (failed.status_code, failed.json()["detail"]) == (404, "No corpus x")
    assert http.delete("/v1/mine").headers["Allow"] == "GET, HEAD, POST"
    exited = http.get("/v1/mine/exit")
    assert (exited.status_code, exited.json()["title"]) == (500, "Internal error")


def test_extensions_are_those_of_the_process(sample: Library) -> None:
    with pytest.raises(InvalidRequest, match="set SCHOLARBASE_EXTENSIONS, not"):
        client(sample, extensions=("no-such-extension",))


def test_an_error_before_the_route_has_the_form_of_its_dialect(
    install: Callable[..., None], sample: Library, tmp_path: Any
) -> None:
    install(Mine())
    create_key(tmp_path / "keys.json", "one")
    http = client(sample, keys=tmp_path / "keys.json")
    assert http.get("/v1/search?q=x").json()["title"] == "Unauthorized"
    assert http.get("/echo/1").text == "original 401"
    assert http.get("/echoes").json()["title"] == "Unauthorized"


def test_one_dialect_is_served_alone(install: Callable[..., None], sample: Library) -> None:
    install(Mine())
    http = client(sample, dialect="echo")
    assert http.get("/alone/1").text == "/alone/1"
    assert http.get("/healthz").status_code == 200
    for path in ("/echo/1", "/v1/mine", "/v1/search?q=x", "/explorer/app.js"):
        assert http.get(path).status_code == 404, path


@pytest.mark.parametrize(("found", "names"), [((Mine(),), "broken, echo"), ((), "none")], ids=["two", "none"])
def test_an_unknown_dialect_is_an_error_that_lists_those_installed(
    install: Callable[..., None], sample: Library, found: tuple[extensions.Extension, ...], names: str
) -> None:
    install(*found)
    with pytest.raises(
        InvalidRequest, match=f"'x' is not a valid dialect: the installed dialects are {names}."
    ):
        client(sample, dialect="x")

"""Responses of ``/v1/sql`` against the OpenAPI document, and the document with the routes of extensions."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import orjson
import pytest

from scholarbase.api.access.keys import create_key
from scholarbase.search.library import Library
from tests import refresh_snapshots
from tests.api.test_openapi_truth import FORMS, NOT_PROVOKED, Document, Sent, in_session, request
from tests.conftest import serving_in_thread

PATH: Final = "/v1/sql"
SCHEMA: Final = "/v1/sql/schema"
STATEMENT: Final[dict[str, Any]] = {
    "query": "SELECT paper_id, title, citation_count FROM papers",
    "limit": 20,
}


def test_the_openapi_document_equals_its_snapshot(server: str) -> None:
    snapshot = orjson.loads((refresh_snapshots.FOLDER / "openapi.json").read_bytes())
    assert httpx.get(f"{server}/openapi.json").json() == snapshot, refresh_snapshots.HOW
    assert orjson.loads(refresh_snapshots.openapi()) == snapshot, refresh_snapshots.HOW


def requests() -> Iterator[Sent]:
    for form, options in FORMS.items():
        if form != "few fields":  # the columns are those of the statement
            yield request("POST", PATH, STATEMENT | options)
    for form in ("json", "text"):
        yield request("GET", SCHEMA, {"format": form})
    yield request("GET", SCHEMA, {"surprise": 1}, 400)
    yield request("POST", PATH, STATEMENT | {"surprise": 1}, 400)
    yield request("POST", PATH, STATEMENT | {"max_tokens": 1}, 400)
    yield request("POST", PATH, STATEMENT, 400, **{"X-ScholarBase-Session": "two words"})
    yield in_session("spent", "POST", PATH, STATEMENT, 403)
    yield in_session("one", "POST", PATH, STATEMENT)
    yield in_session("limited", "POST", PATH, STATEMENT | {"max_tokens": 900})
    yield "POST", PATH, {"content": b" " * 200_000}, 413
    yield "POST", PATH, {"content": b"{", "headers": {"Content-Type": "application/json"}}, 400


@pytest.mark.slow
def test_the_document_has_every_response_and_no_other(sample: Library, tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    key = create_key(keys, "reader")[0]
    folder = str(tmp_path / "sessions")
    routes = [("GET", SCHEMA), ("POST", PATH)]
    with serving_in_thread(sample, sessions=folder, max_body_bytes=100_000, sql=True) as url:
        document = Document(url)
        with httpx.Client(base_url=url, timeout=120) as client:
            for name, calls in (("limited", 100), ("spent", 1)):
                client.post("/v1/sessions", json={"session": name, "limits": {"calls": calls}})
            client.get("/v1/search", params={"q": "a"}, headers={"X-ScholarBase-Session": "spent"})
            for method, path, arguments, status in requests():
                response = client.request(method, path, **arguments)
                assert response.status_code == status, f"{method} {path} {arguments}: {response.text:.300}"
                document.check(response)
    with serving_in_thread(sample, sessions=folder, keys=str(keys), rate_limit=1) as url:
        for method, path in routes:
            document.check(httpx.request(method, url + path))
        # The first request is allowed, the others are not.
        for method, path in [*routes, *routes]:
            document.check(httpx.request(method, url + path, headers={"X-API-Key": key}))
    with serving_in_thread(sample) as url:  # without keys, and without SQL
        document.check(httpx.get(f"{url}{SCHEMA}"))
        for method, path in routes:
            document.check(httpx.request(method, url + path, headers={"Host": "pages.example"}))
            document.check(httpx.request(method, url + path, headers={"X-ScholarBase-Snapshot": "0" * 32}))
    ours = {one for one in document.statuses() if one[1] in (PATH, SCHEMA)}
    missing = {one for one in ours - document.seen if one[2] not in NOT_PROVOKED}
    assert not missing, sorted(missing)

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from scholarbase.search.library import Library
from scholarbase.tools.definitions import schemas
from tests import refresh_snapshots
from tests.conftest import serving_in_thread


@pytest.fixture(scope="module")
def document(server: str) -> dict[str, Any]:
    content: dict[str, Any] = httpx.get(f"{server}/openapi.json").json()
    return content


def operations(document: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"{method.upper()} {path}", operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


def test_the_openapi_document_equals_its_snapshot(extension: Callable[..., None]) -> None:
    """But for the routes of extensions, and what only they have."""
    extension()
    snapshot = orjson.loads((refresh_snapshots.FOLDER / "openapi.json").read_bytes())
    document = orjson.loads(refresh_snapshots.openapi())
    for name, operation in operations(snapshot):
        if operation["tags"][0] in ("claims", "completeness", "sql") or name.endswith("/replay"):
            snapshot["paths"].pop(name.split(" ")[1])
    schemas = snapshot["components"]["schemas"]
    unused = schemas.keys() - document["components"]["schemas"].keys()
    snapshot["components"]["schemas"] = {name: one for name, one in schemas.items() if name not in unused}
    assert not [name for name in unused if f'/schemas/{name}"' in orjson.dumps(snapshot).decode()]
    assert document == snapshot, refresh_snapshots.HOW


def test_the_tools_equal_their_snapshot(server: str) -> None:
    snapshot = orjson.loads((refresh_snapshots.FOLDER / "tools.json").read_bytes())
    assert schemas() == snapshot, refresh_snapshots.HOW
    for headers in ({}, {"X-ScholarBase-Session": "s"}):
        shown = httpx.get(f"{server}/v1/tools", headers=headers).json()["tools"]
        assert shown == schemas(modes=("sparse",), full_texts=False, in_session=bool(headers))


def test_every_operation_is_described_and_has_examples_and_problems(document: dict[str, Any]) -> None:
    count = 0
    for name, operation in operations(document):
        assert operation["summary"], name
        assert operation["description"], name
        for parameter in operation.get("parameters", ()):
            described = parameter | parameter["schema"]
            assert described.get("description"), f"{name}: {parameter['name']}"
            if parameter["in"] == "query":
                shown = described.get("examples") or re.search(r"Example: `.+`", described["description"])
                assert shown, f"{name}: {parameter['name']}"
            count += 1
        assert "422" not in operation["responses"], name
        if "parameters" in operation or "requestBody" in operation:
            assert "400" in operation["responses"], name
        for status, response in operation["responses"].items():
            if status >= "400":
                assert list(response["content"]) == ["application/problem+json"], f"{name}: {status}"
    assert count > 30
    ids = [operation["operationId"] for _, operation in operations(document)]
    assert len(set(ids)) == len(ids)


def prefilled(operation: dict[str, Any]) -> dict[str, Any] | None:
    """The request of a form as the interactive page fills it in; None if the user must add a value."""
    values: dict[str, dict[str, Any]] = {"path": {}, "query": {}, "header": {}}
    for parameter in operation.get("parameters", ()):
        schema = parameter["schema"]
        # The page reads neither the examples of a schema nor several of a parameter.
        value = parameter.get("example", schema.get("default"))
        if value is not None:
            values[parameter["in"]][parameter["name"]] = value
        elif parameter["required"]:
            return None
    body = operation.get("requestBody")
    content = None if body is None else body["content"]["application/json"]["example"]
    headers = {name: str(value) for name, value in values["header"].items()}
    return {"path": values["path"], "params": values["query"], "headers": headers, "json": content}


@pytest.mark.slow
def test_every_prefilled_form_can_be_sent(sample: Library, tmp_path: Path) -> None:
    incomplete = []
    with serving_in_thread(sample, sessions=str(tmp_path), sql=True) as url:
        for name, operation in operations(httpx.get(f"{url}/openapi.json").json()):
            request = prefilled(operation)
            if request is None:
                incomplete.append(name)
                continue
            method, path = name.split(" ")
            if path.startswith("/v1/admin/"):
                continue  # which needs an admin key
            path = path.format(**request.pop("path"))
            response = httpx.request(method, url + path, **request)
            if "full texts" in operation["tags"]:  # which the sample lacks
                assert "has no full texts" in response.json()["detail"], f"{name}: {response.text}"
                continue
            assert response.is_success, f"{name}: {response.text}"
            assert not request["headers"], name
    # A session's name cannot be known.
    assert {name.split(" ")[1].split("/")[2] for name in incomplete} == {"sessions"}


def test_the_question_comes_first(document: dict[str, Any]) -> None:
    assert document["paths"]["/v1/search"]["get"]["parameters"][0]["name"] == "q"
    assert document["paths"]["/v1/title-match"]["get"]["parameters"][0]["name"] == "title"


def test_every_key_of_a_body_is_described_and_has_an_example(document: dict[str, Any]) -> None:
    bodies = [name for name in document["components"]["schemas"] if name.endswith("Body")]
    assert len(bodies) >= 5
    for body in bodies:
        schema = document["components"]["schemas"][body]
        assert schema["additionalProperties"] is False
        for key, value in schema["properties"].items():
            assert value.get("description"), f"{body}: {key}"
            assert value.get("examples"), f"{body}: {key}"


def test_the_examples_work(document: dict[str, Any], server: str) -> None:
    """Call each route with the documented examples of its required parameters."""
    # Call DELETE last, since the other routes need the session.
    for name, operation in sorted(operations(document), key=lambda named: named[0].startswith("DELETE")):
        method, path = name.split(" ")
        if path.startswith("/v1/admin/"):
            continue  # which needs an admin key
        params = {}
        for parameter in operation.get("parameters", ()):
            described = parameter | parameter["schema"]
            if parameter["in"] == "path":
                example = described.get("examples", ["agent-7.question-12"])[0]
                path = path.replace(f"{{{parameter['name']}}}", str(example))
            elif parameter["required"]:
                params[parameter["name"]] = described["examples"][0]
        body = None
        if "requestBody" in operation:
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            if "$ref" in schema:
                schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
                required = schema.get("required", [key for key in schema["properties"] if key == "session"])
                body = {key: schema["properties"][key]["examples"][0] for key in required}
            else:
                body = schema["examples"][0]
        response = httpx.request(method, server + path, params=params, json=body)
        assert str(response.status_code) in operation["responses"], f"{name}: {response.text}"
        if "full texts" in operation["tags"]:  # which the sample lacks
            assert "has no full texts" in response.json()["detail"], f"{name}: {response.text}"
            continue
        assert response.is_success, f"{name}: {response.text}"

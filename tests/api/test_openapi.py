from __future__ import annotations

from typing import Any

import httpx
import orjson
import pytest

from tests import refresh_snapshots


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


def test_the_openapi_document_equals_its_snapshot(document: dict[str, Any]) -> None:
    snapshot = orjson.loads((refresh_snapshots.FOLDER / "openapi.json").read_bytes())
    assert document == snapshot, refresh_snapshots.HOW
    assert orjson.loads(refresh_snapshots.openapi()) == snapshot, refresh_snapshots.HOW


def test_the_tools_equal_their_snapshot(server: str) -> None:
    snapshot = orjson.loads((refresh_snapshots.FOLDER / "tools.json").read_bytes())
    assert httpx.get(f"{server}/v1/tools").json()["tools"] == snapshot, refresh_snapshots.HOW


def test_every_operation_and_parameter_is_described_and_has_an_example(document: dict[str, Any]) -> None:
    count = 0
    for name, operation in operations(document):
        assert operation["summary"], name
        assert operation["description"], name
        assert operation["operationId"], name
        for parameter in operation.get("parameters", ()):
            described = parameter | parameter["schema"]
            assert described.get("description"), f"{name}: {parameter['name']}"
            assert described.get("examples") or "example" in described, f"{name}: {parameter['name']}"
            count += 1
    assert count > 30


def test_every_key_of_a_body_is_described_and_has_an_example(document: dict[str, Any]) -> None:
    bodies = [name for name in document["components"]["schemas"] if name.endswith("Body")]
    assert len(bodies) >= 5
    for body in bodies:
        schema = document["components"]["schemas"][body]
        assert schema["additionalProperties"] is False
        for key, value in schema["properties"].items():
            assert value.get("description"), f"{body}: {key}"
            assert value.get("examples"), f"{body}: {key}"


def test_operation_ids_are_unique(document: dict[str, Any]) -> None:
    ids = [operation["operationId"] for _, operation in operations(document)]
    assert len(set(ids)) == len(ids)


def test_errors_are_problem_documents_and_never_422(document: dict[str, Any]) -> None:
    for name, operation in operations(document):
        assert "422" not in operation["responses"], name
        if "parameters" in operation or "requestBody" in operation:
            assert "400" in operation["responses"], name
        for status, response in operation["responses"].items():
            if status >= "400":
                assert list(response["content"]) == ["application/problem+json"], f"{name}: {status}"


def test_the_examples_work(document: dict[str, Any], server: str) -> None:
    """Call each route with the documented examples of its required parameters."""
    # Call DELETE last, since the other routes need the session.
    for name, operation in sorted(operations(document), key=lambda named: named[0].startswith("DELETE")):
        method, path = name.split(" ")
        params = {}
        for parameter in operation.get("parameters", ()):
            described = parameter | parameter["schema"]
            if parameter["in"] == "path":
                path = path.replace(f"{{{parameter['name']}}}", described["examples"][0])
            elif parameter["required"]:
                params[parameter["name"]] = described["examples"][0]
        body = None
        if "requestBody" in operation:
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            if "$ref" in schema:
                schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
                required = schema.get("required", ["session"])
                body = {key: schema["properties"][key]["examples"][0] for key in required}
            else:
                body = schema["examples"][0]
        response = httpx.request(method, server + path, params=params, json=body)
        assert str(response.status_code) in operation["responses"], f"{name}: {response.text}"
        assert response.is_success, f"{name}: {response.text}"

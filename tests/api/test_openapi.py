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


def test_the_contract_stands_still(document: dict[str, Any]) -> None:
    kept = orjson.loads((refresh_snapshots.FOLDER / "openapi.json").read_bytes())
    assert document == kept, refresh_snapshots.HOW
    assert orjson.loads(refresh_snapshots.openapi()) == kept, refresh_snapshots.HOW


def test_the_tools_stand_still(server: str) -> None:
    kept = orjson.loads((refresh_snapshots.FOLDER / "tools.json").read_bytes())
    assert httpx.get(f"{server}/v1/tools").json()["tools"] == kept, refresh_snapshots.HOW


def test_every_operation_and_parameter_is_described_and_has_an_example(document: dict[str, Any]) -> None:
    counted = 0
    for name, operation in operations(document):
        assert operation["summary"], name
        assert operation["description"], name
        assert operation["operationId"], name
        for parameter in operation.get("parameters", ()):
            said = parameter | parameter["schema"]
            assert said.get("description"), f"{name}: {parameter['name']}"
            assert said.get("examples") or "example" in said, f"{name}: {parameter['name']}"
            counted += 1
    assert counted > 30


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


def test_failures_are_problem_documents_and_never_422(document: dict[str, Any]) -> None:
    for name, operation in operations(document):
        assert "422" not in operation["responses"], name
        if "parameters" in operation or "requestBody" in operation:
            assert "400" in operation["responses"], name
        for status, response in operation["responses"].items():
            if status >= "400":
                assert list(response["content"]) == ["application/problem+json"], f"{name}: {status}"


def test_the_examples_work(document: dict[str, Any], server: str) -> None:
    """Each route called with the examples that the document gives for what it requires."""
    # What is deleted is asked for by its other routes first.
    for name, operation in sorted(operations(document), key=lambda named: named[0].startswith("DELETE")):
        method, path = name.split(" ")
        params = {}
        for parameter in operation.get("parameters", ()):
            said = parameter | parameter["schema"]
            if parameter["in"] == "path":
                path = path.replace(f"{{{parameter['name']}}}", said["examples"][0])
            elif parameter["required"]:
                params[parameter["name"]] = said["examples"][0]
        body = None
        if "requestBody" in operation:
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            if "$ref" in schema:
                schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
                named = schema.get("required", ["session"])
                body = {key: schema["properties"][key]["examples"][0] for key in named}
            else:
                body = schema["examples"][0]
        answer = httpx.request(method, server + path, params=params, json=body)
        assert str(answer.status_code) in operation["responses"], f"{name}: {answer.text}"
        assert answer.is_success, f"{name}: {answer.text}"

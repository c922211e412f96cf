"""The page of HTTP routes and schemas, from the OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

LIMITS = {
    "minimum": "at least",
    "exclusiveMinimum": "above",
    "maximum": "at most",
    "minLength": "at least this many characters:",
    "maxLength": "at most this many characters:",
    "minItems": "at least this many:",
    "maxItems": "at most this many:",
    "pattern": "matches",
}


def type_of(schema: Json) -> str:
    """A schema in words, with links to the schemas it names."""
    kind = schema.get("type", "any value")
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        text = f"[{name}](#{name.lower()})"
    elif several := schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf"):
        text = " or ".join(dict.fromkeys(type_of(one) for one in several))
    elif "enum" in schema or "const" in schema:
        text = ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    elif kind == "array":
        text = "list of " + ", ".join(map(type_of, schema.get("prefixItems", [schema.get("items", {})])))
    elif kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        text = f"object of {type_of(schema['additionalProperties'])}"
    else:
        text = " or ".join(kind) if isinstance(kind, list) else str(kind)
    return text


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def described(schema: Json, description: str) -> str:
    limits = [f"{words} `{schema[key]}`" for key, words in LIMITS.items() if key in schema]
    if schema.get("default") not in (None, {}, []):
        limits.append(f"default `{schema['default']}`")
    return cell(" ".join([description, f"({', '.join(limits)})" if limits else ""]))


def fields(schema: Json) -> Iterator[str]:
    """The table of an object's properties."""
    if "properties" not in schema:
        yield f"{type_of(schema)}\n"
        return
    required = set(schema.get("required", ()))
    yield "| key | type | description |\n|---|---|---|"
    for name, one in schema["properties"].items():
        mark = " (required)" if name in required else ""
        yield f"| `{name}`{mark} | {cell(type_of(one))} | {described(one, one.get('description', ''))} |"
    yield ""


def operation(method: str, path: str, one: Json) -> Iterator[str]:
    yield f"### {method.upper()} {path}\n\n{one.get('summary', '')}. {one.get('description', '')}\n"
    parameters = [p for p in one.get("parameters", ()) if p["in"] != "header"]
    if parameters:
        yield "| parameter | in | type | description |\n|---|---|---|---|"
        for parameter in parameters:
            schema, mark = parameter["schema"], " (required)" if parameter.get("required") else ""
            text = described(schema, parameter.get("description", ""))
            yield f"| `{parameter['name']}`{mark} | {parameter['in']} | {cell(type_of(schema))} | {text} |"
        yield ""
    if headers := [f"`{p['name']}`" for p in one.get("parameters", ()) if p["in"] == "header"]:
        yield f"Headers: {', '.join(headers)}.\n"
    for media, content in one.get("requestBody", {}).get("content", {}).items():
        yield f"Body, as `{media}`: {type_of(content.get('schema', {}))}.\n"
    yield "| status | response | description |\n|---|---|---|"
    for status, response in one["responses"].items():
        kinds = ", ".join(
            f"{type_of(content.get('schema', {}))} (`{media}`)"
            for media, content in response.get("content", {}).items()
        )
        yield f"| {status} | {cell(kinds)} | {cell(response.get('description', ''))} |"
    yield ""


def http_reference(document: Json) -> str:
    """The page, as Markdown."""
    lines = [
        "# HTTP routes and schemas\n",
        "Every route, parameter and schema of the OpenAPI document, which a server has at `/openapi.json`. "
        "[The HTTP API](../api.md) explains them, with an example of each.\n",
    ]
    by_tag: dict[str, list[str]] = {}
    headers: dict[str, str] = {}
    for path, methods in document["paths"].items():
        for method, one in methods.items():
            by_tag.setdefault(one.get("tags", ["other"])[0], []).extend(operation(method, path, one))
            for parameter in one.get("parameters", ()):
                if parameter["in"] == "header":
                    headers.setdefault(parameter["name"], parameter.get("description", ""))
    for tag, parts in by_tag.items():
        lines += [f"## Routes: {tag}\n", *parts]
    lines += ["## Headers of requests\n", "| header | description |\n|---|---|"]
    lines += [f"| `{name}` | {cell(text)} |" for name, text in headers.items()]
    lines += ["\n## Schemas\n"]
    for name, schema in sorted(document["components"]["schemas"].items()):
        lines += [f"### {name}\n", f"{schema.get('description', '')}\n", *fields(schema)]
    return "\n".join(lines)

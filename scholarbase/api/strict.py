"""Unknown and repeated parameters are refused, on every route."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote_to_bytes

from fastapi import Request
from fastapi.routing import APIRoute

from scholarbase.errors import InvalidRequest


async def check_parameters(request: Request) -> None:
    """A dependency of every route.

    Raises:
        InvalidRequest: the URL has a parameter that the route does not take, or one twice that it takes once,
            or bytes that are not UTF-8.
    """
    _check_utf8(request)
    if not request.scope["query_string"]:
        return
    route = request.scope["route"]
    single, repeated = known_parameters(route)
    seen: set[str] = set()
    for name, _ in request.query_params.multi_items():
        if name not in single and name not in repeated:
            takes = ", ".join(sorted((*single, *repeated))) or "no parameters"
            raise InvalidRequest(f"Unknown parameter {name!r}: {request.url.path} takes {takes}.")
        if name in seen and name in single:
            raise InvalidRequest(f"The parameter {name!r} is given twice: give it once.")
        seen.add(name)


def _check_utf8(request: Request) -> None:
    """What is not UTF-8 would arrive as question marks, and something else would be searched for."""
    sent: bytes = request.scope.get("raw_path", b"") + b"?" + request.scope["query_string"]
    if b"%" not in sent and sent.isascii():
        return
    try:
        unquote_to_bytes(sent).decode()
    except UnicodeDecodeError as error:
        bad = "".join(f"%{byte:02X}" for byte in error.object[error.start : error.end])
        raise InvalidRequest(
            f"The URL holds {bad}, which is not UTF-8: encode letters as UTF-8, so that \u00e9 is %C3%A9."
        ) from error


_known_parameters: dict[str, tuple[frozenset[str], frozenset[str]]] = {}


def known_parameters(route: APIRoute) -> tuple[frozenset[str], frozenset[str]]:
    """The route's parameters that may stand once, and those that may be repeated."""
    key = f"{sorted(route.methods or ())} {route.path}"
    if key not in _known_parameters:
        single: set[str] = set()
        repeated: set[str] = set()
        for name, many in _parameters(route):
            (repeated if many else single).add(name)
        _known_parameters[key] = frozenset(single), frozenset(repeated)
    return _known_parameters[key]


def _parameters(route: APIRoute) -> list[tuple[str, bool]]:
    found: list[tuple[str, bool]] = []
    for parameter in route.dependant.query_params:
        annotation: Any = parameter.field_info.annotation
        model_fields = getattr(annotation, "model_fields", None)
        if model_fields is None:
            found.append((parameter.alias, "list" in str(annotation)))
            continue
        for name, field in model_fields.items():
            found.append((field.alias or name, "list" in str(field.annotation)))
    return found


def separated(values: list[str] | None) -> list[str] | None:
    """Values that a URL may give repeated, or separated by commas: ``a,b`` is ``['a', 'b']``."""
    if values is None:
        return None
    return [part.strip() for value in values for part in value.split(",")]

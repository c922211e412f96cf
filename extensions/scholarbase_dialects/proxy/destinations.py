"""Where a request goes: the path of a dialect on a ScholarBase server, or the host that the client named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from scholarbase.errors import InvalidRequest


def _semantic_scholar(path: str, query: str) -> str:
    if _is_below(path, "/v1/paper"):
        return "/s2-legacy" + path
    known = _is_below(path, "/graph/v1") or _is_below(path, "/recommendations/v1")
    return path if known else "/graph/v1/unknown" + path


def _arxiv(path: str, query: str) -> str | None:
    return path if path.rstrip("/") == "/api/query" else None


def _arxiv_pages(path: str, query: str) -> str | None:
    is_title = path.rstrip("/") == "/search" and ("searchtype", "title") in parse_qsl(query)
    return "/arxiv-search" if is_title else _texts(path, query) or _arxiv(path, query)


def _texts(path: str, query: str) -> str | None:
    return "/ar5iv" + path if path.startswith(TEXTS) else None


def _is_below(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(prefix + "/")


TEXTS: Final = ("/html/", "/pdf/")
"""The paths of texts at arXiv. Those that the library does not have come from their host."""
HOSTS: Final[Mapping[str, Callable[[str, str], str | None]]] = {
    "api.semanticscholar.org": _semantic_scholar,
    "export.arxiv.org": lambda path, query: _texts(path, query) or _arxiv(path, query),
    "ar5iv.labs.arxiv.org": _texts,
    "ar5iv.org": _texts,
    "arxiv.org": _arxiv_pages,
    "google.serper.dev": lambda path, query: "/serper" + path,
    "api.openalex.org": lambda path, query: "/openalex" + path,
    "api.crossref.org": lambda path, query: "/crossref" + path,
    "asta-tools.allen.ai": lambda path, query: "/mcp/asta" if path.rstrip("/") == "/mcp/v1" else None,
}
"""The hosts whose requests are read. Each maps a path and a query to the path of a dialect, which has its own 404 for
unknown paths, or to None: such requests go to the host itself."""
PORTS: Final = {"http": 80, "https": 443}


def library_target(scheme: str, host: str, port: int, target: str) -> str | None:
    """The path and query on a ScholarBase server for those at a host; None if the host itself gets the request."""
    if host not in HOSTS or port != PORTS[scheme]:
        return None
    path, mark, query = target.partition("?")
    library_path = HOSTS[host](path, query)
    return None if library_path is None else library_path + mark + query


def may_be_elsewhere(library_path: str) -> bool:
    """Whether the host gets a request with this path at the library that the library answers with 404."""
    return library_path.startswith(tuple("/ar5iv" + path for path in TEXTS))


def split_authority(text: str, default: int | None = None) -> tuple[str, int]:
    """The host and port in ``host:port``, such as ``[::1]:443``.

    Raises:
        InvalidRequest: it has no host or no valid port.
    """
    try:
        parts = urlsplit("//" + text)
        host, port = parts.hostname, parts.port or default
    except ValueError:
        host = port = None
    if not host or port is None or parts.path or parts.query or parts.username is not None:
        raise InvalidRequest(f"{text!r} is not a host and a port: a proxy needs them, such as arxiv.org:443.")
    return host.rstrip("."), port


def split_target(target: str) -> tuple[str, str, int, str]:
    """The scheme, host, port, and the path with the query, of a request to a proxy.

    Raises:
        InvalidRequest: the target is not a whole URL.
    """
    scheme, mark, rest = target.partition("://")
    scheme = scheme.lower()
    if not mark or scheme not in PORTS:
        raise InvalidRequest(
            f"{target[:100]!r} is not a whole URL: this is a proxy, to be named in HTTP_PROXY and HTTPS_PROXY."
        )
    end = min((rest.find(c) for c in "/?" if c in rest), default=len(rest))
    host, port = split_authority(rest[:end], PORTS[scheme])
    path = rest[end:].partition("#")[0]
    return scheme, host, port, path if path.startswith("/") else "/" + path

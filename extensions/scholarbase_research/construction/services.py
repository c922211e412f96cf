"""Search services as sources of candidates: Serper's Google search, Semantic Scholar's and arXiv's interfaces."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Final
from xml.etree import ElementTree

import httpx
import orjson

from scholarbase.errors import ConstructionError, InvalidRequest
from scholarbase.models.checks import shown
from scholarbase.services import Endpoint, ModelService
from scholarbase.settings import Settings
from scholarbase_research.construction.sources import Returned
from scholarbase_research.construction.terms import words

log = logging.getLogger("scholarbase_research.construction")

KINDS: Final = ("serper", "semantic-scholar", "arxiv")
TIMEOUT: Final = 60.0
"""Seconds for one attempt."""
RETRIES: Final = 5
MAX_BYTES: Final = 16_000_000
_PACE: Final = {"export.arxiv.org": 3.0, "api.semanticscholar.org": 1.0}
"""Seconds between two requests to a host, as its terms of use ask for."""
_ATOM: Final = "{http://www.w3.org/2005/Atom}"
_ARXIV_ERROR: Final = "arxiv.org/api/errors"
"""In the id of an entry that is an error: https://info.arxiv.org/help/api/user-manual.html#34-errors"""
_ADVICE: Final = {
    400: "check the URL.",
    401: "set the service's key (SCHOLARBASE_SERPER_API_KEY or SCHOLARBASE_S2_API_KEY).",
    403: "set the service's key (SCHOLARBASE_SERPER_API_KEY or SCHOLARBASE_S2_API_KEY).",
    404: "check the URL.",
    429: "a quota is used up, so try again later.",
}


class SearchService:
    """A search service at a URL.

    Args:
        kind: ``serper`` (https://serper.dev), ``semantic-scholar``
            (https://api.semanticscholar.org/api-docs/graph) or ``arxiv`` (https://info.arxiv.org/help/api).
        backoff: longest wait before the first retry, in seconds.
    """

    def __init__(self, kind: str, url: str, key: str | None = None, *, backoff: float = 1.0) -> None:
        host = _host(kind, url)
        self.name: str = kind if host in _KNOWN_HOSTS else f"{kind}:{host}"
        self._kind = kind
        self._url = url.rstrip("/")
        self._service = ModelService(
            "search service",
            Endpoint(url),
            error=ConstructionError,
            activity=("Searching", "retry later"),
            advice=_ADVICE,
            api_key=key,
            key_setting=f"The key of {kind}",
            key_header={"serper": "X-API-KEY", "semantic-scholar": "x-api-key"}.get(kind),
            timeout=TIMEOUT,
            retries=RETRIES,
            backoff=backoff,
            log=log,
        )
        self._pace = _PACE.get(host, 0.0)
        self._next = 0.0
        self._lock = threading.Lock()

    def search(self, text: str, depth: int, to: str | None) -> list[Returned]:
        """The first results. Serper and arXiv know no date: later papers are left out when they are matched.

        Raises:
            ConstructionError: the service fails, or returns anything but a list of results.
        """
        send, read = {
            "serper": (self._serper, _read_serper),
            "semantic-scholar": (self._semantic_scholar, _read_semantic_scholar),
            "arxiv": (self._arxiv, _read_arxiv),
        }[self._kind]
        response = self._service.send(lambda: self._paced(lambda: send(text, depth, to)))
        try:
            return read(response.content)[:depth]
        except (ValueError, ElementTree.ParseError) as error:
            raise ConstructionError(
                f"{self._service} returned something else than results ({error}): check the key, and that the URL is "
                f"that of {self._kind}."
            ) from error

    def close(self) -> None:
        self._service.close()

    def _paced(self, send: Callable[[], httpx.Response]) -> httpx.Response:
        with self._lock:
            now = time.monotonic()
            wait, self._next = max(0.0, self._next - now), max(self._next, now) + self._pace
        time.sleep(wait)
        return send()

    def _fetch(self, method: str, url: str, **options: Any) -> httpx.Response:
        return self._service.fetch(method, url, MAX_BYTES, **options)

    def _serper(self, text: str, depth: int, to: str | None) -> httpx.Response:
        return self._fetch("POST", self._url, json={"q": f"{text} site:arxiv.org", "num": depth})

    def _semantic_scholar(self, text: str, depth: int, to: str | None) -> httpx.Response:
        params: dict[str, Any] = {"query": text, "limit": min(depth, 100), "fields": "title,externalIds"}
        if to is not None:
            params["publicationDateOrYear"] = f":{to}"
        return self._fetch("GET", f"{self._url}/paper/search", params=params)

    def _arxiv(self, text: str, depth: int, to: str | None) -> httpx.Response:
        query = " AND ".join(f"all:{word}" for word in words(text))
        return self._fetch("GET", self._url, params={"search_query": query, "max_results": str(depth)})


_KNOWN_HOSTS: Final = frozenset({*_PACE, "google.serper.dev"})


def _host(kind: str, url: str) -> str:
    if kind not in KINDS:
        raise InvalidRequest(f"Unknown source {kind!r}: use library, recorded, {', '.join(KINDS)}.")
    try:
        return httpx.URL(Endpoint.parse(url).url).host
    except ValueError as error:
        raise InvalidRequest(f"--source {kind}:{url} has no valid URL ({error}).") from error


def open_service(kind: str, url: str, settings: Settings) -> SearchService:
    """The service at a URL. Semantic Scholar's key is sent to its own hosts only.

    Raises:
        InvalidRequest: an unknown kind, or not a URL.
    """
    key = settings.serper_api_key if kind == "serper" else None
    if kind == "semantic-scholar" and _host(kind, url).endswith(".semanticscholar.org"):
        key = settings.s2_api_key
    return SearchService(kind, url, key.get_secret_value() if key else None)


def _read_serper(content: bytes) -> list[Returned]:
    found = _list(orjson.loads(content), "organic")
    return [_returned(_text(row, "link"), _text(row, "title")) for row in found]


def _read_semantic_scholar(content: bytes) -> list[Returned]:
    body = orjson.loads(content)
    if isinstance(body, dict) and "data" not in body and body.get("total") == 0:
        return []  # the service leaves out an empty list
    found = []
    for row in _list(body, "data"):
        ids = {} if row.get("externalIds") is None else row["externalIds"]
        if not isinstance(ids, dict):
            raise ValueError(f"externalIds is {shown(ids, 80)}, not an object")
        named = next((scheme for scheme in ("ArXiv", "DOI", "CorpusId") if ids.get(scheme)), None)
        if named is not None and not isinstance(ids[named], str | int):
            raise ValueError(f"{named} is {shown(ids[named], 80)}, not an id")
        found.append(_returned(named and f"{named}:{ids[named]}", _text(row, "title")))
    return found


def _list(body: Any, name: str) -> list[dict[str, Any]]:
    """The list of results. Raises ValueError: there is none, as in the error of a service that answers with 200."""
    rows = body.get(name) if isinstance(body, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"no list of objects {name!r} in {shown(body, 200)}")
    return rows


def _text(row: dict[str, Any], name: str) -> str | None:
    value = row.get(name)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{name} is {shown(value, 80)}, not a text")
    return value


def _returned(name: str | None, title: str | None) -> Returned:
    if not name and not title:
        raise ValueError("a result without id and title")
    return Returned(name, title)


def _read_arxiv(content: bytes) -> list[Returned]:
    feed = ElementTree.fromstring(content)
    if feed.tag != f"{_ATOM}feed":
        raise ValueError(f"a document {shown(feed.tag, 80)}, not an Atom feed")
    found = []
    for entry in feed.iter(f"{_ATOM}entry"):
        name, title = (entry.findtext(f"{_ATOM}{tag}") for tag in ("id", "title"))
        is_paper = "/abs/" in (name or "")
        if _ARXIV_ERROR in (name or "") or ((title or "").strip() == "Error" and not is_paper):
            raise ValueError(f"the error {shown(entry.findtext(f'{_ATOM}summary') or '', 200)}")
        found.append(_returned(name, title))
    return found

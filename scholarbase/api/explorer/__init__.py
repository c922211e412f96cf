"""The explorer: a page for people at ``/``, of files in the package that load nothing from other hosts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from hashlib import blake2b
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from scholarbase.api.paths import EXPLORER, EXPLORER_FILES, AppRoute

FILES: Final = Path(__file__).parent / "files"
_PAGE: Final = "index.html"
_MEDIA_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob:",  # images of pages, which are requested with the key
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
"""The page runs only its own files, sends requests only to its own server, and is shown in no frame
(https://www.w3.org/TR/CSP3/)."""
_HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",  # ask each time, with the tag: a new release has other files
}


def routes() -> list[AppRoute]:
    """The page and its files, read once."""
    return [
        AppRoute(
            EXPLORER if path.name == _PAGE else EXPLORER_FILES + path.name,
            _endpoint(path.read_bytes(), _MEDIA_TYPES[path.suffix]),
            include_in_schema=False,
        )
        for path in sorted(FILES.iterdir())
        if path.suffix in _MEDIA_TYPES
    ]


def _endpoint(body: bytes, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    tag = f'W/"{blake2b(body, digest_size=16).hexdigest()}"'  # weak, since it may be compressed
    headers = {**_HEADERS, "ETag": tag}

    async def respond(request: Request) -> Response:
        if tag in request.headers.get("If-None-Match", ""):
            return Response(status_code=304, headers=headers)
        return Response(body, media_type=media_type, headers=headers)

    return respond

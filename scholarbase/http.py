"""What every HTTP client of ours does alike: how long it waits, and when it goes round a proxy."""

from __future__ import annotations

import ipaddress
import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx


def retry_after(response: httpx.Response) -> float | None:
    """Seconds that a server asks to wait: a number, or until a date (RFC 9110, section 10.2.3). None where it does
    not say, or in neither form: the caller's own back-off stands."""
    value = response.headers.get("Retry-After", "").strip()
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    """Whether a host is this machine itself, which a proxy for the world outside cannot reach."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

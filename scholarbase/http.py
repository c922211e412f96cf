"""Retries, ``Retry-After`` and addresses, the same for every HTTP client and server of the package.

httpx and tenacity are imported on first use: the server only needs :func:`is_loopback` and
:func:`listen_together`.
"""

from __future__ import annotations

import errno
import ipaddress
import logging
import random
import re
import socket
import time
from collections.abc import Container
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final

from scholarbase import __version__
from scholarbase.deadlines import DEADLINE
from scholarbase.errors import AddressError, TimeLimit
from scholarbase.models.checks import shown

if TYPE_CHECKING:
    import httpx
    from tenacity import RetryCallState

USER_AGENT: Final = f"scholarbase/{__version__}"
RETRYABLE_STATUSES: Final = frozenset({429, 502, 503, 504})
"""Retryable status codes."""
SERVICE_STATUSES: Final = frozenset({429, *range(500, 600)})
"""Retryable status codes of services that run a model, and of downloads."""
VISIBLE_ASCII: Final = re.compile(r"[\x21-\x7e]+")
"""What an API key consists of. httpx quotes others in its errors."""
MAX_RETRY_AFTER: Final = 60.0
"""Seconds. A response with a longer ``Retry-After`` is not retried."""
MAX_BACKOFF: Final = 10.0
"""Seconds between two attempts, unless the response has a ``Retry-After``."""

BACKLOG: Final = 16_384
"""Connections that wait for a server to accept them. The system may allow fewer (``net.core.somaxconn``)."""


def retry_options(
    url: str,
    retries: int,
    backoff: float,
    log: logging.Logger,
    statuses: Container[int] = RETRYABLE_STATUSES,
    *,
    repeatable: bool = True,
    max_retry_after: float = MAX_RETRY_AFTER,
) -> dict[str, Any]:
    """The arguments of tenacity's ``Retrying`` or ``AsyncRetrying`` for one request.

    Transport errors, but for an unknown host, and ``statuses`` are retried up to ``retries`` times, and each retry is
    logged. A request that is not ``repeatable`` is retried only if the server has not run it: without a connection, and
    after status 429. After the last attempt its response is returned or its error raised;
    ``statistics["attempt_number"]`` counts the attempts.

    The wait is at most ``backoff`` seconds before the first retry and doubles up to ``MAX_BACKOFF``. At least half of
    it is waited and the rest is random. A ``Retry-After`` replaces it; a response with one of more than
    ``max_retry_after`` seconds is not retried. An attempt that would begin after the deadline of the context is not
    made, nor waited for.
    """
    import httpx
    from tenacity import stop_after_attempt, wait_exponential

    deadline = DEADLINE.get()
    enough = stop_after_attempt(retries + 1)
    longest_wait = wait_exponential(multiplier=backoff, max=MAX_BACKOFF)

    def is_retryable(state: RetryCallState) -> bool:
        outcome = _outcome(state)
        if isinstance(outcome, httpx.Response):
            is_refused = outcome.status_code in statuses and (repeatable or outcome.status_code == 429)
            if is_time_limit(outcome):
                return False  # the same request takes as long again
            return is_refused and (retry_after(outcome) or 0) <= max_retry_after
        if not isinstance(outcome, httpx.TransportError) or _is_unknown_host(outcome):
            return False
        if not repeatable:
            return isinstance(outcome, (httpx.ConnectError, httpx.ConnectTimeout))
        return not isinstance(outcome, (httpx.LocalProtocolError, httpx.UnsupportedProtocol))

    def wait(state: RetryCallState) -> float:
        outcome = _outcome(state)
        if isinstance(outcome, httpx.Response) and (seconds := retry_after(outcome)) is not None:
            # So that clients with the same Retry-After spread out.
            return seconds + random.uniform(0, backoff)
        longest = longest_wait(state)
        return random.uniform(longest / 2, longest)

    def log_retry(state: RetryCallState) -> None:
        outcome = _outcome(state)
        reason = outcome.status_code if isinstance(outcome, httpx.Response) else type(outcome).__name__
        log.warning("%s: %s; retrying in %.1f s", url, reason, state.upcoming_sleep)

    return {
        "retry": is_retryable,
        "wait": wait,
        "stop": lambda state: enough(state) or (deadline and state.upcoming_sleep >= deadline.remaining),
        "before_sleep": log_retry,
        "retry_error_callback": lambda state: state.outcome.result(),
    }


def _outcome(state: RetryCallState) -> object:
    assert state.outcome is not None
    return state.outcome.exception() or state.outcome.result()


def _is_unknown_host(error: BaseException) -> bool:
    """Whether name resolution knows no such host. A retry changes that only where the name server itself failed."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, socket.gaierror):
        cause = cause.__cause__
    return cause is not None and cause.errno == socket.EAI_NONAME


def is_time_limit(response: httpx.Response) -> bool:
    """Whether ScholarBase itself, and not a proxy, sent this 504."""
    is_problem = response.headers.get("Content-Type", "").startswith("application/problem+json")
    return response.status_code == TimeLimit.status and is_problem


def attempts_text(attempts: int) -> str:
    """``1 attempt``, ``2 attempts``."""
    return f"{attempts} attempt{'' if attempts == 1 else 's'}"


def retry_after(response: httpx.Response) -> float | None:
    """The seconds of a ``Retry-After`` header, a number or a date (RFC 9110, section 10.2.3). None if it is neither."""
    value = response.headers.get("Retry-After", "").strip()
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    """Whether a host is this machine. Proxies of the environment are not used for it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens at an address; port 0 is a free one. Raises as :func:`listen_together`."""
    return listen_together(host, port, 1)[0]


def listen_together(host: str, port: int, count: int) -> list[socket.socket]:
    """Sockets that listen at one address, over which the kernel distributes connections; port 0 is a free one.

    Raises:
        AddressError: the port is in use, or the address is not one of this machine.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:  # a label of over 63 characters
        problem = error.strerror if isinstance(error, OSError) else error
        raise AddressError(
            f"{shown(host)} is not an address of this machine ({problem}): use another --host."
        ) from error
    try:
        first = _listening(family, address)  # fails if another server listens there
        if count == 1:
            return [first]
        address = first.getsockname()
        first.close()
        return [_listening(family, address, socket.SO_REUSEPORT) for _ in range(count)]
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise AddressError(
                f"Port {port} on {host} is in use: stop the other process, or use another --port (0 picks a free one)."
            ) from error
        raise AddressError(
            f"Cannot listen on {host} port {port}: {error.strerror}. Use another --host or --port."
        ) from error


def _listening(family: int, address: Any, *options: int) -> socket.socket:
    # With the protocol given as TCP, asyncio sets TCP_NODELAY. Otherwise every response waits some 40 ms for the
    # acknowledgement of its first segment.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        for option in (socket.SO_REUSEADDR, *options):
            listener.setsockopt(socket.SOL_SOCKET, option, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    listener.set_inheritable(True)
    return listener

"""Retries, ``Retry-After``, services and addresses, the same for every HTTP client and server of the package.

httpx and tenacity are imported on first use: the server only needs :func:`is_loopback` and :func:`listen`.
"""

from __future__ import annotations

import errno
import ipaddress
import logging
import random
import re
import socket
import time
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from traceback import clear_frames
from typing import TYPE_CHECKING, Any, Final

from scholarbase.deadlines import DEADLINE, check
from scholarbase.errors import AddressError, ScholarBaseError, TimeLimit

if TYPE_CHECKING:
    import httpx
    from tenacity import RetryCallState

RETRYABLE_STATUSES: Final = frozenset({429, 502, 503, 504})
"""Retryable status codes."""
SERVICE_STATUSES: Final = frozenset({429, *range(500, 600)})
"""Retryable status codes of services that run a model."""
VISIBLE_ASCII: Final = re.compile(r"[\x21-\x7e]+")
"""What an API key consists of. httpx quotes others in its errors."""
MAX_RETRY_AFTER: Final = 60.0
"""Seconds. A response with a longer ``Retry-After`` is not retried."""
MAX_BACKOFF: Final = 10.0
"""Seconds between two attempts, unless the response has a ``Retry-After``."""

BACKLOG: Final = 4096
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

    Transport errors and ``statuses`` are retried up to ``retries`` times, and each retry is logged. A request that is
    not ``repeatable`` is retried only if the server has not run it: without a connection, and after status 429. After
    the last attempt its response is returned or its error raised; ``statistics["attempt_number"]`` counts the attempts.

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
        if not repeatable:
            return isinstance(outcome, (httpx.ConnectError, httpx.ConnectTimeout))
        unsendable = isinstance(outcome, (httpx.LocalProtocolError, httpx.UnsupportedProtocol))
        return isinstance(outcome, httpx.TransportError) and not unsendable

    def wait(state: RetryCallState) -> float:
        outcome = _outcome(state)
        if isinstance(outcome, httpx.Response) and (seconds := retry_after(outcome)) is not None:
            return seconds + random.uniform(
                0, backoff
            )  # so that clients with the same Retry-After spread out
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


class ResponseTooLarge(Exception):
    """A response longer than its reader takes. The text says so, without the name of the service."""


def fetch(
    client: httpx.Client, method: str, url: str, *, most: int, timeout: float, **options: Any
) -> httpx.Response:
    """Send one request and read at most ``most`` bytes of its response, all within :func:`request_timeout`.

    ``options`` are those of ``httpx.Client.stream``. The response has the header fields ``Retry-After`` and
    ``Content-Type`` only.

    Raises:
        ResponseTooLarge: it is longer; the connection is closed.
        httpx.TransportError: it fails, or takes longer.
    """
    import httpx

    seconds = request_timeout(timeout)
    end = time.monotonic() + seconds
    body = bytearray()
    with client.stream(method, url, timeout=seconds, **options) as response:
        try:
            for chunk in response.iter_bytes():
                body += chunk
                if len(body) > most:
                    raise ResponseTooLarge(f"returned more than {most:,} bytes, the limit of a response")
                if time.monotonic() > end:
                    raise httpx.ReadTimeout(f"the response took longer than {seconds:.3g} s")
        except httpx.DecodingError as error:
            raise httpx.RemoteProtocolError(f"its compressed content is damaged ({error})") from error
    names = ("Retry-After", "Content-Type")
    headers = {name: response.headers[name] for name in names if name in response.headers}
    return httpx.Response(response.status_code, headers=headers, content=bytes(body))


class ModelService:
    """A service that runs a model: requests with retries, whose failures are errors of one class.

    Args:
        kind: what it is, such as ``encoder service``.
        address: its address in messages and log lines, which clients of a server do not get.
        error: the class of its errors.
        activity: activity and advice for the error at the time limit.
        advice: what to do, by status.
        api_key: left out of messages.
        retries, backoff: as for :func:`retry_options`.
    """

    def __init__(
        self,
        kind: str,
        address: str,
        *,
        error: type[ScholarBaseError],
        activity: tuple[str, str],
        advice: Mapping[int, str],
        api_key: str | None,
        retries: int,
        backoff: float,
        log: logging.Logger,
    ) -> None:
        self._name = f"The {kind} at {address}"
        self._public = f"The {kind}"
        self._address = address
        self._error = error
        self._activity = activity
        self._advice = advice
        self._api_key = api_key
        self._retries = retries
        self._backoff = backoff
        self._log = log

    def __str__(self) -> str:
        return self._name

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Give the errors of the block a message for clients, without the address."""
        try:
            yield
        except ScholarBaseError as error:
            if error.public is None:
                error.public = (
                    str(error).replace(self._name, self._public).replace(self._address, "of a service")
                )
            raise

    def send(self, post: Callable[[], httpx.Response], passed: Container[int] = ()) -> httpx.Response:
        """Send a request with ``post``, and again while that helps.

        Returns its response, if it is a success or has a status in ``passed``.

        Raises:
            The service's error: it does not respond, its response is too long, or has another status.
            TimeLimit: the time limit of the context is over. The message names the last failure before.
        """
        import httpx
        from tenacity import Retrying

        activity, advice = self._activity
        check(activity, advice)
        deadline = DEADLINE.get()

        def attempt() -> httpx.Response:
            nonlocal activity
            response = post()
            if deadline is not None and response.status_code in SERVICE_STATUSES:
                activity = f"{self._activity[0]}, whose service last returned {response.status_code},"
                deadline.begin(activity, advice)
            return response

        options = retry_options(self._address, self._retries, self._backoff, self._log, SERVICE_STATUSES)
        retrying = Retrying(**options)
        try:
            response = retrying(attempt)
        except ResponseTooLarge as error:
            raise self._failure(str(error), "", ": check that the address is right.") from error
        except httpx.TransportError as error:
            if deadline is not None and deadline.remaining <= 0:
                raise deadline.error(activity, advice) from error
            attempts = attempts_text(retrying.statistics["attempt_number"])
            # A frame of tenacity refers to the error, and this cycle would keep the socket open.
            clear_frames(error.__traceback__)
            raise self._failure(
                "does not respond",
                f" ({type(error).__name__}: {error})",
                f", in {attempts}: check that it runs and that the address is right.",
            ) from error
        if response.is_success or response.status_code in passed:
            return response
        returned, excerpt = f"returned {response.status_code}", self._excerpt(response)
        tried = ""
        if response.status_code in SERVICE_STATUSES:
            if (wait := retry_after(response) or 0) > MAX_RETRY_AFTER:
                raise self._failure(
                    returned,
                    excerpt,
                    f" with a Retry-After of {wait:.0f} s, longer than the limit of {MAX_RETRY_AFTER:.0f} s: "
                    "try again later.",
                )
            tried = f", in {attempts_text(retrying.statistics['attempt_number'])}"
        advised = self._advice.get(response.status_code, "check its log.")
        raise self._failure(returned, excerpt, f"{tried}: {advised}")

    def _failure(self, failure: str, detail: str, rest: str) -> ScholarBaseError:
        """The service's error; ``detail`` is not for clients."""
        error = self._error(f"{self._name} {failure}{detail}{rest}")
        error.public = f"{self._public} {failure}{rest}"
        return error

    def _excerpt(self, response: httpx.Response) -> str:
        text = " ".join(response.text.split())[:300]
        if self._api_key:
            text = text.replace(self._api_key, "***")
        return f" ({text})" if text else ""


def bearer(api_key: str, setting: str, error: type[ScholarBaseError]) -> dict[str, str]:
    """The header with the key of ``setting``. Raises ``error``: no header can have it."""
    if not VISIBLE_ASCII.fullmatch(api_key):
        raise error(
            f"{setting} has characters that no key has, such as spaces or line breaks: set it to the key alone."
        )
    return {"Authorization": f"Bearer {api_key}"}


def request_timeout(timeout: float) -> float:
    """Seconds for one attempt: ``timeout``, or what remains of the time limit of the context if that is less."""
    deadline = DEADLINE.get()
    return timeout if deadline is None else max(min(timeout, deadline.remaining), 0.001)


def _outcome(state: RetryCallState) -> object:
    assert state.outcome is not None
    return state.outcome.exception() or state.outcome.result()


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
    """A socket that listens at an address; port 0 is a free one.

    Raises:
        AddressError: the port is in use, or the address is not one of this machine.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise AddressError(
            f"{host!r} is not an address of this machine ({error.strerror}): use another --host."
        ) from error
    # With the protocol given as TCP, asyncio sets TCP_NODELAY. Otherwise every response waits some 40 ms for the
    # acknowledgement of its first segment.
    listener = socket.socket(found[0][0], socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(found[0][4])
        # Listen now, so that a second server fails at once.
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise AddressError(
                f"Port {port} on {host} is in use: stop the other process, or use another --port (0 picks a free one)."
            ) from error
        raise AddressError(
            f"Cannot listen on {host} port {port}: {error.strerror}. Use another --host or --port."
        ) from error
    listener.set_inheritable(True)
    return listener


def listen_together(host: str, port: int, count: int) -> list[socket.socket]:
    """Sockets that listen at one address, over which the kernel distributes connections. Raises as :func:`listen`."""
    first = listen(host, port)  # fails if another server listens there
    if count == 1:
        return [first]
    address, family = first.getsockname(), first.family
    first.close()
    listeners = []
    for _ in range(count):
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            listener.setsockopt(socket.SOL_SOCKET, option, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
        listener.set_inheritable(True)
        listeners.append(listener)
    return listeners

"""Slow, idle, endless and rude clients. While they attack, another client is served and the server stays healthy.

Attackers come from other loopback addresses than the client that must be served, as a limit of connections for each
address is allowed to reject their own.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.servers import Server, serving
from torture.libraries import large
from torture.requests import connect, request
from torture.rows import Row, Setting, say, shown
from torture.watch import Watched, watching

LIMIT_SECONDS: Final = 5.5
"""The time limit of a request, plus 10%."""
ATTACK_SECONDS: Final = 15.0
CLOSED_SECONDS: Final = 60.0
"""A head or a body that does not come to its end is given up within this time."""
MB: Final = 1_000_000
HEAD: Final = b"POST /v1/search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
SEARCH: Final = "/v1/search?q=string+theory&limit=5&fields=id"
COMBINING: Final = "a" + "\u0315\u0300" * 10_000


@dataclass(frozen=True, slots=True)
class Attack:
    """``run`` attacks a server until the time is over, and returns what is wrong, empty if nothing."""

    name: str
    run: Callable[[str, Setting, float], list[str]]
    is_cancelled: bool = False
    """All clients disconnect, so that the server should soon be idle."""


def run(setting: Setting) -> Iterator[Row]:
    faults = []
    attacks = [attack for attack in ATTACKS if not setting.is_slice or attack.name in IN_SLICE]
    for attack in attacks:
        # A new server for each attack, so that none begins with what an earlier one left.
        with (
            TemporaryDirectory() as folder,
            serving(large(setting), workers=1, SCHOLARBASE_SESSIONS=folder) as server,
        ):
            row = _attacked(attack, server, setting)
            faults += [f"{attack.name}: {line}" for line in _unhandled(server)]
        say(f"{attack.name}: {row.figure}")
        yield row
    tested = f"the server's log after {len(attacks)} attacks"
    promise = "No attack causes an unhandled error"
    yield Row("clients", promise, tested, shown(faults) or "no traceback", not faults)


def _unhandled(server: Server) -> list[str]:
    """The log lines before tracebacks."""
    lines = server.log().splitlines()
    return [lines[place - 1] for place, line in enumerate(lines) if line.startswith("Traceback") and place]


def _attacked(attack: Attack, server: Server, setting: Setting) -> Row:
    with watching(server) as watched, _served(server.url) as client:
        time.sleep(0.5)
        wrong = attack.run(server.url, setting, 3.0 if setting.is_slice else ATTACK_SECONDS)
    if attack.is_cancelled:
        busy = _busy(server)
        if busy > LIMIT_SECONDS:
            wrong.append(f"busy for {busy:.0f} s after all clients disconnected")
    return _row(attack.name, wrong, client, watched, setting)


def _row(name: str, wrong: list[str], client: Client, watched: Watched, setting: Setting) -> Row:
    seen = watched.seen
    figure = f"health {seen.health()}; others {client}; memory {seen.memory()}"
    figure += f"; {shown(wrong)}" if wrong else ""
    kept = not wrong and seen.is_healthy(setting) and client.is_served(setting) and seen.above_idle <= 400
    return Row(
        "clients", "Others are served, health within 1 s, at most 400 MB above idle", name, figure, kept
    )


class Client:
    """A well-behaved client that searches all the time on new connections."""

    def __init__(self) -> None:
        self.sent, self.slowest = 0, 0.0
        self.failures: list[str] = []

    def is_served(self, setting: Setting) -> bool:
        return bool(self.sent) and not self.failures and self.slowest <= setting.seconds(LIMIT_SECONDS)

    def __str__(self) -> str:
        text = f"{self.sent} searches, slowest {self.slowest:.2f} s"
        return text + (f", failed {shown(self.failures)}" if self.failures else "")


@contextmanager
def _served(url: str) -> Iterator[Client]:
    client, ended = Client(), threading.Event()

    def search() -> None:
        while not ended.is_set():
            found = request(url, "GET", SEARCH, timeout=30)
            client.sent += 1
            client.slowest = max(client.slowest, found.seconds)
            # A full queue may refuse it, if it says when to come back.
            refused = found.status == 503 and "retry-after" in found.headers
            if found.status != 200 and not refused:
                client.failures.append(f"{found.status or found.error} after {found.seconds:.1f} s")
            ended.wait(0.2)

    thread = threading.Thread(target=search)
    thread.start()
    try:
        yield client
    finally:
        ended.set()
        thread.join()


def _busy(server: Server) -> float:
    """Seconds until the server uses no more CPU time, a minute at most."""
    began, before = time.monotonic(), server.cpu_seconds()
    while (seconds := time.monotonic() - began) < 60:
        time.sleep(0.5)
        now = server.cpu_seconds()
        if now - before < 0.1:
            break
        before = now
    return seconds


def _address(number: int) -> str:
    """One of 16 loopback addresses that are not 127.0.0.1."""
    return f"127.0.1.{1 + number % 16}"


# -- connections -----------------------------------------------------------------------------------------


def _open(url: str, stack: ExitStack, count: int, first: bytes) -> tuple[list[socket.socket], list[str]]:
    found, refused = [], []
    for number in range(count):
        try:
            connection = stack.enter_context(connect(url, _address(number), timeout=5))
            if first:
                connection.sendall(first)
            found.append(connection)
        except OSError as error:
            refused.append(str(error))  # a limit of connections may do this
    return found, refused


def _idle(url: str, setting: Setting, seconds: float) -> list[str]:
    with ExitStack() as stack:
        _open(url, stack, setting.count(2000, 200), b"")
        time.sleep(seconds)
    return []


def _idle_after_response(url: str, setting: Setting, seconds: float) -> list[str]:
    with ExitStack() as stack:
        _open(url, stack, setting.count(2000, 200), b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        time.sleep(seconds)
    return []


def _slow_heads(url: str, setting: Setting, seconds: float) -> list[str]:
    """Send heads that grow by one header a second. They must be closed, although they are never idle."""
    return _dripping(url, setting, b"GET / HTTP/1.1\r\n", lambda number: b"X-%d: a\r\n" % number, "heads")


def _slow_bodies(url: str, setting: Setting, seconds: float) -> list[str]:
    head = HEAD + b"Content-Length: 1000000\r\n\r\n{"
    return _dripping(url, setting, head, lambda number: b" ", "bodies")


def _dripping(
    url: str, setting: Setting, first: bytes, piece: Callable[[int], bytes], what: str
) -> list[str]:
    with ExitStack() as stack:
        found, _ = _open(url, stack, setting.count(500, 50), first)
        began, number = time.monotonic(), 0
        while found and time.monotonic() < began + (5 if setting.is_slice else CLOSED_SECONDS):
            number += 1
            found = [connection for connection in found if _is_open(connection, piece(number))]
            time.sleep(1)
    if setting.is_slice or not found:
        return []
    return [f"{len(found)} {what} that never ended are still read after {CLOSED_SECONDS:.0f} s"]


def _is_open(connection: socket.socket, piece: bytes) -> bool:
    """Send a piece. Returns whether the server still reads the request."""
    connection.setblocking(False)
    try:
        connection.send(piece)
        connection.recv(100)  # a response, or the end
        return False
    except BlockingIOError:
        return True
    except OSError:
        return False


def _never_read(url: str, setting: Setting, seconds: float) -> list[str]:
    """Request large responses again and again on one connection, and never read one."""
    ask = b"GET /v1/search?q=theory&limit=1000 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with ExitStack() as stack:
        found, _ = _open(url, stack, setting.count(100, 10), ask)
        began = time.monotonic()
        while time.monotonic() < began + seconds:
            for connection in found:
                connection.setblocking(False)
                with suppress(OSError):
                    connection.send(ask)
            time.sleep(0.5)
    return []


def _disconnecting(url: str, setting: Setting, seconds: float) -> list[str]:
    """Send expensive searches and close at once."""
    body = json.dumps({"searches": [{"q": _words(60), "engine": "fts5", "limit": 100}] * 100}).encode()
    began, number = time.monotonic(), 0
    while time.monotonic() < began + seconds:
        number += 1
        with suppress(OSError):
            connection = connect(url, _address(number), timeout=5)
            connection.sendall(
                HEAD.replace(b"/search", b"/search/batch") + b"Content-Length: %d\r\n\r\n" % len(body) + body
            )
            time.sleep(0.05)
            connection.close()
        time.sleep(0.1)
    return []


def _pipelining(url: str, setting: Setting, seconds: float) -> list[str]:
    """Send thousands of requests on one connection at once."""
    ask = f"GET {SEARCH} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode() * setting.count(5000, 200)

    def send(number: int) -> None:
        with suppress(OSError), connect(url, _address(number), timeout=seconds) as connection:
            reading = threading.Thread(target=_drain, args=(connection,))
            reading.start()
            with suppress(OSError):
                connection.sendall(ask)
            reading.join(seconds)

    _all(send, 8, seconds)
    return []


CHUNKED: Final = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


def _tiny_chunks(url: str, setting: Setting, seconds: float) -> list[str]:
    """Send bodies in chunks of one byte, as fast as the server takes them."""
    chunks = b"1\r\n \r\n" * 10_000

    def send(number: int) -> None:
        with suppress(OSError), connect(url, _address(number), timeout=seconds) as connection:
            connection.sendall(CHUNKED)
            began = time.monotonic()
            while time.monotonic() < began + seconds:
                connection.sendall(chunks)

    _all(send, setting.count(32, 8), seconds)
    return []


def _abandoned(url: str, setting: Setting, seconds: float) -> list[str]:
    """Abandon chunked bodies after 30 kB, in six waves. The watch compares the memory with the server's when idle."""
    for _ in range(6):
        for number in range(setting.count(8000, 200)):
            with suppress(OSError), connect(url, _address(number), timeout=seconds) as connection:
                connection.sendall(CHUNKED + b"10000\r\n" + b" " * 30_000)
        time.sleep(1)
    return []


def _drain(connection: socket.socket) -> None:
    with suppress(OSError):
        while connection.recv(1 << 16):
            pass


# -- heads -----------------------------------------------------------------------------------------------


def _endless(url: str, first: bytes, piece: bytes, size: int, seconds: float) -> list[str]:
    """Send up to ``size`` bytes of a head. The server must answer or close long before."""
    sent, status = 0, b""
    with suppress(OSError), connect(url, _address(0), timeout=seconds) as connection:
        connection.sendall(first)
        began = time.monotonic()
        while sent < size and time.monotonic() < began + seconds:
            try:
                sent += connection.send(piece)
            except OSError:
                break
            connection.setblocking(False)
            with suppress(OSError):
                status = connection.recv(64)
            connection.settimeout(seconds)
            if status:
                break
    if status and not status.startswith(b"HTTP/1.1 4"):
        return [f"answered {status[:20]!r}"]
    most = 4 * MB  # what the buffers of the sockets hold, and a generous limit
    return [] if sent <= most else [f"{sent / MB:.0f} MB of a head were read"]


def _large_header(url: str, setting: Setting, seconds: float) -> list[str]:
    size = setting.count(200, 20) * MB
    return _endless(url, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ", b"a" * 65536, size, 3 * seconds)


def _many_headers(url: str, setting: Setting, seconds: float) -> list[str]:
    size = setting.count(50, 10) * MB
    return _endless(
        url, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n", b"X-A: b\r\n" * 8192, size, 3 * seconds
    )


def _long_line(url: str, setting: Setting, seconds: float) -> list[str]:
    return _endless(url, b"GET /v1/search?q=", b"a" * 65536, setting.count(50, 10) * MB, 3 * seconds)


# -- requests --------------------------------------------------------------------------------------------


def _all(send: Callable[[int], object], threads: int, seconds: float) -> None:
    """Call ``send`` with 0, 1, ... from many threads until the time is over."""
    ended = time.monotonic() + seconds

    def repeat(first: int) -> None:
        number = first
        while time.monotonic() < ended:
            send(number)
            number += threads

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(repeat, range(threads)))


def _posting(path: str, body: object, threads: int) -> Callable[[str, Setting, float], list[str]]:
    """An attack that sends one body from many threads. Statuses: accepted, refused, out of time or overloaded."""
    content = json.dumps(body).encode()

    def attack(url: str, setting: Setting, seconds: float) -> list[str]:
        wrong: list[str] = []
        took = [0.0]

        def send(number: int) -> None:
            found = request(url, "POST", path, content, timeout=60)
            took.append(found.seconds)
            if found.status is None or (found.status >= 500 and found.status not in (503, 504)):
                wrong.append(f"{found.status or found.error} after {found.seconds:.1f} s")

        _all(send, setting.count(threads, min(threads, 4)), seconds)
        return wrong

    return attack


def _words(count: int, end: str = "") -> str:
    letters = "abcdefghijklmnopqrstuvwxyz"
    return " OR ".join(f"{letters[n % 26]}{letters[n // 26 % 26]}{end}" for n in range(count))


def _at_once(count: int, allowed: set[int]) -> Callable[[str, Setting, float], list[str]]:
    """Send many searches at once, each on its own connection. A refused one must say when to come back."""

    ask = b"GET /v1/search?q=theory+%d&limit=20 HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"

    def attack(url: str, setting: Setting, seconds: float) -> list[str]:
        wrong: list[str] = []
        with ExitStack() as stack:
            number = setting.count(count, count // 20)
            found = []
            for n in range(number):
                try:
                    found.append(stack.enter_context(connect(url, _address(n), timeout=120)))
                    found[-1].sendall(ask % n)
                except OSError as error:
                    wrong.append(f"{type(error).__name__} on sending")
            for connection in found:
                answer = _received(connection)
                status = int(answer.split()[1]) if answer.startswith(b"HTTP/1.1 ") else None
                if status not in allowed or (status == 503 and b"retry-after:" not in answer.lower()):
                    wrong.append(f"status {status}")
        counts = ", ".join(f"{wrong.count(text)} times {text}" for text in sorted(set(wrong)))
        return [f"{counts} of {number}"] if wrong else []

    return attack


def _received(connection: socket.socket) -> bytes:
    pieces = []
    with suppress(OSError):
        while piece := connection.recv(1 << 16):
            pieces.append(piece)
    return b"".join(pieces)


def _ids(count: int) -> list[str]:
    return [f"arXiv:hep-th/{93 + n % 7}{1 + n // 999 % 12:02}{1 + n % 999:03}" for n in range(count)]


def _while_held(
    hold: Callable[[ExitStack, str], object], path: str, body: bytes | None = None
) -> Callable[[str, Setting, float], list[str]]:
    """An attack whose clients hold what they can, while a request that needs the same must be answered in time."""

    def attack(url: str, setting: Setting, seconds: float) -> list[str]:
        wrong: list[str] = []
        with ExitStack() as stack:
            hold(stack, url)
            time.sleep(1)
            ended = time.monotonic() + seconds
            while time.monotonic() < ended:
                found = request(url, "GET" if body is None else "POST", path, body, timeout=60)
                if found.status != 200 or found.seconds > setting.seconds(LIMIT_SECONDS):
                    wrong.append(f"{found.status or found.error} after {found.seconds:.1f} s")
                time.sleep(0.2)
        return wrong

    return attack


def _unread_batches(stack: ExitStack, url: str) -> None:
    """Three clients request 10,000 papers each, and read 120 KB a second."""
    body = json.dumps({"searches": [{"q": f"theory {n}", "limit": 1000} for n in range(10)]}).encode()
    head = HEAD.replace(b"/search", b"/search/batch") + b"Content-Length: %d\r\n\r\n" % len(body)
    ended = threading.Event()
    stack.callback(ended.set)

    def read(number: int) -> None:
        while not ended.is_set():
            with suppress(OSError), connect(url, _address(number), timeout=60) as connection:
                connection.sendall(head + body)
                while connection.recv(24_000) and not ended.wait(0.2):
                    pass

    for number in range(3):
        threading.Thread(target=read, args=(number,), daemon=True).start()


def _chunked_uploads(stack: ExitStack, url: str) -> None:
    """Eight clients begin to upload bodies of unknown and of the largest size."""
    for number in range(8):
        connection = stack.enter_context(connect(url, _address(number), timeout=60))
        length = b"Transfer-Encoding: chunked" if number % 2 else b"Content-Length: 8388608"
        connection.sendall(HEAD + length + b"\r\n\r\n" + (b"1\r\n{\r\n" if number % 2 else b"{"))


def _raw_posting(
    path: str, make: Callable[[], bytes], threads: int
) -> Callable[[str, Setting, float], list[str]]:
    """As ``_posting``, of a body of bytes, which is made when the attack begins."""

    def attack(url: str, setting: Setting, seconds: float) -> list[str]:
        wrong: list[str] = []
        body = make()
        accept = {"Accept": "application/json, text/event-stream"}

        def send(number: int) -> None:
            found = request(url, "POST", path, body, headers=accept, timeout=60)
            if found.status is None or (found.status >= 500 and found.status not in (503, 504)):
                wrong.append(f"{found.status or found.error} after {found.seconds:.1f} s")

        _all(send, setting.count(threads, 2), seconds)
        return wrong

    return attack


def _keys(count: int) -> bytes:
    return b"{" + b",".join(b'"%d":1' % n for n in range(count)) + b"}"


def _call(arguments: bytes) -> bytes:
    return (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search_papers","arguments":%b}}'
        % arguments
    )


def _together(
    *attacks: Callable[[str, Setting, float], list[str]],
) -> Callable[[str, Setting, float], list[str]]:
    def attack(url: str, setting: Setting, seconds: float) -> list[str]:
        with ThreadPoolExecutor(len(attacks)) as pool:
            started = [pool.submit(each, url, setting, seconds) for each in attacks]
            return [text for each in started for text in each.result()]

    return attack


def _nested(url: str, setting: Setting, seconds: float) -> list[str]:
    wrong: list[str] = []
    content = b'{"q": ' + b"[" * setting.count(8 * MB - 100, 100_000)

    def send(number: int) -> None:
        found = request(url, "POST", "/v1/search", content, timeout=60)
        if found.status is None or found.status >= 500:
            wrong.append(f"{found.status or found.error}")

    _all(send, 4, seconds)
    return wrong


_prefixes: Final = _posting("/v1/search", {"q": _words(60, "*"), "engine": "fts5"}, 45)
_few_prefixes: Final = _posting("/v1/search", {"q": _words(10, "*"), "engine": "fts5", "limit": 1000}, 45)
_large_bodies: Final = _posting("/v1/search", {"q": "a", "exclude_ids": _ids(400_000)}, 16)

ATTACKS: Final = (
    Attack("2,000 idle connections", _idle),
    Attack("2,000 connections idle after a response", _idle_after_response),
    Attack("500 heads, a header a second", _slow_heads),
    Attack("500 bodies, a byte a second", _slow_bodies),
    Attack("100 clients that never read their responses", _never_read),
    Attack("expensive batches, disconnected at once", _disconnecting, is_cancelled=True),
    Attack("5,000 pipelined requests, 8 connections", _pipelining),
    Attack("bodies in chunks of one byte, 32 clients", _tiny_chunks),
    Attack("6 times 8,000 abandoned chunked bodies", _abandoned),
    Attack("1,200 searches at once", _at_once(1200, {200, 503})),
    Attack("5,000 searches at once", _at_once(5000, {200, 503})),
    Attack("a header of 200 MB", _large_header),
    Attack("50 MB of headers", _many_headers),
    Attack("a request line of 50 MB", _long_line),
    Attack("60 prefixes, 45 requests at once", _prefixes),
    Attack("10 prefixes, 45 requests at once", _few_prefixes),
    Attack("1,419 OR-ed prefixes", _posting("/v1/search", {"q": _words(1419, "*")}, 4)),
    Attack(
        "exact searches without 9,990 papers, 16 at once",
        _posting("/v1/search", {"q": "quantum theory", "exact": True, "exclude_ids": _ids(9990)}, 16),
    ),
    Attack("a word of 9,990 letters and a star", _posting("/v1/search", {"q": "a" * 9989 + "*b"}, 8)),
    Attack(
        "titles of 20,000 combining marks", _posting("/v1/title-match/batch", {"titles": [COMBINING] * 10}, 4)
    ),
    Attack(
        "titles of 2,000 combining marks",
        _posting("/v1/title-match/batch", {"titles": [COMBINING[:2000]] * 1000}, 8),
    ),
    Attack("bodies of 8 MB, 16 at once", _large_bodies),
    Attack("nested JSON of 8 MB", _nested),
    Attack(
        "3 clients read 12 MB slowly; a search of 200 papers",
        _while_held(_unread_batches, "/v1/search?q=string+theory&limit=200"),
    ),
    Attack(
        "8 slow uploads; a body of 100 KB",
        _while_held(_chunked_uploads, "/v1/search", b'{"q": "string theory"' + b" " * 100_000 + b"}"),
    ),
    Attack("780,000 unknown keys", _raw_posting("/v1/search", lambda: _keys(780_000), 4)),
    Attack("240,000 unknown keys", _raw_posting("/v1/search", lambda: _keys(240_000), 8)),
    Attack("7,500 unknown keys, 40 at once", _raw_posting("/v1/search", lambda: _keys(7_500), 40)),
    Attack("MCP: 31 MB of keys", _raw_posting("/mcp", lambda: _call(_keys(2_700_000)), 4)),
    Attack("MCP: 45,000 unknown keys", _raw_posting("/mcp", lambda: _call(_keys(45_000)), 8)),
    Attack("MCP: a text of 30 MB", _raw_posting("/mcp", lambda: _call(b'{"q":"%b"}' % (b"a" * 30 * MB)), 4)),
    Attack("2,000 idle connections and prefixes at once", _together(_idle, _few_prefixes)),
    Attack("slow bodies and bodies of 8 MB at once", _together(_slow_bodies, _large_bodies)),
)
IN_SLICE: Final = frozenset({"a header of 200 MB", "5,000 searches at once"})

"""Every parser of untrusted text, by hypothesis: only errors of ScholarBase are raised, in linear time."""

from __future__ import annotations

import contextlib
import random
import tempfile
import time
from collections.abc import Iterator
from typing import Any, Final

from hypothesis import HealthCheck, given, settings

from benchmarks.servers import serving
from scholarbase.errors import ScholarBaseError
from scholarbase.search.library import Library
from torture.libraries import sample
from torture.requests import connected
from torture.rows import Row, Setting, say, shown
from torture.untrusted import TOKENS, Parser, of_library, parsers

EXAMPLES, EXAMPLES_IN_SLICE = 2000, 15
HEADS, HEADS_IN_SLICE = 2000, 40
HEAD_SECONDS: Final = 0.5
PUMPS, PUMPS_IN_SLICE = 150, 0
SHORT: Final = 4_000
FACTOR: Final = 8
MOST_RATIO: Final = 4 * FACTOR
"""Linear time has a ratio of 8, quadratic time of 64."""
FLOOR: Final = 0.002
"""Seconds below which times are not compared."""


def run(setting: Setting) -> Iterator[Row]:
    with Library.open(sample(setting)) as library:
        yield _errors(setting, parsers() | {"Library": of_library(library)})
    yield from _linear(setting)
    yield from _heads(setting)


# -- errors ----------------------------------------------------------------------------------------------


def _errors(setting: Setting, found: dict[str, Parser]) -> Row:
    examples = setting.count(EXAMPLES, EXAMPLES_IN_SLICE)
    failures = []
    for name, parser in found.items():
        wrong = _first_wrong(parser, examples)
        if wrong is not None:
            failures.append(f"{name}: {wrong}")
            say(failures[-1][:200])
    say(f"{len(found)} parsers, {len(failures)} with errors of another class")
    tested = f"hypothesis, {examples:,} inputs for each of {len(found)} parsers"
    return Row(
        "parsers",
        "A parser raises only errors of ScholarBase",
        tested,
        shown(failures) or "no other error",
        not failures,
    )


def _first_wrong(parser: Parser, examples: int) -> str | None:
    """The smallest input that raises another error, and the error."""

    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
        report_multiple_bugs=False,
    )
    @given(parser.inputs)
    def check(value: Any) -> None:
        with contextlib.suppress(ScholarBaseError):
            try:
                parser.call(value)
            except ScholarBaseError:
                raise
            except Exception as error:
                error.args = (f"{type(error).__name__}: {error} for {value!r}"[:300],)
                raise

    try:
        check()
    except Exception as error:
        return str(error.args[0]) if error.args else repr(error)
    return None


# -- time ------------------------------------------------------------------------------------------------


def _linear(setting: Setting) -> list[Row]:
    """Search for texts that grow slowly to parse: a beginning, a repeated piece and an end."""
    rounds = setting.count(PUMPS, PUMPS_IN_SLICE)
    if not rounds:
        return []
    chance = random.Random(15)
    worst, slow = (0.0, "", ""), []
    pumped = {name: parser for name, parser in parsers().items() if parser.pumped is not None}
    for name, parser in pumped.items():
        best = (0.0, _pump(chance))
        for _ in range(rounds):
            # Half of the trials change the worst text so far.
            pump = _pump(chance) if chance.random() < 0.5 else _changed(best[1], chance)
            ratio = _ratio(parser, pump, 1)
            if ratio > best[0]:
                best = (ratio, pump)
        ratio = min(best[0], _ratio(parser, best[1], 3))
        worst = max(worst, (ratio, name, repr(best[1])))
        if ratio > MOST_RATIO:
            slow.append(f"{name}: {ratio:.0f} for {best[1]!r}")
            say(slow[-1])
    tested = (
        f"CPU time of a text and one {FACTOR} times as long, {rounds} texts for each of {len(pumped)} parsers"
    )
    figure = shown(slow) or f"largest ratio {worst[0]:.1f} ({worst[1]})"
    return [
        Row(
            "parsers", f"Parsing takes linear time: a ratio of at most {MOST_RATIO}", tested, figure, not slow
        )
    ]


Pump = tuple[str, str, str]


def _pump(chance: random.Random) -> Pump:
    def pieces(most: int) -> str:
        return "".join(chance.choice(TOKENS) for _ in range(chance.randint(0, most)))

    return pieces(2), pieces(3) or "a", pieces(2)


def _changed(pump: Pump, chance: random.Random) -> Pump:
    place = chance.randrange(3)
    changed = list(pump)
    changed[place] = changed[place][:-1] if chance.random() < 0.3 else changed[place] + chance.choice(TOKENS)
    return changed[0], changed[1] or "a", changed[2]


def _ratio(parser: Parser, pump: Pump, repeats: int) -> float:
    short = max(_seconds(parser, _text(pump, SHORT), repeats), FLOOR)
    return _seconds(parser, _text(pump, SHORT * FACTOR), repeats) / short


def _text(pump: Pump, size: int) -> str:
    start, piece, end = pump
    return start + piece * (size // len(piece)) + end


def _seconds(parser: Parser, text: str, repeats: int) -> float:
    assert parser.pumped is not None
    value = parser.pumped(text)
    times = []
    for _ in range(repeats):
        began = time.process_time()
        with contextlib.suppress(Exception):  # other errors than ours are reported by the row above
            parser.call(value)
        times.append(time.process_time() - began)
    return min(times)


# -- HTTP heads ------------------------------------------------------------------------------------------

HEAD_PIECES: Final = (
    *(
        b"GET ",
        b"POST ",
        b"FOO ",
        b"/healthz",
        b"/v1/search?q=a",
        b"/%00",
        b"/%ff",
        b"//",
        b"?",
        b"#",
        b" HTTP/1.1",
        b" HTTP/9.9",
    ),
    *(
        b"\r\n",
        b"\n",
        b"\r",
        b"Host: 127.0.0.1",
        b"Host: ",
        b"Content-Length: 5",
        b"Content-Length: -1",
        b"Content-Length: 9999999999",
    ),
    *(
        b"Transfer-Encoding: chunked",
        b"Connection: upgrade",
        b"Upgrade: websocket",
        b"Expect: 100-continue",
        b"X: \xff\xfe",
        b": ",
        b":",
    ),
    *(
        b"\x00",
        b"0\r\n\r\n",
        b"FFFFFFFFFFFFFFFFF\r\n",
        b"{}",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
        b"X-ScholarBase-Session: \xe9",
    ),
)


def _heads(setting: Setting) -> list[Row]:
    chance = random.Random(15)
    count = setting.count(HEADS, HEADS_IN_SLICE)
    wrong: list[str] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(sample(setting), workers=1, SCHOLARBASE_SESSIONS=folder) as server,
    ):
        for _ in range(count):
            head = b"".join(chance.choice(HEAD_PIECES) for _ in range(chance.randint(1, 14)))
            if chance.random() < 0.7:
                head = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n" + head + b"\r\n\r\n"
            status = _status_of(server.url, head)
            if status >= 500 and status not in (503, 504):
                wrong.append(f"{status} for {head!r}")
        crashed = server.log().count("Traceback")
        alive = _status_of(server.url, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    figure = shown(wrong) or f"none; {crashed} tracebacks in the log, status {alive} afterwards"
    kept = not wrong and not crashed and alive == 200
    return [
        Row(
            "parsers",
            "No HTTP head causes a status 5xx",
            f"{count:,} random heads sent to a server",
            figure,
            kept,
        )
    ]


def _status_of(url: str, head: bytes) -> int:
    """The status of the first response, 0 without one: the server waits for the rest of a head."""
    with connected(url) as connection:
        connection.settimeout(HEAD_SECONDS)
        try:
            connection.sendall(head)
            start = connection.recv(64)
        except OSError:
            return 0
    words = start.split()
    return int(words[1]) if start.startswith(b"HTTP/") and len(words) > 1 and words[1].isdigit() else 0

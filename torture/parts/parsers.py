"""Every parser of untrusted text, by hypothesis: only errors of ScholarBase are raised, in linear time."""

from __future__ import annotations

import contextlib
import inspect
import os
import random
import string
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.datastructures import Headers

from benchmarks.servers import serving
from scholarbase import identifiers
from scholarbase.api.access.keys import read_keys
from scholarbase.api.session_headers import session_headers
from scholarbase.errors import ScholarBaseError
from scholarbase.evaluation.formats import read_queries
from scholarbase.indexes import query_syntax, titles
from scholarbase.ingest.sources import PARSERS as SOURCE_PARSERS
from scholarbase.ingest.sources import open_lines
from scholarbase.ingest.sources.detect import detect
from scholarbase.ingest.sources.vectors import open_vectors
from scholarbase.manifest import Manifest
from scholarbase.models.checks import as_of_day, check_categories, date_bounds
from scholarbase.models.requests import SearchRequest
from scholarbase.responses.pages import sentence_ends
from scholarbase.search.library import Library
from scholarbase.sessions.session import check_session_id
from scholarbase.settings import load_settings
from scholarbase.tools.definitions import TOOLS
from scholarbase.trajectories.calls import read_trajectory
from torture.libraries import sample
from torture.requests import connected
from torture.rows import Row, Setting, say, shown

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

TOKENS: Final = (
    *(
        '"',
        "AND ",
        "OR ",
        "NOT ",
        "NEAR(",
        "NEAR/3 ",
        "*",
        "(",
        ")",
        "title:",
        "abstract:",
        "-",
        "^",
        "+",
        "a",
        "ab* ",
    ),
    *(
        "10.1234/",
        "arXiv:",
        "hep-th/9301068",
        "https://doi.org/",
        "CorpusId:",
        "URL:",
        "2301.00001v2",
        "\\alpha",
        "<i>",
    ),
    *(
        "&amp;",
        "&#x41;",
        "$",
        "{",
        "}",
        "é",
        "e\u0301",
        "\u0315",
        "\u0300",
        "λ",
        "中",
        "\u202e",
        "\ufeff",
        "\x00",
        "\n",
        "\t",
    ),
    *(
        " ",
        ". ",
        ": ",
        "—",
        "?",
        "!",
        "'",
        "\u2019",
        "2021-02-30",
        "2021-13",
        "0000",
        "9" * 30,
        "\ud7ff",
        "\U0010ffff",
    ),
)
texts: Final = st.one_of(
    st.text(max_size=300),
    st.lists(st.sampled_from(TOKENS), max_size=60).map("".join),
    st.text(string.printable),
)
leaves: Final = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), texts, st.sampled_from((2**63, -(2**63), 2**70))
)
values: Final = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
KEYS: Final = (
    *(
        "corpusid",
        "title",
        "externalids",
        "authors",
        "year",
        "publicationdate",
        "venue",
        "citationcount",
        "url",
    ),
    *(
        "abstract",
        "citingcorpusid",
        "citedcorpusid",
        "contexts",
        "intents",
        "isinfluential",
        "sha",
        "primary",
        "id",
    ),
    *(
        "authorid",
        "name",
        "alternate_names",
        "text",
        "model",
        "_id",
        "categories",
        "versions",
        "authors_parsed",
        "doi",
    ),
    *(
        "query",
        "question",
        "answer",
        "answers",
        "query_id",
        "qid",
        "positives",
        "published_time",
        "tool",
        "arguments",
    ),
    *(
        "results",
        "session",
        "call",
        "began",
        "ended",
        "openaccessinfo",
        "journal-ref",
        "update_date",
        "metadata",
    ),
)
records: Final = st.dictionaries(st.sampled_from(KEYS), values, max_size=14) | values


def _dumped(value: Any) -> bytes:
    try:
        return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)
    except (TypeError, ValueError):  # integers and surrogates that JSON lines cannot have
        return repr(value).encode(errors="surrogatepass")


lines: Final = st.one_of(st.binary(max_size=300), records.map(_dumped))
files: Final = st.one_of(
    st.binary(max_size=500),
    st.lists(lines, max_size=5).map(b"\n".join),
    st.lists(
        st.sampled_from(
            [
                token.encode(errors="replace")
                for token in (
                    *TOKENS,
                    "<top>",
                    "</top>",
                    "<num>",
                    "<title>",
                    "1 0 a 1\n",
                    "query,answer\n",
                    "id\ttext\n",
                    "<topic number='1'>",
                    "</topic>",
                )
            ]
        ),
        max_size=40,
    ).map(b"".join),
)


@dataclass(frozen=True, slots=True)
class Parser:
    """A parser, and the values that it is called with. ``pumped`` makes such a value from a text."""

    call: Callable[[Any], Any]
    inputs: st.SearchStrategy[Any]
    pumped: Callable[[str], Any] | None = None


def _of_file(read: Callable[[Path], Any], suffix: str) -> Callable[[bytes], Any]:
    def call(content: bytes) -> Any:
        descriptor, name = tempfile.mkstemp(suffix=suffix)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            return read(Path(name))
        finally:
            Path(name).unlink()

    return call


def _filled(parse: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def call(line: bytes) -> Any:
        found = parse(line)
        assert found is not None
        return found

    return call


def _headers(pairs: list[tuple[str, str]]) -> Any:
    raw = [(name.lower().encode(errors="replace"), value.encode(errors="replace")) for name, value in pairs]
    return {
        name: check_session_id(value) for name, value in session_headers(Headers(raw=raw)).items() if value
    }


def _whole(text: str) -> str:
    return text


def parsers() -> dict[str, Parser]:
    """Every parser of untrusted text by name."""
    found = {
        "identifiers.parse": Parser(identifiers.parse, texts, _whole),
        "query_syntax.is_syntax": Parser(query_syntax.is_syntax, texts, _whole),
        "query_syntax.compile": Parser(query_syntax.compile, texts, _whole),
        "query_syntax.words": Parser(query_syntax.words, texts, _whole),
        "query_syntax.terms": Parser(lambda text: query_syntax.terms(text, syntax=True), texts, _whole),
        "query_syntax.free_text": Parser(query_syntax.free_text, texts, _whole),
        "titles.normalize_title": Parser(titles.normalize_title, texts, _whole),
        "titles.main_title": Parser(titles.main_title, texts, _whole),
        "sentences": Parser(lambda text: list(sentence_ends(text)), texts, _whole),
        "dates": Parser(date_bounds, texts | values, _whole),
        "as_of": Parser(as_of_day, texts | values, _whole),
        "categories": Parser(check_categories, texts | st.lists(texts, max_size=4), _whole),
        "SearchRequest": Parser(
            lambda given_: SearchRequest.of(**given_),
            st.dictionaries(st.sampled_from(list(SearchRequest.model_fields)), values | texts, max_size=6),
            lambda text: {"q": text},
        ),
        "session id": Parser(check_session_id, texts | values, _whole),
        "session headers": Parser(
            _headers,
            st.lists(
                st.tuples(
                    st.sampled_from(("X-ScholarBase-Session", "X-ScholarBase-Parent", "Idempotency-Key")),
                    texts,
                ),
                max_size=4,
            ),
        ),
        "manifest": Parser(lambda data: Manifest.from_bytes(data, Path("manifest.json")), lines),
        "key file": Parser(_of_file(read_keys, ".json"), files | st.lists(records, max_size=3).map(_dumped)),
        "trajectory file": Parser(_of_file(read_trajectory, ".jsonl"), files),
        "vector file": Parser(_of_file(lambda path: list(open_vectors(path)), ".npy"), files),
        "source file": Parser(_of_file(lambda path: list(open_lines(path)), ".gz"), files),
        "setting": Parser(
            lambda pair: load_settings(**{pair[0]: pair[1]}),
            st.tuples(
                st.sampled_from(("cors_origins", "fusion_weights", "port", "host", "keep", "rrf_k")),
                texts | leaves,
            ),
            lambda text: ("cors_origins", text),
        ),
        "dataset": Parser(lambda found_: detect(found_, "corpus.jsonl"), st.lists(lines, max_size=5)),
    }
    for suffix in (".jsonl", ".json", ".tsv", ".csv", ".txt", ".xml", ".jsonl.gz"):
        pumped = (lambda text: text.encode(errors="replace")) if suffix in (".txt", ".tsv", ".csv") else None
        found[f"query file {suffix}"] = Parser(_of_file(read_queries, suffix), files, pumped)
    for dataset, parse in SOURCE_PARSERS.items():
        found[f"source line of {dataset}"] = Parser(_filled(parse), lines, _line_of)
    for tool in TOOLS:
        found[f"arguments of {tool.name}"] = Parser(
            tool.canonical,
            st.dictionaries(
                st.sampled_from(("q", "from", "ids", "seeds", "titles", "limit", "fields", "max_tokens"))
                | texts,
                values | texts,
                max_size=5,
            ),
            lambda text: {"q": text, "ids": text, "from": text, text: 1},
        )
    return found


def _line_of(text: str) -> bytes:
    """A record in which every key has the text."""
    record: dict[str, Any] = dict.fromkeys(KEYS, text) | {
        "corpusid": 1,
        "citingcorpusid": 1,
        "citedcorpusid": 2,
    }
    record |= {
        "id": "0704.0001",
        "_id": text,
        "externalids": {"ArXiv": text, "DOI": text},
        "authors": [{"name": text}],
    }
    return orjson.dumps(record)


def run(setting: Setting) -> Iterator[Row]:
    with Library.open(sample(setting)) as library:
        yield _errors(setting, parsers() | {"Library": _of_library(library)})
    yield from _linear(setting)
    yield from _heads(setting)


METHODS: Final = (
    *(
        "search",
        "search_batch",
        "match_title",
        "match_titles",
        "check_references",
        "paper",
        "papers",
        "citations",
        "references",
        "similar",
        "expand",
    ),
)


def _of_library(library: Library) -> Parser:
    """Calls of a library's methods with values of any type."""
    names = st.sampled_from(
        ("limit", "offset", "fields", "from_", "as_of", "category", "exclude", "within", "hops")
    )
    calls = st.tuples(st.sampled_from(METHODS), values | texts, st.dictionaries(names, values, max_size=2))

    def call(given_: tuple[str, Any, dict[str, Any]]) -> Any:
        name, value, others = given_
        method = getattr(library, name)
        known = inspect.signature(method).parameters
        takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values())
        return method(value, **{key: other for key, other in others.items() if takes_any or key in known})

    return Parser(call, calls)


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

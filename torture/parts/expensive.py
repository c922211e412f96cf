"""A search for the most expensive request of each route, with the longest inputs that the limits allow.

Requests are dictionaries of choices. The search keeps the most expensive requests so far, changes some of their
choices, and mixes in new ones. Each request differs from all others, so that no cache answers it.
"""

from __future__ import annotations

import random
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import quote, urlencode

from benchmarks.servers import START_SECONDS, Server, ServerError, serving
from scholarbase.models.limits import (
    MAX_BATCH,
    MAX_IDS,
    MAX_PAPERS,
    MAX_PHRASES,
    MAX_QUERY_LENGTH,
    MAX_TITLES,
)
from torture.libraries import large
from torture.requests import Answer, request
from torture.rows import Row, Setting, say, shown
from torture.watch import watching

LIMIT_SECONDS: Final = 5.5
"""The time limit of a request, plus 10%."""
SHORT_SECONDS: Final = 1.0
TRIALS, IN_SLICE = 30, 2
ROUTE_SECONDS: Final = 60.0
MOST_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.1
IDLE_SHARE: Final = 0.2
Choices = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Facts:
    """What an attacker can learn from the library: its common words, prefixes, venues and most cited papers."""

    words: list[str]
    prefixes: list[str]
    pairs: list[str]
    ids: list[str]
    """The most cited first."""
    venues: list[str]
    text: str

    @classmethod
    def of(cls, library: Path) -> Facts:
        uri = f"file:{library / 'catalog.sqlite'}?mode=ro&immutable=1"
        with closing(sqlite3.connect(uri, uri=True)) as db:
            texts = [row[0] for row in db.execute("SELECT abstract FROM abstracts LIMIT 3000")]
            ids = [
                f"arXiv:{row[0]}" if row[0] else f"CorpusId:{row[1]}"
                for row in db.execute(
                    "SELECT arxiv_id, corpus_id FROM papers ORDER BY "
                    "(SELECT count(*) FROM edges WHERE cited = papers.id) DESC, citation_count DESC LIMIT ?",
                    (MAX_IDS,),
                )
            ]
            venues = [
                row[0] for row in db.execute("SELECT DISTINCT venue FROM papers WHERE venue > '' LIMIT 1000")
            ]
        split = [re.findall(r"[a-z]+", text.lower()) for text in texts]
        words = Counter(word for text in split for word in set(text))
        pairs = Counter(f"{a} {b}" for text in split for a, b in set(pairwise(text)))
        prefixes = Counter(word[:2] for word in words.elements() if len(word) > 1)
        return cls(
            [word for word, _ in words.most_common(2000)],
            [prefix for prefix, _ in prefixes.most_common(60)],
            [pair for pair, _ in pairs.most_common(2000)],
            ids,
            venues or ["arXiv.org"],
            " ".join(texts[:40]),
        )


class Space:
    """The values that each choice can have."""

    def __init__(self, facts: Facts, chance: random.Random) -> None:
        self.facts = facts
        self._chance = chance
        self._number = 0
        choice = chance.choice
        searching: dict[str, Callable[[], Any]] = {
            "q": self._q,
            "engine": lambda: choice(["fts5", "fts5", "bm25", "feedback", None]),
            "limit": lambda: choice([1000, 1000, 100, 10]),
            "offset": lambda: choice([0, 0, 5000, 9000]),
            "exact": lambda: choice([True, True, None]),
            "explain": lambda: choice([True, None]),
            "format": lambda: choice(["text", None, None]),
            "max_tokens": lambda: choice([100, 100_000, 10_000_000, None]),
        }
        filtering: dict[str, Callable[[], Any]] = {
            "exclude": lambda: choice([None, self._phrases()]),
            "exclude_ids": lambda: choice([None, self._ids(MAX_IDS)]),
            "within": lambda: choice([None, None, self._ids(MAX_IDS)]),
            "category": lambda: choice([None, None, ["hep-th", "cs"], [f"cs.{n}" for n in range(1000)]]),
            "venue": lambda: choice([None, None, facts.venues]),
            "from": lambda: choice([None, "1992", "2005-06"]),
            "as_of": lambda: choice([None, None, "2020-01-01"]),
        }
        titles: dict[str, Callable[[], Any]] = {
            "title": self._title,
            "min_score": lambda: choice([0.01, 0.3, 0.7]),
            "as_of": filtering["as_of"],
            "format": searching["format"],
            "max_tokens": searching["max_tokens"],
        }
        checking: dict[str, Callable[[], Any]] = {
            "references": lambda: choice(
                [
                    "\n".join(self._title() for _ in range(400)),
                    "@a{b, title={c}}\n" * 1000,
                    "@string{" * 100_000,
                ]
            ),
            "as_of": filtering["as_of"],
            "format": searching["format"],
            "max_tokens": searching["max_tokens"],
        }
        edges: dict[str, Callable[[], Any]] = {
            "paper_id": lambda: choice(facts.ids[:20]),
            "limit": searching["limit"],
            "offset": searching["offset"],
            "sort": lambda: choice([None, "date", "citation_count"]),
            "from": filtering["from"],
            "as_of": filtering["as_of"],
            "max_tokens": searching["max_tokens"],
        }
        expanding: dict[str, Callable[[], Any]] = {
            "seeds": lambda: self._ids(choice([MAX_IDS, MAX_IDS, 1000, 10])),
            "hops": lambda: choice([2, 2, 1]),
            "direction": lambda: choice(["both", "citations", "references"]),
            "limit": searching["limit"],
            "offset": searching["offset"],
            "max_tokens": searching["max_tokens"],
        } | filtering
        similar: dict[str, Callable[[], Any]] = {
            "paper_id": edges["paper_id"],
            **{name: searching[name] for name in ("limit", "exact", "explain", "format", "max_tokens")},
            "offset": lambda: choice([0, 0, 900]),
            **filtering,
        }
        self.searches = searching | filtering
        papers: dict[str, Callable[[], Any]] = {
            "ids": lambda: self._ids(MAX_IDS),
            "max_tokens": searching["max_tokens"],
            "format": searching["format"],
            "as_of": filtering["as_of"],
        }
        self.keys: dict[str, dict[str, Callable[[], Any]]] = {
            "GET /v1/search": {
                key: make for key, make in self.searches.items() if key not in ("exclude_ids", "within")
            },
            "POST /v1/search": self.searches,
            "POST /v1/search/batch": self.searches | {"count": lambda: choice([MAX_BATCH, 10])},
            "GET /v1/title-match": titles | {"limit": lambda: 100},
            "POST /v1/title-match/batch": titles | {"count": lambda: choice([MAX_TITLES, 100])},
            "POST /v1/references/check": checking,
            "POST /v1/papers/batch": papers,
            "GET /v1/papers/{paper_id}": {"paper_id": edges["paper_id"], "format": searching["format"]},
            "GET /v1/papers/{paper_id}/citations": edges,
            "GET /v1/papers/{paper_id}/references": edges,
            "GET /v1/papers/{paper_id}/similar": {
                key: make for key, make in similar.items() if key not in ("exclude_ids", "within")
            },
            "POST /v1/papers/{paper_id}/similar": similar,
            "POST /v1/expand": expanding,
            "POST /v1/tools/search_papers": self.searches,
            "POST /v1/tools/match_titles": titles | {"count": lambda: choice([MAX_TITLES, 100])},
            "POST /v1/tools/check_references": checking,
            "POST /v1/tools/get_papers": papers,
            "POST /v1/tools/get_citations": edges,
            "POST /v1/tools/get_references": edges,
            "POST /v1/tools/expand_papers": expanding,
            "POST /v1/sessions": {
                "query": lambda: "a" * choice([100, 10_000, 8_000_000]),
                "as_of": filtering["as_of"],
            },
            "GET /v1/sessions": {"limit": searching["limit"], "offset": searching["offset"]},
            "POST /v1/sessions/torture/report": {"answers": lambda: self._ids(choice([MAX_IDS, 350_000]))},
            "POST /v1/sessions/torture/answer": {"ids": lambda: self._ids(choice([MAX_IDS, 350_000]))},
            "GET /v1/sessions/torture": {},
            "GET /v1/sessions/torture/report": {},
            "GET /v1/tools": {
                "format": lambda: choice(["openai", "mcp"]),
                "strict": lambda: choice([None, "true"]),
            },
            "GET /v1/snapshot": {},
            "GET /metrics": {},
            "GET /healthz": {},
            "GET /readyz": {},
            "GET /openapi.json": {},
            "GET /docs": {},
            "POST /mcp": self.searches,
        }

    def new(self, route: str) -> Choices:
        return {key: make() for key, make in self.keys[route].items()}

    def changed(self, route: str, parent: Choices) -> Choices:
        keys = self.keys[route]
        if not keys:
            return {}
        some = self._chance.sample(sorted(keys), min(len(keys), self._chance.randint(1, 2)))
        return parent | {key: keys[key]() for key in some}

    def _q(self) -> str:
        facts, chance = self.facts, self._chance
        prefixes = chance.sample(facts.prefixes[:30], 10)
        common = facts.words[: chance.choice([20, 240])]
        kinds: list[Callable[[], str]] = [
            lambda: " OR ".join(f"{prefix}*" for prefix in prefixes),
            lambda: " AND ".join(f"{prefix}*" for prefix in prefixes),
            lambda: " OR ".join(common),
            lambda: " AND ".join(facts.words[:10]),
            lambda: " OR ".join(f'"{pair}"' for pair in facts.pairs[:100]),
            lambda: "the " + " ".join(f"NOT {word}" for word in facts.words[500:700]),
            lambda: f"({' OR '.join(common[:100])}) NOT ({' OR '.join(facts.words[900:1000])})",
            lambda: " ".join(f"title:{word}" for word in facts.words[:100]),
            lambda: f"NEAR({' '.join(facts.words[:20])}, 1000)",
            lambda: facts.text[:MAX_QUERY_LENGTH],
            lambda: " ".join(facts.words)[:MAX_QUERY_LENGTH],
            lambda: f'"{facts.text[:2000]}"',
            lambda: "a" * 9000 + "*",
        ]
        return chance.choice(kinds)()

    def _phrases(self) -> list[str]:
        chance, pairs = self._chance, self.facts.pairs
        return [" ".join(chance.sample(pairs[:50], chance.choice([1, 20])))[:480] for _ in range(MAX_PHRASES)]

    def _ids(self, count: int) -> list[str]:
        known = self.facts.ids
        return [known[n % len(known)] for n in range(count)]

    def _title(self) -> str:
        words, chance = self.facts.words, self._chance
        kinds = [
            " ".join(words[:60]),
            " ".join(chance.sample(words[:200], 60)),
            " ".join(words)[:1900],
            "a" + "\u0315\u0300" * 950,
            "x" * 1900,
        ]
        return chance.choice(kinds)

    def sent(self, route: str, choices: Choices) -> tuple[str, str, Any]:
        """Method, path and body. A number makes each request different."""
        self._number += 1
        method, path = route.split()
        body: Any = {key: value for key, value in choices.items() if value is not None}
        for key in ("q", "title"):
            if key in body:
                body[key] = f"{body[key][: MAX_QUERY_LENGTH - 20]} x{self._number}"
        paper = body.pop("paper_id", None)
        if paper is not None:
            if "{paper_id}" in path:
                path = path.replace("{paper_id}", quote(paper))
            else:
                body["paper_id"] = paper
        if (count := body.pop("count", None)) is not None:
            body = _batch(route, body, count)
        if "seeds" in body or "ids" in body:
            body.pop("title", None)
        if path == "/mcp":
            call = {"name": "search_papers", "arguments": body}
            body = {"jsonrpc": "2.0", "id": self._number, "method": "tools/call", "params": call}
        if method == "GET":
            flat = [(key, _text(item)) for key, value in body.items() for item in _listed(value)]
            return method, path + (f"?{urlencode(flat)}" if flat else ""), None
        return method, path, body


def _batch(route: str, body: Choices, count: int) -> Choices:
    size = {key: body.pop(key) for key in ("format", "max_tokens") if key in body}
    if "title" in body:
        title = body.pop("title")
        return (
            body
            | size
            | {"titles": [f"{title[:1900]} {n}" for n in range(count)], "limit": MAX_PAPERS // count}
        )
    body["limit"] = min(body.get("limit") or 10, MAX_PAPERS // count)
    # The body itself is limited too: only the first searches have the long lists.
    short = {key: value for key, value in body.items() if not (isinstance(value, list) and len(value) > 100)}
    searches = [(body if n < 20 else short) | {"q": f"{body['q'][:9900]} y{n}"} for n in range(count)]
    return size | {"searches": searches}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True, slots=True)
class Trial:
    """One request and what it cost. ``over`` is when the server had nothing more to do with it."""

    choices: Choices
    seconds: float
    over: float
    cpu: float
    answer: Answer

    @property
    def cost(self) -> float:
        return max(self.seconds, self.over)


class Attacked:
    """A server that is started anew where a request keeps it busy."""

    def __init__(self, library: Path) -> None:
        self._library = library
        self._stack = ExitStack()
        self.server = self._start()

    def _start(self) -> Server:
        folder = self._stack.enter_context(TemporaryDirectory())
        server = self._stack.enter_context(serving(self._library, workers=1, SCHOLARBASE_SESSIONS=folder))
        request(server.url, "POST", "/v1/sessions", {"session": "torture"})
        headers = {"X-ScholarBase-Session": "torture"}
        for n in range(50):
            request(server.url, "GET", f"/v1/search?q=theory+{n}&limit=100", headers=headers)
        return server

    def close(self) -> None:
        self._stack.close()

    def trial(self, space: Space, route: str, choices: Choices) -> Trial:
        method, path, body = space.sent(route, choices)
        headers = {"Accept": "application/json, text/event-stream"} if path == "/mcp" else None
        before, began = self.server.cpu_seconds(), time.monotonic()
        answer = request(self.server.url, method, path, body, headers=headers, timeout=MOST_SECONDS)
        over, used = answer.seconds, self.server.cpu_seconds()
        while True:
            time.sleep(POLL_SECONDS)
            now = self.server.cpu_seconds()
            if now - used < POLL_SECONDS * IDLE_SHARE:
                break
            used, over = now, time.monotonic() - began
            if over > 2 * MOST_SECONDS:
                self._stack.close()
                self._stack = ExitStack()
                self.server = self._start()
                return Trial(choices, answer.seconds, over, used - before, answer)
        return Trial(choices, answer.seconds, over, used - before, answer)


def run(setting: Setting) -> Iterator[Row]:
    library = large(setting)
    space = Space(Facts.of(library), random.Random(15))
    attacked = Attacked(library)
    try:
        for route in IN_SLICE_ROUTES if setting.is_slice else space.keys:
            row = _route(attacked, space, route, setting)
            say(f"{route}: {row.figure}")
            yield row
        with watching(attacked.server) as watched:
            for route in ("POST /v1/search", "POST /v1/search/batch", "POST /v1/expand"):
                attacked.trial(space, route, space.new(route))
        faults = attacked.server.log().count("Traceback")
    finally:
        attacked.close()
    seen = watched.seen
    yield Row("expensive", "Health within 1 s", "during new ones", seen.health(), seen.is_healthy(setting))
    yield Row("expensive", "No unhandled error", "the server's log", f"{faults} tracebacks", not faults)
    yield from _timeouts(library, space, setting)


IN_SLICE_ROUTES: Final = ("POST /v1/expand",)


def _route(attacked: Attacked, space: Space, route: str, setting: Setting) -> Row:
    trials: list[Trial] = []
    wrong: set[int | None] = set()
    chance = random.Random(route)
    began = time.monotonic()
    wanted = setting.count(TRIALS if space.keys[route] else 3, IN_SLICE)
    while len(trials) < wanted and time.monotonic() < began + ROUTE_SECONDS:
        fitting = sorted(trials, key=lambda trial: -trial.cost)[:4]
        is_new = not fitting or len(trials) < wanted // 2 or chance.random() < 0.2
        choices = space.new(route) if is_new else space.changed(route, chance.choice(fitting).choices)
        trial = attacked.trial(space, route, choices)
        trials.append(trial)
        status = trial.answer.status
        if status is None or (status >= 500 and status not in (503, 504)):
            wrong.add(status)
    worst = max(trials, key=lambda trial: trial.cost)
    refused = sum(trial.answer.status == 400 for trial in trials)
    figure = f"{worst.seconds:.2f} s, {worst.cpu:.2f} s of CPU, status {worst.answer.status}"
    if worst.over > worst.seconds + POLL_SECONDS:
        figure += f", busy for {worst.over:.1f} s"
    if wrong:
        figure += f"; without a proper response: {', '.join(map(str, wrong))}"
    tested = f"{route}, {len(trials)} requests ({refused} refused); the most expensive: {_described(worst.choices)}"
    kept = worst.cost <= setting.seconds(LIMIT_SECONDS) + POLL_SECONDS and not wrong
    return Row("expensive", "The most expensive request ends within 5.5 s", tested, figure, kept)


def _timeouts(library: Path, space: Space, setting: Setting) -> list[Row]:
    """Requests with a shorter time limit, from the server's setting and from the request."""
    facts = space.facts
    prefixes = " OR ".join(f"{prefix}*" for prefix in facts.prefixes[:10])
    search = {"q": prefixes, "engine": "fts5", "limit": 1000, "exact": True}
    searches = [{"q": f"{prefixes} x{n}", "engine": "fts5", "limit": 100} for n in range(100)]
    requests: list[tuple[str, Choices]] = [
        ("/v1/search", search),
        ("/v1/search/batch", {"searches": searches}),
        ("/v1/expand", {"seeds": facts.ids, "hops": 2, "limit": 1000}),
    ]
    rows = []
    for promise, environment, more in (
        ("SCHOLARBASE_TIMEOUT holds", {"SCHOLARBASE_TIMEOUT": str(SHORT_SECONDS)}, {}),
        ("A request's own timeout holds", {}, {"timeout": SHORT_SECONDS}),
    ):
        figures, wrong = [], []
        try:
            with serving(
                library, workers=1, start_seconds=START_SECONDS, SCHOLARBASE_SESSIONS="none", **environment
            ) as server:
                for path, body in requests:
                    found = request(server.url, "POST", path, body | more, timeout=MOST_SECONDS)
                    figures.append(f"{path} {found.seconds:.2f} s, status {found.status}")
                    if found.status not in (200, 504) or found.seconds > setting.seconds(1.1 * SHORT_SECONDS):
                        wrong.append(figures[-1])
        except ServerError as error:
            wrong.append(str(error))
        figure = shown(wrong) or "; ".join(figures)
        rows.append(
            Row(
                "expensive",
                promise,
                f"a limit of {SHORT_SECONDS:g} s, {len(requests)} requests",
                figure,
                not wrong,
            )
        )
    return rows


def _described(choices: Choices) -> str:
    parts = []
    for key, value in choices.items():
        if value is None:
            continue
        if isinstance(value, list):
            parts.append(f"{len(value):,} {key}")
        else:
            text = str(value)
            parts.append(
                f"{key} {text if len(text) <= 40 else f'{text[:30]}... of {len(text):,} characters'}"
            )
    return ", ".join(parts) or "no parameters"

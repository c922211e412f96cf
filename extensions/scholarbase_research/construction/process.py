"""The answer set of one question: rewrites, retrieval, prefilter, judges, expansion.

Everything is computed in a fixed order from what is stored, and what is missing is requested and stored first. So an
interrupted question continues, and ends with the same rows.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, field
from typing import Any, Final, NamedTuple

from scholarbase.errors import InvalidRequest
from scholarbase.models.papers import Paper
from scholarbase.models.source import Source
from scholarbase_research.construction.judging import Decision, Panel, Verdicts
from scholarbase_research.construction.prefilter import Evidence, Filtered, Prefilter
from scholarbase_research.construction.rewrites import Rewriter
from scholarbase_research.construction.settings import Limits
from scholarbase_research.construction.sources import LibrarySource
from scholarbase_research.construction.store import Expansion, Store
from scholarbase_research.evaluation.queries import Query
from scholarbase_research.llm.base import Price

CHUNK: Final = 32
"""Papers that are judged between two looks at the limits."""
_FIELDS: Final = ("id", "title", "abstract", "year", "venue", "categories", "status")
_BATCH: Final = 1000
_FUSION_K: Final = 60
NO_SEED, HOPS, ANSWERS, JUDGED = "no seed left", "last hop", "answer limit", "judged limit"


class Cancelled(Exception):
    """Another question failed, and the job ends."""


@dataclass(frozen=True)
class Setup:
    """How the answers of questions are found and judged. ``prices`` are by the name of a model or judge."""

    sources: Sequence[LibrarySource]
    rewriter: Rewriter
    panel: Panel
    limits: Limits = field(default_factory=Limits)
    prices: Mapping[str, Price] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [source.name for source in self.sources]
        if not names:
            raise InvalidRequest("There are no sources of candidates: give --source.")
        if len(set(names)) < len(names):
            raise InvalidRequest(
                f"--source names {max(names, key=names.count)} twice: name each source once."
            )

    @property
    def identity(self) -> dict[str, Any]:
        """What the rows depend on, besides the questions and the library."""
        return {
            "sources": [source.name for source in self.sources],
            "rewriter": self.rewriter.name,
            "panel": self.panel.identity,
            "limits": asdict(self.limits),
        }


@dataclass(frozen=True)
class Parts:
    """What the questions of a job share. ``check`` raises Cancelled when the job ends."""

    source: Source
    setup: Setup
    store: Store
    executor: Executor
    check: Callable[[], None]


class Answered(NamedTuple):
    """The end of a question: why it stopped, and how many papers were judged and are answers."""

    stop: str
    judged: int
    answers: int


def construct(parts: Parts, query: Query) -> Answered:
    """Find and judge the answers of one question, and store them.

    Raises:
        ScholarBaseError: a source, a judge or the store fails. What was done is stored.
        Cancelled: the job ends.
    """
    return _Question(parts, query).run()


class _Question:
    def __init__(self, parts: Parts, query: Query) -> None:
        self._parts = parts
        self._query = query
        self._to = parts.setup.limits.latest(query.date)
        self._papers: dict[str, Paper] = {}
        self._filtered: dict[str, Filtered] = {}
        self._decisions: dict[str, Decision] = {}
        self._stop: str | None = None
        item = {"question": query.text, "query_id": query.id}
        self._verdicts = Verdicts(
            parts.setup.panel,
            item,
            parts.store.verdicts(query.id),
            lambda paper, turn, verdict: parts.store.add_verdict(query.id, paper, turn, verdict),
            parts.executor,
        )

    def run(self) -> Answered:
        texts = self._rewrite()
        evidence = self._retrieve(texts)
        self._compare(len(evidence))
        self._prefilter = Prefilter(self._parts.setup.limits.min_overlap, [text for _, text in texts])
        self._judge(evidence)
        seeds = self._strict(0)
        for hop in range(1, self._parts.setup.limits.hops + 1):
            if self._stop or not seeds:
                break
            self._judge(self._expand(seeds, hop))
            seeds = self._strict(hop)
        if self._stop is None:
            self._stop = HOPS if seeds else NO_SEED
        self._sample()
        return self._finish()

    # -- candidates -----------------------------------------------------------------------------------------

    def _rewrite(self) -> list[tuple[int, str]]:
        store, limits = self._parts.store, self._parts.setup.limits
        rewrites = store.rewrites(self._query.id)
        if not rewrites:
            rewritten = self._parts.setup.rewriter.rewrite(self._query.text, limits.rewrites, self._to)
            store.add_rewrites(self._query.id, self._parts.setup.rewriter.name, rewritten)
            rewrites = list(rewritten.rewrites)
        return [(rewrite.number, rewrite.text) for rewrite in rewrites]

    def _retrieve(self, texts: Sequence[tuple[int, str]]) -> dict[str, Evidence]:
        """The evidence of each paper of the pool."""
        store, depth = self._parts.store, self._parts.setup.limits.depth
        done = store.searched(self._query.id)
        for number, text in texts:
            for source in self._parts.setup.sources:
                if (number, source.name) in done:
                    continue
                self._parts.check()
                store.add_search(self._query.id, number, source.name, source.search(text, depth, self._to))
        ranks: dict[str, list[int]] = defaultdict(list)
        for rank, paper in store.results(self._query.id):
            ranks[paper].append(rank)
        return {
            paper: Evidence(
                0, len(of_paper), min(of_paper), sum(1 / (_FUSION_K + rank) for rank in sorted(of_paper))
            )
            for paper, of_paper in ranks.items()
        }

    def _compare(self, depth: int) -> None:
        """One plain search with as many results as the pool has papers."""
        store = self._parts.store
        if not depth or store.rows("SELECT 1 FROM plain WHERE question = ?", (self._query.id,)):
            return
        hits = self._parts.source.iter_search(
            self._query.text, syntax="plain", limit=depth, to=self._to, fields=["id"]
        )
        store.add_plain(self._query.id, [hit.paper.id for hit in hits])

    def _expand(self, seeds: Sequence[str], hop: int) -> dict[str, Evidence]:
        """The evidence of each paper that the seeds cite or that cites one, without those that were judged."""
        stored = self._parts.store.expansions(self._query.id)
        reached: dict[str, set[str]] = defaultdict(set)
        for seed in seeds:
            for direction in ("citations", "references"):
                self._parts.check()
                expansion = stored.get((seed, direction))
                if expansion is None:
                    expansion = self._neighbours(seed, direction)
                    self._parts.store.add_expansion(self._query.id, hop, expansion)
                for paper in expansion.papers:
                    reached[paper].add(seed)
        evidence = {}
        for paper, by in reached.items():
            if paper in self._decisions:
                continue
            before = self._filtered[paper].evidence if paper in self._filtered else Evidence(hop, 0, None)
            evidence[paper] = before._replace(hop=hop, routes=before.routes + len(by))
        return evidence

    def _neighbours(self, seed: str, direction: str) -> Expansion:
        source, limit = self._parts.source, self._parts.setup.limits.citations
        if direction == "citations" and limit == 0:
            return Expansion(seed, direction, 0, ())
        if direction == "citations":
            page = source.citations(seed, limit=limit, to=self._to, fields=["id"])
            return Expansion(
                seed, direction, page.total, tuple(citation.paper.id for citation in page.results)
            )
        papers: list[str] = []
        offset: int | None = 0
        total = 0
        while offset is not None:
            page = source.references(seed, limit=_BATCH, offset=offset, to=self._to, fields=["id"])
            papers += [reference.paper.id for reference in page.results]
            offset, total = page.next_offset, page.total
        return Expansion(seed, direction, total, tuple(dict.fromkeys(papers)))

    def _read(self, ids: Sequence[str]) -> None:
        """Read the papers that were not read yet."""
        missing = sorted(paper for paper in ids if paper not in self._papers)
        for start in range(0, len(missing), _BATCH):
            batch = missing[start : start + _BATCH]
            for requested, paper in zip(batch, self._parts.source.papers(batch, fields=_FIELDS), strict=True):
                if paper is not None:
                    self._papers[requested] = paper

    # -- judging --------------------------------------------------------------------------------------------

    def _judge(self, evidence: Mapping[str, Evidence]) -> None:
        """Filter candidates, and judge those that are kept, best first, up to the limits."""
        self._read(list(evidence))
        candidates = {paper: item for paper, item in evidence.items() if paper in self._papers}
        rows = self._prefilter.filter(candidates, self._papers)
        self._filtered.update({row.paper: row for row in rows})
        waiting = [row.paper for row in rows if row.kept]
        while waiting and self._stop is None:
            self._parts.check()
            left = self._parts.setup.limits.judged - len(self._decisions)
            if left <= 0:
                self._stop = JUDGED
                return
            chunk, waiting = waiting[: min(CHUNK, left)], waiting[min(CHUNK, left) :]
            self._decide(chunk)
            answers = sum(decision.decision == "strict" for decision in self._decisions.values())
            if answers >= self._parts.setup.limits.answers:
                self._stop = ANSWERS

    def _decide(self, papers: Sequence[str]) -> None:
        decided = self._verdicts.decide([self._papers[paper] for paper in papers])
        self._decisions.update({decision.paper: decision for decision in decided})

    def _strict(self, hop: int) -> list[str]:
        """The strict matches of a hop, in the order in which they were judged."""
        return [
            paper
            for paper, decision in self._decisions.items()
            if decision.decision == "strict" and self._filtered[paper].evidence.hop == hop
        ]

    def _sample(self) -> None:
        """Judge some of the papers that the prefilter dropped, drawn by a hash."""
        limits = self._parts.setup.limits
        dropped = [paper for paper, row in self._filtered.items() if not row.kept]
        size = max(0, min(limits.sample, limits.judged - len(self._decisions)))
        drawn = sorted(dropped, key=lambda paper: _hash(limits.seed, self._query.id, paper))[:size]
        for start in range(0, len(drawn), CHUNK):
            self._parts.check()
            self._decide(drawn[start : start + CHUNK])

    def _finish(self) -> Answered:
        answers = 0
        decisions = []
        for position, decision in enumerate(self._decisions.values(), 1):
            is_answer = decision.decision == "strict" and answers < self._parts.setup.limits.answers
            answers += is_answer
            score = None if decision.score is None else round(decision.score, 6)
            decisions.append((self._query.id, *decision._replace(score=score), position, is_answer))
        assert self._stop is not None
        self._parts.store.finish(
            self._query.id, self._stop, [self._row(r) for r in self._filtered.values()], decisions
        )
        return Answered(self._stop, len(decisions), answers)

    def _row(self, row: Filtered) -> tuple[Any, ...]:
        evidence = row.evidence
        facts = (evidence.hop, evidence.routes, evidence.best_rank, row.overlap, row.kept, row.reason)
        return (self._query.id, row.paper, *facts)


def _hash(seed: int, question: str, paper: str) -> bytes:
    return hashlib.sha256(f"{seed}\n{question}\n{paper}".encode()).digest()

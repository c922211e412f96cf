"""Reranking: the last stage of a search, which a request may ask for.

A reranker scores the title and abstract of each of the first papers. They are sorted by its scores, or by the sum of
these and their scores in the search, each weighted and scaled to between 0 and 1; ties keep their order. The papers
behind them keep their places, as do those for which a time budget is not enough. A score belongs to a place: the paper
that comes to place k gets the score that was at place k, so that scores descend over all pages. The reranker's own
score is in the explanation.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context
from time import perf_counter
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from scholarbase.deadlines import DEADLINE, check, time_limit
from scholarbase.encoders import document_text
from scholarbase.errors import Cancelled, RerankerError, TimeLimit
from scholarbase.extensions import FAILURES
from scholarbase.indexes.catalog import Catalog
from scholarbase.indexes.vectors.base import ScoredId
from scholarbase.models.responses import FailedLeg, LegExplanation
from scholarbase.rerankers.base import MAX_TEXT_LENGTH, RERANKING, Reranker, Scores, check_scores
from scholarbase.search.cache import Cache
from scholarbase.timing import stages

log = logging.getLogger("scholarbase.ranking")

RERANK: Final = "rerank"
"""The name of the stage in explanations, times and failed legs."""
CACHED_LISTS: Final = 512
"""Lists whose scores are cached, 3 MB at most. All pages of a list have the same scores, even if those of a service
vary from request to request."""
BATCH_IN_BUDGET: Final = 8
"""Papers that are scored between two looks at a time budget. A small cross-encoder takes 0.2 s for them on a CPU."""
THREADS: Final = 8
"""Rerankers' calls of a library that a search may stop waiting for, at once."""
POLL_SECONDS: Final = 0.1
"""How often a search that waits for a reranker looks whether its client is still there."""
RESERVED_SECONDS: Final = 1.0
"""The part of a time limit that remains for the response after a reranker that took too long, half of it at most."""


class Reranked(NamedTuple):
    """A list after reranking, and the explanation of each paper that was scored."""

    hits: list[ScoredId]
    explanations: Mapping[int, LegExplanation]

    def explain(
        self, explanations: Mapping[int, tuple[LegExplanation, ...]]
    ) -> dict[int, tuple[LegExplanation, ...]]:
        """The explanations of a page with those of the reranker behind the others."""
        return {
            number: (*legs, self.explanations[number]) if number in self.explanations else legs
            for number, legs in explanations.items()
        }


class Reranking:
    """The rerankers of an open library, by their names in requests. Thread-safe."""

    def __init__(self, papers: Catalog, rerankers: Mapping[str, Reranker]) -> None:
        self._catalog = papers
        self._rerankers = rerankers
        self._scores: Cache[Scores] = Cache(CACHED_LISTS)
        self._threads = ThreadPoolExecutor(THREADS, "reranking")

    def forget(self) -> None:
        """Empty the cache of scores."""
        self._scores.clear()

    def rerank(
        self,
        name: str,
        text: str,
        hits: list[ScoredId],
        first: int,
        last: int,
        *,
        partial: bool,
        weight: float | None = None,
        milliseconds: int | None = None,
    ) -> Reranked | FailedLeg | None:
        """Sort ``hits[first:last]`` by the scores of the reranker ``name`` for ``text``, the query.

        ``weight`` is the part of these scores in the order; None is the reranker's own, else 1.
        After ``milliseconds`` no further batch is scored, nor one that would end later if it took as long as the
        longest before; the first one always is. Papers without a score stay behind those with one, in their order.
        With ``partial``, a failure is returned. With ``partial`` or ``milliseconds``, some time remains for the
        response: a batch is not waited for any longer, and None is returned if it is the first one within a budget.

        Raises:
            RerankerError: the reranker failed.
            TimeLimit: it took longer than the time limit, without ``partial`` and ``milliseconds``.
            Cancelled: the client disconnected.
            LibraryCorrupt: a paper cannot be read.
        """
        start = perf_counter()
        candidates = hits[first:last]
        try:
            with time_limit(_limit() if partial or milliseconds else None):
                scores = self._score(name, text, tuple(hit.id for hit in candidates), milliseconds, partial)
        except (RerankerError, TimeLimit) as error:
            is_late = milliseconds is not None and isinstance(error, TimeLimit)
            if not partial and not is_late:
                raise
            log.warning("leg %s failed: %s", RERANK, error)
            return FailedLeg(RERANK, error.for_clients) if partial else None
        finally:
            stages().append((RERANK, start, perf_counter()))
        reranked = list(hits)
        explanations = {}
        if weight is None:
            weight = getattr(self._rerankers[name], "weight", 1.0)
        order = scores
        if weight < 1:
            before = np.array([hit.score for hit in candidates[: len(scores)]])
            order = (1 - weight) * _scaled(before) + weight * _scaled(scores)
        for position, row in enumerate(np.argsort(-order, kind="stable").tolist()):
            paper_id, score_before = candidates[row]
            score = candidates[position].score
            reranked[first + position] = ScoredId(paper_id, score)
            explanations[paper_id] = LegExplanation(
                RERANK, position + 1, float(scores[row]), score - score_before
            )
        return Reranked(reranked, explanations)

    def _score(
        self, name: str, text: str, ids: tuple[int, ...], milliseconds: int | None, partial: bool
    ) -> Scores:
        """The scores of the papers, of the first ones if the time budget or limit is over before the last."""

        def score() -> Scores:
            start, longest = perf_counter(), 0.0
            papers = self._catalog.papers(ids, ("title", "abstract"))
            texts = [document_text(paper.title or "", paper.abstract)[:MAX_TEXT_LENGTH] for paper in papers]
            size = len(texts) if milliseconds is None else BATCH_IN_BUDGET
            call = self._called_in_thread if milliseconds or partial else self._called
            scores: list[Scores] = []
            for offset in range(0, len(texts), size):
                batch = perf_counter()
                if milliseconds and scores and batch - start + longest > milliseconds / 1000:
                    break
                try:
                    scores.append(call(name, text, texts[offset : offset + size]))
                except TimeLimit:
                    if not scores:
                        raise
                    break
                longest = max(longest, perf_counter() - batch)
            return np.concatenate(scores)

        return self._scores.get((name, text, ids, milliseconds), score)

    def _called_in_thread(self, name: str, text: str, texts: list[str]) -> Scores:
        """As :meth:`_called`, but waits no longer than the time limit, at which a running call goes on unheard."""
        deadline = DEADLINE.get()
        if deadline is None:
            return self._called(name, text, texts)
        check(*RERANKING)
        call = self._threads.submit(copy_context().run, self._called, name, text, texts)
        while not wait([call], min(POLL_SECONDS, max(deadline.remaining, 0))).done:
            if deadline.remaining <= 0:
                call.cancel()
                raise deadline.late()
        return call.result()

    def _called(self, name: str, text: str, texts: list[str]) -> Scores:
        """A reranker's scores: finite, one for each text.

        Raises:
            RerankerError: it failed, or returned something else.
            TimeLimit, Cancelled: as :meth:`.Reranker.score`.
        """
        source = f"The reranker {name!r}"
        check(*RERANKING)
        try:
            with np.errstate(over="ignore"):  # infinite, which is an error below
                scores = np.asarray(self._rerankers[name].score(text, list(texts)), dtype=np.float32)
        except (TimeLimit, Cancelled):
            raise
        except RerankerError as error:
            if error.public is not None:
                error.public = f"{source} failed. {error.public}"
            raise
        except FAILURES as error:
            failed = RerankerError(
                f"{source} failed to score {len(texts)} texts ({type(error).__name__}: {error}): mend it, or leave "
                "rerank out."
            )
            failed.public = f"{source} failed to score {len(texts)} texts: leave rerank out."
            raise failed from error
        if scores.shape != (len(texts),):
            raise RerankerError(
                f"{source} returned scores of the shape {scores.shape} for {len(texts)} texts: mend it, so that it "
                "returns one for each text, or leave rerank out."
            )
        return check_scores(scores, source)


def _scaled(scores: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.float64]:
    """The scores between 0, the least, and 1, the greatest; zeros if all are equal."""
    shares = scores.astype(np.float64) - float(scores.min())
    return shares / (shares.max() or 1)


def _limit() -> float | None:
    """Seconds for a reranker whose failure must not fail the request."""
    deadline = DEADLINE.get()
    if deadline is None:
        return None
    left = max(deadline.remaining, 0.0)
    return round(left - min(RESERVED_SECONDS, left / 2), 3)

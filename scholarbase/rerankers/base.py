"""The reranker protocol, and what the kinds share: turns, batches and the check of scores."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from scholarbase.deadlines import check, turn
from scholarbase.errors import RerankerError, ScholarBaseError

Scores = npt.NDArray[np.float32]

RERANKING: Final = ("Reranking", "use a smaller rerank_depth, or leave rerank out")
"""Activity and advice for the error at the time limit."""
BATCH_SIZE: Final = 16
"""Texts that a model scores between two checks of the time limit."""
MAX_TEXT_LENGTH: Final = 32_768
"""Characters of a title and abstract that are scored: as many as BGE-M3's 8,192 tokens have."""


class Reranker(Protocol):
    """Scores texts for a query. Safe to call from several threads.

    One with the attribute ``weight``, from 0 to 1, has this part in the order by default, as if a request had
    ``rerank_weight``; without it, its scores alone decide.
    """

    @property
    def name(self) -> str:
        """The model's name without a path, or the address of its service."""
        ...

    @property
    def fingerprint(self) -> str | None:
        """A hash of the model's files; None for a service, whose files are unknown."""
        ...

    def score(self, query: str, texts: Sequence[str]) -> Scores:
        """The score of each text, of shape (n,) and finite. The best text has the highest score.

        Raises:
            RerankerError: the model or the service behind it fails.
            TimeLimit: the time limit of the context is reached.
            Cancelled: the client disconnected.
        """
        ...

    def close(self) -> None:
        """Release the model or close the connections."""
        ...


class LocalReranker(ABC):
    """A model in the process, which scores batches of texts. One call runs at a time, and others wait.

    Args:
        name, fingerprint: those of the model.
        device: the model's device, for messages.
    """

    def __init__(self, name: str, fingerprint: str, device: str) -> None:
        self._name = name
        self._fingerprint = fingerprint
        self._device = device
        self._lock = threading.Lock()
        self._is_closed = False

    @property
    def name(self) -> str:
        return self._name

    @property
    def fingerprint(self) -> str:
        return self._fingerprint

    def score(self, query: str, texts: Sequence[str]) -> Scores:
        """See :meth:`Reranker.score`. The time limit is checked before each batch."""
        # Longest first: there is little padding, and a batch that does not fit in memory fails early.
        order = sorted(range(len(texts)), key=lambda index: -len(texts[index]))
        scores = np.empty(len(texts), dtype=np.float32)
        check(*RERANKING)
        with turn(self._lock):
            if self._is_closed:
                raise closed(self._name)
            try:
                scorer = self._scorer(query) if texts else None
                for start in range(0, len(order), BATCH_SIZE):
                    check(*RERANKING)
                    batch = order[start : start + BATCH_SIZE]
                    assert scorer is not None
                    scores[batch] = scorer([texts[index] for index in batch])
            except ScholarBaseError:
                raise
            except Exception as error:
                raise RerankerError(
                    f"The model {self._name} failed to score {len(texts)} texts on {self._device} "
                    f"({type(error).__name__}: {error}): if memory ran out, use another device."
                ) from error
        return check_scores(scores, f"The model {self._name}")

    def close(self) -> None:
        """Release the model. Scoring after this raises RerankerError."""
        with self._lock:
            self._is_closed = True
            self._release()

    @abstractmethod
    def _scorer(self, query: str) -> Callable[[list[str]], npt.ArrayLike]:
        """A function from a batch of texts to their scores for the query."""

    @abstractmethod
    def _release(self) -> None:
        """Drop the references to the model."""


def check_scores(scores: Scores, source: str) -> Scores:
    """The scores, if all are finite. ``source`` is the reranker, for the error."""
    bad = np.flatnonzero(~np.isfinite(scores))
    if bad.size:
        raise RerankerError(
            f"{source} returned the score {scores[bad[0]]} for text {bad[0] + 1} of {len(scores)}, which is not a "
            "finite number: check the model's files and its device."
        )
    return scores


def closed(name: str) -> RerankerError:
    return RerankerError(f"The reranker {name} is closed: open the library again.")

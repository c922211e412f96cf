"""Scores of texts for a query, by models that read both: one protocol, several kinds."""

from scholarbase.rerankers.base import Reranker
from scholarbase.rerankers.registry import open_reranker

__all__ = ["Reranker", "open_reranker"]

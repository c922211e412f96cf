"""Scores of texts for a query, by models that read both: one protocol, several kinds."""

from scholarbase.rerankers.base import Reranker

__all__ = ["Reranker", "open_reranker"]


def open_reranker(
    name: str, location: str, *, device: str | None = None, api_key: str | None = None
) -> Reranker:
    """Open a reranker: see :func:`scholarbase.rerankers.registry.open_reranker`."""
    from scholarbase.rerankers.registry import open_reranker as open_by_location  # keeps the import light

    return open_by_location(name, location, device=device, api_key=api_key)

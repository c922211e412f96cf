"""Several machines: Qdrant clusters, sessions in PostgreSQL, encoding on Ray, planning."""

from __future__ import annotations

from scholarbase.extensions import Extension


class Cluster(Extension):
    """Several machines: Qdrant clusters, sessions in PostgreSQL, encoding on Ray, planning."""

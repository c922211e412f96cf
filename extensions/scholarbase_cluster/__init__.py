"""Several machines: Qdrant clusters, sessions in PostgreSQL, encoding on Ray, planning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from scholarbase.extensions import Extension


class Cluster(Extension):
    """Several machines: Qdrant clusters, sessions in PostgreSQL, encoding on Ray, planning."""

    def commands(self) -> Mapping[str, str]:
        places = {"encode": "encode", "load": "qdrant", "plan": "plan", "unload": "qdrant"}
        return {name: f"scholarbase_cluster.cli.{module}:{name}" for name, module in places.items()}

    def session_stores(self) -> Mapping[str, Callable[[str], Any]]:
        def postgres(url: str) -> Any:
            from scholarbase_cluster.postgres import PostgresStorage

            return PostgresStorage(url)

        return {"postgres": postgres, "postgresql": postgres}

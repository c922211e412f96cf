"""Several machines: Qdrant clusters, sessions in PostgreSQL, encoding on Ray, planning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from scholarbase.extensions import Extension
from scholarbase.extras import check_installed
from scholarbase.settings import Settings


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

    def vector_indexes(self) -> Mapping[str, Callable[..., Any]]:
        def qdrant(address: str, library: Path, snapshot: str, settings: Settings) -> Any:
            check_installed("qdrant", "A Qdrant server as the vector index")
            from scholarbase_cluster.qdrant.server import open_collection

            return open_collection(snapshot, settings)

        return {"qdrant": qdrant}

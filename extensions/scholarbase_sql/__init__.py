"""SQL statements over the views of a library: the command ``sql`` and the routes of ``/v1/sql``.

The statements run in :mod:`.runner`, which tools for agents use too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scholarbase.extensions import Extension


class Sql(Extension):
    """SQL statements over the views of a library: the command ``sql`` and the routes of ``/v1/sql``."""

    def commands(self) -> Mapping[str, str]:
        return {"sql": "scholarbase_sql.command:sql"}

    def sql_runners(self) -> Sequence[Callable[..., Any]]:
        from scholarbase_sql.runner import SqlRunner

        return [SqlRunner]

    def routes(self) -> Sequence[Any]:
        from scholarbase_sql.routes import router

        return router.routes

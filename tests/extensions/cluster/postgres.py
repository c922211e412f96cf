"""A PostgreSQL server for tests, which are skipped where it is not installed."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

pytest.importorskip("psycopg")

from benchmarks.postgres import PASSWORD, QUOTED, Postgres, ProgramMissing
from benchmarks.postgres import running_postgres as running

__all__ = ["PASSWORD", "QUOTED", "Postgres", "running_postgres"]


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    with ExitStack() as stack:
        try:
            postgres = stack.enter_context(running())
        except ProgramMissing as error:
            pytest.skip(str(error))
        yield postgres

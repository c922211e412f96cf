"""The tests of recorded calls, in a database."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from scholarbase_cluster import postgres as module
from tests.extensions.cluster.postgres import Postgres
from tests.sessions import test_recording
from tests.sessions.test_recording import *  # noqa: F403

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def location(postgres: Postgres) -> str:
    """Where sessions are recorded: a database."""
    return postgres.url()


@contextmanager
def _held(location: str) -> Iterator[None]:
    with psycopg.connect(location) as connection:
        connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", (module._LOCKS, module._EVERY))
        yield


@pytest.fixture(autouse=True)
def _locks_of_a_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_recording, "held", _held)

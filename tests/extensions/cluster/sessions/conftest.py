"""A PostgreSQL server, and the tests of sessions in a folder again with it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.extensions.cluster.postgres import Postgres, running_postgres
from tests.sessions.conftest import _closed

__all__ = ["_closed"]

AGAIN = [Path(__file__).with_name(name) for name in ("test_recording.py", "test_store.py")]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that need a folder."""
    out = [one for one in items if one.path in AGAIN and "location" not in getattr(one, "fixturenames", ())]
    config.hook.pytest_deselected(items=out)
    items[:] = [one for one in items if one not in out]


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with running_postgres() as running:
        yield running

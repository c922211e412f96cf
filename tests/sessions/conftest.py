"""Agents are closed after each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.postgres import Postgres, running_postgres
from tests.sessions.agents import close_all


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    close_all()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with running_postgres() as running:
        yield running

"""Agents are closed after each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sessions.agents import close_all


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    close_all()

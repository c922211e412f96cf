"""Agents are closed after each test, and a file that cannot be written is tried again soon."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from scholarbase.sessions import writer
from scholarbase.sessions.store import SessionStore
from tests.sessions.agents import close_all


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    close_all()


@pytest.fixture(autouse=True)
def _retry_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "RETRY_SECONDS", 0.1)


@pytest.fixture
def file_store(tmp_path: Path) -> Iterator[SessionStore]:
    with SessionStore(tmp_path / "sessions") as opened:
        yield opened

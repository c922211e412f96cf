"""The sample: its catalogue, and a server that records sessions.

On a busy machine a call takes longer to be recorded than a response usually waits for its number.
"""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from scholarbase.search.library import Library
from tests.conftest import serving_in_thread
from tests.extensions.dialects.steps import by_doi
from tests.sessions.agents import wait_recorded


@pytest.fixture(scope="package", autouse=True)
def _wait_for_recorded_calls() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scholarbase.sessions.recording.WRITE_SECONDS", 60.0)
        yield


@pytest.fixture(scope="module")
def http(sample: Library, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    sessions = str(tmp_path_factory.mktemp("sessions"))
    with (
        serving_in_thread(sample, sessions=sessions) as url,
        httpx.Client(base_url=url, timeout=120) as client,
    ):
        yield client


@pytest.fixture(scope="session")
def tables(sample_library: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{sample_library / 'catalog.sqlite'}?immutable=1", uri=True)


def count(tables: sqlite3.Connection, where: str) -> int:
    """The number of papers."""
    return int(tables.execute(f"SELECT count(*) FROM papers AS p WHERE {where}").fetchone()[0])


def recorded(http: httpx.Client, name: str) -> list[dict[str, Any]]:
    """The calls of a session."""
    wait_recorded(str(http.base_url).rstrip("/"), name)
    lines = http.get(f"/v1/sessions/{name}").raise_for_status().text.splitlines()
    return [json.loads(line) for line in lines]


@pytest.fixture(scope="session")
def dois() -> dict[str, str]:
    return by_doi()

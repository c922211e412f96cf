"""``/v1/sql`` on a server: off by default, recorded, sized, and no reason for others to wait; and the command."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from scholarbase.client import AsyncClient, Client
from scholarbase.errors import InvalidSql, SqlOff
from scholarbase.search.library import Library
from scholarbase.settings import load_settings
from scholarbase_sql.views import NAMES
from tests.conftest import run_cli, serving_in_thread
from tests.sql_libraries import LATER, STRINGS, with_texts

TITLES: Final = "SELECT paper_id, title FROM papers ORDER BY paper_id"


@pytest.fixture(scope="module")
def library(sample_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    path = with_texts(sample_library, tmp_path_factory.mktemp("sql"))
    with Library.open(path, settings=load_settings(timeout=60)) as library:
        yield library


@pytest.fixture(scope="module")
def url(library: Library, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = str(tmp_path_factory.mktemp("sessions"))
    with serving_in_thread(library, sql=True, timeout=60, sessions=folder) as url:
        yield url


def post(url: str, query: str, session: str | None = None, **body: Any) -> httpx.Response:
    headers = {} if session is None else {"X-ScholarBase-Session": session}
    return httpx.post(f"{url}/v1/sql", json={"query": query, **body}, headers=headers)


def test_a_statement_is_answered(url: str, library: Library) -> None:
    response = post(url, f"SELECT page_number FROM pages WHERE paper_id = '{STRINGS}'", limit=1)
    assert response.json() == {
        "snapshot": library.snapshot_id,
        "columns": ["page_number"],
        "rows": [[1]],
        "truncated": True,
        "row_count": 1,
    }
    refused = post(url, "ATTACH 'x' AS y")
    assert (refused.status_code, refused.headers["Content-Type"]) == (400, "application/problem+json")
    assert refused.json()["type"].endswith("#invalid-sql")


def test_sql_is_off_by_default(sample: Library) -> None:
    with serving_in_thread(sample) as url:
        for response in (post(url, "SELECT 1"), httpx.get(f"{url}/v1/sql/schema")):
            assert response.status_code == 403
            assert "SCHOLARBASE_SQL=true" in response.json()["detail"]
        with Client(url) as client, pytest.raises(SqlOff):
            client.sql("SELECT 1")


def test_library_and_clients_return_the_same(url: str, library: Library) -> None:
    async def over_async(query: str) -> Any:
        async with AsyncClient(url) as client:
            return await client.sql(query, limit=3, as_of="1993-12"), await client.sql_schema()

    for query in (TITLES, "SELECT * FROM papers ORDER BY paper_id", "SELECT * FROM sections"):
        expected = library.sql(query, limit=3, as_of="1993-12")
        with Client(url) as client:
            assert client.sql(query, limit=3, as_of="1993-12") == expected
            assert client.sql_schema() == library.sql_schema()
        assert asyncio.run(over_async(query)) == (expected, library.sql_schema())
    with Client(url) as client, pytest.raises(InvalidSql, match="no column"):
        client.sql("SELECT absent FROM papers")
    printed = run_cli("sql", TITLES, "--limit", "3", "--url", url).stdout.splitlines()
    assert printed[0] == "paper_id | title"
    assert len(printed) == 4


@pytest.mark.slow
def test_the_command_prints_rows_and_the_schema(library: Library) -> None:
    query = f"SELECT paper_id, page_number FROM pages WHERE paper_id = '{STRINGS}' ORDER BY page_number"
    done = run_cli("sql", query, "--library", library.path)
    assert done.stdout == f"paper_id | page_number\n{STRINGS} | 1\n{STRINGS} | 2\n"
    assert '"row_count": 2' in run_cli("sql", query, "--library", library.path, "--json").stdout
    schema = run_cli("sql", "--schema", "--library", library.path).stdout
    assert all(f"\n{name}: " in schema for name in NAMES)
    assert run_cli("sql", "--library", library.path).returncode == 2
    refused = run_cli("sql", "DROP VIEW papers", "--library", library.path)
    assert refused.returncode == 2
    assert "read-only" in refused.stderr


# -- size, text and sessions ----------------------------------------------------------------------------


def test_rows_fit_into_max_tokens(url: str) -> None:
    for max_tokens in (150, 400, 5000):
        sized = post(url, TITLES, limit=1000, max_tokens=max_tokens).json()
        assert sized["tokens"] <= max_tokens
        assert 0 < sized["row_count"] == len(sized["rows"]) < 1000
        assert sized["truncated"]
        assert sized["left_out"]["rows"] == 1000 - sized["row_count"]
        assert f"OFFSET {sized['row_count']}" in sized["left_out"]["how"]
    whole = post(url, TITLES, limit=3, max_tokens=5000).json()
    assert (whole["row_count"], "left_out" in whole) == (3, False)


def test_a_session_records_statements_and_counts_them(url: str) -> None:
    limits = {"session": "few", "limits": {"calls": 2, "tokens": 100_000}, "as_of": "1993-12"}
    httpx.post(f"{url}/v1/sessions", json=limits).raise_for_status()
    query = f"SELECT paper_id FROM papers WHERE paper_id IN ('{STRINGS}', '{LATER}') UNION ALL SELECT 'no id'"
    first = post(url, query, "few")
    assert first.json()["rows"] == [[STRINGS], ["no id"]]  # the other paper is later than the session's date
    assert first.json()["budget"]["calls"] == 1
    assert first.headers["X-ScholarBase-Call"] == "1"
    assert post(url, "SELECT absent", "few").status_code == 400
    spent = post(url, query, "few")
    assert spent.status_code == 403
    assert "budget-exhausted" in spent.json()["type"]
    with Client(url) as client:
        calls = client.trajectory("few")
    assert [(one["tool"], one["kind"], one["ids"]) for one in calls[:2]] == [
        ("sql", "inspect", [STRINGS]),
        ("sql", "inspect", []),
    ]
    assert calls[0]["arguments"]["query"] == query
    assert calls[1]["error"].startswith("There is no column")


@pytest.mark.slow
def test_a_recorded_statement_is_replayed(url: str, library: Library, tmp_path: Path) -> None:
    for body in ({}, {"max_tokens": 400}, {"format": "text"}):
        post(url, TITLES, "replayed", **body).raise_for_status()
    path = tmp_path / "replayed.jsonl"
    path.write_text(httpx.get(f"{url}/v1/sessions/replayed").text)
    done = run_cli("session", "replay", path, "--library", library.path)
    assert done.returncode == 0, done.stdout + done.stderr

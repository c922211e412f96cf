"""A server stops with a reason when its library is written, and serves on when it is replaced."""

import os
import threading
from pathlib import Path

import httpx
import pytest

from scholarbase.api import worker
from scholarbase.indexes.contents import OpenedFiles
from scholarbase.search.library import Library
from tests.conftest import run_cli, serving
from tests.libraries import copied


@pytest.fixture
def library(sample_library: Path, tmp_path: Path) -> Path:
    return copied(sample_library, tmp_path / "library")


@pytest.mark.slow
def test_a_mapped_file_truncated_while_serving_stops_the_server(library: Path) -> None:
    said: list[str] = []
    with serving(library, "--workers", "2", said=said, new=True, PYTHONFAULTHANDLER="1") as (url, process):
        assert httpx.get(f"{url}/v1/search?q=string+theory").status_code == 200
        posting_lists = next(library.glob("vectors/segments/*/vector_index-bm25/inverted_index.dat"))
        os.truncate(posting_lists, posting_lists.stat().st_size // 2)
        assert process.wait(120) not in (0, -15)
    text = "".join(said)
    assert "The server stops, because its library was changed" in text
    assert "inverted_index.dat" in text


def test_a_written_library_stops_its_server(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "WATCH_SECONDS", 0.01)
    stopped = threading.Event()
    with Library.open(library) as opened:
        watching = threading.Thread(
            target=worker.watch, args=(opened.check_files, stopped.set, threading.Event())
        )
        watching.start()
        assert not stopped.wait(0.1)
        with (library / "catalog.sqlite").open("r+b") as file:
            file.seek(file.read().index(b"Two Dimensional QCD is a String Theory"))
            file.write(b"TWO")
        assert stopped.wait(60)
        watching.join(60)
        assert not watching.is_alive()


def test_replaced_and_deleted_files_are_still_open(library: Path, tmp_path: Path) -> None:
    one, other = library / "catalog.sqlite", library / "manifest.json"
    files = OpenedFiles([one, other])
    (tmp_path / "new").touch()
    (tmp_path / "new").replace(one)
    other.unlink()
    files.check()


def test_a_full_check_before_serving_finds_a_flipped_bit(library: Path) -> None:
    """In a file of 32 blocks, of which a sample may have none."""
    page = next(library.glob("vectors/segments/*/payload_storage/page_0.dat"))
    with page.open("r+b") as file:
        file.seek(20_000_000)
        file.write(b"\x01")
    done = run_cli("serve", "--library", library, "--full-check", "--port", "0")
    assert done.returncode == 3
    assert f"Block 19 of {page}" in done.stderr

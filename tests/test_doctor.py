"""``scholarbase doctor``: every check says what is wrong and what to do."""

import json
import os
import socket
import sqlite3
from pathlib import Path

import pytest

from scholarbase import __version__
from scholarbase.cli import doctor
from tests.conftest import run_cli
from tests.libraries import copied, relist


def findings(*options: object) -> dict[str, dict[str, str]]:
    done = run_cli("doctor", "--json", *options)
    return {finding["name"]: finding for finding in json.loads(done.stdout)}


def test_a_good_machine_and_library(sample_library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHOLARBASE_PORT", "0")
    done = run_cli("doctor", "--library", sample_library)
    assert done.returncode == 0, done.stdout
    assert "failed" not in done.stdout
    found = findings("--library", sample_library)
    assert __version__ in found["scholarbase"]["detail"]
    assert sqlite3.sqlite_version in found["sqlite"]["detail"]
    assert "2,440 papers" in found["library"]["detail"]
    assert "GB available" in found["memory"]["detail"]
    assert "encoder" not in found  # the library has no dense vectors


@pytest.mark.slow
def test_the_encoder_is_opened(dense_library: Path, tmp_path: Path) -> None:
    found = findings("--library", dense_library)
    assert found["encoder"]["state"] == "ok"
    moved = tmp_path / "library"
    copied(dense_library, moved)
    about = json.loads((moved / "encoder.json").read_text())
    (moved / "encoder.json").write_text(json.dumps(about | {"location": str(tmp_path / "gone")}))
    relist(moved)
    done = run_cli("doctor", "--library", moved)
    assert done.returncode == 1
    assert str(tmp_path / "gone") in done.stdout
    assert "Checks failed: 1." in done.stderr


def test_a_missing_and_a_damaged_library(sample_library: Path, tmp_path: Path) -> None:
    missing = findings("--library", tmp_path / "nowhere")["library"]
    assert missing["state"] == "failed"
    assert 'run "scholarbase ingest" first' in missing["detail"]
    damaged = tmp_path / "damaged"
    copied(sample_library, damaged)
    (damaged / "catalog.sqlite").write_bytes(b"")
    assert findings("--library", damaged)["library"]["state"] == "failed"
    assert findings()["library"]["state"] == "warning"


def test_a_port_in_use_and_a_folder_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        monkeypatch.setenv("SCHOLARBASE_PORT", str(listener.getsockname()[1]))
        assert "is in use: stop the other process, or use another --port" in findings()["port"]["detail"]
    monkeypatch.setenv("SCHOLARBASE_HOST", "192.0.2.1")  # an address of no machine (RFC 5737)
    (tmp_path / "file").touch()
    monkeypatch.setenv("SCHOLARBASE_SESSIONS", str(tmp_path / "file" / "sessions"))
    monkeypatch.setenv("SCHOLARBASE_KEYS", str(tmp_path / "keys.json"))
    found = findings()
    assert found["access"]["state"] == "failed", "serve refuses to start without keys"
    assert found["port"]["state"] == "failed"
    assert found["sessions"]["state"] == "failed"
    (tmp_path / "sessions.sqlite").write_bytes(b"no database " * 1000)
    monkeypatch.setenv("SCHOLARBASE_SESSIONS", str(tmp_path))
    assert "it is damaged, so replace it by a backup" in findings()["sessions"]["detail"]


def test_little_memory_an_old_sqlite_and_a_missing_extra(
    sample_library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_available_memory", lambda: 1000)
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 30, 0))
    monkeypatch.setitem(doctor.PACKAGES, "tracing", ("no_such_package",))
    monkeypatch.setattr(doctor, "MIN_DESCRIPTORS", 2**40)
    found = findings("--library", sample_library)
    assert "Add memory" in found["memory"]["detail"]
    assert found["sqlite"]["state"] == "failed"
    assert found["extras"]["state"] == "ok", "an extra that nobody needs is not a warning"
    assert "not installed: tracing" in found["extras"]["detail"]
    monkeypatch.setenv("SCHOLARBASE_TRACING", "true")
    extras = findings()["extras"]
    assert extras["state"] == "warning"
    assert 'pip install "scholarbase[tracing]"' in extras["detail"]
    assert "ulimit -n" in found["descriptors"]["detail"]
    assert os.linesep not in found["scholarbase"]["detail"]

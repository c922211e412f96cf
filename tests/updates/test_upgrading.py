"""A library of an older format is upgraded in a copy, or refused with what is missing."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from scholarbase.errors import InvalidRequest, LibraryCorrupt, LibraryError, LibraryExists, LibraryNotFound
from scholarbase.ingest.job import ingest
from scholarbase.manifest import FORMAT, read_manifest
from scholarbase.search.verification import verify
from scholarbase.updates.upgrading import STEPS, upgrade
from tests.conftest import SAMPLE, run_cli
from tests.libraries import copied
from tests.updates.archives import fact, files, listing

OLDER = FORMAT - 1


def older(library: Path, to: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """A copy of a library with the number of the format before, and another manifest."""
    copied(library, to, ".*")
    manifest = json.loads((to / "manifest.json").read_bytes())
    manifest["format"] = OLDER
    change(manifest)
    data = json.dumps(manifest, indent=2, sort_keys=True).encode() + b"\n"
    (to / "manifest.json").write_bytes(data)
    snapshot = hashlib.sha256(data).hexdigest()[:32]
    with closing(sqlite3.connect(to / "catalog.sqlite", isolation_level=None)) as db:
        db.execute("UPDATE meta SET value = ? WHERE key = 'snapshot'", (snapshot,))
    facts = json.loads((to / "files.json").read_bytes())["files"]
    for name in ("manifest.json", "catalog.sqlite"):
        facts[name] = fact((to / name).read_bytes())
    (to / "files.json").write_bytes(listing(snapshot, facts))
    return to


def without_profile(manifest: dict[str, Any]) -> None:
    del manifest["rules"]["profile"]


def add_profile(_: Path, manifest: dict[str, Any]) -> None:
    manifest["rules"]["profile"] = "default"


def test_every_older_format_has_a_step() -> None:
    assert sorted(STEPS) == list(range(1, FORMAT))


def test_a_library_is_upgraded_in_a_copy(sample_library: Path, tmp_path: Path) -> None:
    """The step adds to the manifest what the older one lacks: the result has the snapshot id of the original."""
    old = older(sample_library, tmp_path / "old", without_profile)
    before, new = files(old), tmp_path / "new"
    assert upgrade(old, new, steps={OLDER: add_profile}) == read_manifest(sample_library)[0]
    assert (new / "manifest.json").read_bytes() == (sample_library / "manifest.json").read_bytes()
    assert len(list(verify(new))) > 5
    assert files(old) == before
    assert not (new / "building").exists()
    inode = (new / "catalog.sqlite").stat().st_ino
    upgrade(old, new, steps={OLDER: add_profile})  # again: it is there
    assert (new / "catalog.sqlite").stat().st_ino == inode


def test_a_step_that_fails_leaves_nothing(sample_library: Path, tmp_path: Path) -> None:
    old = older(sample_library, tmp_path / "old", without_profile)

    def fails(folder: Path, _: dict[str, Any]) -> None:
        assert (folder / "catalog.sqlite").exists()
        raise LibraryError("It fails.")

    with pytest.raises(LibraryError, match="It fails"):
        upgrade(old, tmp_path / "new", steps={OLDER: fails})
    assert not (tmp_path / "new").exists()


def test_a_damaged_library_is_not_upgraded(sample_library: Path, tmp_path: Path) -> None:
    old = older(sample_library, tmp_path / "old", without_profile)
    data = bytearray((old / "catalog.sqlite").read_bytes())
    data[len(data) // 2] ^= 1
    (old / "catalog.sqlite").write_bytes(data)
    with pytest.raises(LibraryCorrupt, match="has changed"):
        upgrade(old, tmp_path / "new", steps={OLDER: add_profile})
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("call", ["list_files", "publish"])
def test_an_upgrade_that_was_killed_finishes(sample_library: Path, tmp_path: Path, call: str) -> None:
    old, new = older(sample_library, tmp_path / "old", without_profile), tmp_path / "new"
    script = f"""
import os, signal, sys
from scholarbase.ingest.folder import BuildFolder
from scholarbase.updates.upgrading import upgrade
from tests.updates.test_upgrading import OLDER, add_profile
BuildFolder.{call} = lambda self: os.kill(os.getpid(), signal.SIGKILL)
upgrade(sys.argv[1], sys.argv[2], steps={{OLDER: add_profile}})
"""
    done = subprocess.run([sys.executable, "-c", script, str(old), str(new)], check=False)
    assert done.returncode == -9
    with pytest.raises(LibraryNotFound, match='the same "scholarbase upgrade" again'):
        read_manifest(new)
    upgrade(old, new, steps={OLDER: add_profile})
    assert read_manifest(new) == read_manifest(sample_library)
    assert not (new / "building").exists()


def test_what_only_the_sources_have_is_named(sample_library: Path, tmp_path: Path) -> None:
    old = older(sample_library, tmp_path / "old", lambda _: None)
    done = run_cli("upgrade", old, "--library", tmp_path / "new")
    assert done.returncode == LibraryError.exit_code
    missing = STEPS[OLDER]
    assert isinstance(missing, str)
    assert f"has format {OLDER}" in done.stderr
    assert missing in done.stderr
    assert "scholarbase ingest SOURCES --library NEW --keep arxiv --encoder none" in done.stderr
    assert "abstracts/" in done.stderr
    assert not (tmp_path / "new").exists()
    opened = run_cli("info", "--library", old)
    assert 'try "scholarbase upgrade"' in opened.stderr


def test_what_cannot_be_upgraded(sample_library: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    with pytest.raises(InvalidRequest, match="nothing to upgrade"):
        upgrade(sample_library, new)
    with pytest.raises(LibraryNotFound):
        upgrade(tmp_path / "none", new)
    old = tmp_path / "old"
    old.mkdir()
    stored = json.loads((sample_library / "manifest.json").read_bytes())
    for number in (0, FORMAT + 1):
        (old / "manifest.json").write_text(json.dumps(stored | {"format": number}))
        with pytest.raises(LibraryError, match=f"has format {number}"):
            upgrade(old, new)
    for wrong in (
        "[]",
        "{",
        '{"format": "6"}',
        '{"format": 6, "rules": "x", "encoder": null, "sources": []}',
    ):
        (old / "manifest.json").write_text(wrong)
        with pytest.raises(LibraryCorrupt, match="not a valid manifest"):
            upgrade(old, new)
    assert not new.exists()


def test_another_library_is_not_replaced(sample_library: Path, tmp_path: Path) -> None:
    old = older(sample_library, tmp_path / "old", without_profile)
    ingest([SAMPLE / "arxiv"], tmp_path / "new")
    before = files(tmp_path / "new")
    with pytest.raises(LibraryExists, match="other sources"):
        upgrade(old, tmp_path / "new", steps={OLDER: add_profile})
    assert files(tmp_path / "new") == before

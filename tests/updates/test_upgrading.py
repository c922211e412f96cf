"""``scholarbase upgrade`` says what a library of an older format lacks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scholarbase.errors import InvalidRequest, LibraryCorrupt, LibraryError, LibraryNotFound
from scholarbase.manifest import FORMAT
from scholarbase.updates.upgrading import ADDED, upgrade
from tests.conftest import run_cli


def test_what_only_the_sources_have_is_named(sample_library: Path, tmp_path: Path) -> None:
    assert sorted(ADDED) == list(range(1, FORMAT))
    stored = json.loads((sample_library / "manifest.json").read_bytes())
    (tmp_path / "manifest.json").write_text(json.dumps(stored | {"format": FORMAT - 1}))
    done = run_cli("upgrade", tmp_path, "--library", tmp_path / "new")
    assert done.returncode == LibraryError.exit_code
    assert f"has format {FORMAT - 1}" in done.stderr
    assert ADDED[FORMAT - 1] in done.stderr
    assert "scholarbase ingest SOURCES --library NEW --keep arxiv --encoder none" in done.stderr
    assert "abstracts/" in done.stderr
    assert not (tmp_path / "new").exists()
    assert 'try "scholarbase upgrade"' in run_cli("info", "--library", tmp_path).stderr


def test_what_cannot_be_upgraded(sample_library: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="nothing to upgrade"):
        upgrade(sample_library)
    with pytest.raises(LibraryNotFound):
        upgrade(tmp_path / "none")
    stored = json.loads((sample_library / "manifest.json").read_bytes())
    for number in (0, FORMAT + 1):
        (tmp_path / "manifest.json").write_text(json.dumps(stored | {"format": number}))
        with pytest.raises(LibraryError, match=f"upgrades formats 1 to {FORMAT - 1}"):
            upgrade(tmp_path)
    (tmp_path / "manifest.json").write_text('{"format": "8"}')
    with pytest.raises(LibraryCorrupt, match="is not a valid manifest"):
        upgrade(tmp_path)

"""Packing and unpacking are killed at random blocks, and finish when they are run again."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from scholarbase.errors import LibraryCorrupt, LibraryNotFound
from scholarbase.indexes.contents import read_contents
from scholarbase.manifest import read_manifest
from scholarbase.search.library import Library
from scholarbase_download.packing import pack
from scholarbase_download.unpacking import unpack
from tests.extensions.download.archives import files

pytestmark = pytest.mark.slow

KILLS = 2
DYING = """
import itertools, os, signal, sys
from scholarbase.cli import main
from scholarbase.indexes import contents
from scholarbase_download import packing, unpacking
last, *arguments = sys.argv[1:]
count = itertools.count(1)
def counted(data):
    if next(count) == int(last):
        os.kill(os.getpid(), signal.SIGKILL)
    return contents.block_hash(data)
packing.block_hash = unpacking.block_hash = counted
main(arguments)
"""
"""The command line, which is killed at its Nth block."""


def start(at: int, *arguments: str | Path) -> int:
    """Run a command that is killed at a block, never at 0. Returns its status."""
    command = [sys.executable, "-c", DYING, str(at), *map(str, arguments)]
    return subprocess.run(command, stderr=subprocess.DEVNULL, timeout=300, check=False).returncode


def some_blocks(library: Path) -> list[int]:
    listed = read_contents(library, read_manifest(library)[1])
    return random.Random(1).sample(range(1, len(listed.blocks()) + 1), KILLS)


def test_pack_is_killed_several_times(sample_library: Path, tmp_path: Path) -> None:
    whole, file = tmp_path / "whole.tar.zst", tmp_path / "file.tar.zst"
    assert start(0, "pack", sample_library, whole) == 0
    for block in some_blocks(sample_library):
        assert start(block, "pack", sample_library, file) == -9
        assert not file.exists()
    assert start(0, "pack", sample_library, file) == 0
    assert file.read_bytes() == whole.read_bytes()
    assert not (tmp_path / "file.tar.zst.part").exists()


def test_unpack_is_killed_several_times(sample_library: Path, tmp_path: Path) -> None:
    file, library = tmp_path / "file.tar.zst", tmp_path / "library"
    pack(sample_library, file)
    for block in some_blocks(sample_library):
        assert start(block, "unpack", file, "--library", library) == -9
        assert not (library / "files.json").exists()
        with pytest.raises(LibraryNotFound):
            read_manifest(library)
    assert start(0, "unpack", file, "--library", library) == 0
    assert files(library) == files(sample_library)


@pytest.mark.parametrize("moved", [1, 4, 5])
def test_unpack_is_killed_between_two_final_moves(sample_library: Path, tmp_path: Path, moved: int) -> None:
    """The catalogue, the vectors, the records, the rejects, the manifest and the list get their names in this order."""
    script = f"""
import os, signal, sys
from pathlib import Path
from scholarbase.cli import main
moves, replace = 0, Path.replace
def counted(self, target):
    global moves
    if Path(target).parent.name == "library":
        if moves == {moved}:
            os.kill(os.getpid(), signal.SIGKILL)
        moves += 1
    return replace(self, target)
Path.replace = counted
main(sys.argv[1:])
"""
    file, library = tmp_path / "file.tar.zst", tmp_path / "library"
    pack(sample_library, file)
    command = ["unpack", str(file), "--library", str(library)]
    done = subprocess.run([sys.executable, "-c", script, *command], capture_output=True, check=False)
    assert done.returncode == -9
    assert not (library / "files.json").exists()
    with pytest.raises((LibraryNotFound, LibraryCorrupt), match=r"scholarbase unpack|no files\.json"):
        Library.open(library)
    unpack(file, library)
    assert files(library) == files(sample_library)


@pytest.mark.parametrize("step", ["unlink", "hash", "rename"])
def test_pack_is_killed_at_its_end(sample_library: Path, tmp_path: Path, step: str) -> None:
    """A file that has its name always has its own hash beside it."""
    place = {
        "unlink": "Path.unlink = die",
        "hash": "packing.atomic_write = die",
        "rename": "packing.sync_folder = die",
    }[step]
    script = f"""
import os, signal, sys
from pathlib import Path
from scholarbase.cli import main
from scholarbase_download import packing
def die(*arguments, **options):
    os.kill(os.getpid(), signal.SIGKILL)
{place}
main(sys.argv[1:])
"""
    file = tmp_path / "file.tar.zst"
    command = [sys.executable, "-c", script, "pack", str(sample_library), str(file)]
    assert subprocess.run(command, check=False, capture_output=True).returncode == -9
    if file.exists():
        unpack(file, tmp_path / "library")
    else:
        pack(sample_library, file)
    digest = (tmp_path / "file.tar.zst.sha256").read_text().split()[0]
    unpack(file, tmp_path / "other", sha256=digest)
    assert files(tmp_path / "other") == files(sample_library)

"""Packing and unpacking are killed at random times, and finish when they are run again."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scholarbase.errors import LibraryCorrupt, LibraryNotFound
from scholarbase.manifest import read_manifest
from scholarbase.search.library import Library
from scholarbase.updates.packing import pack
from scholarbase.updates.unpacking import unpack
from tests.updates.archives import files

pytestmark = pytest.mark.slow

KILLS = 10
SLOWLY = """
import sys, time
from scholarbase.cli import main
from scholarbase.indexes import contents
from scholarbase.updates import blocks, unpacking
def slowly(data):
    time.sleep(0.005)
    return contents.block_hash(data)
blocks.block_hash = unpacking.block_hash = slowly
main(sys.argv[1:])
"""
"""The command line, with a pause before each block, so that kills fall between many."""


def start(*arguments: str | Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", SLOWLY, *map(str, arguments)], stderr=subprocess.DEVNULL)


def kill_at(process: subprocess.Popen[bytes], begun: Path, seconds: float) -> bool:
    """Kill a process some time after a file or folder appeared. Returns whether it was still running."""
    while process.poll() is None and not begun.exists():
        time.sleep(0.002)
    time.sleep(seconds)
    running = process.poll() is None
    process.kill()
    process.wait()
    return running


def test_pack_is_killed_ten_times(sample_library: Path, tmp_path: Path) -> None:
    whole, file = tmp_path / "whole", tmp_path / "file"
    began = time.monotonic()
    assert start("pack", sample_library, whole).wait(timeout=300) == 0
    seconds = time.monotonic() - began
    chance = random.Random(1)
    killed = 0
    for _ in range(KILLS):
        process = start("pack", sample_library, file)
        killed += kill_at(process, tmp_path / "file.part", chance.uniform(0, seconds))
        if file.exists():  # it was complete
            assert file.read_bytes() == whole.read_bytes()
            file.unlink()
    assert killed, "no kill fell inside the job"
    assert start("pack", sample_library, file).wait(timeout=300) == 0
    assert file.read_bytes() == whole.read_bytes()
    assert not (tmp_path / "file.part").exists()


def test_unpack_is_killed_ten_times(sample_library: Path, tmp_path: Path) -> None:
    file, library = tmp_path / "file", tmp_path / "library"
    pack(sample_library, file)
    began = time.monotonic()
    assert start("unpack", file, "--library", tmp_path / "whole").wait(timeout=300) == 0
    seconds = time.monotonic() - began
    chance = random.Random(2)
    killed = 0
    for _ in range(KILLS):
        process = start("unpack", file, "--library", library)
        killed += kill_at(process, library / "building", chance.uniform(0, seconds))
        if not (library / "files.json").exists():
            with pytest.raises(LibraryNotFound):
                read_manifest(library)
    assert killed, "no kill fell inside the job"
    assert start("unpack", file, "--library", library).wait(timeout=300) == 0
    assert files(library) == files(sample_library)


@pytest.mark.parametrize("moved", range(6))
def test_unpack_is_killed_between_two_final_moves(sample_library: Path, tmp_path: Path, moved: int) -> None:
    """The catalogue, the vectors, the rejects, the manifest and the list get their names in this order."""
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
    file, library = tmp_path / "file", tmp_path / "library"
    pack(sample_library, file)
    command = ["unpack", str(file), "--library", str(library)]
    done = subprocess.run([sys.executable, "-c", script, *command], capture_output=True, check=False)
    assert done.returncode == (0 if moved == 5 else -9)
    if moved < 5:
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
from scholarbase.updates import packing
def die(*arguments, **options):
    os.kill(os.getpid(), signal.SIGKILL)
{place}
main(sys.argv[1:])
"""
    file = tmp_path / "file"
    command = [sys.executable, "-c", script, "pack", str(sample_library), str(file)]
    assert subprocess.run(command, check=False, capture_output=True).returncode == -9
    if file.exists():
        unpack(file, tmp_path / "library")
    else:
        pack(sample_library, file)
    digest = (tmp_path / "file.sha256").read_text().split()[0]
    unpack(file, tmp_path / "other", sha256=digest)
    assert files(tmp_path / "other") == files(sample_library)

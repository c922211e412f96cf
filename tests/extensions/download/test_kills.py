"""Packing and unpacking are killed at random blocks, and finish when they are run again."""

import random
from pathlib import Path

import pytest

from scholarbase.errors import LibraryCorrupt, LibraryNotFound
from scholarbase.indexes.contents import read_contents
from scholarbase.manifest import read_manifest
from scholarbase.search.library import Library
from scholarbase_download.packing import pack
from scholarbase_download.unpacking import unpack
from tests.extensions.download.archives import files
from tests.forks import run_fork

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


MODULES = ("scholarbase.cli", "scholarbase_download.packing", "scholarbase_download.unpacking")


def killed_at(block: int, *arguments: str | Path) -> bool:
    """Run a command until a block. Returns whether it was killed there."""
    return run_fork(str(block), *arguments, code=DYING, imports=MODULES).returncode == -9


def some_blocks(library: Path) -> list[int]:
    listed = read_contents(library, read_manifest(library)[1])
    return random.Random(1).sample(range(1, len(listed.blocks()) + 1), KILLS)


def test_pack_is_killed_several_times(light_library: Path, light_file: Path, tmp_path: Path) -> None:
    file = tmp_path / "file.tar.zst"
    for block in some_blocks(light_library):
        assert killed_at(block, "pack", light_library, file)
        assert not file.exists()
    pack(light_library, file)
    assert file.read_bytes() == light_file.read_bytes()
    assert not (tmp_path / "file.tar.zst.part").exists()


def test_unpack_is_killed_several_times(light_library: Path, light_file: Path, tmp_path: Path) -> None:
    library = tmp_path / "library"
    for block in some_blocks(light_library):
        assert killed_at(block, "unpack", light_file, "--library", library)
        assert not (library / "files.json").exists()
        with pytest.raises(LibraryNotFound):
            read_manifest(library)
    unpack(light_file, library)
    assert files(library) == files(light_library)


@pytest.mark.parametrize("moved", [1, 4, 5])
def test_unpack_is_killed_between_two_final_moves(
    light_library: Path, light_file: Path, tmp_path: Path, moved: int
) -> None:
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
    library = tmp_path / "library"
    done = run_fork("unpack", light_file, "--library", library, code=script, imports=MODULES)
    assert done.returncode == -9
    assert not (library / "files.json").exists()
    with pytest.raises((LibraryNotFound, LibraryCorrupt), match=r"scholarbase unpack|no files\.json"):
        Library.open(library)
    unpack(light_file, library)
    assert files(library) == files(light_library)


@pytest.mark.parametrize("step", ["unlink", "hash", "rename"])
def test_pack_is_killed_at_its_end(light_library: Path, tmp_path: Path, step: str) -> None:
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
    assert run_fork("pack", light_library, file, code=script, imports=MODULES).returncode == -9
    if file.exists():
        unpack(file, tmp_path / "library")
    else:
        pack(light_library, file)
    digest = (tmp_path / "file.tar.zst.sha256").read_text().split()[0]
    unpack(file, tmp_path / "other", sha256=digest)
    assert files(tmp_path / "other") == files(light_library)

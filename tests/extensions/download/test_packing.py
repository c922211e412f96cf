"""A packed library is read by others' tools, has the same bytes each time, and is never a damaged one."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from scholarbase.errors import InvalidRequest, LibraryCorrupt, LibraryNotFound, StorageError
from scholarbase.files import locked
from scholarbase_download import packing
from scholarbase_download.packing import pack
from scholarbase_download.unpacking import unpack
from tests.conftest import run_cli
from tests.extensions.download.archives import files, members
from tests.libraries import copied


@pytest.mark.slow
def test_other_tools_read_the_archive(sample_library: Path, tmp_path: Path) -> None:
    file = tmp_path / "sample.tar.zst"
    done = pack(sample_library, file)
    content = members(file.read_bytes())
    names = [member.name for member, _ in content]
    assert names[:2] == ["manifest.json", "files.json"]
    assert names[2:] == sorted(names[2:])
    assert {member.name: data for member, data in content} == files(sample_library)
    for member, _ in content:
        assert (member.mtime, member.uid, member.gid, member.uname, member.mode) == (0, 0, 0, "", 0o644)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert (tmp_path / "sample.tar.zst.sha256").read_text() == f"{digest}  sample.tar.zst\n"
    assert (done.sha256, done.packed_bytes) == (digest, file.stat().st_size)
    if shutil.which("sha256sum"):
        subprocess.run(["sha256sum", "-c", "sample.tar.zst.sha256"], cwd=tmp_path, check=True)


@pytest.mark.slow
def test_the_same_library_gives_the_same_bytes(
    light_library: Path, light_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the times of its files, its place and the number of threads."""
    moved = copied(light_library, tmp_path / "moved")
    for path in moved.rglob("*"):
        os.utime(path, (1, 1))
    monkeypatch.setattr(packing, "MOST_THREADS", 1)
    pack(moved, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == light_file.read_bytes()


@pytest.mark.parametrize("change", ["flipped", "longer", "missing"])
def test_a_damaged_library_is_never_packed(light_library: Path, tmp_path: Path, change: str) -> None:
    library = copied(light_library, tmp_path / "library")
    catalog = library / "catalog.sqlite"
    data = bytearray(catalog.read_bytes())
    if change == "missing":
        catalog.unlink()
    elif change == "longer":
        catalog.write_bytes(data + bytes(4096))
    else:
        data[len(data) // 2] ^= 1
        catalog.write_bytes(data)
    with pytest.raises(LibraryCorrupt, match=r"catalog\.sqlite"):
        pack(library, tmp_path / "file")
    assert [path.name for path in tmp_path.iterdir()] == ["library"]


@pytest.mark.slow
def test_what_cannot_be_packed(light_library: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(InvalidRequest, match="exists"):
        pack(light_library, file)
    assert file.read_text() == "mine"
    with pytest.raises(InvalidRequest, match="in the library's folder"):
        pack(light_library, light_library / "file")
    with pytest.raises(LibraryNotFound):
        pack(tmp_path / "none", tmp_path / "other")
    pack(light_library, file, force=True)
    unpack(file, tmp_path / "library")


def test_another_kind_of_archive_was_promised_by_the_name(light_library: Path, tmp_path: Path) -> None:
    done = run_cli("pack", light_library, tmp_path / "my.zip")
    assert done.returncode == 2
    assert "ends in .tar.zst" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_two_processes_do_not_write_one_file(light_library: Path, tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(StorageError, match="Another process"):
        pack(light_library, tmp_path / "file")


def test_a_killed_call_left_a_temporary_file_for_ever(light_library: Path, tmp_path: Path) -> None:
    file = tmp_path / "library.tar.zst"
    for name in (".library.tar.zst.sha256.0123abcd.tmp", ".library.tar.zst.0123abcd.tmp"):
        (tmp_path / name).touch()
    pack(light_library, file)
    assert sorted(path.name for path in tmp_path.iterdir()) == [file.name, f"{file.name}.sha256"]

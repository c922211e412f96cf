import errno
import gzip
import os
from pathlib import Path
from typing import BinaryIO

import pytest

from scholarbase.errors import StorageError
from scholarbase.files import (
    DISK_FULL,
    atomic_write,
    copy_sparse,
    gzip_writer,
    locked_folder,
    storage_errors,
    temporary_files,
)


def test_a_file_has_its_name_only_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(b"old")
    with atomic_write(path, 0o600) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
        assert len(list(temporary_files(path))) == 1
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def _write_and_fail(file: BinaryIO, error: type[BaseException]) -> None:
    file.write(b"new")
    raise error


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failed_write_leaves_the_old_file_and_no_temporary_one(
    tmp_path: Path, error: type[BaseException]
) -> None:
    path = tmp_path / "manifest.json"
    path.write_bytes(b"old")
    with pytest.raises(error), atomic_write(path) as file:
        _write_and_fail(file, error)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_equal_contents_have_equal_gzip_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with atomic_write(tmp_path / name) as file, gzip_writer(file) as packed:
            packed.write(b"content")
    written = (tmp_path / "a").read_bytes()
    assert written == (tmp_path / "b").read_bytes()
    assert gzip.decompress(written) == b"content"
    # RFC 1952, 2.3: no file name flag, and a time of 0.
    assert written[3:8] == bytes(5)


def test_storage_errors_name_the_path_the_reason_and_the_free_space(tmp_path: Path) -> None:
    path = tmp_path / "absent" / "run"
    message = rf"Cannot write {path} \(No space left on device; [0-9,]+ MB free\): give another folder\."
    with pytest.raises(StorageError, match=message), storage_errors(path, "give another folder"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(BrokenPipeError), storage_errors(path, errnos=DISK_FULL):
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")


@pytest.mark.parametrize("below", ["", "below", "below/it"])
def test_a_file_in_the_place_of_a_folder_was_reported_as_a_full_disk(tmp_path: Path, below: str) -> None:
    file = tmp_path / "notes"
    file.write_text("mine")
    message = (
        rf"Cannot write {file / below} \(Not a directory\): {file} is a file\. Give a folder, or move it\.$"
    )
    with pytest.raises(StorageError, match=message), locked_folder(file / below, RuntimeError("locked")):
        pass
    assert file.read_text() == "mine"


def test_a_sparse_copy_is_the_same_file(tmp_path: Path) -> None:
    source = tmp_path / "source"
    with source.open("wb") as file:
        file.write(b"head")
        file.seek(5_000_000)
        file.write(b"middle" * 30_000)
        file.truncate(12_345_678)
    copy_sparse(source, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == source.read_bytes()
    assert (tmp_path / "copy").stat().st_blocks * 512 < 1_000_000
    (tmp_path / "empty").touch()
    copy_sparse(tmp_path / "empty", tmp_path / "empty copy")
    assert (tmp_path / "empty copy").read_bytes() == b""

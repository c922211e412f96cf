"""Changed copies of libraries."""

from __future__ import annotations

import shutil
from pathlib import Path

from scholarbase.files import copy_sparse
from scholarbase.indexes import contents
from scholarbase.indexes.contents import Contents, files_in
from scholarbase.manifest import read_manifest


def relist(library: Path) -> None:
    """Write ``files.json`` for the files as they are now."""
    (library / contents.FILE_NAME).unlink(missing_ok=True)
    files = {name: library / name for name in files_in(library)}
    listed = Contents.of(read_manifest(library)[1], files)
    (library / contents.FILE_NAME).write_bytes(listed.to_bytes())


def copied(library: Path, to: Path, *ignored: str) -> Path:
    """A copy of a folder in a new one, without files of ``ignored`` names.

    It keeps the holes of files: a library of the sample takes 16 MB, and 206 MB without them.
    """
    ignore = shutil.ignore_patterns(*ignored)
    shutil.copytree(library, to, ignore=ignore, copy_function=lambda a, b: copy_sparse(Path(a), Path(b)))
    return to

"""Changed copies of libraries."""

from __future__ import annotations

from pathlib import Path

from scholarbase.indexes import contents
from scholarbase.indexes.contents import Contents, files_in
from scholarbase.manifest import read_manifest


def relist(library: Path) -> None:
    """Write ``files.json`` for the files as they are now."""
    (library / contents.FILE_NAME).unlink(missing_ok=True)
    files = {name: library / name for name in files_in(library)}
    listed = Contents.of(read_manifest(library)[1], files)
    (library / contents.FILE_NAME).write_bytes(listed.to_bytes())

"""Refuses folders of ``scholarbase download`` that are not complete: what is missing cannot be seen in the files.

A download has its state in hidden files: ``.s2-RELEASE.json`` and ``.openalex.json`` in the folder of ``--out``, and
``.harvest.json`` in that of a harvest from arXiv.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import orjson

from scholarbase.errors import SourceError

HARVEST: Final = ".harvest.json"
OPENALEX: Final = ".openalex.json"
_S2: Final = ".s2-*.json"
_ABOVE: Final = 3
"""Levels from ``STEP/DATASET/KIND``, the deepest folder of a download, to that of its state."""


def check_complete(source: Path) -> None:
    """Check the downloads that a folder has or is a part of. Files that are named one by one are not checked.

    Raises:
        SourceError: one of them is not complete.
    """
    if not source.is_dir():
        return
    root = source.resolve()
    for path in _states(root):
        missing = _missing(path, root)
        if missing is not None:
            raise SourceError(
                f'The download in {path.parent} is not complete ({missing}): run the same "scholarbase download" again '
                "to complete it, or name the files to read."
            )


def _states(root: Path) -> Iterator[Path]:
    """The states of downloads in this folder, at any depth, and in those above it."""
    folders = [*root.parents[:_ABOVE], *(Path(folder) for folder, _, _ in os.walk(root))]
    for folder in folders:
        yield from (path for name in (HARVEST, OPENALEX, _S2) for path in sorted(folder.glob(name)))


def _missing(path: Path, root: Path) -> str | None:
    """What is missing below ``root`` of the download with this state; None if it is complete."""
    try:
        state: dict[str, Any] = orjson.loads(path.read_bytes())
        if state.get("complete", True):
            return None
        if path.name == HARVEST:
            return (
                f"it has the records up to {state['last'] or state['first']}, and goes on to {state['until']}"
            )
        if path.name == OPENALEX:
            is_partition = (
                not path.parent.is_relative_to(root) and root.parent != path.parent
            )  # which may be whole
            return None if is_partition else "not all of its partitions are there"
        listed = {
            path.parent / name: size for files in state["datasets"].values() for name, size in files.items()
        }
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise SourceError(
            f"{path}, the state of a download, cannot be read ({error}): download into another folder."
        ) from error
    absent = sorted(
        file
        for file, size in listed.items()
        if file.is_relative_to(root) and not (file.is_file() and file.stat().st_size == size)
    )
    return f"{len(absent):,} of its files are missing, such as {absent[0].name}" if absent else None

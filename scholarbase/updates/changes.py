"""The files of changes: folders of differences between two releases, and new source files.

A folder of differences has ``DATASET/updates/*`` and ``DATASET/deletes/*``. A folder of folders named ``FROM..TO`` is a
chain of them, applied in the order of the names. Anything else is read as an ingest reads it: its records are added, or
replace those with the same key.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

import orjson

from scholarbase.errors import SourceError
from scholarbase.ingest.sources import (
    OWN,
    READ_ORDER,
    UNUSED,
    Columns,
    Dataset,
    SourceFile,
    check_complete,
    discover,
)

log = logging.getLogger("scholarbase.updates")

UPDATES: Final = "updates"
DELETES: Final = "deletes"
DIFF: Final = "diff.json"
"""What ``scholarbase download`` says of the differences in a folder."""
_STEP: Final = re.compile(r"([A-Za-z0-9_-]{1,64})\.\.([A-Za-z0-9_-]{1,64})")


class Step(NamedTuple):
    """Changes that apply together: records to add or replace first, then keys to delete.

    ``begins`` and ``ends`` are the releases between which they are the differences, None if the names do not say.
    ``datasets`` are those whose differences are complete, None if that is unknown.
    """

    updates: list[SourceFile]
    deletes: list[SourceFile]
    begins: str | None = None
    ends: str | None = None
    datasets: frozenset[str] | None = None

    @property
    def files(self) -> list[SourceFile]:
        return [*self.updates, *self.deletes]


def find_steps(paths: Sequence[str | Path], columns: Columns = MappingProxyType({})) -> list[Step]:
    """The steps of these folders and files, in their order. ``columns`` are those of :func:`.discover`.

    Raises:
        SourceError: a path does not exist or has no changes, a chain has a gap, or a download is not complete.
    """
    steps: list[Step] = []
    for source in paths:
        root = Path(source)
        if not root.exists():
            raise SourceError(f"No file or folder at {source}: check the path of the changes.")
        chain = sorted(p for p in root.iterdir() if _is_step(p)) if root.is_dir() else []
        if chain:
            check_complete(root)
            steps += [_differences(folder, f"{folder.name}/") for folder in chain]
        elif root.is_dir() and any((*root.glob(f"*/{UPDATES}"), *root.glob(f"*/{DELETES}"))):
            check_complete(root)
            steps.append(_differences(root, ""))
        else:
            steps.append(Step([file for file in discover([root], columns) if file.dataset not in UNUSED], []))
    for before, after in pairwise(step for step in steps if step.begins is not None):
        if before.ends != after.begins:
            raise SourceError(
                f"The changes from {before.begins} to {before.ends} are followed by those from {after.begins}: give "
                f"those from {before.ends} too, or ingest the full release."
            )
    return steps


def _is_step(folder: Path) -> bool:
    """Whether a folder has the differences between two releases. That of a harvest from arXiv has a name like it."""
    return bool(_STEP.fullmatch(folder.name)) and folder.is_dir() and not (folder / "pages").is_dir()


def _differences(folder: Path, prefix: str) -> Step:
    """The step of one folder of differences."""
    match = _STEP.fullmatch(folder.resolve().name)
    begins, ends = match.groups() if match else (None, None)
    files: dict[str, list[SourceFile]] = {UPDATES: [], DELETES: []}
    for part in sorted(path for path in folder.iterdir() if path.is_dir() and path.name[0] != "."):
        try:
            dataset = Dataset(part.name)
        except ValueError:
            raise SourceError(
                f"{part} is not a dataset: the folders of differences are named after datasets, such as papers."
            ) from None
        if dataset in OWN:
            raise SourceError(
                f"{part} has files of people's own, which are no differences: give the files themselves."
            )
        if dataset in UNUSED:
            log.warning("Skipping %s: the dataset %s is not used.", part, dataset)
            continue
        for kind, listed in files.items():
            if (part / kind).is_dir():
                listed += [
                    SourceFile(path, f"{prefix}{dataset}/{kind}/{path.name}", dataset, path.stat().st_size)
                    for path in sorted((part / kind).iterdir())
                    if path.is_file() and path.name[0] != "."
                ]
    for listed in files.values():
        listed.sort(key=lambda file: (READ_ORDER[file.dataset], file.name))
    if not any(files.values()):
        raise SourceError(f"{folder} has no changes: {UPDATES} and {DELETES} of datasets were expected.")
    return Step(files[UPDATES], files[DELETES], begins, ends, _datasets(folder / DIFF))


def _datasets(path: Path) -> frozenset[str] | None:
    """The datasets in a description of differences; None without one."""
    if not path.exists():
        return None
    try:
        return frozenset(map(str, orjson.loads(path.read_bytes())["datasets"]))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise SourceError(
            f"{path} cannot be read ({error}): download the differences again, or delete the file."
        ) from error

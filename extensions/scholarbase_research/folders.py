"""Checks of the folders that jobs write, before they write."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from scholarbase.errors import InvalidRequest, ScholarBaseError


def check_outputs(folder: Path, mark: str, outputs: Iterable[str], error: type[ScholarBaseError]) -> None:
    """Raise ``error`` if ``folder`` has files with the names of a job's outputs that the job did not write.

    ``mark`` is the file that the job creates in its folder before any output.
    """
    if (folder / mark).exists():
        return
    for name in outputs:
        if (folder / name).exists():
            raise error(
                f"{folder / name} is not of an earlier run, as {folder} has no {mark}, and would be overwritten: use "
                "another --out, or move the file."
            )


def check_inputs(folder: Path, outputs: Iterable[str], inputs: Iterable[Path | None]) -> None:
    """Raise InvalidRequest if an input of a job is one of the files that the job writes in ``folder``."""
    for name in outputs:
        for path in inputs:
            if (
                path is not None
                and path.exists()
                and (folder / name).exists()
                and path.samefile(folder / name)
            ):
                raise InvalidRequest(f"{path} is read, and would be overwritten: use another --out.")

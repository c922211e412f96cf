"""``scholarbase upgrade``: a library of an older format as one of the present format, without its sources.

:data:`STEPS` has, for each older format, what makes a library of the next format of it, or what only the sources have.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import orjson

from scholarbase import manifest
from scholarbase.databases import open_for_writing
from scholarbase.errors import InvalidRequest, LibraryCorrupt, LibraryError, LibraryExists
from scholarbase.indexes.contents import Contents, read_contents
from scholarbase.ingest.folder import BuildFolder, build_errors
from scholarbase.manifest import FORMAT, Manifest, read_manifest, snapshot_id
from scholarbase.progress import Reporter, SilentReporter
from scholarbase.updates.archive import check_listed
from scholarbase.updates.blocks import counted, read_blocks, sync_folders, write_blocks
from scholarbase.updates.unpacking import check_space

COMMAND: Final = "upgrade"

Step = Callable[[Path, dict[str, Any]], None] | str
"""Changes a copy of a library's files, and its manifest with its content hashes, to those of the next format. A step
that is a text names what a library of the next format has and only the sources have."""

STEPS: Final[Mapping[int, Step]] = {
    1: "BM25 vectors with other weights",
    2: "hashes of main titles",
    3: "hashes of its content and files",
    4: "document frequencies by month, and weights whose sums are exact",
    5: "the similarity of unrelated papers for its encoder",
    6: "journals, publication types, fields of study, open access, comments and versions of papers",
    7: "numbers of papers that follow from their ids, and a content hash that an update can change",
    8: "which papers were withdrawn or retracted",
}


def upgrade(
    library: str | Path,
    new: str | Path,
    *,
    reporter: Reporter | None = None,
    steps: Mapping[int, Step] = STEPS,
) -> Manifest:
    """Write a library of an older format as one of the present format to the folder ``new``.

    Each block is compared with its hash while it is copied. The new library appears when it is complete; after an
    interruption the same call starts over. The old one is not changed.

    Raises:
        InvalidRequest: the library has the present format.
        LibraryError: it cannot be upgraded without its sources, or has a newer format.
        LibraryNotFound, LibraryCorrupt: it cannot be read, or a file differs from its hashes.
        LibraryExists, LibraryBusy: ``new`` has another library or other files, or another process writes to it.
        StorageError: the disk is too small, full or cannot be written.
    """
    library, new = Path(library), Path(new)
    manifest_bytes = manifest.read_bytes(library)
    content = _parse(manifest_bytes, library)
    chosen = _steps_from(content, library, steps)
    listed = read_contents(library, snapshot_id(manifest_bytes))
    check_listed(listed, library)
    with build_errors(new):
        folder = BuildFolder(new, COMMAND)
        try:
            if folder.pending_contents.exists():  # only moves are left
                folder.publish()
            if (new / manifest.FILE_NAME).exists():
                return _finished(new, content)
            folder.clear()
            try:
                _copy(library, listed, folder, reporter or SilentReporter())
                for step in chosen:
                    step(folder.path, content)
                upgraded = _seal(folder, content)
            except BaseException:
                folder.clear()
                raise
            folder.publish()
            return upgraded
        finally:
            folder.close()


def _finished(new: Path, content: Mapping[str, Any]) -> Manifest:
    """The library in ``new``, upgraded before. Raises LibraryExists: it is another one."""
    found, _ = read_manifest(new)
    if [asdict(source) for source in found.sources] != content["sources"]:
        raise LibraryExists(f"{new} already has a library from other sources: give another --library.")
    return found


def _parse(data: bytes, library: Path) -> dict[str, Any]:
    try:
        content = orjson.loads(data)
        if type(content["format"]) is not int:
            raise TypeError("its format is not a number")
        _rebuild(content)
        return dict(content)
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise LibraryCorrupt(
            f"{library / manifest.FILE_NAME} is not a valid manifest of a library: {error}. Ingest the library again."
        ) from error


def _steps_from(
    content: Mapping[str, Any], library: Path, steps: Mapping[int, Step]
) -> list[Callable[[Path, dict[str, Any]], None]]:
    """The steps from the library's format to the present one. Raises as ``upgrade``: there is none."""
    found = content["format"]
    has = f"The library at {library} has format {found}"
    if found == FORMAT:
        raise InvalidRequest(f"{has}, the present one: there is nothing to upgrade.")
    if found not in steps:
        raise LibraryError(
            f"{has}, and this ScholarBase upgrades formats {min(steps)} to {max(steps)}: use the release that built "
            "it, or a newer one."
        )
    chosen = [steps[number] for number in range(found, FORMAT)]
    missing = [step for step in chosen if isinstance(step, str)]
    if missing:
        raise LibraryError(
            f"{has}, and one of format {FORMAT} has also: {'; '.join(missing)}. Only its sources have this, so build "
            f"it from them: {_rebuild(content)}"
        )
    return [step for step in chosen if not isinstance(step, str)]


def _rebuild(content: Mapping[str, Any]) -> str:
    """The command that builds the library, and its sources."""
    rules, encoder = content["rules"], content["encoder"]
    options = ["--keep", str(rules["keep"])]
    if rules.get("profile", "default") != "default":
        options += ["--profile", str(rules["profile"])]
    options += ["--encoder", str(encoder["name"]) if encoder else "none"]
    names = sorted(str(source["name"]) for source in content["sources"])
    sources = ", ".join(names[:3]) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")
    return f"scholarbase ingest SOURCES --library NEW {shlex.join(options)} (SOURCES are {sources})."


def _copy(library: Path, listed: Contents, folder: BuildFolder, reporter: Reporter) -> None:
    check_space(listed, folder, str(library))
    files = {name: fact for name, fact in listed.files.items() if name != manifest.FILE_NAME}
    with reporter.stage("copy", "bytes", sum(fact.bytes for fact in files.values())) as tracker:
        progress = counted(tracker)
        for name, fact in files.items():
            write_blocks(folder.path / name, read_blocks(library / name, fact), fact.bytes)
            progress(fact.bytes)


def _seal(folder: BuildFolder, content: dict[str, Any]) -> Manifest:
    """Write the manifest and the list of files, the list last."""
    data = orjson.dumps(
        content | {"format": FORMAT},
        option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE,
    )
    upgraded = Manifest.from_bytes(data, folder.pending_manifest)
    with closing(open_for_writing(folder.catalog, create=False)) as db:
        db.execute("UPDATE meta SET value = ? WHERE key = 'snapshot'", (snapshot_id(data),))
    folder.write(folder.pending_manifest.name, data)
    sync_folders(folder.path)
    folder.list_files()
    return upgraded

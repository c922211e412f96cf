"""The catalogue: packed libraries that are downloaded by name.

It is a JSON document, ``{"libraries": [...]}`` with the fields of :class:`Entry`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urljoin

import msgspec

from scholarbase.errors import (
    DownloadError,
    InvalidRequest,
    LibraryCorrupt,
    LibraryExists,
    SourceError,
)
from scholarbase.files import locked, storage_errors
from scholarbase.indexes import contents
from scholarbase.manifest import Manifest, read_manifest
from scholarbase.progress import Reporter
from scholarbase.settings import Settings, is_url
from scholarbase_download.opening import WEB
from scholarbase_download.requests import Fetcher, LinkExpired, Patience
from scholarbase_download.saving import bytes_in, check_sha256, fetch, validator_file
from scholarbase_download.unpacking import unpack

PACKAGED: Final = Path(__file__).with_name("catalogue.json")
"""The default. ``make release`` writes it into the wheel."""


Count = Annotated[int, msgspec.Meta(ge=0, lt=2**60)]


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A library of the catalogue.

    Attributes:
        papers: their number.
        bytes: the size of the library's files.
        packed_bytes: the size of the packed file.
        url: where the packed file is, or its path; relative to the catalogue's address.
        sha256: the hash of the packed file.
    """

    name: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
    description: str
    licence: str
    papers: Count
    bytes: Count
    packed_bytes: Count
    snapshot: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}$")]
    url: str
    sha256: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$")]


class Catalogue(msgspec.Struct, frozen=True):
    libraries: tuple[Entry, ...]


def read_catalogue(settings: Settings) -> list[Entry]:
    """The libraries of the catalogue of the settings, with whole URLs or paths.

    Raises:
        SourceError: it cannot be read, or is not a catalogue.
    """
    where = settings.catalogue or str(PACKAGED)
    if where.startswith(WEB):
        with Fetcher(Patience(retries=1)) as fetcher:  # a small file, and a user is waiting
            answer = fetcher.read(where)
        if answer.status != 200:
            raise SourceError(f"The catalogue {where} returned status {answer.status}: check the address.")
        data = answer.body
    else:
        try:
            data = Path(where).read_bytes()
        except OSError as error:
            raise SourceError(
                f"The catalogue {where} cannot be read ({error.strerror}): check SCHOLARBASE_CATALOGUE."
            ) from error
    try:
        listed = msgspec.json.decode(data, type=Catalogue).libraries
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SourceError(
            f"{where} is not a catalogue of libraries ({error}): check SCHOLARBASE_CATALOGUE."
        ) from error
    if len({entry.name for entry in listed}) < len(listed):
        raise SourceError(f"{where} has two libraries of one name: check SCHOLARBASE_CATALOGUE.")
    return [msgspec.structs.replace(entry, url=_resolved(entry.url, where)) for entry in listed]


def _resolved(url: str, catalogue: str) -> str:
    """A whole URL or path. One from the web is of the web: it names no file of this machine, and no store that the
    user's credentials open."""
    if is_url(url):
        if is_url(catalogue) and not url.lower().startswith(WEB):
            raise SourceError(
                f"The catalogue {catalogue} names {url!r}: a catalogue of the web may name http and https addresses "
                "only. Use another SCHOLARBASE_CATALOGUE."
            )
        return url
    return urljoin(catalogue, url) if is_url(catalogue) else str(Path(catalogue).parent / url)


def get(name: str, settings: Settings, *, reporter: Reporter) -> Manifest:
    """Download the library ``name`` of the catalogue, check it, and unpack it into the folder of libraries.

    The same call continues after an interruption, and does nothing if the library is there.

    Raises:
        InvalidRequest: the catalogue has no such library.
        SourceError, DownloadError: the catalogue or the file cannot be read, or the file has another hash.
        LibraryCorrupt: the packed file is damaged, or has another snapshot than the catalogue says.
        LibraryExists: the folder has another library.
        StorageError: the disk is full or cannot be written.
    """
    entries = {entry.name: entry for entry in read_catalogue(settings)}
    if name not in entries:
        raise InvalidRequest(
            f"The catalogue has no library {name!r}. It has: {', '.join(sorted(entries)) or 'none'}. "
            'The library demo is built by "scholarbase demo".'
        )
    entry, folder = entries[name], settings.libraries_folder
    if (folder / name / contents.FILE_NAME).exists():
        manifest, snapshot = read_manifest(folder / name)
        if snapshot == entry.snapshot:
            return manifest
        raise LibraryExists(
            f"{folder / name} has the snapshot {snapshot}, and the catalogue {entry.snapshot}: delete the folder first."
        )
    with storage_errors(folder, "free some disk space, or set SCHOLARBASE_CACHE_DIR"):
        folder.mkdir(parents=True, exist_ok=True)
    if not entry.url.startswith(WEB):
        return unpack(
            entry.url, folder / name, sha256=entry.sha256, snapshot=entry.snapshot, reporter=reporter
        )
    packed = folder / f".{name}.tar.zst"
    with locked(folder / f".{name}.lock"):
        if bytes_in(packed) != entry.packed_bytes:  # else an earlier call has downloaded it
            _download(entry, packed, reporter)
        try:
            manifest = unpack(
                packed, folder / name, sha256=entry.sha256, snapshot=entry.snapshot, reporter=reporter
            )
        except LibraryCorrupt:
            packed.unlink()
            raise
        packed.unlink()
        validator_file(packed).unlink(missing_ok=True)
        return manifest


def _download(entry: Entry, packed: Path, reporter: Reporter) -> None:
    with Fetcher() as fetcher, reporter.stage("download", "bytes", entry.packed_bytes) as tracker:

        def progress(received: int, position: int) -> None:
            tracker.advance(received)
            tracker.at(position)

        check = check_sha256(entry.sha256)
        try:
            fetch(fetcher, entry.url, packed, size=entry.packed_bytes, check=check, progress=progress)
        except LinkExpired as error:
            raise DownloadError(f"{error}: the server refuses the download.") from error

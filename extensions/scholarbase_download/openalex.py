"""The public snapshot of OpenAlex: files by entity and ``updated_date``, listed in a manifest.

The layout is that of https://developers.openalex.org/download/snapshot-format: ``data/jsonl/ENTITY/manifest.json`` and
``data/parquet/ENTITY/manifest.json`` with ``files``. A record that changes moves to the partition of its new date, so a
manifest that changes during a download makes all files doubtful: each is then compared with its validator, and files
that are listed no more are deleted.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple

import orjson

from scholarbase.errors import DownloadError, InvalidRequest, SourceChanged
from scholarbase.progress import Reporter, SilentReporter
from scholarbase_download.batches import (
    Links,
    Planned,
    announce,
    check_gzip,
    check_parquet,
    download,
    locked,
    read_state,
    write_state,
)
from scholarbase_download.requests import (
    Fetcher,
    LinkExpired,
    Patience,
    address,
)

BASE_URL: Final = "https://openalex.s3.amazonaws.com"
Format = Literal["jsonl", "parquet"]
_STATE: Final = ".openalex.json"
_CHANGES: Final = 3
"""Times that a manifest may change during one download."""
_TERM: Final = re.compile(r"\s*(entity|updated_date)\s*(>=|<=|=)\s*([a-z0-9-]{1,40})\s*")
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_ENTITY: Final = re.compile(r"[a-z][a-z-]{0,39}")
_FILE: Final = re.compile(r"updated_date=(\d{4}-\d{2}-\d{2})/[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")

log = logging.getLogger("scholarbase.download")


@dataclass(frozen=True)
class Filter:
    """The entities, and the dates of their partitions, both inclusive."""

    entities: tuple[str, ...] = ("works",)
    first: str = "0000-00-00"
    last: str = "9999-99-99"

    @classmethod
    def parse(cls, terms: Sequence[str]) -> Filter:
        """Read terms such as ``entity=works``, ``updated_date>=2026-06-01`` and ``updated_date=2026-06-24``.

        Raises:
            InvalidRequest: a term is none of these, or no date meets all of them.
        """
        entities: list[str] = []
        first, last = cls.first, cls.last
        for term in (part for text in terms for part in text.split(",")):
            match = _TERM.fullmatch(term)
            if match is None:
                raise InvalidRequest(
                    f"{term!r} is not a filter: use entity=works, or updated_date with =, >= or <= and a date. The "
                    "snapshot is divided by these two only."
                )
            name, operator, value = match.groups()
            if name == "entity":
                if operator != "=" or not _ENTITY.fullmatch(value):
                    raise InvalidRequest(f"{term!r} is not an entity: use a name such as entity=works.")
                entities.append(value)
                continue
            if not _DATE.fullmatch(value):
                raise InvalidRequest(f"{term!r} has no date of the form YYYY-MM-DD.")
            if operator != "<=":
                first = max(first, value)
            if operator != ">=":
                last = min(last, value)
        if first > last:
            raise InvalidRequest(f"No date is from {first} to {last}: change the filters of updated_date.")
        return cls(tuple(dict.fromkeys(entities)) or cls.entities, first, last)


class _Manifest(NamedTuple):
    """The files of an entity that pass the filter: bytes by path below the entity, and the manifest's SHA-256."""

    sha256: str
    files: dict[str, int]


def download_openalex(
    out: Path,
    *,
    filters: Sequence[str] = (),
    form: Format = "jsonl",
    base_url: str = BASE_URL,
    patience: Patience | None = None,
    reporter: Reporter | None = None,
) -> list[Path]:
    """Download files of the snapshot to ``out/ENTITY/updated_date=DATE/``, the works by default.

    The same call on a folder of an older snapshot brings it up to date.

    Returns:
        The folders of the entities.

    Raises:
        InvalidRequest: a filter is invalid, or the folder has a download with another format or filter.
        DownloadError: there is no such entity, or the server fails.
        SourceChanged: the manifest changed again and again.
        StorageError: the disk has too little space.
    """
    chosen = Filter.parse(filters)
    with Fetcher(patience) as fetcher, locked(out):
        snapshot = _Snapshot(out, chosen, form, base_url, fetcher)
        for _ in range(_CHANGES):
            try:
                manifests = {entity: snapshot.manifest(entity) for entity in chosen.entities}
                snapshot.discard_changed(manifests)
                files = {entity: list(snapshot.files(entity, manifests[entity])) for entity in manifests}
                announce(out, [file for entity_files in files.values() for file in entity_files])
                for entity, entity_files in files.items():
                    download(
                        entity_files,
                        fetcher,
                        snapshot.links,
                        name=entity,
                        reporter=reporter or SilentReporter(),
                    )
            except SourceChanged as error:
                if {entity: snapshot.manifest(entity) for entity in chosen.entities} == manifests:
                    raise
                log.warning("%s The manifest has changed; reading it again", error)
                continue
            if {entity: snapshot.manifest(entity) for entity in chosen.entities} == manifests:
                snapshot.finish()
                return [out / entity for entity in chosen.entities]
            log.warning("The manifest changed during the download; reading it again")
        raise SourceChanged(
            f"The manifest at {address(base_url)} changed {_CHANGES} times during the download: run the same command "
            "again when the new snapshot is complete."
        )


class _Snapshot:
    """A folder and the snapshot that it is downloaded from.

    Its state is a hidden file in the folder: the options, the hashes of the manifests under which the files in the
    folder were downloaded, and whether all of them were.
    """

    def __init__(self, out: Path, chosen: Filter, form: Format, base_url: str, fetcher: Fetcher) -> None:
        self._out, self._filter, self._form, self._fetcher = out, chosen, form, fetcher
        self._base = base_url.rstrip("/")
        self._path = out / _STATE
        self.links = Links(self._link)
        options = {
            "format": form,
            "entities": list(chosen.entities),
            "first": chosen.first,
            "last": chosen.last,
        }
        self._state = read_state(self._path) or {"options": options, "manifests": {}}
        if self._state["options"] != options:
            raise InvalidRequest(
                f"{out} has a download with other options ({self._state['options']}): use these, or another folder."
            )

    def manifest(self, entity: str) -> _Manifest:
        """Request the manifest of an entity.

        Raises:
            DownloadError: there is none, no file passes the filter, or it is not a manifest.
        """
        url = f"{self._base}/data/{self._form}/{entity}/manifest.json"
        answer = self._fetcher.read(url)
        if answer.status != 200:
            raise DownloadError(
                f"{url} returned {answer.status}: check the entity, such as works or authors. While a snapshot is "
                "replaced it has no manifest; then try again later."
            )
        files = {}
        try:
            content = orjson.loads(answer.body)
            for entry in content["files"]:
                path = str(entry["url"]).rpartition(f"/{entity}/")[2]
                size = entry["meta"]["content_length"]
                match = _FILE.fullmatch(path)
                if match is None or type(size) is not int or size < 0 or path in files:
                    raise DownloadError(f"Unexpected file {entry!r} in {url}: check the address.")
                files[path] = size
        except (orjson.JSONDecodeError, TypeError, KeyError) as error:
            raise DownloadError(
                f"Unexpected response from {url}: check that it is the snapshot of OpenAlex."
            ) from error
        first, last = self._filter.first, self._filter.last
        passing = {path: size for path, size in files.items() if first <= path[13:23] <= last}
        if not passing:
            dates = sorted({path[13:23] for path in files})
            known = f"its partitions are from {dates[0]} to {dates[-1]}" if dates else "it has none"
            raise DownloadError(f"No partition of {entity} is from {first} to {last}: {known}.")
        return _Manifest(hashlib.sha256(answer.body).hexdigest(), passing)

    def files(self, entity: str, manifest: _Manifest) -> Iterator[Planned]:
        check = check_parquet if self._form == "parquet" else check_gzip
        for path, size in sorted(manifest.files.items()):
            yield Planned(self._out / entity / path, size, check)

    def discard_changed(self, manifests: Mapping[str, _Manifest]) -> None:
        """Delete files that the manifests do not list, or that have changed at the server; then keep their hashes."""
        for entity, manifest in manifests.items():
            if self._state["manifests"].get(entity) == manifest.sha256:
                continue
            planned = {file.path: file for file in self.files(entity, manifest)}
            for note in sorted((self._out / entity).rglob(".*.validator")):
                path = note.with_name(note.name[1:].removesuffix(".validator"))
                file = planned.get(path)
                if file is None or (file.is_whole and not self._is_same(file, note.read_text())):
                    log.info("%s has changed; deleting it", path)
                    path.unlink(missing_ok=True)
                    path.with_name(path.name + ".part").unlink(missing_ok=True)
                    note.unlink()
        self._state["manifests"] = {entity: manifest.sha256 for entity, manifest in manifests.items()}
        self._save(is_complete=False)

    def finish(self) -> None:
        """Mark the download complete."""
        self._save(is_complete=True)

    def _save(self, *, is_complete: bool) -> None:
        self._state["complete"] = is_complete
        write_state(self._path, self._state)

    def _is_same(self, file: Planned, validator: str) -> bool:
        try:
            remote = self._fetcher.probe(self._link(file))
        except LinkExpired as error:
            raise DownloadError(f"{error}: the server refuses the download.") from error
        return bool(validator) and remote.validator == validator and remote.size == file.size

    def _link(self, file: Planned) -> str:
        return f"{self._base}/data/{self._form}/{file.path.relative_to(self._out).as_posix()}"

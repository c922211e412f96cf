"""Opening a library: its catalogue, vectors, full texts, query encoder and rerankers, and what its searches share."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import Any, Final

import orjson

from scholarbase.encoders import Encoder, open_encoder
from scholarbase.encoders.computed import QueryVectors
from scholarbase.encoders.probe import check_probe, check_spec
from scholarbase.errors import (
    EncoderError,
    InvalidRequest,
    LibraryCorrupt,
    LibraryNotFound,
    RerankerError,
    VectorIndexError,
)
from scholarbase.extensions import added_names, missing
from scholarbase.indexes.catalog import FILE_NAME as CATALOG
from scholarbase.indexes.catalog import Catalog
from scholarbase.indexes.contents import FILE_NAME, OpenedFiles, read_contents
from scholarbase.indexes.passages import FOLDER, Documents
from scholarbase.indexes.vectors.index import EdgeIndex, VectorIndex
from scholarbase.indexes.vectors.shards import open_local
from scholarbase.manifest import Manifest, read_manifest
from scholarbase.memory import cores
from scholarbase.models.checks import shown
from scholarbase.models.encoders import PACKAGED, TRUSTED
from scholarbase.rerankers import Reranker, open_reranker
from scholarbase.search.lookup import Lookup
from scholarbase.search.profiles import with_profile
from scholarbase.settings import Settings, load_settings

QDRANT: Final = "qdrant"
"""The vector index of an extension that searches the Qdrant server of ``SCHOLARBASE_QDRANT_URL``."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The open files and models of a library."""

    path: Path
    manifest: Manifest
    snapshot: str
    settings: Settings
    files: OpenedFiles
    catalog: Catalog
    vectors: VectorIndex
    documents: Documents | None = None
    """Full texts, and the vectors of their passages."""
    passages: VectorIndex | None = None
    encoder: Encoder | None = None
    """That of queries."""
    rerankers: Mapping[str, Reranker] = field(default_factory=dict)

    @classmethod
    def at(
        cls,
        path: Path,
        settings: Settings | None,
        encoder: str | Encoder | None,
        rerankers: Mapping[str, str | Reranker] | None,
        *,
        full: bool,
    ) -> Opened:
        """Open what :meth:`.Library.open` describes, and check that it belongs together."""
        settings = settings or load_settings()
        downloaded = settings.libraries_folder / path
        if not path.exists() and len(path.parts) == 1 and downloaded.is_dir():
            raise LibraryNotFound(
                f"{path} is the name of a downloaded library, not its folder: open {downloaded}, which the commands "
                f"take as --library {path}."
            )
        manifest, snapshot = read_manifest(path)
        settings = with_profile(settings, manifest.profile)
        files = check_files(path, snapshot, settings, full=full)
        with ExitStack() as stack:
            # Two for each thread, since a sparse leg may have a thread of its own, and two for the event loop and the
            # readiness check.
            catalog = stack.enter_context(closing(Catalog(path / CATALOG, readers=2 * settings.readers + 2)))
            if catalog.snapshot != snapshot:
                raise LibraryCorrupt(
                    f"The manifest of {path} hashes to {snapshot}, but its catalogue was built as {catalog.snapshot}: "
                    "one of them was changed or belongs to another library. Restore a backup, or ingest again."
                )
            vectors = stack.enter_context(closing(open_vectors(path, snapshot, settings)))
            documents = passages = None
            if manifest.documents is not None:
                documents = stack.enter_context(
                    closing(Documents(path, snapshot, readers=settings.readers + 2))
                )
                passages = stack.enter_context(closing(open_passages(path, settings)))
            model = open_query_encoder(path, manifest, encoder, settings)
            if model is not None:
                stack.enter_context(closing(model))
            last = open_rerankers(rerankers, settings)
            stack.pop_all()
        return cls(
            path, manifest, snapshot, settings, files, catalog, vectors, documents, passages, model, last
        )

    def close(self) -> None:
        for part in (self.passages, self.documents, self.vectors, self.catalog, self.encoder):
            if part is not None:
                part.close()
        for reranker in self.rerankers.values():
            reranker.close()


class Part:
    """Searches of one kind in an open library. Thread-safe. Its errors are those of the methods of a library."""

    def __init__(self, opened: Opened, lookup: Lookup) -> None:
        self._snapshot = opened.snapshot
        self._catalog = opened.catalog
        self._lookup = lookup


def check_files(path: Path, snapshot: str, settings: Settings, *, full: bool = False) -> OpenedFiles:
    """Compare the library's files with their list: all sizes, and a sample of their blocks, or all with ``full``.

    Returns the opened files.

    Raises:
        LibraryCorrupt: a file has changed or is missing, or the vectors have one more.
    """
    contents = read_contents(path, snapshot)
    if not settings.has_own_vectors:
        contents = contents.without("vectors/")
    contents.check_sizes(path)
    contents.check_blocks(path, contents.blocks() if full else contents.sample())
    shards = ("vectors", FOLDER) if settings.has_own_vectors else (FOLDER,)
    others = [name for shard in shards for name in contents.others(path, shard)]
    if others:
        raise LibraryCorrupt(
            f"{path / others[0]} does not belong to the library, and Qdrant would read it: remove it, or restore the "
            "copy."
        )
    return OpenedFiles(path / name for name in contents.files)


def open_vectors(path: Path, snapshot: str, settings: Settings) -> VectorIndex:
    """The vectors of a library: its own folder, those of a Qdrant server, or those of an extension.

    Raises:
        InvalidRequest: no extension has the scheme of ``SCHOLARBASE_VECTOR_INDEX``, or there are two addresses.
        VectorIndexError, LibraryCorrupt: there are none, or those of another snapshot.
    """
    if settings.vector_index is not None:
        return _open_added_vectors(settings.vector_index, path, snapshot, settings)
    if settings.qdrant_url is not None:
        added = added_names("vector_indexes")
        if QDRANT not in added:
            raise InvalidRequest(f"SCHOLARBASE_QDRANT_URL cannot be used: {missing('cluster')}.")
        index: VectorIndex = added[QDRANT](f"{QDRANT}:", path, snapshot, settings)
        return index
    is_finished = (path / FILE_NAME).exists()
    if not (path / "vectors").exists() and is_finished and not read_contents(path, snapshot).has_vectors:
        raise VectorIndexError(
            f"The library at {path} was packed without its vectors: set SCHOLARBASE_QDRANT_URL to the Qdrant "
            "server that has them, or get the library with its vectors."
        )
    return open_local(
        path / "vectors", temporary=settings.runtime_dir, threads=_search_threads(settings.workers)
    )


def _open_added_vectors(address: str, path: Path, snapshot: str, settings: Settings) -> VectorIndex:
    if settings.qdrant_url is not None:
        raise InvalidRequest(
            "SCHOLARBASE_VECTOR_INDEX and SCHOLARBASE_QDRANT_URL both name a vector index: unset one of them."
        )
    added = added_names("vector_indexes")
    scheme = address.partition(":")[0]
    if scheme not in added:
        schemes = ", ".join(sorted(added)) or "none"
        raise InvalidRequest(
            f"SCHOLARBASE_VECTOR_INDEX has the scheme {scheme[:40]!r}, which no installed extension opens (schemes of "
            f"extensions: {schemes}): install the extension, or unset it."
        )
    opened: VectorIndex = added[scheme](address, path, snapshot, settings)
    return opened


def open_passages(path: Path, settings: Settings) -> VectorIndex:
    """The shard of the passages, which is in the library's folder also where papers are on a Qdrant server."""
    threads = _search_threads(settings.workers)
    return EdgeIndex.open(path / FOLDER, temporary=settings.runtime_dir, threads=threads)


def _search_threads(workers: int) -> int:
    """The most search threads of each worker process, so that together they use every core once."""
    return max(1, cores() // workers)


def open_query_encoder(
    path: Path, manifest: Manifest, encoder: str | Encoder | None, settings: Settings
) -> Encoder | None:
    """The query encoder, checked to be the one that the library was built with. The documents' model is not opened
    where it is another."""
    if manifest.encoder is None:
        return None
    stored = stored_encoder(path)
    wanted = encoder or encoder_location(path, manifest, settings)
    if wanted is None or wanted == "none":
        return None
    if isinstance(wanted, str):
        key = settings.encoder_api_key.get_secret_value() if settings.encoder_api_key else None
        wanted = open_encoder(wanted, device=settings.device, api_key=key)
    try:
        check_spec(manifest.encoder, wanted.spec)
        if (probe := stored.get("query_probe")) and not isinstance(wanted, QueryVectors):
            check_probe(wanted, probe)
    except BaseException:
        wanted.close()
        raise
    return wanted


def open_rerankers(rerankers: Mapping[str, str | Reranker] | None, settings: Settings) -> dict[str, Reranker]:
    """The rerankers, or those of the settings, by their names in requests. If one cannot be opened, all are closed."""
    key = settings.reranker_api_key.get_secret_value() if settings.reranker_api_key else None
    opened: dict[str, Reranker] = {}
    try:
        for name, source in ((settings.rerankers or {}) if rerankers is None else rerankers).items():
            reranker = (
                open_reranker(name, source, device=settings.device, api_key=key)
                if isinstance(source, str)
                else source
            )
            _check_reranker(name, reranker)
            opened[name] = reranker
    except BaseException:
        for reranker in opened.values():
            reranker.close()
        raise
    return opened


def _check_reranker(name: str, reranker: object) -> None:
    """Raises RerankerError: it lacks a part of the protocol, or has a value of another type."""
    weight = getattr(reranker, "weight", 1.0)
    for part, is_right, wanted in (
        ("name", isinstance(getattr(reranker, "name", None), str), "a text"),
        ("fingerprint", isinstance(getattr(reranker, "fingerprint", 0), str | NoneType), "a text or None"),
        ("weight", isinstance(weight, int | float) and 0 <= weight <= 1, "a number from 0 to 1"),
        ("score", callable(getattr(reranker, "score", None)), "a function"),
        ("close", callable(getattr(reranker, "close", None)), "a function"),
    ):
        if not is_right:
            value = repr(getattr(reranker, part)) if hasattr(reranker, part) else "missing"
            raise RerankerError(
                f"The reranker {name!r} cannot be used. Its {part} is {value}: mend it, so that it is {wanted}."
            )


def stored_encoder(path: Path) -> dict[str, Any]:
    """The locations of the encoder's models when the library was built, and its vectors of a known text.

    Raises:
        LibraryCorrupt: ``encoder.json`` is not such an object.
    """
    about = path / "encoder.json"
    try:
        stored = orjson.loads(about.read_bytes()) if about.is_file() else {}
        for key, kind in (("location", str), ("query_location", str), ("query_probe", dict)):
            if not isinstance(stored.get(key), kind | None):
                raise TypeError(f"{key} is not a {kind.__name__}")
    except (OSError, AttributeError, TypeError, ValueError) as error:
        raise LibraryCorrupt(f"{about} cannot be read ({error}): restore it from a backup.") from error
    content: dict[str, Any] = stored
    return content


def encoder_location(path: Path, manifest: Manifest, settings: Settings) -> str | None:
    """The name, path or URL of the library's query encoder; None if it needs none.

    Raises:
        EncoderError: only the library names it, and it is not trusted.
        LibraryCorrupt: as :func:`stored_encoder`.
    """
    if manifest.encoder is None or settings.encoder == "none":
        return None
    if settings.encoder:
        return settings.encoder
    stored = stored_encoder(path)
    location = stored.get("query_location", stored.get("location"))
    return check_trusted(
        path,
        location or manifest.encoder.for_queries.name,
        "--encoder or SCHOLARBASE_ENCODER; --encoder none searches by words only",
    )


def check_trusted(path: Path, location: str, allowing: str) -> str:
    """The location of an encoder that only the library names: a URL would get queries, and a model can run code.

    ``allowing`` are the options by which the user can name it.

    Raises:
        EncoderError: it is neither in the package nor one of :data:`TRUSTED`.
    """
    if location in TRUSTED and (location == PACKAGED or not Path(location).exists()):
        return location
    raise EncoderError(
        f"The library at {path} names the encoder {shown(location)}, which is used only if you name it too, since a "
        f"library can come from anyone (docs/trust.md): if you trust it, give it by {allowing}."
    )

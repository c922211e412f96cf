"""``manifest.json``: a library's sources, rules and counts.

It describes the content and has no times, so that builds from the same sources under the same rules have the same
manifest. The snapshot id is the first 32 hexadecimal digits of the file's SHA-256: ``sha256sum manifest.json`` shows
it.
"""

from __future__ import annotations

import hashlib
import stat
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import orjson

from scholarbase.errors import LibraryCorrupt, LibraryNotFound
from scholarbase.models.encoders import EncoderSpec
from scholarbase.models.limits import KeepRule, Profile

FILE_NAME: Final = "manifest.json"
MOST_BYTES: Final = 16 << 20
"""Bytes of a manifest, which has about 150 for each source file."""
FORMAT: Final = 11
"""The version of the library's layout on disk."""
BUILDING: Final = "building"
"""The folder in a library's folder where a job builds it."""
COMMAND: Final = "command"
"""A file in it: the command that began the job, if it is not an ingest."""
INGEST: Final = "ingest"
SHARDS: Final = "shards"
"""The key of the number of shards in the part about vectors. Missing for a single one."""
MOST_SHARDS: Final = 64
_COUNTED: Final = ("papers", "abstracts", "aliases", "authors", "venues", "edges", "points", "dense_vectors")
"""The counts that every library has."""


@dataclass(frozen=True, slots=True)
class SourceFact:
    """One source file: its name in the source folder, its size and its hash."""

    name: str
    dataset: str
    bytes: int
    sha256: str


class _Rules(msgspec.Struct):
    keep: KeepRule
    profile: Profile
    records: bool
    title_weight: int = 1
    columns: dict[str, str] = {}


class _Similarity(msgspec.Struct):
    p999: float
    p75: float | None = None
    p95: float | None = None

    def __post_init__(self) -> None:
        if self.p75 is self.p95 is None:
            raise ValueError("p75 and p95 are both missing")


class _Vectors(msgspec.Struct, forbid_unknown_fields=True):
    dimensions: int | None
    learned: bool
    m: int
    ef_construct: int
    quantization: str | None
    full_scan_kb: int
    random_similarity: _Similarity | None
    computed_elsewhere: str | None
    shards: Annotated[int, msgspec.Meta(ge=1, le=MOST_SHARDS)] = 1


class _Set(msgspec.Struct):
    sources: list[str]
    papers: int


class _Changes(msgspec.Struct):
    files: list[SourceFact]


class _Update(msgspec.Struct):
    steps: list[_Changes]


class _Documents(msgspec.Struct):
    chunker: str


class _Stored(msgspec.Struct):
    """The types of a manifest, which may be from anyone."""

    sources: list[SourceFact]
    rules: _Rules
    counts: dict[str, int]
    rejects: dict[str, int]
    fulltext: dict[str, Any]
    bm25: dict[str, Any]
    vectors: _Vectors
    content: dict[str, str]
    content_hash: str
    encoder: EncoderSpec | None
    release: str | None
    updates: list[_Update]
    sets: dict[str, _Set]
    documents: _Documents | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    sources: tuple[SourceFact, ...]
    rules: dict[str, Any]
    counts: dict[str, int]
    rejects: dict[str, int]
    fulltext: dict[str, Any]
    bm25: dict[str, Any]
    vectors: dict[str, Any]
    content: dict[str, str]
    """The SHA-256 of each part of the content."""
    content_hash: str
    encoder: EncoderSpec | None = None
    release: str | None = None
    """The release of the sources, if the name of their folder or of the last changes says it."""
    updates: tuple[dict[str, Any], ...] = ()
    """What was applied since the full build: the snapshot of each base, and the files of the changes."""
    sets: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The named sets: the ``sources`` whose papers each has, by their names, and the number of its ``papers``."""
    documents: dict[str, Any] | None = None
    """The full texts: the ``chunker`` of their passages, the ``tokens`` it counts, and the parameters of ``bm25`` and
    of the ``vectors``. Missing in the file without full texts."""
    format: int = field(default=FORMAT)

    def to_bytes(self) -> bytes:
        """The file's bytes: keys sorted, indented by two, so that differences are easy to see."""
        content = asdict(self) | {"encoder": self.encoder.to_dict() if self.encoder else None}
        if self.documents is None:
            del content["documents"]
        return orjson.dumps(
            content, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
        )

    @property
    def profile(self) -> Profile:
        """The profile of searches for which the library was built."""
        profile: Profile = self.rules["profile"]
        return profile

    @property
    def title_weight(self) -> int:
        """The number of times the title is repeated in a paper's encoded text; 1 if the manifest does not say."""
        weight: int = self.rules.get("title_weight", 1)
        return weight

    @property
    def shards(self) -> int:
        """The number of shards of the papers' vectors."""
        shards: int = self.vectors.get(SHARDS, 1)
        return shards

    @property
    def snapshot(self) -> str:
        return snapshot_id(self.to_bytes())

    @classmethod
    def from_bytes(cls, data: bytes, where: Path) -> Manifest:
        """Parse a manifest. Raises LibraryCorrupt: it is invalid, or of an unsupported format."""
        try:
            content = orjson.loads(data)
            if content["format"] != FORMAT:
                raise LibraryCorrupt(
                    f"The library at {where.parent} has format {content['format']!r}, and this ScholarBase reads "
                    f'format {FORMAT}: run "scholarbase ingest SOURCES --library {where.parent} --restart" with the '
                    "sources that its manifest.json lists, or use the release that built it."
                )
            stored = msgspec.convert(content, _Stored)
            if missing := [name for name in _COUNTED if name not in stored.counts]:
                raise KeyError(missing[0])
            encoder = content.pop("encoder")
            sources = tuple(SourceFact(**source) for source in content.pop("sources"))
            updates = tuple(content.pop("updates"))
            return cls(
                sources=sources,
                updates=updates,
                encoder=EncoderSpec.from_dict(encoder) if encoder else None,
                **content,
            )
        except (
            orjson.JSONDecodeError,
            msgspec.ValidationError,
            KeyError,
            TypeError,
            RecursionError,
        ) as error:
            raise LibraryCorrupt(
                f"{where} is not a valid manifest of a library: {error}. Ingest the library again."
            ) from error


def snapshot_id(manifest_bytes: bytes) -> str:
    return hashlib.sha256(manifest_bytes).hexdigest()[:32]


def unfinished_command(library: Path) -> str:
    """The command whose job in the building folder of a library is not finished."""
    try:
        return (library / BUILDING / COMMAND).read_text(encoding="ascii")
    except FileNotFoundError:
        return INGEST


def read_manifest(library: Path) -> tuple[Manifest, str]:
    """A library's manifest and its snapshot id.

    Raises:
        LibraryNotFound: the folder or its manifest is missing.
        LibraryCorrupt: the manifest cannot be read.
    """
    data = read_bytes(library)
    return Manifest.from_bytes(data, library / FILE_NAME), snapshot_id(data)


def read_plain(path: Path, most: int) -> bytes:
    """The content of a file of a library, which may be from anyone.

    Raises:
        OSError: it cannot be read.
        LibraryCorrupt: it is a device or a pipe, which may have no end, or has more than ``most`` bytes.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode) or status.st_size > most:
        raise LibraryCorrupt(
            f"{path} is not a plain file of at most {most:,} bytes, as in a library: restore the copy, or ingest again."
        )
    return path.read_bytes()


def read_bytes(library: Path) -> bytes:
    """The bytes of a library's manifest.

    Raises:
        LibraryNotFound: the folder or its manifest is missing.
        LibraryCorrupt: it is not a plain file, or too large.
    """
    try:
        return read_plain(library / FILE_NAME, MOST_BYTES)
    except FileNotFoundError:
        if (library / BUILDING).is_dir():
            command = unfinished_command(library)
            raise LibraryNotFound(
                f'The library at {library} is not finished: run the same "scholarbase {command}" again to continue.'
            ) from None
        what = "No library at" if not library.exists() else "No manifest.json in"
        raise LibraryNotFound(
            f'{what} {library}: run "scholarbase ingest" first, or give another --library.'
        ) from None
    except NotADirectoryError:
        raise LibraryNotFound(f"{library} is a file, not a library: give a library's folder.") from None

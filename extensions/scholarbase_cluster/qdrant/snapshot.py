"""A snapshot of a library's own shard, as Qdrant restores it: made while it is sent, without a second copy on disk.

Qdrant Edge and the server share their format. The snapshot of a shard is an uncompressed tar with ``segments/ID.tar``
for each segment, which has the segment's files below ``snapshot/files/``, and with the shard's own files beside
``segments`` (``shard_config.json``, ``replica_state.json``, ``wal/``). Source of the format: ``take_snapshot`` in
https://github.com/qdrant/qdrant/blob/master/lib/segment/src/segment/snapshot.rs. The shard's own files depend on the
cluster and are copied from the snapshot of the empty shard that receives this one.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

import orjson

from scholarbase.errors import VectorIndexError

_END: Final = bytes(2 * tarfile.BLOCKSIZE)
"""The end of a tar."""
_CHUNK: Final = 1 << 20
_SEGMENTS: Final = "segments/"


class _Member(NamedTuple):
    """A file of a segment: its path in the segment's tar and its content, a file or bytes."""

    name: str
    size: int
    content: Path | bytes


class ShardSnapshot:
    """The snapshot of the shard at ``shard``. Iterating yields its ``size`` bytes, each time the same.

    Args:
        shard: the folder of the shard, which nobody writes to.
        empty: an open file with the snapshot of the shard that receives this one, as :func:`keep_frame` wrote it.

    Raises:
        VectorIndexError: the shard has no segment, or one whose description cannot be read.
    """

    def __init__(self, shard: Path, frame: IO[bytes]) -> None:
        self._frame = frame
        self._frame_size = frame.seek(0, 2)
        self._segments = [
            (folder.name, _members(folder))
            for folder in sorted((shard / "segments").glob("*"))
            if folder.is_dir() and not folder.name.startswith(".")
        ]
        if not self._segments:
            raise VectorIndexError(f"The vector index at {shard} has no segment: build the library again.")
        self.size = self._frame_size + len(_END)
        self.size += sum(_entry_size(_inner_size(members)) for _, members in self._segments)

    @property
    def segments(self) -> int:
        """The number of segments."""
        return len(self._segments)

    def __iter__(self) -> Iterator[bytes]:
        self._frame.seek(0)
        yield from _chunks(self._frame, self._frame_size)
        for name, members in self._segments:
            yield _header(f"{_SEGMENTS}{name}.tar", _inner_size(members))
            for member in members:
                yield _header(member.name, member.size)
                if isinstance(member.content, bytes):
                    yield member.content
                else:
                    with member.content.open("rb") as file:
                        yield from _chunks(file, member.size)
                yield _padding(member.size)
            yield _END
        yield _END


def keep_frame(snapshot: IO[bytes], out: IO[bytes]) -> None:
    """Write all of a shard's snapshot but its segments to ``out``, without the end of the tar.

    ``snapshot`` is read once, from its beginning to its end.

    Raises:
        tarfile.TarError: it is not a tar.
        OSError: the disk is full, or the connection ended.
    """
    with tarfile.open(fileobj=snapshot, mode="r|") as source:
        for member in source:
            name = member.name.removeprefix("./")
            if not member.isfile() or name.startswith(_SEGMENTS):
                continue
            out.write(_header(name, member.size))
            content = source.extractfile(member)
            assert content is not None
            for chunk in iter(lambda content=content: content.read(_CHUNK), b""):  # type: ignore[misc]
                out.write(chunk)
            out.write(_padding(member.size))


def _members(segment: Path) -> list[_Member]:
    members = []
    for file in sorted(segment.rglob("*")):
        if not file.is_file():
            continue
        name = f"snapshot/files/{file.relative_to(segment).as_posix()}"
        if file == segment / "segment.json":
            content = _described(file)
            members.append(_Member(name, len(content), content))
        else:
            members.append(_Member(name, file.stat().st_size, file))
    return members


def _described(file: Path) -> bytes:
    """The description of a segment with the parameters that a server's collection has.

    A collection's graph has ``on_disk`` set to false where that of Qdrant Edge has nothing, which means the same. A
    server that finds them different builds the graph again, and then another one.
    """
    try:
        described = orjson.loads(file.read_bytes())
        for vector in described["config"]["vector_data"].values():
            if vector["index"]["type"] == "hnsw":
                vector["index"]["options"].setdefault("on_disk", False)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise VectorIndexError(f"{file} does not describe a segment: {error!r}.") from error
    return orjson.dumps(described)


def _inner_size(members: list[_Member]) -> int:
    return sum(_entry_size(member.size) for member in members) + len(_END)


def _entry_size(size: int) -> int:
    """Bytes of a file in a tar, with header and padding. All names are short enough for one block."""
    return tarfile.BLOCKSIZE + size + len(_padding(size))


def _header(name: str, size: int) -> bytes:
    """The header of a file, the same for the same file. Sizes from 8 GiB on are written as GNU tar does."""
    about = tarfile.TarInfo(name)
    about.size = size
    header = about.tobuf(tarfile.GNU_FORMAT)
    if len(header) != tarfile.BLOCKSIZE:
        raise VectorIndexError(f"The path {name!r} of a segment's file is too long for the header of a tar.")
    return header


def _padding(size: int) -> bytes:
    return bytes(-size % tarfile.BLOCKSIZE)


def _chunks(file: IO[bytes], size: int) -> Iterator[bytes]:
    """Raises VectorIndexError: the file has another size."""
    left = size
    while left:
        chunk: Any = file.read(min(_CHUNK, left))
        if not chunk:
            raise VectorIndexError(f"{file.name} became shorter while it was read.")
        left -= len(chunk)
        yield chunk

"""Packed libraries made by hand, and comparisons of folders."""

import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import zstandard

from tests.libraries import copied, relist

Member = tuple[tarfile.TarInfo, bytes]


def files(folder: Path) -> dict[str, bytes]:
    """Every file in a folder, without views of processes that serve a library."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    names = {path: path.relative_to(folder).as_posix() for path in found}
    return {name: path.read_bytes() for path, name in names.items() if not name.startswith(".")}


def without_zeros(library: Path, to: Path) -> Path:
    """A copy of a library without the large files of its vectors. No search reads it, but it is packed like others."""
    large = {path.name for path in (library / "vectors").rglob("*") if path.stat().st_size > 1 << 16}
    copied(library, to, ".*", *large)
    relist(to)
    return to


def members(archive: bytes) -> list[Member]:
    """The members of a packed library, as Python's tarfile reads them."""
    with (
        zstandard.ZstdDecompressor().stream_reader(archive) as stream,
        tarfile.open(fileobj=io.BytesIO(stream.read()), mode="r:") as tar,
    ):
        found = []
        for member in tar.getmembers():
            content = tar.extractfile(member)
            assert content is not None
            found.append((member, content.read()))
    return found


def archive_of(content: Iterable[Member]) -> bytes:
    """A packed library of these members."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:", format=tarfile.GNU_FORMAT) as tar:
        for member, data in content:
            tar.addfile(member, io.BytesIO(data) if member.isreg() else None)
    return zstandard.ZstdCompressor(write_checksum=True).compress(out.getvalue())


def plain(name: str, data: bytes) -> Member:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    return member, data


def listing(snapshot: str, facts: Mapping[str, Any]) -> bytes:
    """A ``files.json`` with its own hash, as docs/library-format.md describes it."""

    def dump(fields: Mapping[str, Any]) -> bytes:
        return json.dumps(fields, indent=2, sort_keys=True).encode() + b"\n"

    fields = {"block_bytes": 1 << 20, "snapshot": snapshot, "files": facts}
    return dump({**fields, "sha256": hashlib.sha256(dump(fields)).hexdigest()})


def fact(data: bytes) -> dict[str, Any]:
    blocks = [data[start : start + (1 << 20)] for start in range(0, len(data), 1 << 20)]
    return {"bytes": len(data), "blocks": [hashlib.sha256(block).hexdigest() for block in blocks]}

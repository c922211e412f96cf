"""A packed library is unpacked whole or not at all, whatever is in the file."""

import hashlib
import json
import lzma
import shutil
import tarfile
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest
import zstandard

from scholarbase.errors import (
    InvalidRequest,
    LibraryBusy,
    LibraryCorrupt,
    LibraryExists,
    SourceError,
    StorageError,
)
from scholarbase.ingest.folder import BuildFolder
from scholarbase.ingest.job import ingest
from scholarbase_download.packing import pack
from scholarbase_download.unpacking import unpack
from tests.conftest import SAMPLE
from tests.extensions.download.archives import (
    Member,
    archive_of,
    fact,
    files,
    listing,
    members,
    plain,
    without_zeros,
)
from tests.extensions.download.test_kills import MODULES
from tests.forks import run_fork
from tests.libraries import copied


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of five papers, without the large files of its vectors."""
    folder = tmp_path_factory.mktemp("tiny")
    with lzma.open(SAMPLE / "arxiv" / "arxiv-metadata-sample.jsonl.xz") as lines:
        (folder / "few.jsonl").write_bytes(b"".join(islice(lines, 5)))
    ingest([folder / "few.jsonl"], folder / "whole")
    return without_zeros(folder / "whole", folder / "library")


@pytest.fixture(scope="module")
def packed(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("packed") / "tiny.tar.zst"
    pack(tiny, file)
    return file


@pytest.fixture(scope="module")
def content(packed: Path) -> list[Member]:
    """The members of an archive."""
    return members(packed.read_bytes())


def refused(data: bytes, folder: Path, match: str, error: type[Exception] = LibraryCorrupt) -> None:
    """Assert that an archive is refused, and that nothing is left of it."""
    folder.mkdir(exist_ok=True)
    (folder / "file").write_bytes(data)
    with pytest.raises(error, match=match):
        unpack(folder / "file", folder / "library")
    assert [path.name for path in folder.iterdir()] == ["file"]


def test_an_archive_of_another_tool_is_read(content: list[Member], tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(archive_of(content))
    unpack(tmp_path / "file", tmp_path / "library")
    assert files(tmp_path / "library") == {member.name: data for member, data in content}


@pytest.mark.slow
def test_a_cut_file_is_refused(content: list[Member], tmp_path: Path) -> None:
    data = archive_of(content)
    for length in (0, 1, 100, len(data) // 3, len(data) // 2, len(data) - 100, len(data) - 1):
        refused(data[:length], tmp_path, "damaged")


@pytest.mark.slow
def test_a_flipped_byte_that_is_compressed_again_is_refused(content: list[Member], tmp_path: Path) -> None:
    """zstd's own checksum does not help here, but the blocks' hashes do."""
    for number, (member, data) in enumerate(content):
        if data and number not in range(4, len(content) - 3):
            changed = bytearray(data)
            changed[len(data) // 2] ^= 1
            others = [*content[:number], (member, bytes(changed)), *content[number + 1 :]]
            refused(archive_of(others), tmp_path, "damaged|changed|not a valid manifest|cannot be read")


@pytest.mark.slow
def test_the_hash_beside_the_file_is_compared(packed: Path, tiny: Path, tmp_path: Path) -> None:
    file, beside = tmp_path / "file", tmp_path / "file.sha256"
    shutil.copy(packed, file)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    beside.write_text(f"{'0' * 64}  file\n")
    with pytest.raises(LibraryCorrupt, match=digest):
        unpack(file, tmp_path / "library")
    assert not (tmp_path / "library").exists()
    with pytest.raises(LibraryCorrupt, match=digest):
        unpack(file, tmp_path / "library", sha256="1" * 64)
    beside.write_text("nothing")
    with pytest.raises(SourceError, match="sha256sum"):
        unpack(file, tmp_path / "library")
    with pytest.raises(InvalidRequest, match="64 hexadecimal"):
        unpack(file, tmp_path / "library", sha256="abc")
    unpack(file, tmp_path / "library", sha256=digest.upper())
    beside.write_text(f"{digest} *file\n")
    unpack(file, tmp_path / "other")
    assert files(tmp_path / "other") == files(tiny)


def link(name: str, kind: bytes = tarfile.SYMTYPE) -> Member:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, "/etc/passwd"
    return member, b""


HOSTILE: dict[str, tuple[Callable[[list[Member]], list[Member]], str]] = {
    "a path out of the folder": (lambda all_: [*all_, plain("../evil", b"x")], "unlisted file"),
    "an absolute path": (lambda all_: [*all_, plain("/tmp/evil", b"x")], "unlisted file"),
    "another file": (lambda all_: [*all_, plain("vectors/evil", b"x")], "unlisted file"),
    "a hidden name": (lambda all_: [*all_, plain("vectors/.evil", b"x")], "unlisted file"),
    "a second file": (lambda all_: [*all_, all_[-1]], "a second file"),
    "a second manifest": (lambda all_: [*all_, all_[0]], "a second file"),
    "a second list": (lambda all_: [*all_, all_[1]], "a second file"),
    "a symbolic link": (lambda all_: [*all_[:2], link("catalog.sqlite"), *all_[2:]], "not a plain file"),
    "a hard link": (lambda all_: [*all_[:2], link("vectors", tarfile.LNKTYPE)], "not a plain file"),
    "a device": (lambda all_: [*all_[:2], link("catalog.sqlite", tarfile.CHRTYPE)], "not a plain file"),
    "a folder": (lambda all_: [*all_[:2], link("vectors", tarfile.DIRTYPE), *all_[2:]], "not a plain file"),
    "a missing file": (lambda all_: all_[:-1], "lacks"),
    "a larger file": (lambda all_: [*all_[:-1], plain(all_[-1][0].name, all_[-1][1] + b"x")], "instead of"),
    "a smaller file": (lambda all_: [*all_[:2], plain("catalog.sqlite", b"x"), *all_[3:]], "instead of"),
    "another order": (lambda all_: [all_[1], all_[0], *all_[2:]], "does not begin with"),
    "no list": (lambda all_: [all_[0], *all_[2:]], "does not begin with"),
    "nothing": (lambda all_: [], "does not begin with"),
}


@pytest.mark.slow
def test_a_hostile_archive_is_refused(content: list[Member], tmp_path: Path) -> None:
    for change, match in HOSTILE.values():
        refused(archive_of(change(content)), tmp_path, match)
    assert not (tmp_path.parent / "evil").exists()


@pytest.mark.slow
def test_a_list_with_other_names_or_sizes_is_refused(content: list[Member], tmp_path: Path) -> None:
    """A list that was written for it, with the right hash of itself and of the file."""
    stored = json.loads(content[1][1])

    def hostile(name: str, listed: object) -> bytes:
        facts = stored["files"] | {name: listed}
        own_list = plain("files.json", listing(stored["snapshot"], facts))
        return archive_of([content[0], own_list, *content[2:], plain(name, b"evil")])

    for name in ("../evil", "/tmp/evil", "vectors/../../evil", "vectors//evil", "vectors/.", "vectors/.evil",
                 "vectors", "building/evil", "files.json", "evil", "vectors\\evil", "vectors/evil\n",
                 "vectors/" + "a" * 2000, "catalog.sqlite/evil", "vectors/edge_config.json/evil"):  # fmt: skip
        refused(hostile(name, fact(b"evil")), tmp_path, "not a file of a library|in a folder that is a file")
    for wrong in (
        {"bytes": -1, "blocks": []},
        {"bytes": 1 << 20, "blocks": []},
        {"bytes": "4", "blocks": ["a"]},
        {"bytes": 4, "blocks": "a"},
        {"bytes": True, "blocks": ["a"]},
        {"bytes": 4},
        {"bytes": 4, "blocks": ["a"], "more": 1},
    ):
        refused(
            hostile("vectors/evil", wrong),
            tmp_path,
            "no file has|cannot be read|has changed since it was written",
        )
    # The others were refused for their names.
    (tmp_path / "file").write_bytes(hostile("vectors/good", fact(b"evil")))
    unpack(tmp_path / "file", tmp_path / "library")
    assert (tmp_path / "library" / "vectors/good").read_bytes() == b"evil"
    assert not (tmp_path.parent / "evil").exists()


@pytest.mark.slow
def test_a_library_larger_than_the_disk_is_refused_before_it_is_written(
    content: list[Member], tmp_path: Path
) -> None:
    """Of data; the same size of zeros takes no space."""
    stored = json.loads(content[1][1])
    blocks = shutil.disk_usage(tmp_path).total // (1 << 20)
    facts = stored["files"] | {"vectors/large": {"bytes": blocks << 20, "blocks": ["0" * 64] * blocks}}
    head = [content[0], plain("files.json", listing(stored["snapshot"], facts))]
    refused(archive_of(head), tmp_path, "MB free", StorageError)
    zeros = hashlib.sha256(bytes(1 << 20)).hexdigest()
    facts = stored["files"] | {"vectors/large": {"bytes": blocks << 20, "blocks": [zeros] * blocks}}
    head = [content[0], plain("files.json", listing(stored["snapshot"], facts))]
    refused(archive_of(head), tmp_path, "lacks")


@pytest.mark.slow
def test_data_after_the_end_is_refused(content: list[Member], tmp_path: Path) -> None:
    data = archive_of(content)
    refused(data + b"more", tmp_path, "cannot be decompressed")
    refused(data + zstandard.compress(b"more"), tmp_path, "goes on after its end")
    refused(data + zstandard.compress(bytes(10 << 20)), tmp_path, "goes on after its end")
    refused(zstandard.compress(bytes(1 << 20)), tmp_path, "does not begin with")


def test_a_window_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    """Its length is in the header of a frame (RFC 8878, section 3.1.1.1.2): 1 GiB, which would be allocated."""
    refused(b"\x28\xb5\x2f\xfd\x00\xa0" + b"\x00" * 100, tmp_path, "cannot be decompressed")


def test_a_manifest_of_another_format_is_refused(content: list[Member], tmp_path: Path) -> None:
    stored = json.loads(content[0][1])
    changed = json.dumps(stored | {"format": 99}, indent=2, sort_keys=True).encode() + b"\n"
    snapshot = hashlib.sha256(changed).hexdigest()[:32]
    facts = json.loads(content[1][1])["files"] | {"manifest.json": fact(changed)}
    head = [plain("manifest.json", changed), plain("files.json", listing(snapshot, facts))]
    refused(archive_of([*head, *content[2:]]), tmp_path, "format 99")


# -- the folder -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_unpacked_library_is_left_as_it_is(packed: Path, tmp_path: Path) -> None:
    library = tmp_path / "library"
    unpack(packed, library)
    inode = (library / "catalog.sqlite").stat().st_ino
    unpack(packed, library)
    assert (library / "catalog.sqlite").stat().st_ino == inode
    assert not (library / "building").exists()


@pytest.mark.slow
def test_other_folders_are_left_as_they_are(packed: Path, light_library: Path, tmp_path: Path) -> None:
    other = copied(light_library, tmp_path / "other")
    before = files(other)
    with pytest.raises(LibraryExists, match="already has a library"):
        unpack(packed, other)
    assert files(other) == before
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.tex").write_text("mine")
    with pytest.raises(LibraryExists, match="thesis"):
        unpack(packed, mine)
    assert files(mine) == {"thesis.tex": b"mine"}


def test_unfinished_jobs_of_other_commands_are_left_as_they_are(packed: Path, tmp_path: Path) -> None:
    library = tmp_path / "library"
    for begun, other in (("ingest", "unpack"), ("unpack", "ingest")):
        folder = BuildFolder(library, begun)
        (folder.path / "catalog.sqlite").write_bytes(b"half")
        with pytest.raises(LibraryBusy, match=f"Another {begun}"):
            BuildFolder(library, other)
        folder.close()
        with pytest.raises(LibraryExists, match=f'run the same "scholarbase {begun}" again'):
            BuildFolder(library, other)
        assert (folder.path / "catalog.sqlite").read_bytes() == b"half"
        shutil.rmtree(library)


@pytest.mark.slow
def test_a_full_disk_while_unpacking(packed: Path, tmp_path: Path) -> None:
    script = """
import resource, signal, sys
from scholarbase.cli import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
main(sys.argv[1:])
"""
    library = tmp_path / "library"
    done = run_fork("unpack", packed, "--library", library, code=script, imports=MODULES)
    assert done.returncode == StorageError.exit_code
    assert "free some disk space and run the same command again" in done.stderr
    assert not library.exists()

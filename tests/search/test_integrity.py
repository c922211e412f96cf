"""Changes of a library's files are found by ``verify`` and when the library is opened."""

import hashlib
import json
import os
import random
import shutil
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from scholarbase.errors import LibraryCorrupt, VerificationFailed
from scholarbase.indexes.contents import Contents
from scholarbase.indexes.vectors.index import EdgeIndex
from scholarbase.ingest.job import ingest
from scholarbase.manifest import FORMAT, Manifest, read_manifest
from scholarbase.search.library import Library
from scholarbase.search.verification import verify
from tests.conftest import run_cli
from tests.libraries import copied, relist


@pytest.fixture
def library(dense_library: Path, tmp_path: Path) -> Path:
    return copied(dense_library, tmp_path / "library")


def flip(path: Path, chance: random.Random) -> tuple[int, int]:
    """Flip one bit. Returns its byte and its mask."""
    with path.open("r+b") as file:
        place, mask = chance.randrange(path.stat().st_size), 1 << chance.randrange(8)
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ mask]))
    return place, mask


def unflip(path: Path, place: int, mask: int) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ mask]))


def test_verify_finds_every_flipped_bit(library: Path) -> None:
    """Half of them in the catalogue, and the others in every other file in turn."""
    chance = random.Random(15)
    files = sorted(path for path in library.rglob("*") if path.is_file() and path.stat().st_size)
    others = [path for path in files if path.name != "catalog.sqlite"]
    for number in range(12):
        path = library / "catalog.sqlite" if number % 2 else others[number // 2 % len(others)]
        place, mask = flip(path, chance)
        with pytest.raises((VerificationFailed, LibraryCorrupt)) as found:
            list(verify(library))
        if path.name not in ("manifest.json", "files.json"):  # their own hashes name no block
            assert f"Block {place >> 20} of {path} " in str(found.value)
        else:
            assert path.name in str(found.value) or "manifest" in str(found.value)
        unflip(path, place, mask)
    assert list(verify(library))


def test_verify_finds_every_flipped_bit_of_the_list_itself(library: Path) -> None:
    """Some flips leave valid JSON with the same meaning, such as A for a in a hash."""
    path = library / "files.json"
    held = path.read_bytes()
    chance = random.Random(17)
    start = held.index(b'"sha256"')
    for place in [*chance.sample(range(len(held)), 60), *range(start, len(held), 3)]:
        for mask in (1 << chance.randrange(8), 0x20):
            path.write_bytes(held[:place] + bytes([held[place] ^ mask]) + held[place + 1 :])
            with pytest.raises(VerificationFailed, match=r"files\.json"):
                list(verify(library))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("UPDATE papers SET url = replace(url, 'a', 'e')", "differs from the manifest: .*papers"),
        ("UPDATE papers SET tldr = 9e999 WHERE id = (SELECT min(id) FROM papers)", "manifest: .*papers"),
        (
            "UPDATE aliases SET paper_id = 8 WHERE value = (SELECT min(value) FROM aliases)",
            "manifest: .*aliases",
        ),
        ("UPDATE edges SET contexts = '[\"other words\"]'", "differs from the manifest: .*edges"),
        (
            "UPDATE document_frequencies SET papers = papers + 1 WHERE term > 0",
            "document frequency .*, and the vec",
        ),
    ],
)
def test_rewritten_rows_are_found_where_the_list_of_files_is_rewritten_too(
    library: Path, statement: str, sentence: str
) -> None:
    with closing(sqlite3.connect(library / "catalog.sqlite")) as db, db:
        assert db.execute(statement).rowcount
    relist(library)
    Library.open(library, full=True).close()
    with pytest.raises(VerificationFailed, match=sentence):
        list(verify(library))


def test_filters_of_other_papers_are_found(library: Path) -> None:
    """The days of papers are in the vector index too."""
    with closing(sqlite3.connect(library / "catalog.sqlite")) as db, db:
        db.execute("UPDATE papers SET first_day = first_day - 10000, last_day = last_day - 10000")
    relist(library)
    with pytest.raises(VerificationFailed, match=r"filters of point \d+ are"):
        list(verify(library))


def documented_hash(library: Path) -> str:
    """The content hash as docs/library-format.md defines it, without our code for hashes."""
    tables = (
        "papers",
        "abstracts",
        "aliases",
        "authors",
        "venues",
        "venue_names",
        "edges",
        "sets",
        "written",
    )
    parts: dict[str, list[bytes]] = {}
    with closing(sqlite3.connect(f"file:{library / 'catalog.sqlite'}?mode=ro", uri=True)) as db:
        for table in tables:
            parts[table] = [
                json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode()
                for row in db.execute(f"SELECT * FROM {table}")
            ]
    with closing(EdgeIndex.open(library / "vectors")) as index:
        points = [point for batch in index.points() for point in batch]
        names = [*index.config.sparse_names]
    for name in names:
        parts[name] = [
            struct.pack(f"<q{len(v.indices)}I{len(v.values)}f", point.id, *v.indices, *v.values)
            for point in points
            if (v := point.sparse.get(name)) is not None
        ]
    dense = [(point.id, point.dense) for point in points if point.dense is not None]
    if dense:
        parts["dense"] = [
            struct.pack("<q", number) + vector.astype(np.float16).tobytes() for number, vector in dense
        ]
        assert all((vector.astype(np.float16) == vector).all() for _, vector in dense)
    lines = ""
    for name, part in sorted(parts.items()):
        total = sum(int.from_bytes(hashlib.shake_256(row).digest(256), "little") for row in part) % 2**2048
        lines += f"{hashlib.sha256(total.to_bytes(256, 'little')).hexdigest()}  {name}\n"
    return hashlib.sha256(lines.encode()).hexdigest()


@pytest.mark.slow
def test_the_content_hash_is_the_documented_one(sample_library: Path, dense_library: Path) -> None:
    for library in (sample_library, dense_library):
        assert documented_hash(library) == read_manifest(library)[0].content_hash


def large_files(library: Path) -> Iterator[Path]:
    return (path for path in sorted(library.rglob("*")) if path.is_file() and path.stat().st_size > 100)


def test_opening_finds_truncated_and_missing_files(library: Path) -> None:
    files = [path for path in large_files(library) if path.name != "manifest.json"]
    for path in [library / "catalog.sqlite", *random.Random(21).sample(files, 10)]:
        held = path.read_bytes()
        path.write_bytes(held[:-1])
        with pytest.raises(LibraryCorrupt, match=path.name.replace(".", r"\.")):
            Library.open(library)
        path.unlink()
        with pytest.raises(LibraryCorrupt, match=path.name.replace(".", r"\.")):
            Library.open(library)
        path.write_bytes(held)
    Library.open(library).close()


@pytest.mark.slow
def test_opening_in_full_finds_every_flipped_bit(library: Path) -> None:
    chance = random.Random(18)
    files = [path for path in large_files(library) if path.name != "manifest.json"]
    for path in [library / "catalog.sqlite", *chance.sample(files, 6)]:
        place, mask = flip(path, chance)
        with pytest.raises(LibraryCorrupt, match=path.name.replace(".", r"\.")):
            Library.open(library, full=True)
        unflip(path, place, mask)
    Library.open(library, full=True).close()


def test_opening_compares_a_sample_of_blocks(library: Path) -> None:
    """A library with many changed blocks is found by chance: here nearly all of them are."""
    for path in large_files(library):
        if path.name not in ("manifest.json", "files.json"):
            flip(path, random.Random(19))
    with pytest.raises(LibraryCorrupt, match="has changed since it was written"):
        Library.open(library)


@pytest.mark.parametrize("pattern", ["id_tracker.*", "*/inverted_index.dat"])
def test_smashed_posting_lists_and_id_trackers_are_found_at_every_opening(
    library: Path, pattern: str
) -> None:
    """Qdrant ends the process (SIGABRT) with some damaged id trackers."""
    chance = random.Random(20)
    for path in sorted((library / "vectors" / "segments").glob(f"*/{pattern}")):
        held = path.read_bytes()
        if not held:
            continue
        start = chance.randrange(len(held))
        smashed = bytes(byte ^ 0xFF for byte in held[start : start + 4096])
        path.write_bytes(held[:start] + smashed + held[start + 4096 :])
        with pytest.raises(LibraryCorrupt, match=rf"Block 0 of .*{path.name}"):
            Library.open(library)
        path.write_bytes(held)
    Library.open(library).close()


def test_files_that_do_not_belong_to_a_library_are_named(library: Path) -> None:
    (library / "notes.txt").touch()
    with pytest.raises(VerificationFailed, match=r"do not belong to the library: notes\.txt"):
        list(verify(library))
    Library.open(library).close()
    (library / "notes.txt").unlink()
    segment = next((library / "vectors" / "segments").iterdir())
    copied(segment, segment.with_name("11111111-1111-1111-1111-111111111111"))
    with pytest.raises(LibraryCorrupt, match="does not belong to the library"):
        Library.open(library)


def test_a_list_of_another_build_is_named(library: Path, sample_library: Path) -> None:
    shutil.copy(sample_library / "files.json", library)
    with pytest.raises(LibraryCorrupt, match="belongs to another library"):
        Library.open(library)


def test_an_earlier_format_is_rejected(library: Path) -> None:
    text = (library / "manifest.json").read_text()
    (library / "manifest.json").write_text(text.replace(f'"format": {FORMAT}', '"format": 3'))
    done = run_cli("info", "--library", library)
    assert "has format 3, and this ScholarBase reads format 11" in done.stderr


def test_a_manifest_with_values_of_other_types_ended_in_a_traceback(sample_library: Path) -> None:
    data = (sample_library / "manifest.json").read_bytes()
    for keys, value in (
        *((("rules",), []), (("rules", "profile"), "other"), (("rules",), {}), (("sources",), [5])),
        *(
            (("counts",), {}),
            (("counts", "papers"), "many"),
            (("counts", "edges"), None),
            (("sets",), {"a": 1}),
        ),
        *((("vectors", "shards"), 10**9), (("vectors", "random_similarity"), {"p999": 1.0}), (("bm25",), 5)),
        *((("documents",), 5), (("encoder",), 5), (("updates",), [1]), (("content",), {"papers": 1})),
    ):
        stored = json.loads(data)
        inner = stored
        for key in keys[:-1]:
            inner = inner[key]
        inner[keys[-1]] = value
        with pytest.raises(LibraryCorrupt, match="is not a valid manifest of a library"):
            Manifest.from_bytes(json.dumps(stored).encode(), Path("manifest.json"))
    for text in (
        b"[]",
        b"1",
        b"[" * 5000,
        b'{"format": %d, "rules": ' % FORMAT + b"[" * 900 + b"]" * 900 + b"}",
    ):
        with pytest.raises(LibraryCorrupt, match="is not a valid manifest of a library"):
            Manifest.from_bytes(text, Path("manifest.json"))


def test_a_row_of_broken_json_was_an_internal_error(library: Path) -> None:
    with closing(sqlite3.connect(library / "catalog.sqlite")) as db, db:
        db.execute("UPDATE papers SET authors = '[['")
    relist(library)
    with (
        Library.open(library) as opened,
        pytest.raises(LibraryCorrupt, match=r"A row of the library .* is damaged"),
    ):
        opened.search("strings")
    with closing(sqlite3.connect(library / "catalog.sqlite")) as db, db:
        db.execute("UPDATE papers SET authors = NULL")
        db.execute("UPDATE edges SET contexts = '['")
        [(cited,)] = db.execute("SELECT arxiv_id FROM papers WHERE id = (SELECT min(cited) FROM edges)")
    relist(library)
    with (
        Library.open(library) as opened,
        pytest.raises(LibraryCorrupt, match="a row has JSON that cannot be read"),
    ):
        opened.citations(f"arXiv:{cited}")


def test_a_pipe_and_a_device_in_the_place_of_a_file_were_read_without_end(library: Path) -> None:
    for name in ("files.json", "manifest.json"):
        (library / name).unlink()
        os.mkfifo(library / name)
        with pytest.raises(LibraryCorrupt, match=f"{name} is not a plain file"):
            Library.open(library)
        (library / name).unlink()
        (library / name).symlink_to("/dev/zero")
        with pytest.raises(LibraryCorrupt, match=f"{name} is not a plain file"):
            Library.open(library)


def test_a_list_with_files_elsewhere_or_of_other_types_is_refused() -> None:
    fact = {"bytes": 1, "blocks": ["a"]}
    for files in (
        *({"../x": fact}, {"/etc/hosts": fact}, {"a/.b": fact}, {"a\n": fact}, {"a" * 2000: fact}),
        *({"a": fact | {"bytes": "1"}}, {"a": fact | {"bytes": -1}}, {"a": fact | {"bytes": 2**21}}),
        *({"a": fact | {"blocks": [1]}}, {"a": fact | {"blocks": []}}, {"a": 5}, [], 5),
    ):
        listed = json.dumps({"snapshot": "s", "files": files}).encode()
        with pytest.raises(LibraryCorrupt, match=r"files\.json (cannot be read|lists)"):
            Contents.from_bytes(listed, Path("files.json"))


@pytest.mark.slow
def test_a_replaced_library_keeps_no_file_of_the_old_one(library: Path, small_snapshot: Path) -> None:
    """The new one has no encoder."""
    assert (library / "encoder.json").exists()
    ingest([small_snapshot], library, restart=True)
    assert not (library / "encoder.json").exists()
    assert list(verify(library))

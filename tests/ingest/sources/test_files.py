"""Discovery, detection and reading of snapshot files, with real compressors and damaged files."""

import bz2
import gzip
import hashlib
import lzma
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from scholarbase.errors import SourceError
from scholarbase.ingest.sources import Dataset, StoredBytes, discover, files, open_lines, sha256_of

DATA = Path(__file__).parent / "data"
RECORDS = [b'{"n": %d, "text": "%s"}' % (n, os.urandom(40).hex().encode()) for n in range(3000)]
TEXT = b"\n".join(RECORDS) + b"\n"


def zstd(data: bytes) -> bytes:
    zstandard = pytest.importorskip("zstandard")
    compressed: bytes = zstandard.ZstdCompressor(write_checksum=True).compress(data)
    return compressed


COMPRESSORS = {"none": bytes, "gzip": gzip.compress, "xz": lzma.compress, "zstd": zstd}
compressors = pytest.mark.parametrize("name", COMPRESSORS)


@compressors
def test_compression_is_detected_by_content(tmp_path: Path, name: str) -> None:
    path = tmp_path / "papers.bin"
    path.write_bytes(COMPRESSORS[name](TEXT))
    assert list(open_lines(path)) == list(enumerate(RECORDS, 1))


@compressors
def test_reads_several_streams_in_one_file(tmp_path: Path, name: str) -> None:
    """As pigz -p, xz -T and cat write them."""
    path = tmp_path / "joined"
    path.write_bytes(COMPRESSORS[name](TEXT[:50_000]) + COMPRESSORS[name](TEXT[50_000:]))
    assert [line for _, line in open_lines(path)] == RECORDS


@pytest.mark.parametrize("name", ["gzip", "xz", "zstd"])
def test_a_stream_cut_short_is_an_error_and_not_a_shorter_snapshot(tmp_path: Path, name: str) -> None:
    path = tmp_path / "cut"
    whole = COMPRESSORS[name](TEXT)
    path.write_bytes(whole[: len(whole) // 2])
    seen = []
    with pytest.raises(SourceError, match=r"cut is incomplete or damaged: .* [Dd]ownload it again"):
        seen.extend(iter_into(seen, path))
    assert seen == list(enumerate(RECORDS, 1))[: len(seen)]


def iter_into(seen: list[tuple[int, bytes]], path: Path) -> list[tuple[int, bytes]]:
    for item in open_lines(path):
        seen.append(item)
    return []


@pytest.mark.parametrize("name", ["gzip", "xz", "zstd"])
@pytest.mark.parametrize("cut", [1, 4])
def test_missing_last_bytes_are_detected(tmp_path: Path, name: str, cut: int) -> None:
    path = tmp_path / "cut"
    path.write_bytes(COMPRESSORS[name](TEXT)[:-cut])
    with pytest.raises(SourceError, match="after 3000 whole lines"):
        list(open_lines(path))


@pytest.mark.parametrize("name", ["gzip", "xz", "zstd"])
def test_a_damaged_stream_is_an_error(tmp_path: Path, name: str) -> None:
    path = tmp_path / "damaged"
    data = bytearray(COMPRESSORS[name](TEXT))
    middle = len(data) // 2
    data[middle : middle + 200] = bytes(200)
    path.write_bytes(data)
    with pytest.raises(SourceError, match="incomplete or damaged"):
        list(open_lines(path))


READ_AND_MEASURE = """
import sys
from pathlib import Path
from scholarbase.errors import QueryFileError
from scholarbase.files import text_lines
from scholarbase.ingest.sources import Dataset, PARSERS, discover, open_lines

def peak():
    [line] = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1000

path, before = Path(sys.argv[1]), peak()
assert [found.dataset for found in discover([path])] == [Dataset.PAPERS]
parsed = [(number, PARSERS[Dataset.PAPERS](line)) for number, line in open_lines(path)]
assert [number for number, _ in parsed] == [1, 2], parsed
assert parsed[0][1].reason == "line-too-long", parsed
assert parsed[1][1].title == "T", parsed
try:
    list(text_lines(path))
except QueryFileError as error:
    print(error)
print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gzip", "xz", "zstd"])
def test_a_line_of_300_megabytes_takes_no_such_memory(tmp_path: Path, name: str) -> None:
    """304 MB of zeros, as a few kilobytes, and a record."""
    path = tmp_path / "zeros"
    zeros = COMPRESSORS[name](bytes(16_000_000))
    record = b'\n{"corpusid": 1, "title": "T", "externalids": {}}\n'
    path.write_bytes(zeros * 19 + COMPRESSORS[name](record))
    # A process of its own, whose highest memory is its own.
    done = subprocess.run(
        [sys.executable, "-c", READ_AND_MEASURE, str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    refused, grown = done.stdout.splitlines()
    assert refused.startswith(f"{path} is compressed with zstd" if name == "zstd" else f"{path}, line 1 has")
    assert int(grown) < 250_000_000


def test_lines_up_to_the_limit_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_LINE", 300_000)
    path = tmp_path / "lines"
    path.write_bytes(b"\n".join([b"a" * 300_000, b"b" * 900_000, b"", b"c" * 300_001, b"d"]))
    lines = dict(open_lines(path))
    assert lines[1] == b"a" * 300_000
    assert 300_000 < len(lines[2]) < 900_000
    assert (len(lines[4]), lines[5]) == (300_001, b"d")


def test_lines_keep_their_numbers_and_lose_their_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"\xef\xbb\xbf{1}\r\n\n \t\n{\r4}\n" + b"x" * 5_000_000 + b"\n{6}")
    lines = list(open_lines(path))
    assert [(n, len(line)) for n, line in lines] == [(1, 3), (4, 4), (5, 5_000_000), (6, 3)]
    assert lines[0][1] == b"{1}"


def test_position_is_updated_while_reading(tmp_path: Path) -> None:
    path = tmp_path / "lines.gz"
    path.write_bytes(gzip.compress(TEXT))
    read = StoredBytes()
    lines = open_lines(path, read)
    next(lines)
    assert 0 < read.count <= path.stat().st_size
    assert len(list(lines)) == 2999
    assert read.count == path.stat().st_size


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot be read: No such file"):
        list(open_lines(tmp_path / "missing"))
    with pytest.raises(SourceError, match="cannot be read: Is a directory"):
        sha256_of(tmp_path)


def test_sha256(tmp_path: Path) -> None:
    path = tmp_path / "abc"
    path.write_bytes(b"abc")
    # FIPS 180-4, the example of one block.
    assert sha256_of(path) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    path.write_bytes(TEXT)
    assert sha256_of(path) == hashlib.sha256(TEXT).hexdigest()


def test_detects_every_dataset_by_its_content(tmp_path: Path) -> None:
    """The samples have meaningless names."""
    expected = {}
    for number, path in enumerate(sorted(DATA.glob("s2ag/*/*.gz")), 1):
        shutil.copy(path, tmp_path / f"{number}")
        expected[f"{number}"] = path.parent.name
    shutil.copy(DATA / "arxiv.jsonl", tmp_path / "0")
    expected["0"] = "arxiv"
    found = discover([tmp_path])
    assert {source.name: source.dataset.value for source in found} == expected
    assert [source.dataset.value for source in found] == [
        "papers", "paper-ids", "abstracts", "publication-venues", "authors", "tldrs", "arxiv", "citations",
        "embeddings", "s2orc",
    ]  # fmt: skip


def test_names_are_paths_relative_to_the_source(tmp_path: Path) -> None:
    shutil.copytree(DATA / "s2ag" / "papers", tmp_path / "release" / "papers")
    (tmp_path / "release" / "papers" / "README.txt").write_text("notes")
    (tmp_path / "release" / "LICENSE").write_text("ODC-BY")
    (tmp_path / "release" / ".hidden").mkdir()
    (tmp_path / "release" / ".hidden" / "x").write_text("{}")
    shutil.copy(DATA / "arxiv.jsonl", tmp_path / "snapshot.json")
    found = discover([str(tmp_path / "release"), tmp_path / "snapshot.json", tmp_path / "release" / "papers"])
    assert [source.name for source in found] == ["papers/papers-sample.jsonl.gz", "snapshot.json"]
    assert [source.dataset for source in found] == [Dataset.PAPERS, Dataset.ARXIV]
    assert found[0].size == (DATA / "s2ag/papers/papers-sample.jsonl.gz").stat().st_size


def test_equal_names_in_two_sources_stay_distinct(tmp_path: Path) -> None:
    for release in ("june", "july"):
        shutil.copytree(DATA / "s2ag" / "papers", tmp_path / release / "papers")
    names = [source.name for source in discover([tmp_path / "june", tmp_path / "july"])]
    assert names == ["papers/papers-sample.jsonl.gz", "2/papers/papers-sample.jsonl.gz"]


def test_a_circular_link_is_followed_once(tmp_path: Path) -> None:
    shutil.copy(DATA / "arxiv.jsonl", tmp_path)
    (tmp_path / "loop").symlink_to(tmp_path)
    assert [source.name for source in discover([tmp_path])] == ["arxiv.jsonl"]


def test_a_record_is_found_after_bad_lines(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"\xff\xfe\n{}\n[1]\nnot json\n" + (DATA / "arxiv.jsonl").read_bytes())
    assert discover([path])[0].dataset is Dataset.ARXIV


def write(content: bytes) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / "data.json"
        path.write_bytes(content)
        return path

    return make


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (write(b""), "data.json is empty"),
        (write(b'{"name": "no title"}\n'), "data.json is not a source"),
        (write(b'["0704.0001", "T", "hep-ph"]'), "data.json is not a source"),
        (write('[{"id": "x", "title": "T"}]'.encode("utf-16")), "data.json is in UTF-16"),
        (write(bz2.compress(TEXT)), "data.json is not a source"),
        (write(gzip.compress(TEXT)[:1]), "data.json is not a source"),
        (write(gzip.compress(TEXT)[:20]), "incomplete or damaged"),
        (lambda folder: folder / "missing", "No file or folder at .*missing"),
        (lambda folder: folder, "No snapshot file in .* [(]none[)]"),
        (lambda _: DATA / "s2ag" / "s2orc", "only s2orc, which are not used"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, make: Callable[[Path], Path], message: str) -> None:
    with pytest.raises(SourceError, match=message):
        discover([make(tmp_path)])


def test_a_pipe_is_refused_without_blocking(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SourceError, match="not a regular file"):
        discover([tmp_path])


def test_no_paths_are_refused() -> None:
    with pytest.raises(SourceError, match="no path"):
        discover([])

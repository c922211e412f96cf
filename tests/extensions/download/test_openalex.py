"""The snapshot of OpenAlex, from a server with its layout."""

import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scholarbase.errors import DownloadError, InvalidRequest, SourceChanged
from scholarbase_download.openalex import download_openalex
from tests.extensions.download.servers import QUICK, Reply, Request, Web, contents

DATES = ("2026-05-01", "2026-06-01", "2026-06-24")


def records(seed: int) -> bytes:
    noise = random.Random(seed)
    rows = [
        json.dumps({"id": f"https://openalex.org/W{n}", "title": noise.randbytes(40).hex()})
        for n in range(60)
    ]
    return gzip.compress("\n".join(rows).encode() + b"\n", mtime=0)


class Bucket:
    """The bucket: objects by path, and manifests made from them."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.manifests = 0
        self.changes: dict[int, dict[str, bytes | None]] = {}
        """What changes after this number of requests for files."""
        self.claimed: int | None = None
        self.etags = True
        self.fetched = 0
        for number, date in enumerate(DATES):
            for part in range(2):
                for folder, suffix in (("data/jsonl", ".gz"), ("data/parquet", ".parquet")):
                    body = records(number * 10 + part)
                    body = body if suffix == ".gz" else b"PAR1" + body + b"PAR1"
                    self.objects[f"{folder}/works/updated_date={date}/part_000{part}{suffix}"] = body
        self.objects["data/jsonl/authors/updated_date=2026-06-24/part_0000.gz"] = records(99)
        self.web = Web(self._answer)

    def manifest(self, folder: str, entity: str) -> Reply:
        files = [
            {
                "url": f"s3://openalex/{path}",
                "meta": {"content_length": self.claimed or len(body), "record_count": 60},
            }
            for path, body in sorted(self.objects.items())
            if path.startswith(f"{folder}/{entity}/")
        ]
        if not files:
            return Reply(status=404)
        found: dict[str, Any] = {"date": "2026-06-25", "entity": entity, "files": files}
        return Reply(json.dumps(found).encode())

    def _answer(self, request: Request) -> Reply:
        folder, _, rest = request.path[1:].partition("/works/")
        if rest == "manifest.json":
            self.manifests += 1
            return self.manifest(folder, "works")
        if request.path == "/data/jsonl/authors/manifest.json":
            return self.manifest("data/jsonl", "authors")
        self.fetched += 1
        for path, body in self.changes.pop(self.fetched, {}).items():
            if body is None:
                del self.objects[path]
            else:
                self.objects[path] = body
        found = self.objects.get(request.path[1:])
        if found is None:
            return Reply(status=404)
        tag = {"ETag": f'"{hash(found)}"'} if self.etags else {}
        return Reply(found, headers=tag, ranges=self.etags)

    def download(self, out: Path, **options: Any) -> list[Path]:
        return download_openalex(out, base_url=self.web.url, **{"patience": QUICK, **options})

    def expected(self, folder: str = "data/jsonl", *dates: str) -> dict[str, bytes]:
        return {
            path.removeprefix(f"{folder}/"): body
            for path, body in self.objects.items()
            if path.startswith(f"{folder}/works/") and any(date in path for date in dates or DATES)
        }


@pytest.fixture
def bucket() -> Iterator[Bucket]:
    found = Bucket()
    with found.web.running():
        yield found


def test_the_works_are_downloaded(bucket: Bucket, tmp_path: Path) -> None:
    assert bucket.download(tmp_path) == [tmp_path / "works"]
    assert contents(tmp_path) == bucket.expected()


@pytest.mark.parametrize(
    ("filters", "dates"),
    [
        (["updated_date>=2026-05-15, updated_date<=2026-06-10", "entity=works"], DATES[1:2]),
        pytest.param(["updated_date=2026-06-01"], DATES[1:2], marks=pytest.mark.slow),
    ],
)
def test_filters(bucket: Bucket, tmp_path: Path, filters: list[str], dates: tuple[str, ...]) -> None:
    bucket.download(tmp_path, filters=filters)
    assert contents(tmp_path) == bucket.expected("data/jsonl", *dates)


def test_an_invalid_filter_is_refused(bucket: Bucket, tmp_path: Path) -> None:
    for term in (
        "publication_year=2026",
        "entity>=works",
        "entity=../works",
        "updated_date=now",
        "",
        "works",
    ):
        with pytest.raises(InvalidRequest):
            bucket.download(tmp_path, filters=[term])


def test_filters_that_nothing_passes_name_the_partitions(bucket: Bucket, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="its partitions are from 2026-05-01 to 2026-06-24"):
        bucket.download(tmp_path, filters=["updated_date>=2027-01-01"])


@pytest.mark.slow
def test_other_options_in_the_same_folder_are_refused(bucket: Bucket, tmp_path: Path) -> None:
    bucket.download(tmp_path)
    with pytest.raises(InvalidRequest, match="other options"):
        bucket.download(tmp_path, form="parquet")


def moved(bucket: Bucket) -> dict[str, bytes | None]:
    """A record moves: one file changes without changing its size, one vanishes, one is new."""
    folder = "data/jsonl/works/updated_date="
    path = f"{folder}2026-05-01/part_0000.gz"
    same_size = records(500)
    while len(same_size) != len(bucket.objects[path]):
        same_size = records(hash(same_size))
    return {
        path: same_size,
        f"{folder}2026-06-01/part_0001.gz": None,
        f"{folder}2026-07-01/part_0000.gz": records(7),
    }


@pytest.mark.parametrize(("after", "etags"), [(3, True), pytest.param(5, False, marks=pytest.mark.slow)])
def test_a_manifest_that_changes_under_the_reader_is_noticed(
    bucket: Bucket, tmp_path: Path, after: int, etags: bool
) -> None:
    bucket.etags = etags
    bucket.changes[after] = moved(bucket)
    bucket.download(tmp_path)
    assert contents(tmp_path) == bucket.expected("data/jsonl", *DATES, "2026-07-01")


def test_a_manifest_that_never_rests_is_an_error(bucket: Bucket, tmp_path: Path) -> None:
    path = "data/jsonl/works/updated_date=2026-05-01/part_0000.gz"
    bucket.changes = {number: {path: records(number) * 2} for number in range(1, 100)}
    with pytest.raises(SourceChanged, match="changed 3 times"):
        bucket.download(tmp_path)


def test_a_folder_is_brought_up_to_date(bucket: Bucket, tmp_path: Path) -> None:
    bucket.download(tmp_path)
    for path, body in moved(bucket).items():
        if body is None:
            del bucket.objects[path]
        else:
            bucket.objects[path] = body
    sent = bucket.web.sent
    bucket.download(tmp_path)
    assert contents(tmp_path) == bucket.expected("data/jsonl", *DATES, "2026-07-01")
    assert bucket.web.sent - sent < 3 * len(records(7))  # two files, and the manifests


def test_a_file_of_another_size_than_listed_is_an_error(bucket: Bucket, tmp_path: Path) -> None:
    bucket.claimed = 1000
    with pytest.raises(SourceChanged, match="but 1,000 were listed"):
        bucket.download(tmp_path)
    assert contents(tmp_path) == {}

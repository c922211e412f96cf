"""Releases of Semantic Scholar, from a server that speaks the datasets API, and a storage host with signed links."""

import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scholarbase.errors import DownloadError, InvalidRequest, SourceChanged
from scholarbase_download.s2 import download_s2
from tests.extensions.download.servers import QUICK, Reply, Request, Web, contents

RELEASES = ["2026-06-02", "2026-07-14", "2026-06-30"]
KEY = "secret-key"


def jsonl(seed: int, lines: int = 60) -> bytes:
    """A gzip file of JSON lines that hardly compresses."""
    noise = random.Random(seed)
    rows = [
        json.dumps({"corpusid": seed * 1000 + n, "title": noise.randbytes(40).hex()}) for n in range(lines)
    ]
    return gzip.compress("\n".join(rows).encode() + b"\n", mtime=0)


class S2:
    """Both hosts: the API, with its key, and the storage, whose links hold for a number of requests."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.datasets = ["papers", "abstracts", "citations", "tldrs"]
        self.diffs: dict[str, list[dict[str, Any]]] = {}
        self.valid_for = 10**9
        self.refuses_key = False
        self.faults: list[Reply] = []
        self.ranges = True
        self.claimed: int | None = None
        self.redirect: str | None = None
        self._links = 0
        self._used: dict[str, int] = {}
        self.storage = Web(self._store)
        self.api = Web(self._answer)
        for number, name in enumerate(self.datasets):
            for part in range(2):
                self.files[f"/2026-07-14/{name}/2026_{name}_{part}.gz"] = jsonl(number * 10 + part)

    def link(self, path: str) -> str:
        self._links += 1
        return f"{self.storage.url}{path}?Signature={self._links}"

    def _answer(self, request: Request) -> Reply:
        if self.redirect and "/dataset/" in request.path:
            return Reply(status=302, headers={"Location": self.redirect})
        parts = request.path.removeprefix("/v1/").split("/")
        found: Any
        if parts == ["release", ""]:
            found = RELEASES
        elif parts[0] == "release" and len(parts) == 2:
            found = {"release_id": parts[1], "datasets": [{"name": name} for name in self.datasets]}
        elif request.headers.get("x-api-key") != KEY or self.refuses_key:
            return Reply(status=403, body=b'{"message": "Forbidden"}')
        elif parts[0] == "release":
            _, release, _, name = parts
            found = {
                "name": name,
                "files": [self.link(p) for p in self.files if p.startswith(f"/{release}/{name}/")],
            }
        else:
            _, start, _, end, name = parts
            steps = [
                {
                    "from_release": step["from"],
                    "to_release": step["to"],
                    "update_files": [self.link(path) for path in step["updates"]],
                    "delete_files": [self.link(path) for path in step["deletes"]],
                }
                for step in self.diffs[name]
            ]
            found = {"dataset": name, "start_release": start, "end_release": end, "diffs": steps}
        return Reply(json.dumps(found).encode())

    def _store(self, request: Request) -> Reply:
        assert "x-api-key" not in request.headers, "the storage host got the key"
        if self.faults:
            return self.faults.pop(0)
        signature = request.query["Signature"]
        self._used[signature] = self._used.get(signature, 0) + 1
        if self._used[signature] > self.valid_for:
            return Reply(status=403, body=b"<Error><Code>AccessDenied</Code></Error>")
        body = self.files[request.path]
        tag = {"ETag": f'"{len(body)}-{body[10:20].hex()}"'}
        return Reply(body, headers=tag, ranges=self.ranges, length=self.claimed)

    def download(self, out: Path, **options: Any) -> list[Path]:
        options = {"datasets": ["papers", "abstracts"], "api_key": KEY, "patience": QUICK} | options
        return download_s2(out, base_url=f"{self.api.url}/v1", **options)

    def expected(self, *names: str) -> dict[str, bytes]:
        return {path[1:]: body for path, body in self.files.items() if path.split("/")[2] in names}


@pytest.fixture
def s2() -> Iterator[S2]:
    hosts = S2()
    with hosts.api.running(), hosts.storage.running():
        yield hosts


def test_the_latest_release_is_downloaded(s2: S2, tmp_path: Path) -> None:
    assert s2.download(tmp_path) == [tmp_path / "2026-07-14"]
    assert contents(tmp_path) == s2.expected("papers", "abstracts")
    sent = s2.storage.sent
    s2.download(tmp_path)
    assert s2.storage.sent == sent


def test_a_release_without_a_dataset_is_refused_before_anything_is_fetched(s2: S2, tmp_path: Path) -> None:
    s2.datasets.remove("papers")
    with pytest.raises(
        DownloadError, match="2026-07-14 has no dataset papers; it has abstracts, citations, tldrs"
    ):
        s2.download(tmp_path)
    assert s2.storage.requests == []
    assert contents(tmp_path) == {}


def test_an_invalid_name_is_refused(s2: S2, tmp_path: Path) -> None:
    for options in ({"release": "../x"}, {"since": "x"}, {"datasets": ["../papers"]}, {"datasets": []}):
        with pytest.raises(InvalidRequest):
            s2.download(tmp_path, **options)
    assert s2.api.requests == []


def test_a_refused_key_is_named(s2: S2, tmp_path: Path) -> None:
    s2.refuses_key = True
    with pytest.raises(DownloadError, match="refuses the key in SCHOLARBASE_S2_API_KEY"):
        s2.download(tmp_path)
    with pytest.raises(DownloadError, match="set SCHOLARBASE_S2_API_KEY"):
        s2.download(tmp_path, api_key=None)


def test_the_key_is_not_sent_in_the_clear(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidRequest, match="is not an https address, so SCHOLARBASE_S2_API_KEY is not sent"
    ):
        download_s2(tmp_path, api_key=KEY, base_url="http://mirror.example.org/v1")


def test_the_key_does_not_follow_a_redirect_to_another_host(s2: S2, tmp_path: Path) -> None:
    s2.redirect = f"{s2.storage.url}/2026-07-14/papers/2026_papers_0.gz?Signature=1"
    with pytest.raises(DownloadError, match="Unexpected response"):  # not JSON
        s2.download(tmp_path)
    assert s2.storage.paths() == ["/2026-07-14/papers/2026_papers_0.gz"]  # which asserts that there is no key


def test_expired_links_are_listed_again(s2: S2, tmp_path: Path) -> None:
    s2.valid_for = 1  # the request for the size; each download needs a new link
    s2.download(tmp_path)
    assert contents(tmp_path) == s2.expected("papers", "abstracts")
    assert s2.api.paths().count("/v1/release/2026-07-14/dataset/papers") == 2


@pytest.mark.slow
def test_an_unfinished_release_is_completed_although_there_is_a_newer_one(
    s2: S2, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    s2.faults = [Reply(status=500)] * 100
    with pytest.raises(DownloadError, match="500"):
        s2.download(tmp_path)
    s2.faults = []
    s2.storage.stops = [3000]
    s2.valid_for = 10**9
    with pytest.raises(DownloadError, match="cut off"):
        s2.download(tmp_path, patience=type(QUICK)(retries=0, backoff=0))
    monkeypatch.setattr(f"{__name__}.RELEASES", [*RELEASES, "2026-08-01"])
    assert s2.download(tmp_path) == [tmp_path / "2026-07-14"]
    assert contents(tmp_path) == s2.expected("papers", "abstracts")


@pytest.mark.slow
def test_busy_and_failing_servers_are_retried(s2: S2, tmp_path: Path) -> None:
    s2.faults = [Reply(status=429, headers={"Retry-After": "1"}), Reply(status=500), Reply(status=503)]
    s2.download(tmp_path)
    first, second = s2.storage.requests[:2]
    assert second.time - first.time >= 1
    assert contents(tmp_path) == s2.expected("papers", "abstracts")


def test_a_damaged_gzip_file_is_downloaded_again_and_then_refused(s2: S2, tmp_path: Path) -> None:
    path = "/2026-07-14/papers/2026_papers_1.gz"
    good = s2.files[path]
    s2.files[path] = good[:-9] + bytes([good[-9] ^ 1]) + good[-8:]
    with pytest.raises(DownloadError, match=r"2026_papers_1\.gz is damaged at the server"):
        s2.download(tmp_path)
    assert "2026-07-14/papers/2026_papers_1.gz" not in contents(tmp_path)
    s2.files[path] = good
    s2.download(tmp_path)
    assert contents(tmp_path) == s2.expected("papers", "abstracts")


def diffs(s2: S2) -> dict[str, bytes]:
    """Two steps for two datasets; citations have no deletes in the first."""
    expected = {}
    for dataset in ("papers", "citations"):
        s2.diffs[dataset] = []
        for number, (begin, end) in enumerate((("2026-06-02", "2026-06-30"), ("2026-06-30", "2026-07-14"))):
            step: dict[str, Any] = {"from": begin, "to": end, "updates": [], "deletes": []}
            for kind in ("updates", "deletes"):
                if (dataset, number, kind) == ("citations", 0, "deletes"):
                    continue
                path, body = f"/diffs/{end}/{dataset}/{kind}/0.gz", jsonl(200 + len(expected))
                s2.files[path] = body
                step[kind].append(path)
                expected[f"{begin}..{end}/{dataset}/{kind}/0.gz"] = body
            s2.diffs[dataset].append(step)
    return expected


def test_differences_are_one_folder_a_step(s2: S2, tmp_path: Path) -> None:
    expected = diffs(s2)
    steps = s2.download(tmp_path, since="2026-06-02", datasets=["papers", "citations"])
    assert steps == [tmp_path / "2026-06-02..2026-06-30", tmp_path / "2026-06-30..2026-07-14"]
    found = contents(tmp_path)
    described = json.loads(found.pop("2026-06-30..2026-07-14/diff.json"))
    assert described == {
        "datasets": ["citations", "papers"],
        "from_release": "2026-06-30",
        "to_release": "2026-07-14",
    }
    assert json.loads(found.pop("2026-06-02..2026-06-30/diff.json"))["to_release"] == "2026-06-30"
    assert found == expected


@pytest.mark.slow
def test_a_dataset_that_is_not_complete_is_not_in_the_description(s2: S2, tmp_path: Path) -> None:
    diffs(s2)
    path = "/diffs/2026-07-14/papers/deletes/0.gz"
    good, s2.files[path] = s2.files[path], b"damaged"
    with pytest.raises(DownloadError, match="is damaged at the server"):
        s2.download(tmp_path, since="2026-06-02", datasets=["papers", "citations"])
    assert not list(tmp_path.rglob("diff.json"))
    s2.download(tmp_path, since="2026-06-02", datasets=["citations"])
    described = [json.loads(path.read_bytes())["datasets"] for path in tmp_path.rglob("diff.json")]
    assert described == [["citations"], ["citations"]]
    s2.files[path] = good
    with pytest.raises(SourceChanged, match="were listed"):  # its size was that of the damaged file
        s2.download(tmp_path, since="2026-06-02", datasets=["papers"])


def test_an_unexpected_response_is_an_error(s2: S2, tmp_path: Path) -> None:
    usual = s2.api.answer
    for answer in (b"[1]", b"{}", b"null", b"<html>", b'{"files": [1]}', b'{"files": ["http://a/.."]}'):
        s2.api.answer = lambda request, answer=answer: (
            Reply(answer) if "/dataset/" in request.path else usual(request)
        )
        with pytest.raises(DownloadError, match="Unexpected"):
            s2.download(tmp_path)


def test_a_gap_in_the_differences_is_an_error(s2: S2, tmp_path: Path) -> None:
    diffs(s2)
    del s2.diffs["papers"][0]
    with pytest.raises(DownloadError, match="have a gap at 2026-06-02"):
        s2.download(tmp_path, since="2026-06-02", datasets=["papers"])
    s2.diffs["citations"].pop()
    with pytest.raises(DownloadError, match="end at 2026-06-30, not at 2026-07-14"):
        s2.download(tmp_path, since="2026-06-02", datasets=["citations"])
    assert contents(tmp_path) == {}


def test_a_since_that_is_not_older_is_refused(s2: S2, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="is not before the release"):
        s2.download(tmp_path, since="2026-07-14")

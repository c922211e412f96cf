"""A download that is not complete was ingested as if it were, where it stopped between two files."""

from pathlib import Path
from typing import Any

import pytest

from scholarbase.errors import DownloadError, SourceError
from scholarbase.ingest.sources import check_complete, discover
from scholarbase.updates.changes import find_steps
from scholarbase_download.requests import Patience
from tests.extensions.download.servers import Web
from tests.extensions.download.test_arxiv import Repository
from tests.extensions.download.test_openalex import Bucket
from tests.extensions.download.test_s2 import S2, diffs

IMPATIENT = Patience(retries=0, backoff=0.001, timeout=60.0)


def stopped(web: Web, host: Any, out: Path, share: float, **options: Any) -> list[Path]:
    """Download until a share of the bytes is there. Returns the folders that have whole files."""
    sent = web.sent
    host.download(out.parent / "undisturbed", **options)
    web.stops = [web.sent + int(share * (web.sent - sent))]
    with pytest.raises(DownloadError, match="is cut off again and again"):
        host.download(out, patience=IMPATIENT, **options)
    for path in out.rglob("*.part"):
        path.unlink()
    return sorted({path.parent for path in out.rglob("*.gz")})


def refused(folder: Path, match: str) -> None:
    with pytest.raises(SourceError, match=match):
        discover([folder])


@pytest.mark.slow
def test_a_release(tmp_path: Path) -> None:
    hosts, out = S2(), tmp_path / "out"
    with hosts.api.running(), hosts.storage.running():
        stopped(hosts.storage, hosts, out, 0.7)
        for folder in (tmp_path, out / "2026-07-14", out / "2026-07-14" / "abstracts"):
            refused(folder, "[12] of its files are missing, such as 2026_abstracts_")
        check_complete(out / "2026-07-14" / "papers")
        assert len(discover(sorted((out / "2026-07-14" / "papers").glob("*.gz")))) == 2
        hosts.download(out)
        assert len(discover([out])) == 4
        for path in (out / "2026-07-14" / "papers").glob("*.gz"):
            path.unlink()  # to make room, when the library is built
        assert len(discover([out])) == 2


@pytest.mark.slow
def test_differences(tmp_path: Path) -> None:
    hosts, out = S2(), tmp_path / "out"
    options = {"since": "2026-06-02", "datasets": ["papers", "citations"]}
    with hosts.api.running(), hosts.storage.running():
        diffs(hosts)
        stopped(hosts.storage, hosts, out, 0.6, **options)
        for folder in (out, out / "2026-06-30..2026-07-14"):
            with pytest.raises(SourceError, match="of its files are missing"):
                find_steps([folder])
        hosts.download(out, **options)
        assert [step.datasets for step in find_steps([out])] == [{"papers", "citations"}] * 2


@pytest.mark.slow
def test_a_harvest(tmp_path: Path) -> None:
    repository, out = Repository(), tmp_path / "out"
    with repository.web.running():
        pages, *_ = stopped(repository.web, repository, out, 0.5)
        for folder in (tmp_path, out, out / "arXivRaw", pages.parent, pages):
            refused(folder, r"it has the records up to 2026-11-\d\d, and goes on to 2026-11-22")
        repository.download(out)
        check_complete(out)


@pytest.mark.slow
def test_partitions(tmp_path: Path) -> None:
    bucket, out = Bucket(), tmp_path / "out"
    with bucket.web.running():
        partition, *_ = stopped(bucket.web, bucket, out, 0.5)
        for folder in (tmp_path, out, out / "works"):
            refused(folder, "not all of its partitions are there")
        check_complete(partition)
        bucket.download(out)
        check_complete(out)


def test_a_state_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / ".s2-2026-07-14.json").write_text('{"complete": false, "datasets": [1]}')
    refused(tmp_path, r"\.s2-2026-07-14\.json, the state of a download, cannot be read")

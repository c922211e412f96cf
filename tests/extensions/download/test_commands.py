"""``scholarbase download``: its options, what it prints, and its exit status."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.conftest import run_cli
from tests.extensions.download.servers import PackedLibrary, contents
from tests.extensions.download.test_arxiv import Repository, stored
from tests.extensions.download.test_library import BODY, SHA
from tests.extensions.download.test_openalex import Bucket
from tests.extensions.download.test_s2 import KEY, S2


def test_s2(tmp_path: Path) -> None:
    hosts = S2()
    with hosts.api.running(), hosts.storage.running():
        settings = {"SCHOLARBASE_S2_URL": f"{hosts.api.url}/v1", "SCHOLARBASE_S2_API_KEY": KEY}
        done = run_cli("download", "s2", "--out", tmp_path, "--datasets", "papers, citations", **settings)
        assert (done.returncode, done.stdout) == (0, f"{tmp_path / '2026-07-14'}\n"), done.stderr
        assert re.search(
            r"4 files, 0\.0 MB, of which 0 are on disk; 0\.0 MB to download, .* GB free in", done.stderr
        )
        assert contents(tmp_path) == hosts.expected("papers", "citations")
        hosts.datasets.remove("papers")
        done = run_cli("download", "s2", "--out", tmp_path / "new", **settings)
        assert done.returncode == 5
        assert done.stderr.startswith("scholarbase: The release 2026-07-14 has no dataset papers;")
        assert KEY not in done.stdout + done.stderr


def test_arxiv(tmp_path: Path) -> None:
    repository = Repository()
    repository.page = 1000  # one request, so that no pause of three seconds is needed
    yesterday = (datetime.now(UTC) - timedelta(days=1)).date()
    repository.records = [(yesterday.isoformat(), "oai:arXiv.org:2601.00001", False)]
    with repository.web.running():
        options = ("download", "arxiv", "--out", tmp_path, "--set", "cs", "--from", "2026-01-01")
        done = run_cli(*options, SCHOLARBASE_ARXIV_URL=f"{repository.web.url}/oai")
        assert done.stdout == f"{tmp_path / 'arXivRaw' / f'2026-01-01..{yesterday}'}\n", done.stderr
        assert "Records from 2026-01-01" in done.stderr
        assert stored(tmp_path) == repository.records


def test_openalex(tmp_path: Path) -> None:
    bucket = Bucket()
    with bucket.web.running():
        options = ("--filter", "updated_date>=2026-06-24", "--filter", "entity=works", "--format", "parquet")
        done = run_cli(
            "download", "openalex", "--out", tmp_path, *options, SCHOLARBASE_OPENALEX_URL=bucket.web.url
        )
        assert (done.returncode, done.stdout) == (0, f"{tmp_path / 'works'}\n"), done.stderr
        assert contents(tmp_path) == bucket.expected("data/parquet", "2026-06-24")


def test_library(tmp_path: Path) -> None:
    host = PackedLibrary(BODY)
    with host.web.running():
        done = run_cli("download", "library", host.url, "--out", tmp_path, "--sha256", SHA)
        path = tmp_path / "papers.tar.zst"
        assert (done.returncode, done.stdout) == (0, f"{path}\n"), done.stderr
        assert f"scholarbase unpack {path}" in done.stderr
        assert path.read_bytes() == BODY

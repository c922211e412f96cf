"""Faults of the published server in all parts together. The parts have tests of each."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import pytest

from scholarbase.api.app import create_app
from scholarbase.encoders import open_encoder
from scholarbase.encoders.http import HttpEncoder
from scholarbase.encoders.sentence_transformers import SentenceTransformersEncoder
from scholarbase.encoders.service import create_service
from scholarbase.ingest.job import ingest
from scholarbase.models.encoders import PACKAGED
from scholarbase.search.library import Library
from tests.conftest import DENSE_PAPERS, sample_rows, serving, snapshot_of
from tests.encoders.servers import running

HOLOMORPHIC = "arXiv:hep-th/9302103"
"""Holomorphic Anomalies in Topological Field Theories: the question's words, with other endings."""


def small_rows() -> list[dict[str, Any]]:
    """The raw papers of the small snapshot that are kept: those with an abstract."""
    known = {row["corpusid"] for row in sample_rows("abstracts")}
    return [row for row in islice(sample_rows("papers"), DENSE_PAPERS) if row["corpusid"] in known]


def problem(answer: httpx.Response, status: int) -> str:
    """The sentence of a problem document, seen to be one."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert body["status"] == status
    return str(body["detail"])


# -- 2: filters ran after the candidates were cut ---------------------------------------------------------


def test_an_encoder_that_dies_is_an_error_or_named_in_a_partial_answer(
    dense_library: Path,
) -> None:
    with closing(open_encoder(PACKAGED)) as model, running(create_service(model)) as service:
        encoder = HttpEncoder(service, retries=0)
        library = Library.open(dense_library, encoder=encoder)
        whole = library.search("quantum gravity", mode="hybrid")
        assert not whole.failed_legs
    # What it encoded is kept, and goes on being answered.
    assert library.search("quantum gravity", mode="hybrid") == whole
    with library, running(create_app(library)) as url:
        asked: dict[str, Any] = {"q": "string theory", "limit": 50}
        for mode in ("hybrid", "dense"):
            answer = httpx.get(f"{url}/search", params=asked | {"mode": mode})
            assert "encoder service" in problem(answer, 503)
            assert answer.json()["type"].endswith("#encoder")
        partial = httpx.get(f"{url}/search", params=asked | {"mode": "hybrid", "partial": "true"}).json()
        assert [leg["leg"] for leg in partial["failed_legs"]] == ["dense"]
        assert "encoder service" in partial["failed_legs"][0]["detail"]
        sparse = httpx.get(f"{url}/search", params=asked | {"mode": "sparse", "engine": "feedback"}).json()
        assert sparse["results"]
        assert [r["paper"] for r in partial["results"]] == [r["paper"] for r in sparse["results"]]
        # With no leg left there is nothing to answer from, partial or not.
        problem(httpx.get(f"{url}/search", params=asked | {"mode": "dense", "partial": "true"}), 503)


def test_old_ids_prefixes_and_links_resolve(server: str) -> None:
    for name in (
        *("hep-th/9302103", "arxiv:HEP-TH/9302103v1", "http://arxiv.org/pdf/hep-th/9302103v1.pdf"),
        *("10.1016/0550-3213(93)90548-4", "https://doi.org/10.1016/0550-3213(93)90548-4", "CorpusID:1014899"),
        *("10.48550/arXiv.hep-th/9302103", "URL:https://arxiv.org/abs/hep-th/9302103"),
    ):
        # As people write it, with its slashes, and as careful clients do, quoted.
        assert httpx.get(f"{server}/v1/papers/{name}").json()["id"] == HOLOMORPHIC, name
        quoted = httpx.URL(server).copy_with(raw_path=b"/v1/papers/" + _quoted(name) + b"/citations?limit=1")
        assert httpx.get(quoted).json()["total"] > 0, name
        batch = httpx.post(f"{server}/v1/papers/batch", json={"ids": [name, "arXiv:hep-th/9301000"]}).json()
        assert [paper and paper["id"] for paper in batch["results"]] == [HOLOMORPHIC, None]
        within = httpx.get(f"{server}/v1/search", params={"q": "anomaly", "within": name}).json()
        assert [hit["paper"]["id"] for hit in within["results"]] == [HOLOMORPHIC]


def _quoted(name: str) -> bytes:
    return "".join(f"%{byte:02X}" for byte in name.encode()).encode()


@pytest.mark.slow
def test_one_process_holds_the_model_for_all_workers(
    minilm: SentenceTransformersEncoder, minilm_folder: Path, tmp_path: Path
) -> None:
    rows = [row | {"abstract": row["title"]} for row in small_rows()[:20]]
    library = tmp_path / "library"
    ingest(
        [snapshot_of(tmp_path / "snapshot", rows)],
        library,
        encoder=minilm,
        encoder_location=str(minilm_folder),
    )
    asked = {"q": "string theory", "mode": "hybrid"}
    with (
        # The path of a socket has at most 100 characters.
        TemporaryDirectory(prefix="sb", dir="/tmp") as runtime,
        serving(
            *(library, "--workers", "2", "--encoder", str(minilm_folder)), SCHOLARBASE_RUNTIME_DIR=runtime
        ) as (url, process),
    ):

        def search(_: int) -> bytes:
            answer = httpx.get(f"{url}/v1/search", params=asked, timeout=120)
            assert answer.status_code == 200, answer.text
            return answer.content

        answers = set()
        served: set[int] = set()
        with ThreadPoolExecutor(8) as pool:
            until = time.monotonic() + 300
            while time.monotonic() < until:
                answers.update(pool.map(search, range(8)))
                # Each process counts what it has answered in a file of its own.
                served = {int(path.stem.rpartition("_")[2]) for path in Path(runtime).rglob("counter_*.db")}
                if len(served) == 2:
                    break
        assert len(served) == 2, "both workers have answered"
        assert len(answers) == 1
        tree = descendants(process.pid)
        holding = [pid for pid in tree if maps(pid, "libtorch") or maps(pid, ".safetensors")]
        assert len(holding) == 1, "exactly one process has torch or the model's weights mapped"
        assert served <= set(tree) - {*holding, process.pid}
        assert all(maps(pid, "qdrant_edge") for pid in served)


def descendants(pid: int) -> list[int]:
    """A process and all that come from it, as /proc tells them."""
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(status.parent.name))
    found, queue = [], [pid]
    while queue:
        found.append(queue.pop())
        queue += children.get(found[-1], [])
    return found


def maps(pid: int, name: str) -> bool:
    """Whether a process has a file mapped whose path holds ``name``."""
    try:
        return name in Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return False

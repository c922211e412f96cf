"""Faults of the published server in all parts together. The parts have tests of each."""

from __future__ import annotations

import json
import time
from collections import Counter
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
from scholarbase.models.responses import SearchResponse
from scholarbase.search.library import Library
from scholarbase.settings import Settings
from tests.conftest import DENSE_PAPERS, SAMPLE, sample_rows, serving, snapshot_of
from tests.encoders.servers import running

ENGINES = ("bm25", "fts5")
QUESTION = "Which papers are studying the holomorphic anomaly of a topological field theory?"
HOLOMORPHIC = "arXiv:hep-th/9302103"
"""Holomorphic Anomalies in Topological Field Theories: the question's words, with other endings."""


def ids(answer: SearchResponse) -> list[str]:
    return [hit.paper.id for hit in answer.results]


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


# -- 1: every word was required, without stemming ---------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_1_the_questions_of_the_sample_find_their_answers(sample: Library, engine: Any) -> None:
    questions = [json.loads(line) for line in (SAMPLE / "queries.jsonl").read_text().splitlines()]
    found = 0
    for question in questions:
        answer = sample.search(question["final_query"], engine=engine, limit=50)
        assert answer.results
        found += not {f"arXiv:{i}" for i in question["answer_arxiv_ids"]}.isdisjoint(ids(answer))
    assert found >= 30, "of 40 questions"


# -- 2: filters ran after the candidates were cut ---------------------------------------------------------


def test_2_a_narrow_filter_loses_no_dense_or_hybrid_results(dense: Library, dense_library: Path) -> None:
    allowed = {
        f"arXiv:{row['externalids']['ArXiv']}"
        for row in small_rows()
        if row["publicationdate"] and row["publicationdate"] >= "1993-07" and row["citationcount"] >= 10
    }
    filters: dict[str, Any] = {"from_": "1993-07", "min_citations": 10}
    q = "black holes and the theory of strings"
    ranked: dict[str, list[str]] = {}
    for mode in ("sparse", "dense"):
        everything = dense.search(q, mode=mode, limit=1000, exact=True)  # type: ignore[arg-type]
        ranked[mode] = [paper_id for paper_id in ids(everything) if paper_id in allowed]
        answer = dense.search(q, mode=mode, limit=1000, **filters)  # type: ignore[arg-type]
        assert ids(answer) == ranked[mode]
        assert (answer.total, answer.total_relation) == (len(ranked[mode]), "eq")
    assert len(ranked["dense"]) == len(allowed) > len(ranked["sparse"]) > 1
    # Reciprocal rank fusion by hand (Cormack, Clarke and Buettcher 2009): 1 / (60 + rank), ranks from 1.
    fused: Counter[str] = Counter()
    for legs in ranked.values():
        for rank, paper_id in enumerate(legs, 1):
            fused[paper_id] += 1 / (60 + rank)  # type: ignore[assignment]
    with Library.open(dense_library, settings=Settings(fusion="rrf", similarity_floor=False)) as by_ranks:
        answer = by_ranks.search(q, mode="hybrid", limit=1000, **filters)
    assert {hit.paper.id: pytest.approx(hit.score) for hit in answer.results} == dict(fused)
    assert [hit.score for hit in answer.results] == sorted((h.score for h in answer.results), reverse=True)
    assert (answer.total, answer.total_relation, answer.next_offset) == (len(allowed), "eq", None)
    by_scores = dense.search(q, mode="hybrid", limit=1000, **filters)
    assert set(ids(by_scores)) == allowed
    assert (by_scores.total, by_scores.total_relation, by_scores.next_offset) == (len(allowed), "eq", None)


# -- 5: failures became empty lists, and what was not understood was ignored -------------------------------


def test_5_an_encoder_that_dies_is_an_error_or_named_in_a_partial_answer(
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
        sparse = httpx.get(f"{url}/search", params=asked | {"mode": "sparse"}).json()
        assert sparse["results"]
        assert [r["paper"] for r in partial["results"]] == [r["paper"] for r in sparse["results"]]
        # With no leg left there is nothing to answer from, partial or not.
        problem(httpx.get(f"{url}/search", params=asked | {"mode": "dense", "partial": "true"}), 503)


def test_5_an_unknown_parameter_is_refused_on_every_route(server: str) -> None:
    document = httpx.get(f"{server}/openapi.json").json()
    refused = 0
    for path, operations in document["paths"].items():
        url = server + path.replace("{paper_id}", HOLOMORPHIC).replace("{name}", "search_papers")
        for method, operation in operations.items():
            detail = problem(httpx.request(method, url, params={"nonsense": "1"}), 400)
            assert "'nonsense'" in detail
            refused += 1
            if "requestBody" in operation:
                body = _example(document, operation) | {"nonsense": 1}
                assert "'nonsense'" in problem(httpx.request(method, url, json=body), 400)
    assert refused >= 12


def _example(document: dict[str, Any], operation: dict[str, Any]) -> dict[str, Any]:
    """A body with what must be there, from the schema's own examples."""
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    if "$ref" not in schema:
        example: dict[str, Any] = schema["examples"][0]
        return example
    schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return {key: schema["properties"][key]["examples"][0] for key in schema.get("required", ())}


# -- 7: old ids, prefixes and links did not resolve --------------------------------------------------------


def test_7_old_ids_prefixes_and_links_resolve(server: str) -> None:
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


# -- 9: every worker loaded its own model ------------------------------------------------------------------


@pytest.mark.slow
def test_9_one_process_holds_the_model_for_all_workers(
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

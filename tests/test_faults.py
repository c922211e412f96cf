"""The nine faults of the published server that DESIGN lists: each is a test here, and none of them is ours."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import pytest

from scholarbase.api.app import create_app
from scholarbase.encoders import open_encoder
from scholarbase.encoders.http import HttpEncoder
from scholarbase.encoders.sentence_transformers import SentenceTransformersEncoder
from scholarbase.encoders.service import create_service
from scholarbase.errors import InvalidRequest, LibraryCorrupt, VectorIndexError
from scholarbase.indexes.vectors.index import EdgeIndex
from scholarbase.ingest.job import ingest
from scholarbase.ingest.plans import IngestRules
from scholarbase.models.encoders import PACKAGED
from scholarbase.models.responses import SearchResponse
from scholarbase.search.library import Library
from scholarbase.settings import Settings
from tests.conftest import DENSE_PAPERS, SAMPLE, arxiv_rows, sample_edges, sample_rows, serving, snapshot_of
from tests.encoders.servers import running
from tests.libraries import copied

ENGINES = ("bm25", "fts5")
QUESTION = "Which papers are studying the holomorphic anomaly of a topological field theory?"
HOLOMORPHIC = "arXiv:hep-th/9302103"
"""Holomorphic Anomalies in Topological Field Theories: the question's words, with other endings."""
KOLMOGOROV = "Об аналитических методах в теории вероятностей"


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
def test_1_a_question_with_stop_words_and_inflected_words_finds_papers(sample: Library, engine: Any) -> None:
    words = set(re.findall(r"\w+", QUESTION.casefold()))
    texts = [f"{row['title']} {row['abstract']}".casefold() for row in arxiv_rows()]
    assert not any(words <= set(re.findall(r"\w+", text)) for text in texts), "no paper has all of them"
    assert ids(sample.search(QUESTION, engine=engine))[0] == HOLOMORPHIC


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


def passing(*, archive: str, to: str) -> set[str]:
    """The sample's papers in an archive that appeared in a year or before, told from the raw records."""
    appeared = {r["externalids"]["ArXiv"]: r["publicationdate"] or "9" for r in sample_rows("papers")}
    return {
        f"arXiv:{row['id']}"
        for row in arxiv_rows()
        if archive in {category.split(".")[0] for category in row["categories"].split()}
        and appeared.get(row["id"], row["versions"][0]["created"])[:4] <= to
    }


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("archive", "to"), [("hep-lat", "1993"), ("gr-qc", "1993"), ("math", "2024")])
def test_2_a_narrow_filter_loses_no_sparse_results(
    sample: Library, engine: Any, archive: str, to: str
) -> None:
    asked = {"engine": engine, "mode": "sparse", "limit": 1000, "fields": ["id"]}
    question = "the theory of field models and large language models in physics"
    everything = [
        hit.paper.id for offset in (0, 1000, 2000) for hit in _page(sample, question, offset, asked)
    ]
    allowed = passing(archive=archive, to=to)
    expected = [paper_id for paper_id in everything if paper_id in allowed]
    answer = sample.search(question, category=[archive], to=to, **asked)
    assert 0 < len(expected) < 200
    assert set(ids(answer)) == set(expected)
    assert ids(answer) == expected
    assert (answer.total, answer.total_relation, answer.next_offset) == (len(expected), "eq", None)


def _page(library: Library, q: str, offset: int, asked: dict[str, Any]) -> Any:
    return library.search(q, offset=offset, **asked).results


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


# -- 3: totals of citations were global counts ------------------------------------------------------------


@pytest.mark.parametrize("direction", ["citations", "references"])
def test_3_citation_totals_are_the_edges_that_paging_returns(sample: Library, direction: str) -> None:
    edges = sample_edges()
    near, far = (1, 0) if direction == "citations" else (0, 1)
    busiest = Counter(edge[near] for edge in edges).most_common(2)
    quiet = next(row["corpusid"] for row in sample_rows("papers") if row["corpusid"] not in dict(busiest))
    for corpus_id in (*dict(busiest), quiet):
        expected = {edge[far] for edge in edges if edge[near] == corpus_id}
        seen: list[int | None] = []
        offset: int | None = 0
        while offset is not None:
            page = getattr(sample, direction)(f"CorpusId:{corpus_id}", limit=7, offset=offset)
            assert page.total == len(expected)
            assert page.results or not expected
            seen += [edge.paper.corpus_id for edge in page.results]
            offset = page.next_offset
        assert len(seen) == len(set(seen))
        assert set(seen) == expected


# -- 4: point ids were salted hashes ----------------------------------------------------------------------


@pytest.mark.slow
def test_4_point_ids_are_catalogue_ids_and_the_same_in_every_build(
    tmp_path: Path, small_snapshot: Path
) -> None:
    built = []
    for seed in ("1", "2"):
        library = tmp_path / seed
        subprocess.run(
            [sys.executable, "-m", "scholarbase.cli", "ingest", small_snapshot, "--library", library],
            env=os.environ | {"PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            timeout=120,
        )
        with closing(sqlite3.connect(library / "catalog.sqlite")) as db:
            tables = {
                table: db.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall()
                for table in ("papers", "abstracts", "aliases", "edges", "meta")
            }
        with closing(EdgeIndex.open(library / "vectors")) as index:
            points = list(index.ids())
        assert points == [row[0] for row in tables["papers"]]
        built.append((tables, points, (library / "manifest.json").read_bytes()))
    assert len(built[0][1]) == len(small_rows())
    assert built[0] == built[1]


# -- 5: failures became empty lists, and what was not understood was ignored -------------------------------


def test_5_an_unreachable_vector_server_is_an_error(sample_library: Path) -> None:
    with pytest.raises(VectorIndexError, match=r"127\.0\.0\.1:9"):
        Library.open(sample_library, settings=Settings(qdrant_url="http://127.0.0.1:9"))


def test_5_a_catalogue_damaged_while_it_is_served_is_an_error(sample_library: Path, tmp_path: Path) -> None:
    copy = copied(sample_library, tmp_path / "library")
    with Library.open(copy) as library, running(create_app(library)) as url:
        catalog = copy / "catalog.sqlite"
        with catalog.open("r+b") as file:
            file.seek(4096)
            file.write(b"\xff" * (catalog.stat().st_size - 4096))
        asked = {"q": "string theory", "engine": "fts5"}
        assert "verify" in problem(httpx.get(f"{url}/search", params=asked), 503)
        with pytest.raises(LibraryCorrupt):
            library.citations(HOLOMORPHIC)


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


def test_5_an_unknown_mode_is_refused(server: str, sample: Library) -> None:
    assert "'fuzzy'" in problem(httpx.get(f"{server}/v1/search", params={"q": "x", "mode": "fuzzy"}), 400)
    with pytest.raises(InvalidRequest, match="'fuzzy'"):
        sample.search("x", mode="fuzzy")  # type: ignore[arg-type]


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


@pytest.mark.parametrize("mode", ["sparse", "dense", "hybrid"])
def test_5_date_limits_are_honoured(dense: Library, mode: Any) -> None:
    dates = {row["corpusid"]: row["publicationdate"] for row in small_rows()}
    inside = [day for day in dates.values() if day and "1993-03" <= day < "1994-02-16"]
    answer = dense.search("theory", mode=mode, limit=1000, from_="1993-03", to="1994-02-15")
    assert answer.results
    assert {dates[hit.paper.corpus_id or 0] for hit in answer.results} <= set(inside)
    if mode != "sparse":
        assert answer.total == len(answer.results) == len(inside)


# -- 6: at most a hundred references, in arbitrary order ---------------------------------------------------


@pytest.mark.slow
def test_6_more_than_a_hundred_citations_come_in_one_call_in_order(tmp_path: Path) -> None:
    rows = [row | {"abstract": "An abstract."} for row in list(sample_rows("papers"))[:151]]
    hub = rows[75]["corpusid"]
    others = [row for row in rows if row["corpusid"] != hub]
    edges = [(row["corpusid"], hub) for row in others] + [(hub, row["corpusid"]) for row in others]
    ingest([snapshot_of(tmp_path / "snapshot", rows, edges)], tmp_path / "library")
    # docs: the most cited first, then in the order of the snapshot's rows.
    ordered = [r["corpusid"] for r in sorted(others, key=lambda row: -row["citationcount"])]
    with Library.open(tmp_path / "library") as library:
        for method in (library.citations, library.references):
            answer = method(f"CorpusId:{hub}", limit=1000)
            assert (answer.total, answer.next_offset) == (150, None)
            assert [edge.paper.corpus_id for edge in answer.results] == ordered
            assert method(f"CorpusId:{hub}", limit=1000) == answer


# -- 7: old ids, prefixes and links did not resolve --------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "hep-th/9302103",
        "hep-th/9302103v2",
        "arXiv:hep-th/9302103",
        "ARXIV:hep-th/9302103",
        "arxiv:HEP-TH/9302103v1",
        "https://arxiv.org/abs/hep-th/9302103",
        "http://arxiv.org/pdf/hep-th/9302103v1.pdf",
        "10.1016/0550-3213(93)90548-4",
        "DOI:10.1016/0550-3213(93)90548-4",
        "doi:10.1016/0550-3213(93)90548-4",
        "https://doi.org/10.1016/0550-3213(93)90548-4",
        "10.48550/arXiv.hep-th/9302103",
        "CorpusId:1014899",
        "CorpusID:1014899",
        "URL:https://arxiv.org/abs/hep-th/9302103",
    ],
)
def test_7_old_ids_prefixes_and_links_resolve(server: str, name: str) -> None:
    # As people write it, with its slashes, and as careful clients do, quoted.
    assert httpx.get(f"{server}/v1/papers/{name}").json()["id"] == HOLOMORPHIC
    quoted = httpx.URL(server).copy_with(raw_path=b"/v1/papers/" + _quoted(name) + b"/citations?limit=1")
    assert httpx.get(quoted).json()["total"] > 0
    batch = httpx.post(f"{server}/v1/papers/batch", json={"ids": [name, "arXiv:hep-th/9301000"]}).json()
    assert [paper and paper["id"] for paper in batch["results"]] == [HOLOMORPHIC, None]
    within = httpx.get(f"{server}/v1/search", params={"q": "anomaly", "within": name}).json()
    assert [hit["paper"]["id"] for hit in within["results"]] == [HOLOMORPHIC]


def _quoted(name: str) -> bytes:
    return "".join(f"%{byte:02X}" for byte in name.encode()).encode()


# -- 8: letters beyond ASCII were dropped ------------------------------------------------------------------


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Five real titles with letters beyond ASCII, among titles without."""
    titles = {
        1: (
            "2508.09904",
            "Beyond Naïve Prompting: Strategies for Improved Zero-shot Context-aided Forecasting",
        ),
        2: ("2407.16074", "Schrödinger Bridge for Generative Speech Enhancement"),
        3: ("2402.05195", "λ-ECLIPSE: Multi-Concept Personalized Text-to-Image Diffusion Models"),
        4: (None, KOLMOGOROV),
        5: ("2412.15821", "π-yalli: un nouveau corpus pour le nahuatl"),
        6: ("1706.03762", "Attention Is All You Need"),
        7: ("hep-th/9302103", "Holomorphic Anomalies in Topological Field Theories"),
    }
    folder = tmp_path_factory.mktemp("world")
    rows = [
        {"corpusid": number, "title": title, "externalids": {"ArXiv": arxiv}, "authors": []}
        for number, (arxiv, title) in titles.items()
    ]
    ingest([snapshot_of(folder / "snapshot", rows)], folder / "library", rules=IngestRules(keep="title"))
    with Library.open(folder / "library") as library:
        yield library


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("q", "number"),
    [
        ("naïve", 1),
        ("naive", 1),
        ("NAÏVE", 1),
        ("nai\u0308ve", 1),
        ("Schrödinger", 2),
        ("schrodinger", 2),
        ("SCHRÖDINGER", 2),
        ("λ", 3),
        ("Λ", 3),
        ("вероятностей", 4),
        ("ВЕРОЯТНОСТЕЙ", 4),
        ("теории", 4),
        ("π", 5),
    ],
)
def test_8_words_beyond_ascii_are_found(world: Library, engine: Any, q: str, number: int) -> None:
    assert [hit.paper.corpus_id for hit in world.search(q, engine=engine).results] == [number]


def test_8_titles_beyond_ascii_are_matched(world: Library) -> None:
    assert [m.paper.corpus_id for m in world.match_title(KOLMOGOROV.upper()).results] == [4]
    assert world.match_title("Schrodinger bridge for generative speech enhancement").results[0].score == 1


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
    with serving(
        *(library, "--workers", "2", "--encoder", str(minilm_folder)),
        SCHOLARBASE_RUNTIME_DIR=str(tmp_path),
    ) as (url, process):

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
                served = {int(path.stem.rpartition("_")[2]) for path in tmp_path.rglob("counter_*.db")}
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

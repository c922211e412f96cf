"""Sweeps: points rank as the library does, and results are on queries that were not used for the choice."""

import csv
import json
import signal
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from scholarbase.errors import EvaluationError
from scholarbase.search.library import Library
from scholarbase.settings import Settings
from scholarbase_research.evaluation.formats import read_queries
from scholarbase_research.evaluation.grids import Point, read_sweep
from scholarbase_research.evaluation.run_data import JudgedQuery
from scholarbase_research.evaluation.sweeps import SweepResult, run_sweep, split
from tests.conftest import SAMPLE, json_lines, sample_rows
from tests.forks import run_fork
from tests.search.test_asymmetric_encoders import learned, snapshot

__all__ = ["learned", "snapshot"]

SYNTAX = "q-syntax"


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory, dense_library: Path) -> Path:
    """Words of abstracts in the small library, with the paper and the next one as answers; and one query with the
    marks of query syntax, which a sweep reads as words."""
    with Library.open(dense_library, encoder="none") as library:
        ids = [
            f"arXiv:{row['externalids']['ArXiv']}"
            for _, row in zip(range(60), sample_rows("papers"), strict=False)
        ]
        papers = [paper for paper in library.papers(ids) if paper is not None and paper.abstract]
    rows: list[dict[str, Any]] = [
        {
            "query_id": f"q{number}",
            "query": " ".join((paper.abstract or "").split()[5:15]).replace('"', ""),
            "answers": [paper.id, following.id],
            "intent": "near" if number % 3 else "far",
        }
        for number, (paper, following) in enumerate(pairwise(papers[:10]))
    ]
    rows.append(
        {"query_id": SYNTAX, "query": "title:string OR quantum", "answers": [papers[0].id], "intent": "near"}
    )
    path = tmp_path_factory.mktemp("sweeps") / "queries.jsonl"
    return json_lines(path, rows)


def sweep_file(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "sweep.toml"
    path.write_text(text)
    return path


GRID = """
queries = "{queries}"
measure = "AP"
limit = 20
[grid]
mode = ["hybrid", "sparse", "dense"]
engine = ["bm25", "fts5"]
rrf_k = [1, 60]
fusion_depth = [10, 1000]
fts5_title_weight = [0.0, 2.0]
[grid.weights]
dense = [0.5, 1.0]
"""


@pytest.fixture(scope="module")
def swept(
    tmp_path_factory: pytest.TempPathFactory, questions: Path, dense_library: Path
) -> tuple[SweepResult, Path]:
    folder = tmp_path_factory.mktemp("swept")
    path = sweep_file(folder, GRID.format(queries=questions))
    return run_sweep(read_sweep(path, dense_library), folder / "out"), folder / "out"


def settings_of(point: Point) -> Settings:
    return Settings(
        fusion="rrf",
        engine=point.engine,
        rrf_k=point.rrf_k,
        fusion_depth=point.fusion_depth,
        fusion_weights=dict(point.weights) or None,
        fts5_title_weight=point.fts5_title_weight,
    )


def library_results(library: Library, point: Point, text: str, limit: int) -> list[str]:
    response = library.search(text, syntax="plain", mode=point.mode, limit=limit)
    return [hit.paper.id for hit in response.results]


def average_precision(ranking: list[str], answers: set[str]) -> float:
    """By definition: the mean over the answers of the precision at the rank of each."""
    places = [place for place, paper in enumerate(ranking, 1) if paper in answers]
    return sum(number / place for number, place in enumerate(places, 1)) / len(answers)


@pytest.mark.slow
def test_a_point_is_measured_as_the_library_with_its_settings(
    swept: tuple[SweepResult, Path],
    questions: Path,
    dense_library: Path,
) -> None:
    result, _ = swept
    queries = {query.id: query for query in read_queries(questions).queries}

    def mean(point: Point, query_ids: tuple[str, ...]) -> float:
        library = Library.open(dense_library, settings=settings_of(point))
        values = [
            average_precision(
                library_results(library, point, queries[i].text, 20),
                {answer.id or "" for answer in queries[i].answers},
            )
            for i in query_ids
        ]
        library.close()
        return fmean(values)

    assert len(result.tune) == 96
    for place in range(0, 96, 19):
        point = result.sweep.points[place]
        assert result.tune[place] == pytest.approx(mean(point, result.tune_queries)), point
    assert result.best_on_test.mean == pytest.approx(mean(result.best, result.test_queries))
    assert result.baseline_on_tune == pytest.approx(mean(result.sweep.baseline, result.tune_queries))
    assert result.baseline_on_test.mean == pytest.approx(mean(result.sweep.baseline, result.test_queries))


@pytest.mark.slow
def test_the_best_is_chosen_on_one_half_and_measured_on_the_other(swept: tuple[SweepResult, Path]) -> None:
    result, folder = swept
    assert sorted((*result.tune_queries, *result.test_queries)) == sorted(
        [*(f"q{n}" for n in range(9)), SYNTAX]
    )
    assert len(result.tune_queries) == len(result.test_queries) == 5
    assert result.tune[result.sweep.points.index(result.best)] == max(result.tune)
    rows = list(csv.DictReader((folder / "grid.csv").read_text().splitlines()))
    assert list(rows[0])[-2:] == ["weight_dense", "AP on the tune half (5 queries)"]
    assert [float(row["AP on the tune half (5 queries)"]) for row in rows] == pytest.approx(
        result.tune, abs=1e-6
    )
    assert [int(row["rrf_k"]) for row in rows] == [point.rrf_k for point in result.sweep.points]
    written = json.loads((folder / "sweep.json").read_text())
    assert written["test"]["best"]["mean"] == result.best_on_test.mean
    assert written["test"]["change"]["difference"] == pytest.approx(
        written["test"]["best"]["mean"] - written["test"]["baseline"]["mean"]
    )
    names = ("FUSION", "ENGINE", "RRF_K", "FUSION_DEPTH", "FUSION_WEIGHTS", "FTS5_TITLE_WEIGHT")
    assert set(written["settings"]) == {f"SCHOLARBASE_{name}" for name in names}


@pytest.mark.slow
def test_a_finished_sweep_is_not_searched_again(swept: tuple[SweepResult, Path]) -> None:
    result, folder = swept
    before = {path: path.stat().st_mtime_ns for path in (folder / "legs").rglob("*.gz")}
    assert before
    assert run_sweep(result.sweep, folder).to_dict() == result.to_dict()
    assert {path: path.stat().st_mtime_ns for path in (folder / "legs").rglob("*.gz")} == before


KILLED = """
import os, signal, sys
from pathlib import Path
from scholarbase_research.evaluation import grids, sweeps
opened = sweeps._opened
def dies(sweep, settings, leg):
    if leg is not None and leg.title_weight == 2.0:
        os.kill(os.getpid(), signal.SIGKILL)
    return opened(sweep, settings, leg)
sweeps._opened = dies
file, library, out = map(Path, sys.argv[1:])
sweeps.run_sweep(grids.read_sweep(file, library), out)
"""
"""A sweep, which is killed at the start of a leg."""


@pytest.fixture
def sample_queries(tmp_path: Path) -> Path:
    """Ten of the sample's queries."""
    lines = (SAMPLE / "queries.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "queries.jsonl").write_text("".join(lines[:10]))
    return tmp_path / "queries.jsonl"


@pytest.mark.slow
def test_a_killed_sweep_continues(tmp_path: Path, sample_library: Path, sample_queries: Path) -> None:
    path = sweep_file(
        tmp_path,
        f'queries = "{sample_queries}"\n[grid]\nengine = ["bm25", "fts5"]\nfts5_title_weight = [1.0, 2.0, 3.0]\n',
    )
    modules = ["scholarbase_research.evaluation.sweeps"]
    done = run_fork(path, sample_library, tmp_path / "killed", code=KILLED, imports=modules)
    assert done.returncode == -signal.SIGKILL
    assert list((tmp_path / "killed").glob("legs/*/fts5-title1-*/manifest.json"))
    assert not (tmp_path / "killed" / "sweep.json").exists()
    result = run_sweep(read_sweep(path, sample_library), tmp_path / "killed")
    undisturbed = run_sweep(read_sweep(path, sample_library), tmp_path / "undisturbed")
    assert result.to_dict() == undisturbed.to_dict()
    for name in ("sweep.json", "grid.csv"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "undisturbed" / name).read_bytes()


@pytest.mark.slow
def test_ties_go_to_the_point_closest_to_the_baseline(
    tmp_path: Path, sample_library: Path, sample_queries: Path
) -> None:
    # A sparse search is not fused, so k and the weights have no effect.
    path = sweep_file(
        tmp_path,
        f'queries = "{sample_queries}"\n[grid]\nrrf_k = [10, 60, 70]\n[grid.weights]\nfts5 = [3.0, 1.0]\n',
    )
    result = run_sweep(read_sweep(path, sample_library), tmp_path / "out")
    assert len(set(result.tune)) == 1
    assert result.best == result.sweep.points[3]
    assert (result.best.rrf_k, result.best.weight("fts5")) == (60, 1.0)
    assert (result.change.difference, result.change.p) == (0, 1)


def test_the_halves_depend_only_on_ids_and_seed() -> None:
    queries = [JudgedQuery(f"q{n}", "text", (), intent="ab"[n % 2]) for n in range(100)]
    tune, test = split(queries, 0)
    assert (len(tune), len(test)) == (50, 50)
    assert set(tune) | set(test) == {query.id for query in queries}
    for intent in "ab":
        ids = {query.id for query in queries if query.intent == intent}
        assert len(ids & set(tune)) == 25
    assert {*split(queries[::-1], 0)[0]} == {*tune}
    assert {*split(queries, 1)[0]} != {*tune}
    assert list(tune) == [query.id for query in queries if query.id in tune]


def test_a_sweep_file_has_defaults(
    tmp_path: Path, sample_library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHOLARBASE_RRF_K", "30")
    path = sweep_file(
        tmp_path, 'queries = "q.jsonl"\n[grid]\nengine = ["bm25", "fts5"]\n[baseline]\nengine = "fts5"\n'
    )
    sweep = read_sweep(path, sample_library)
    assert sweep.queries == tmp_path / "q.jsonl"
    assert (sweep.measure.name, sweep.seed, sweep.limit) == ("R@100", 0, 100)
    assert sweep.baseline == Point("sparse", "fts5", 30, 1000, 2.0)
    assert [point.engine for point in sweep.points] == ["bm25", "fts5"]
    # The baseline has the settings of the profile, except those that are set.
    monkeypatch.setenv("SCHOLARBASE_PROFILE", "scholarquest")
    plain = sweep_file(tmp_path, 'queries = "q.jsonl"\n[grid]\nrrf_k = [20]\n')
    baseline = read_sweep(plain, sample_library).baseline
    assert baseline == Point("sparse", "fts5", 30, 1000, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("queries = ", "it is not valid TOML"),
        ('queries = "q"\nlimit = true\n[grid]', r"`\$.limit`"),
        ('queries = "q"\n[grid]\nrrf_k = [true]', r"`\$.grid.rrf_k"),
        ('queries = "q"\n[grid]\nrrf_k = [0]', "grid.rrf_k has the invalid value 0"),
        (f'queries = "q"\n[grid]\nrrf_k = {list(range(1, 102))}\nfusion_depth = {list(range(10, 110))}',
         "the grid has 10,100 points: the maximum is 10,000"),
    ],
)  # fmt: skip
def test_an_invalid_sweep_file_is_an_error(
    tmp_path: Path, sample_library: Path, text: str, part: str
) -> None:
    with pytest.raises(EvaluationError, match=part) as caught:
        read_sweep(sweep_file(tmp_path, text), sample_library)
    assert str(caught.value).startswith("sweep.toml: ")

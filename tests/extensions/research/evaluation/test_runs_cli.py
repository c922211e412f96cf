"""``scholarbase eval``: real commands with the sample and its 40 questions."""

import gzip
import json
import re
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import pytrec_eval

from scholarbase.search.library import Library
from tests.conftest import SAMPLE, run_cli, run_process
from tests.libraries import copied, relist

QUERIES = SAMPLE / "queries.jsonl"


def evaluate(*arguments: str | Path, cwd: Path, status: int = 0) -> CompletedProcess[str]:
    done = run_cli("eval", *arguments, cwd=cwd)
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory, sample_library: Path) -> Path:
    """A folder with two runs of the sample's questions: BM25 and FTS5."""
    folder = tmp_path_factory.mktemp("evaluation")
    for engine in ("bm25", "fts5"):
        where = ["--library", sample_library, "--mode", "sparse", "--engine", engine]
        evaluate("run", QUERIES, *where, "--name", engine, cwd=folder)
    return folder


def mean_by_trec_eval(run: Path, measure: str) -> float:
    """The mean that trec_eval computes from the run's two files."""
    with gzip.open(run / "run.trec.gz", "rt") as lines:
        ranking = pytrec_eval.parse_run(lines)
    with gzip.open(run / "qrels.trec.gz", "rt") as lines:
        qrels = pytrec_eval.parse_qrel(lines)
    values = pytrec_eval.RelevanceEvaluator(qrels, {measure}).evaluate(ranking)
    name = measure.replace(".", "_")
    return sum(values[query][name] if query in values else 0.0 for query in qrels) / len(qrels)


@pytest.mark.whole
def test_one_command_searches_measures_and_reports(tmp_path: Path, sample_library: Path) -> None:
    done = evaluate(
        "run",
        QUERIES,
        "--library",
        sample_library,
        "--mode",
        "sparse",
        "--report",
        "report",
        "--measure",
        "R@100",
        "--json",
        cwd=tmp_path,
    )
    [run] = json.loads(done.stdout)["runs"]
    found = run["measures"]["all"]["R@100"]["mean"]
    assert found == pytest.approx(mean_by_trec_eval(tmp_path / "runs" / "sample-sparse", "recall.100"))
    assert run["answers"]["by_id"] == run["answers"]["answers"] == 229
    page = (tmp_path / "report" / "report.html").read_text()
    assert f"{found:.3f}" in page


@pytest.mark.slow
def test_show_prints_the_figures_of_trec_eval(work: Path) -> None:
    done = evaluate("show", "runs/bm25", "runs/fts5", "--measure", "nDCG@10", "--by", "year", cwd=work)
    for name in ("bm25", "fts5"):
        value = mean_by_trec_eval(work / "runs" / name, "ndcg_cut.10")
        assert re.search(rf" {name} +40 +{value:.3f}", done.stdout, re.M), done.stdout
    years = re.findall(r" (20\d\d) +bm25 +(\d+) ", done.stdout, re.M)
    dates = [json.loads(line)["date"][:4] for line in QUERIES.read_text().splitlines()]
    assert dict(years) == {year: str(dates.count(year)) for year in dates}


@pytest.mark.slow
def test_compare_counts_gains_and_losses(work: Path) -> None:
    done = evaluate("compare", "runs/bm25", "runs/fts5", "runs/bm25", cwd=work)
    assert "engine: bm25 → fts5" in done.stdout
    counts = re.findall(r"^R@100 .* (\d+) +(\d+) +(\d+) *$", done.stdout, re.M)
    assert [sum(map(int, row)) for row in counts] == [40, 40]
    assert counts[1] == ("0", "0", "40")


BAD = '{"query_id": "a", "final_query": "x", "answer_arxiv_ids": ["1706.03762"], "final_answer_count": 1}\n'


@pytest.mark.slow
def test_a_mistake_is_one_clear_sentence(work: Path, sample_library: Path) -> None:
    (work / "bad.jsonl").write_text(BAD + '{"query_id": "b", "final\n')
    (work / "other.jsonl").write_text(BAD.replace("1706.03762", "2401.99999"))
    for command, status, message in (
        ("run bad.jsonl", 13, "line 2"),
        ("run other.jsonl", 13, "not in this library"),
        ("show nowhere", 12, "No run at nowhere"),
        ("show runs/bm25 --measure R@1001", 2, "--limit"),
        ("show runs/bm25 --by colour", 2, "colour"),
        (f"run {QUERIES} --mode sparse,sparce", 2, "sparce"),
        (f"run {QUERIES} --mode dense", 2, "dense"),
        (f"run {QUERIES} --name bm25 --mode sparse --limit 7", 12, "--restart"),
        (f"run {QUERIES} --pool", 13, "pool"),
        (f"run {QUERIES} --name ../mine", 2, "without a slash"),
    ):
        where = ["--library", sample_library] if command.startswith("run") else []
        sentence = evaluate(*command.split(), *where, cwd=work, status=status).stderr.splitlines()[-1]
        assert sentence.startswith("scholarbase: ")
        assert message in sentence


def test_a_cutoff_above_the_limit_was_rejected_only_after_all_searches(
    tmp_path: Path, sample_library: Path
) -> None:
    where = ["--library", sample_library, "--limit", "5", "--measure", "R@6"]
    done = evaluate("run", QUERIES, *where, cwd=tmp_path, status=2)
    assert "give --limit 6" in done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_runs_of_two_query_sets_were_shown_as_if_of_the_first(
    work: Path, tmp_path: Path, sample_library: Path
) -> None:
    few = tmp_path / "few.jsonl"
    few.write_text("".join(QUERIES.read_text().splitlines(keepends=True)[:3]))
    evaluate("run", few, "--library", sample_library, "--mode", "sparse", cwd=tmp_path)
    done = evaluate("show", work / "runs" / "bm25", tmp_path / "runs" / "few-sparse", cwd=tmp_path)
    assert "bm25: sample: 40 queries" in done.stdout
    assert "few-sparse: few: 3 queries" in done.stdout


@pytest.mark.whole
@pytest.mark.slow
def test_runs_of_two_snapshots_are_compared_only_with_across_snapshots(
    work: Path, default_library: Path, tmp_path: Path
) -> None:
    where = ["--library", default_library, "--mode", "sparse", "--out", tmp_path]
    evaluate("run", QUERIES, *where, "--name", "with-vectors", cwd=work)
    command = ["report", "--out", tmp_path / "report", "runs/bm25", tmp_path / "with-vectors"]
    failed = evaluate(*command, cwd=work, status=12)
    assert "--across-snapshots" in failed.stderr
    evaluate(*command, "--across-snapshots", cwd=work)


def check_extra_is_missing(folder: Path, *command: str | Path) -> None:
    """Run a command in a process without the packages of the extra, which it names in its error."""
    hidden = folder / "hidden"
    hidden.mkdir(exist_ok=True)
    (hidden / "sitecustomize.py").write_text(
        "import sys\n"
        "class Hide:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in {'ir_measures', 'scipy', 'matplotlib', 'jinja2'}:\n"
        "            raise ModuleNotFoundError(name, name=name)\n"
        "sys.meta_path.insert(0, Hide())\n"
    )
    done = run_process("eval", *command, cwd=folder, PYTHONPATH=f"{hidden}:{SAMPLE.parent}")
    assert done.returncode == 16
    assert done.stderr == (
        "scholarbase: The evaluation needs the package ir_measures: "
        'run pip install "scholarbase[evaluation]".\n'
    )


@pytest.mark.slow
def test_a_missing_extra_is_an_error_before_any_search(tmp_path: Path, sample_library: Path) -> None:
    """Without ir_measures, the command failed only after searching for every query."""
    where = ("--library", sample_library)
    check_extra_is_missing(tmp_path, "run", QUERIES, *where)
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_a_sparse_run_needs_no_encoder(tmp_path: Path, dense_library: Path) -> None:
    """It loaded the library's model, which took longer than all searches; here the model is missing."""
    moved = copied(dense_library, tmp_path / "library")
    about = json.loads((moved / "encoder.json").read_text())
    (moved / "encoder.json").write_text(json.dumps(about | {"location": str(tmp_path / "gone")}))
    relist(moved)
    with Library.open(moved, encoder="none") as library:
        paper = library.search("string theory", limit=1).results[0].paper
    (tmp_path / "queries.csv").write_text(f"query_id,query,answers\n1,{paper.title!r},{paper.id}\n")
    where = ["--library", "library", "--mode"]
    evaluate("run", "queries.csv", *where, "sparse", cwd=tmp_path)
    evaluate("run", "queries.csv", *where, "sparse,dense", cwd=tmp_path, status=7)

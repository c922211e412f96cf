"""``eval run --query-vectors`` and ``--exclude-self``: what retrieval researchers bring and expect."""

import gzip
import json
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from scholarbase.encoders import open_encoder
from scholarbase.ingest.job import ingest
from scholarbase.models.encoders import PACKAGED
from scholarbase_research.evaluation.runs import read_run
from tests.conftest import SAMPLE, json_lines, run_cli, succeeded


@pytest.fixture(scope="module")
def queries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three of the sample's questions, with two spaces for one."""
    path = tmp_path_factory.mktemp("few") / "few.jsonl"
    rows = [json.loads(line) for line in (SAMPLE / "queries.jsonl").read_text().splitlines()[:3]]
    spaced = [row | {"final_query": row["final_query"].replace(" ", "  ", 1)} for row in rows]
    return json_lines(path, spaced)


def test_vectors_of_ones_own_rank_as_the_encoder_that_made_them(
    queries: Path, default_library: Path, tmp_path: Path
) -> None:
    rows = [json.loads(line) for line in queries.read_text().splitlines()]
    with closing(open_encoder(PACKAGED)) as encoder:
        vectors = encoder.encode_queries([row["final_query"] for row in rows]).dense
    np.save(tmp_path / "queries.npy", 2 * vectors[::-1].astype(np.float32))
    ids = [row["query_id"] for row in rows][::-1]
    (tmp_path / "ids.txt").write_text("".join(f"{name}\n" for name in ids))
    common = ["eval", "run", queries, "--library", default_library, "--mode", "dense", "--limit", 20]
    common += ["--measure", "R@10"]
    runs = []
    for name, options in (("own", ["--query-vectors", "queries.npy"]), ("encoder", ["--negation", "off"])):
        done = succeeded(*map(str, [*common, "--name", name, *options]), cwd=tmp_path)
        runs.append(read_run(tmp_path / "runs" / name))
    own, encoder_run = ({q: [r.id for r in hits] for q, hits in run.rankings.items()} for run in runs)
    assert own == encoder_run
    assert all(own.values())
    assert runs[0].manifest.search is not None
    assert len(runs[0].manifest.search["query_vectors"]) == 64

    (tmp_path / "ids.txt").write_text("".join(f"{name}\n" for name in ["other", *ids[1:]]))
    done = run_cli(*map(str, [*common, "--query-vectors", "queries.npy", "--name", "x"]), cwd=tmp_path)
    assert f"has no vector of the query {ids[0]!r}" in done.stderr
    np.save(tmp_path / "queries.npy", vectors[:, :7])
    done = run_cli(*map(str, [*common, "--query-vectors", "queries.npy", "--name", "x"]), cwd=tmp_path)
    assert "have 7 dimensions, and the library" in done.stderr
    done = run_cli(*map(str, [*common, "--query-vectors", "q.npy", "--encoder", PACKAGED]), cwd=tmp_path)
    assert "leave out --url, --encoder" in done.stderr


def test_a_document_with_the_id_of_the_query_is_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "arguments"
    (folder / "qrels").mkdir(parents=True)
    texts = {"a1": "Statins help.", "a2": "Statins help few.", "a3": "Statins help and harm.", "a4": "Other."}
    documents = [{"_id": name, "title": "", "text": text} for name, text in texts.items()]
    with gzip.open(folder / "corpus.jsonl.gz", "wt") as out:
        out.writelines(json.dumps(document) + "\n" for document in documents)
    (folder / "queries.jsonl").write_text(json.dumps({"_id": "a1", "text": texts["a1"]}) + "\n")
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\na1\ta2\t1\n")
    ingest([folder], tmp_path / "library")
    common = ["eval", "run", folder, "--library", tmp_path / "library", "--mode", "sparse", "--limit", 2]
    common += ["--measure", "RR@2"]
    rankings = []
    for options, name in (([], "arguments-sparse"), (["--exclude-self"], "arguments-sparse-exclude-self")):
        done = succeeded(*map(str, [*common, *options]), cwd=tmp_path)
        rankings.append([hit.id for hit in read_run(tmp_path / "runs" / name).rankings["a1"]])
        noted = f"Without documents that have the id of their query: {name}." in " ".join(done.stdout.split())
        assert noted == ("--exclude-self" in options)
    assert "Doc:a1" in rankings[0]
    assert sorted(rankings[1]) == ["Doc:a2", "Doc:a3"], "two results, as --limit says"
    again = run_cli(*map(str, [*common, "--exclude-self", "--name", "arguments-sparse"]), cwd=tmp_path)
    assert "; the settings differ in exclude_self): give another name" in again.stderr

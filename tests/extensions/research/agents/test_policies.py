"""Agents by rule, their trajectories as runs, and the command line."""

import json
from pathlib import Path

import pytest

from scholarbase.search.library import Library
from scholarbase_research.agents.policies import fused
from scholarbase_research.trajectory_lines import read_trajectory
from tests.conftest import SAMPLE, run_cli, succeeded
from tests.extensions.research.agents.test_react import END, SEARCH
from tests.extensions.research.llm.model_server import in_order, model_server


def first_queries(tmp_path: Path, count: int = 3) -> Path:
    path = tmp_path / "queries.jsonl"
    path.write_text("".join((SAMPLE / "queries.jsonl").read_text().splitlines(keepends=True)[:count]))
    return path


@pytest.mark.slow
def test_one_search_is_what_eval_run_finds(sample: Library, sample_library: Path, tmp_path: Path) -> None:
    queries = first_queries(tmp_path)
    out = tmp_path / "agent"
    done = succeeded("agent", "run", queries, "--policy", "search", "--library", sample_library, "--out", out)
    assert "3 questions: 3 answered; 1.0 calls, responses of " in done.stdout
    assert "tokens and 0 tokens of a model each; 0 failed calls." in done.stdout
    options = ["--library", sample_library, "--out", tmp_path / "runs", "--json", "--measure", "R@100"]
    ours = run_cli("eval", "trajectory", out / "trajectory.jsonl", queries, *options)
    plain = run_cli("eval", "run", queries, "--mode", "sparse", *options)
    assert ours.returncode == 0, ours.stderr
    recall = [json.loads(one.stdout)["runs"][0]["measures"] for one in (ours, plain)]
    assert recall[0] == recall[1]


def test_search_and_expansion(sample: Library, sample_library: Path, tmp_path: Path) -> None:
    queries = tmp_path / "queries.jsonl"
    row = {"query_id": "q", "final_query": "two-dimensional QCD as a string theory", "date": "1994"}
    queries.write_text(json.dumps({**row, "answer_arxiv_ids": ["hep-th/9301068"], "final_answer_count": 1}))
    command = [
        "agent",
        "run",
        queries,
        "--policy",
        "search-expand",
        "--library",
        sample_library,
        "--to",
        "query",
    ]
    succeeded(*command, "--out", tmp_path / "agent", "--limit", "20")
    calls = read_trajectory(tmp_path / "agent" / "trajectory.jsonl")
    tools = ["search_papers", "expand_papers", "expand_papers", *["search_papers"] * 3, "answer"]
    assert [call.tool for call in calls] == tools
    assert [call.round for call in calls] == [1, 2, 2, 2, 2, 2, 3]
    assert all(call.arguments["to"] == "1994" for call in calls[:-1])
    found = sample.search(row["final_query"], limit=20, to="1994").results
    assert calls[0].ids == tuple(hit.paper.id for hit in found)
    assert all(call.error is None and call.ids for call in calls[1:])
    assert [call.arguments["q"] for call in calls[3:6]] == [hit.paper.title for hit in found[:3]]
    # All of the 50, which the default size of a response would cut.
    assert [len(call.ids) for call in calls[3:6]] == [50, 50, 50]
    assert calls[-1].ids != calls[0].ids
    assert len(calls[-1].ids) == 20


def test_fusion_by_rank() -> None:
    # b: 1/62 + 0.5/61 = 0.0243, a: 1/61 = 0.0164, c: 0.5/62 = 0.0081
    assert fused([(1.0, ["a", "b"]), (0.5, ["b", "c"])]) == ["b", "a", "c"]


@pytest.mark.slow
def test_react_from_the_command_line(sample_library: Path, tmp_path: Path) -> None:
    queries = first_queries(tmp_path, 1)
    tape = tmp_path / "tape.jsonl"
    common = ["agent", "run", queries, "--policy", "react", "--library", sample_library, "--cassette", tape]
    with model_server(in_order(SEARCH, END)) as server:
        options = ["--model", server.url, "--price", "scripted=1000,10000"]
        done = run_cli(*common, *options, "--record", "--out", tmp_path / "a", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["cost"] == 0.6
    # The same run offline, from the cassette.
    again = succeeded(*common, *options, "--out", tmp_path / "b", "--json")
    assert json.loads(again.stdout) == json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["trajectory.jsonl", "manifest.json", "agent.jsonl"])
def test_agent_run_overwrote_files_that_it_did_not_write(
    sample_library: Path, tmp_path: Path, name: str
) -> None:
    out = tmp_path / "agent"
    out.mkdir()
    (out / name).write_text('{"mine": 1}')
    command = ["agent", "run", first_queries(tmp_path, 1), "--policy", "search", "--library", sample_library]
    for option in ([], ["--restart"]):
        done = run_cli(*command, "--out", out, *option)
        assert done.returncode == 12, done.stderr
        assert f"{out / name} is not" in done.stderr
        assert [path.read_text() for path in out.iterdir()] == ['{"mine": 1}']

"""Answer sets on a library with a known citation graph: limits, stops, hops, prefilter, adjudication, kills."""

import fcntl
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from scholarbase.databases import open_immutable
from scholarbase.errors import ConstructionError, ModelError
from scholarbase.search.library import Library
from scholarbase_research.construction.job import DATABASE, construct_answers
from scholarbase_research.construction.judging import Panel
from scholarbase_research.evaluation.formats import read_queries
from scholarbase_research.llm.base import Completion, ModelRequest, Usage
from scholarbase_research.llm.judges import FunctionJudge, ModelJudge
from tests.extensions.research.construction.toy import (
    RUBRIC,
    by_title,
    names_of,
    toy_id,
    toy_queries,
    toy_setup,
)
from tests.extensions.research.llm.model_server import FunctionModel
from tests.forks import run_fork


def rows(folder: Path, sql: str) -> list[tuple[Any, ...]]:
    connection = open_immutable(folder / DATABASE)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def papers(folder: Path, where: str = "1", table: str = "decisions") -> set[str]:
    return names_of(row[0] for row in rows(folder, f"SELECT paper FROM {table} WHERE {where}"))


def run(library: Library, folder: Path, **changes: Any) -> dict[str, Any]:
    return construct_answers(library, toy_queries(), folder, toy_setup(library, **changes))


def stop_of(folder: Path) -> str:
    return str(rows(folder, "SELECT stop FROM questions")[0][0])


# -- expansion ------------------------------------------------------------------------------------------


def test_two_hops_from_strict_matches_only(toy: Library, tmp_path: Path) -> None:
    run(toy, tmp_path)
    # R2 is strict, but has no word of the question and only one route.
    assert papers(tmp_path, "answer") == {"S1", "C01", "H1"}
    reached = papers(tmp_path, table="candidates")
    assert {"S1", "P1", "R1", "R2", "R3", "R4", "R5", "C01", "H1"} <= reached
    assert not reached & {"X", "Y", "H2"}
    seeds = {(*names_of([seed]), hop) for seed, hop in rows(tmp_path, "SELECT seed, hop FROM expansions")}
    assert seeds == {("S1", 1), ("C01", 2)}
    assert stop_of(tmp_path) == "last hop"


def test_at_most_thirty_citing_papers_and_all_references(toy: Library, tmp_path: Path) -> None:
    run(toy, tmp_path)
    found = rows(tmp_path, f"SELECT direction, total, taken FROM expansions WHERE seed = '{toy_id('S1')}'")
    assert sorted(found) == [("citations", 40, 30), ("references", 5, 5)]
    assert sum(name.startswith("C") for name in papers(tmp_path, table="candidates")) == 30
    run(toy, tmp_path / "few", citations=3)
    assert sum(name.startswith("C") for name in papers(tmp_path / "few", table="candidates")) == 3


def test_the_answer_limit_stops_and_is_kept(toy: Library, tmp_path: Path) -> None:
    figures = run(toy, tmp_path, answers=1)
    assert papers(tmp_path, "answer") == {"S1"}
    assert stop_of(tmp_path) == "answer limit"
    assert figures["questions"]["answers"] == 1
    assert rows(tmp_path, "SELECT COUNT(*) FROM expansions") == [(0,)]


@pytest.mark.parametrize("judged", [1, 2, 7, 34])
def test_the_judged_limit_is_exact(toy: Library, tmp_path: Path, judged: int) -> None:
    run(toy, tmp_path, judged=judged, sample=20)
    assert rows(tmp_path, "SELECT COUNT(*) FROM decisions") == [(judged,)]
    assert stop_of(tmp_path) == "judged limit"


# -- the prefilter --------------------------------------------------------------------------------------


def test_the_loss_of_the_prefilter_is_measured(toy: Library, tmp_path: Path) -> None:
    figures = run(toy, tmp_path, sample=20)["prefilter"]
    # R2 alone has no word of the question. It is in the sample, strict, and so an answer.
    assert figures["reasons"]["few words"] == 1
    assert (figures["dropped"], figures["sampled"], figures["sampled_strict"]) == (1, 1, 1)
    assert (figures["lost"], figures["loss"]) == (1.0, 0.25)  # one of S1, C01, H1 and R2
    assert papers(tmp_path, "answer") == {"S1", "C01", "H1", "R2"}
    # A paper of the sample is not expanded.
    assert rows(tmp_path, f"SELECT * FROM expansions WHERE seed = '{toy_id('R2')}'") == []


@pytest.mark.parametrize("changes", [{"sample": 0}, {"sample": 20, "judged": 2}])
def test_a_loss_without_a_sample_is_not_zero(toy: Library, tmp_path: Path, changes: dict[str, int]) -> None:
    figures = run(toy, tmp_path, citations=0, min_overlap=1.0, **changes)["prefilter"]
    stored = json.loads((tmp_path / "report.json").read_bytes())["prefilter"]
    # Two papers were found by the search. Without citations, S1 leads to R1 to R5.
    assert (figures["dropped"], figures["not_sampled"], figures["sampled"]) == (5, 5, 0)
    assert (stored["lost"], stored["loss"]) == (None, None)
    assert "| lost | - |\n| loss | - |" in (tmp_path / "report.md").read_text()


def test_known_answers_that_were_dropped_are_counted(toy: Library, tmp_path: Path) -> None:
    known = {"q1": frozenset({toy_id("S1"), toy_id("R2"), toy_id("H2"), toy_id("C01")})}
    figures = construct_answers(toy, toy_queries(), tmp_path, toy_setup(toy), known=known)
    assert figures["reference"] == {"of": "known answers", "questions": 1, "answers": 4}
    assert figures["prefilter"]["reference_dropped"] == 1
    # C01 cites S1 and H1: the second hop finds S1 again, and nothing new.
    by_hop = {
        row["name"]: (row["found"], row["added"], row["recall_so_far"]) for row in figures["pool"]["by_hop"]
    }
    assert by_hop == {"retrieval": (1, 1, 0.25), "hop 1": (2, 2, 0.75), "hop 2": (1, 0, 0.75)}
    assert figures["pool"]["plain_search_of_the_same_depth"] == {"recall": 0.25, "found": 1}


# -- adjudication ---------------------------------------------------------------------------------------


def scripted(name: str, reply: Any) -> ModelJudge:
    """A model that judges by the prompt's text."""

    def complete(request: ModelRequest) -> Completion:
        return Completion(reply(request.messages[1].content), usage=Usage(1, 100, 10))

    return ModelJudge(FunctionModel(name, complete), RUBRIC)


def test_uncertain_papers_are_judged_again(toy: Library, tmp_path: Path) -> None:
    seen: list[str] = []

    def lenient(item: Mapping[str, str]) -> tuple[float, str]:
        score, reason = by_title(item)
        return (2.0, "lenient") if item["title"].startswith("beta") else (score, reason)

    def adjudicate(prompt: str) -> str:
        seen.append(prompt)
        return '{"reason": "decided", "score": 2}' if "number3" in prompt else '{"reason": "no", "score": 0}'

    panel = Panel(
        RUBRIC,
        [FunctionJudge("by-title", by_title), FunctionJudge("lenient", lenient)],
        [scripted("judge-again", adjudicate)],
    )
    figures = construct_answers(toy, toy_queries(), tmp_path, toy_setup(toy, panel), known=None)
    decided = {
        next(iter(names_of([paper]))): found
        for paper, *found in rows(tmp_path, "SELECT paper, score, decision, flag, decided_by FROM decisions")
    }
    assert decided["R1"] == [0.0, "mismatch", "disagreement", "adjudication"]  # 1 and 2
    assert decided["R3"] == [2.0, "strict", "disagreement", "adjudication"]  # 0 and 2
    assert decided["P1"] == [0.0, "mismatch", "borderline", "adjudication"]  # 1 and 1
    assert decided["S1"] == [2.0, "strict", "", "first"]
    assert len(seen) == 5  # P1, R1, R3, R4, R5
    r1 = next(prompt for prompt in seen if "beta reference partial" in prompt)
    assert "Judge 1: 1 (the title is beta reference partial)\nJudge 2: 2 (lenient)" in r1
    judging = figures["judging"]
    assert (judging["unequal"], judging["decided_by_adjudication"]) == (4, 5)
    assert judging["uncertain"] == {"borderline": 1, "disagreement": 4}


def test_an_error_is_judged_again_and_never_a_zero(toy: Library, tmp_path: Path) -> None:
    def no_verdict_on_p1(prompt: str) -> str:
        return "Sure!" if "gamma partial" in prompt else '{"reason": "", "score": 2}'

    both = [scripted("a", no_verdict_on_p1)]
    construct_answers(toy, toy_queries(), tmp_path / "one", toy_setup(toy, Panel(RUBRIC, both), hops=0))
    found = rows(
        tmp_path / "one", f"SELECT score, grade, decision FROM decisions WHERE paper = '{toy_id('P1')}'"
    )
    assert found == [(None, None, "unjudged")]
    assert toy_id("P1") not in (tmp_path / "one" / "qrels.tsv").read_text()

    again = [scripted("b", lambda prompt: '{"reason": "fine", "score": 1}')]
    setup = toy_setup(toy, Panel(RUBRIC, both, again), hops=0)
    figures = construct_answers(toy, toy_queries(), tmp_path / "two", setup)
    found = rows(
        tmp_path / "two", f"SELECT score, decision, flag FROM decisions WHERE paper = '{toy_id('P1')}'"
    )
    assert found == [(1.0, "partial", "error")]
    judges = {
        row["judge"]: (row["verdicts"], row["errors"], row["retried"]) for row in figures["judging"]["judges"]
    }
    assert judges == {"a": (2, 1, 1), "b": (1, 0, 0)}


# -- files, resuming ------------------------------------------------------------------------------------


def test_the_files_of_a_construction(toy: Library, tmp_path: Path) -> None:
    run(toy, tmp_path)
    query = json.loads((tmp_path / "queries.jsonl").read_text())
    assert query["answer_arxiv_ids"] == sorted(
        toy_id(name).removeprefix("arXiv:") for name in ("S1", "C01", "H1")
    )
    assert query["final_answer_count"] == 3
    read = read_queries(tmp_path / "queries.jsonl")
    assert (read.format, len(read.queries[0].answers)) == ("ScholarQuest", 3)
    qrels = dict(line.split("\t")[2:] for line in (tmp_path / "qrels.tsv").read_text().splitlines())
    assert [qrels[toy_id(name)] for name in ("S1", "P1", "R3")] == ["2", "1", "0"]
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["identity"]["panel"]["judges"] == ["by-title"]
    assert set(manifest["files"]) == {"queries.jsonl", "qrels.tsv", "report.json", "report.md"}
    assert (tmp_path / "report.md").read_text().startswith("# Answer sets\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [*manifest["files"], "manifest.json", DATABASE]
    )


def test_a_folder_of_another_construction_is_refused(toy: Library, tmp_path: Path) -> None:
    run(toy, tmp_path)
    with pytest.raises(ConstructionError, match="of another construction: its limits is"):
        run(toy, tmp_path, hops=1)
    setup = toy_setup(toy, hops=1)
    construct_answers(toy, toy_queries(), tmp_path, setup, restart=True)
    assert papers(tmp_path, "answer") == {"S1", "C01"}
    (tmp_path / DATABASE).write_bytes(b"not a database at all" * 1000)
    with pytest.raises(ConstructionError, match="cannot be used"):
        construct_answers(toy, toy_queries(), tmp_path, setup)


def test_two_processes_in_one_folder_are_refused(toy: Library, tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with pytest.raises(ConstructionError, match="Another process is constructing answers"):
            run(toy, tmp_path)
    finally:
        os.close(descriptor)
    run(toy, tmp_path)


def test_a_failed_judge_keeps_the_verdicts_so_far(toy: Library, tmp_path: Path) -> None:
    calls: list[str] = []

    def fails(item: Mapping[str, str]) -> tuple[float, str]:
        calls.append(item["paper"])
        if len(calls) == 2:
            raise ModelError("The model is gone.")
        return by_title(item)

    panel = Panel(RUBRIC, [FunctionJudge("by-title", fails)])
    with pytest.raises(ModelError, match="0 of 1 questions are done, and all verdicts are kept"):
        construct_answers(toy, toy_queries(), tmp_path, toy_setup(toy, panel), judge_concurrency=1)
    first = calls[0]
    construct_answers(toy, toy_queries(), tmp_path, toy_setup(toy, panel), judge_concurrency=1)
    assert calls.count(first) == 1
    assert papers(tmp_path, "answer") == {"S1", "C01", "H1"}


def content_of(folder: Path) -> dict[str, Any]:
    """The rows of all tables, and the bytes of all other files."""
    found: dict[str, Any] = {
        table: rows(folder, f"SELECT * FROM {table}")
        for (table,) in rows(
            folder, "SELECT name FROM sqlite_master WHERE type = 'table' AND name <> 'forgotten'"
        )
    }
    return found | {
        path.name: path.read_bytes() for path in folder.iterdir() if path.is_file() and path.name != DATABASE
    }


def killed(library: Path, folder: Path, last: int) -> subprocess.CompletedProcess[str]:
    """Run a construction that is killed in its transaction ``last``, or ends and prints their number."""
    toy = "tests.extensions.research.construction.toy"
    return run_fork(library, folder, str(last), code=f"from {toy} import main; main()", imports=[toy])


@pytest.mark.slow
def test_killed_at_four_instants_and_resumed(toy: Library, toy_path: Path, tmp_path: Path) -> None:
    whole = killed(toy_path, tmp_path / "whole", 0)
    assert whole.returncode == 0, whole.stderr
    transactions = int(whole.stdout)
    expected = content_of(tmp_path / "whole")
    assert len(expected["decisions"]) > 100
    for number in range(4):
        last = 1 + number * (transactions - 1) // 3
        folder = tmp_path / str(last)
        assert killed(toy_path, folder, last).returncode == -9
        setup = toy_setup(toy, rewrites=10, sample=4)
        construct_answers(toy, toy_queries(3), folder, setup, concurrency=2)
        assert content_of(folder) == expected, f"killed in transaction {last} of {transactions}"

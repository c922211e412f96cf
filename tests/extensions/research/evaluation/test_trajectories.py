"""Trajectory files, and runs made from them. Expected figures are counted by hand."""

import gzip
import json
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from scholarbase.client import Client
from scholarbase.errors import EvaluationError, InvalidRequest, QueryFileError, RunExists
from scholarbase.models.source import Source
from scholarbase.search.library import Library
from scholarbase.trajectories.kinds import TOOLS
from scholarbase_research.evaluation.efficiency import efficiency, mean_recall_by_call
from scholarbase_research.evaluation.imports import import_run
from scholarbase_research.evaluation.queries import Answer, Query, QuerySet
from scholarbase_research.evaluation.run_data import JudgedAnswer, JudgedQuery, Run, RunManifest
from scholarbase_research.evaluation.runs import read_run
from scholarbase_research.evaluation.trajectories import read_calls
from scholarbase_research.trajectories import TrajectoryWriter
from scholarbase_research.trajectory_lines import KEYS, read_trajectory
from tests.conftest import ROOT, json_lines, succeeded
from tests.sessions.agents import QUESTION, SEED, Agent
from tests.sessions.test_recording import location, url

__all__ = ["location", "url"]

HELD = ["arXiv:1706.03762", "arXiv:2204.02311", "arXiv:2205.01068", "arXiv:2211.05100", "arXiv:2302.13971"]
ABSENT = "arXiv:2401.99999"
PAGE = ROOT / "docs" / "trajectories.md"

Lines = Sequence[dict[str, Any]]


@pytest.fixture
def papers(sample: Library) -> list[str]:
    """Ten papers of the library."""
    return [hit.paper.id for hit in sample.search("language models", limit=10).results]


def call(query_id: str, tool: str, ids: Sequence[str], **keys: Any) -> dict[str, Any]:
    return {"query_id": query_id, "tool": tool, "ids": list(ids), **keys}


def run_of(
    source: Source,
    tmp_path: Path,
    lines: Lines,
    answers: Sequence[Sequence[str]],
    restart: bool = False,
    **options: Any,
) -> Run:
    """The run of a trajectory with the queries q1, q2, ..., and their answers."""
    queries = tuple(
        Query(f"q{n}", f"question q{n}", tuple(map(Answer, own))) for n, own in enumerate(answers, 1)
    )
    judged = [
        JudgedQuery(
            query.id, query.text, tuple(JudgedAnswer(one, "absent" if one == ABSENT else "id") for one in own)
        )
        for query, own in zip(queries, answers, strict=True)
    ]
    calls = read_trajectory(json_lines(tmp_path / "calls.jsonl", lines))
    return import_run(
        source,
        partial(read_calls, calls, **options),
        QuerySet("questions", "jsonl", queries),
        judged,
        {"answers": 1},
        tmp_path / "run",
        name="agent",
        command="scholarbase eval trajectories calls.jsonl",
        restart=restart,
    )


def facts(run: Run) -> dict[str, Any]:
    assert run.manifest.search is not None
    return run.manifest.search


def ranked(run: Run, query_id: str) -> list[str]:
    return [result.id for result in run.rankings[query_id]]


# -- the file -------------------------------------------------------------------------------------------


def test_every_key_is_read(tmp_path: Path) -> None:
    line = {
        "query_id": "q1",
        "call": 2,
        "tool": "web_search",
        "kind": "search",
        "arguments": {"q": "attention"},
        "ids": ["1706.03762v5", "https://arxiv.org/abs/2204.02311"],
        "scores": [2, 1.5],
        "time": "2025-03-01T12:30:00.25+01:00",
        "seconds": 0.5,
        "tokens": 120,
        "parent": 1,
        "round": 3,
        "snapshot": "abc",
        "session": "s1",
        "query": "What is attention?",
        "error": None,
    }
    (read,) = read_trajectory(json_lines(tmp_path / "calls.jsonl", [line]))
    assert read.ids == ("arXiv:1706.03762", "arXiv:2204.02311")
    assert (read.call, read.kind, read.scores, read.parent, read.round) == (2, "search", (2.0, 1.5), 1, 3)
    assert (read.seconds, read.tokens, read.snapshot, read.session) == (0.5, 120, "abc", "s1")
    assert read.where.endswith("calls.jsonl, line 1")
    assert read.error is None


def test_the_kind_of_a_scholarbase_tool_is_optional(tmp_path: Path) -> None:
    path = json_lines(tmp_path / "calls.jsonl", [call("q1", tool, []) for tool in TOOLS])
    assert [read.kind for read in read_trajectory(path)] == list(TOOLS.values())


def test_the_error_for_an_invalid_line_has_its_number(tmp_path: Path) -> None:
    for line, message in (
        ({"querry_id": "q1", "tool": "answer", "ids": []}, "did you mean 'query_id'?"),
        ({"query_id": "q1", "tool": "answer"}, "it lacks ids"),
        (call("q1", "web_search", []), "'web_search' is not a ScholarBase tool"),
        (call("q1", "answer", [], kind="search"), "the kind of answer is 'answer'"),
        (call("q1", "web_search", [], kind="look"), "one of search, match, expand, inspect, answer"),
        (call("q1", "answer", ["12345"]), "a number without its scheme"),
        (call("q1", "answer", HELD, scores=[1.0]), "scores has 1 numbers and ids has 5"),
        (call("q1", "search_papers", HELD, error="Timed out."), "a call with an error has no results"),
        (call("q1", "search_papers", [], call=True), "call is True"),
        (call("q1", "search_papers", [], seconds=-1), "seconds is -1"),
        (call("q1", "search_papers", [], time="2025-02-30T00:00:00Z"), "an RFC 3339 time"),
        (call("q1", "search_papers", [], time="2025-02-03T00:00:00"), "an RFC 3339 time"),
        (call("q1", "search_papers", [], arguments="q"), "arguments is 'q'"),
        ({"query_id": 1, "tool": "answer", "ids": []}, "query_id is 1"),
        (["q1"], "it is not a JSON object"),
    ):
        path = json_lines(tmp_path / "calls.jsonl", [call("q1", "search_papers", HELD), line])
        with pytest.raises(QueryFileError, match=r"calls\.jsonl, line 2: ") as caught:
            read_trajectory(path)
        assert message in str(caught.value)


def test_unreadable_files_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(QueryFileError, match="No such file"):
        read_trajectory(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").write_text("\n\n")
    with pytest.raises(QueryFileError, match="has no calls"):
        read_trajectory(tmp_path / "empty.jsonl")
    (tmp_path / "torn.jsonl").write_text(json.dumps(call("q1", "answer", [])) + '\n{"query_id": "q')
    with pytest.raises(QueryFileError, match=r"line 2 is not valid JSON"):
        read_trajectory(tmp_path / "torn.jsonl")
    packed = gzip.compress(json.dumps(call("q1", "answer", HELD)).encode() * 50)
    (tmp_path / "cut.jsonl.gz").write_bytes(packed[:-20])
    with pytest.raises(QueryFileError, match="breaks off"):
        read_trajectory(tmp_path / "cut.jsonl.gz")
    (tmp_path / "latin.jsonl").write_bytes('{"query_id": "é"}'.encode("latin-1"))
    with pytest.raises(QueryFileError, match=r"line 1 is not valid UTF-8"):
        read_trajectory(tmp_path / "latin.jsonl")


# -- the run --------------------------------------------------------------------------------------------


def test_the_last_answer_comes_first_and_the_other_candidates_follow(
    sample: Library, tmp_path: Path, papers: list[str]
) -> None:
    a, b, c, d, e = papers[:5]
    lines = [
        call("q1", "search_papers", [a, b]),
        call("q1", "answer", [b, a]),
        call("q1", "expand_papers", [c, a, d]),
        call("q1", "get_papers", [e]),
        call("q1", "answer", [d, b]),
        call("q1", "answer", [], error="The list is too long."),
    ]
    run = run_of(sample, tmp_path, lines, [[a]])
    assert ranked(run, "q1") == [d, b, a, c]
    assert facts(run)["ranking"] == "answer"
    assert facts(run)["answered_queries"] == facts(run)["answers_below_25"] == 1
    only = run_of(sample, tmp_path, lines, [[a]], ranking="answer-only", restart=True)
    assert ranked(only, "q1") == [d, b]
    observed = run_of(sample, tmp_path, lines, [[a]], ranking="observed", restart=True)
    assert ranked(observed, "q1") == [a, b, c, d]


def test_without_an_answer_the_ranking_is_observed_also_in_the_manifest(
    sample: Library, tmp_path: Path, papers: list[str]
) -> None:
    a, b, c = papers[:3]
    run = run_of(
        sample,
        tmp_path,
        [call("q1", "match_titles", [c]), call("q1", "get_citations", [b, c, a])],
        [[a], [b]],
    )
    assert ranked(run, "q1") == [c, b, a]
    assert ranked(run, "q2") == []
    assert facts(run)["ranking"] == "observed"
    assert facts(run)["queries_without_calls"] == 1


def test_a_run_is_read_back_as_it_was_written(sample: Library, tmp_path: Path, papers: list[str]) -> None:
    lines = [call("q1", "search_papers", papers, seconds=0.25, tokens=9, arguments={"q": "x"}, round=1)]
    run = run_of(sample, tmp_path, lines, [papers[:2]])
    assert run.manifest.kind == "trajectory"
    assert run.seconds == {"q1": 0.25}
    assert run.papers[papers[0]].title == sample.paper(papers[0]).title
    assert read_run(tmp_path / "run") == run


def test_papers_are_found_by_any_id_and_absent_ones_are_kept(
    sample: Library, tmp_path: Path, papers: list[str]
) -> None:
    paper = next(
        p for p in sample.papers([h.paper.id for h in sample.search("string", limit=20).results]) if p
    )
    assert paper.corpus_id is not None
    lines = [call("q1", "search_papers", [f"CorpusId:{paper.corpus_id}", ABSENT, paper.id])]
    run = run_of(sample, tmp_path, lines, [[ABSENT]])
    assert ranked(run, "q1") == [paper.id, ABSENT]
    assert facts(run)["papers"] == 2
    assert facts(run)["papers_absent"] == 1


def test_a_library_and_its_server_make_the_same_run(
    sample: Library, server: str, tmp_path: Path, papers: list[str]
) -> None:
    lines = [call("q1", "search_papers", [*papers, ABSENT]), call("q1", "answer", papers[5:])]
    here = run_of(sample, tmp_path, lines, [papers[:2]])
    with Client(server) as client:
        there = run_of(client, tmp_path, lines, [papers[:2]])
    assert here == there


def test_calls_in_the_order_of_their_ends_need_no_increasing_numbers(
    sample: Library, tmp_path: Path, papers: list[str]
) -> None:
    ends = ("2026-01-02T03:04:05.5Z", "2026-01-02T04:04:05.25+01:00", "2026-01-02T03:04:06Z")
    lines = [
        call("q1", "search_papers", papers[:1], call=2, ended=ends[1]),
        call("q1", "search_papers", papers[1:2], call=1, ended=ends[0]),
        call("q1", "get_papers", papers[1:2], call=3, parent=1, ended=ends[2]),
    ]
    run = run_of(sample, tmp_path, lines, [papers[:2]])
    assert [one.call for one in run.calls] == [2, 1, 3]
    with pytest.raises(
        QueryFileError, match="is call 1 after call 2: call numbers must differ, and increase"
    ):
        run_of(sample, tmp_path, [lines[0] | {"ended": ends[2]}, lines[1]], [papers[:2]])


def test_inconsistent_calls_are_an_error(sample: Library, tmp_path: Path) -> None:
    for second, message in (
        (call("q9", "answer", []), "the query 'q9', which is not in the query set questions"),
        (call("q1", "answer", []), "has no call, unlike other calls of the query 'q1'"),
        (call("q1", "answer", [], call=2), "is call 2 after call 2"),
        (call("q1", "answer", [], call=1), "is call 1 after call 2"),
        (call("q1", "answer", [], call=3, parent=3), "has the parent 3, which is not an earlier call"),
        (call("q1", "answer", [], call=3, session="other"), "has the session 'other'"),
        (call("q1", "answer", [], call=3, round=1), "has no round"),
    ):
        with pytest.raises(QueryFileError) as caught:
            run_of(sample, tmp_path, [call("q1", "search_papers", [], call=2), second], [HELD])
        assert message in str(caught.value)
        assert "calls.jsonl, line" in str(caught.value)
        assert not (tmp_path / "run").exists()


def test_calls_on_another_snapshot_are_an_error(sample: Library, tmp_path: Path) -> None:
    own = sample.snapshot_id
    run_of(sample, tmp_path, [call("q1", "answer", [], snapshot=own)], [HELD])
    with pytest.raises(EvaluationError, match=f"snapshot abc .*this library is {own}"):
        run_of(sample, tmp_path, [call("q1", "answer", [], snapshot="abc")], [HELD])
    two = [call("q1", "search_papers", [], snapshot=own), call("q1", "answer", [], snapshot="abc")]
    with pytest.raises(EvaluationError, match=f"snapshot abc .*line 2.*this library is {own}"):
        run_of(sample, tmp_path, two, [HELD])


def test_other_texts_and_missing_calls_are_counted(sample: Library, tmp_path: Path) -> None:
    lines = [
        call("q1", "search_papers", [], call=1, query="question  q1"),
        call("q1", "search_papers", [], call=4),
        call("q2", "search_papers", [], query="something else", error="Timed out."),
    ]
    run = run_of(sample, tmp_path, lines, [HELD, HELD])
    assert facts(run)["other_texts"] == 1
    assert facts(run)["missing_call_numbers"] == 2
    assert facts(run)["failed_calls"] == 1


def test_another_run_or_folder_is_not_overwritten(sample: Library, tmp_path: Path, papers: list[str]) -> None:
    first = run_of(sample, tmp_path, [call("q1", "answer", papers)], [HELD])
    assert run_of(sample, tmp_path, [call("q1", "answer", papers)], [HELD]) == first
    with pytest.raises(RunExists, match=r"'agent' of kind trajectory.*--restart"):
        run_of(sample, tmp_path, [call("q1", "answer", papers[1:])], [HELD])
    assert read_run(tmp_path / "run") == first
    (tmp_path / "run" / "manifest.json").rename(tmp_path / "run" / "notes.txt")
    with pytest.raises(RunExists, match="is not a run"):
        run_of(sample, tmp_path, [call("q1", "answer", papers)], [HELD], restart=True)


# -- efficiency -----------------------------------------------------------------------------------------


@pytest.fixture
def agent(sample: Library, tmp_path: Path, papers: list[str]) -> Run:
    """Two queries of an agent, a third without calls, and a fourth without an answer found."""
    a, b, c, d, e, f = papers[:6]
    lines = [
        call("q1", "search_papers", [a, b, c], round=1, seconds=1.0, tokens=10),
        call("q1", "search_papers", [c, d], round=1, seconds=0.5, tokens=20),
        call("q1", "get_papers", [d], round=2, seconds=0.25, tokens=5),
        call("q1", "get_references", [e, a], round=3, seconds=0.25, tokens=5),
        call("q1", "answer", [f, e], round=4, tokens=2),
        call("q2", "search_papers", [], error="Timed out.", seconds=3.0),
        call("q2", "search_papers", [b], tokens=7),
        call("q4", "search_papers", [a, b]),
        call("q4", "expand_papers", [b, c]),
    ]
    # q1: b, e and f of four are found, f in the answer alone; q2: b of one.
    return run_of(sample, tmp_path, lines, [[b, e, f, ABSENT], [b], [a], [d, ABSENT]])


def test_efficiency_as_counted_by_hand(agent: Run) -> None:
    found = efficiency(agent)
    one, two, three, four = found.queries
    assert (one.rounds, one.search_calls, one.expand_calls, one.inspect_calls, one.failed_calls) == (
        4,
        2,
        1,
        1,
        0,
    )
    assert one.candidates == 5
    assert one.recall == one.recall_100 == 3 / 4
    assert one.recall_100_per_100 == pytest.approx(0.75 / 0.05)
    assert (one.seconds, one.tokens) == (2.0, 42)
    assert agent.seconds == {"q1": 2.0}
    assert (two.rounds, two.search_calls, two.failed_calls, two.candidates) == (2, 2, 1, 1)
    assert (two.seconds, two.tokens) == (None, None)
    assert (three.rounds, three.candidates, three.recall, three.recall_100_per_100) == (0, 0, 0.0, None)
    assert (four.candidates, four.recall) == (3, 0.0)
    assert found.means["recall"] == pytest.approx((0.75 + 1 + 0 + 0) / 4)
    assert found.means["candidates"] == pytest.approx((5 + 1 + 0 + 3) / 4)
    assert found.means["recall_100_per_100"] == pytest.approx((15 + 100 + 0) / 3)
    assert found.pooled_recall_100_per_100 == pytest.approx((1.75 / 4) / (9 / 4 / 100))


def test_failures_are_the_queries_without_an_answer_found(agent: Run) -> None:
    three, four = efficiency(agent).failures
    calls = efficiency(agent).calls
    assert (three.query_id, calls["q3"], three.candidates) == ("q3", 0, 0)
    assert (four.query_id, calls["q4"], four.candidates) == ("q4", 2, 3)


def test_recall_after_each_call_as_counted_by_hand(agent: Run) -> None:
    q1 = [1 / 4, 1 / 4, 1 / 4, 2 / 4, 3 / 4]
    q2 = [0, 1, 1, 1, 1]
    assert mean_recall_by_call(agent) == pytest.approx([(x + y) / 4 for x, y in zip(q1, q2, strict=True)])
    assert mean_recall_by_call(agent)[-1] == efficiency(agent).means["recall"]


def test_a_plain_search_is_one_call_and_an_import_has_no_known_calls(agent: Run) -> None:
    facts = {name: getattr(agent.manifest, name) for name in RunManifest.__dataclass_fields__}
    plain = Run(RunManifest(**facts | {"kind": "search"}), agent.queries, agent.rankings, seconds={"q1": 0.5})
    one = efficiency(plain).queries[0]
    assert (one.rounds, one.search_calls, one.expand_calls, one.candidates) == (1, 1, 0, 6)
    assert one.seconds == 0.5
    assert mean_recall_by_call(plain) == pytest.approx([(0.75 + 1) / 4])
    assert efficiency(plain).calls["q3"] == 1
    foreign = Run(RunManifest(**facts | {"kind": "import"}), agent.queries, agent.rankings)
    assert efficiency(foreign).queries[0].search_calls is None
    assert efficiency(foreign).means["rounds"] is None
    assert efficiency(foreign).calls["q3"] is None
    with pytest.raises(InvalidRequest, match="its calls are unknown"):
        mean_recall_by_call(foreign)


# -- writing --------------------------------------------------------------------------------------------


def test_written_calls_are_read_again(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    with TrajectoryWriter(path, snapshot="abc", session="s1") as writer:
        first = writer.append(
            "q1", "search_papers", HELD, arguments={"q": "x"}, scores=[5, 4, 3, 2, 1], seconds=1
        )
        # Each line is written before the next call, so a killed agent loses nothing.
        assert len(read_trajectory(path)) == 1
        assert writer.append("q1", "web_search", HELD[:1], kind="search", parent=first) == 2
        assert writer.append("q2", "search_papers", [], error="Timed out.") == 1
        with pytest.raises(InvalidRequest, match="not a valid paper id"):
            writer.append("q2", "answer", ["nonsense"])
        with pytest.raises(InvalidRequest, match="parent is 2, and this is call 2"):
            writer.append("q2", "answer", [], parent=2)
        with pytest.raises(InvalidRequest, match="must be an object of JSON"):
            writer.append("q2", "search_papers", [], arguments={"q": object()})
    with pytest.raises(RunExists, match="already exists"):
        TrajectoryWriter(path)
    with TrajectoryWriter(path, append=True) as writer:
        assert writer.append("q2", "answer", HELD) == 2
    calls = read_trajectory(path)
    assert [(c.query_id, c.call, c.kind) for c in calls] == [
        ("q1", 1, "search"),
        ("q1", 2, "search"),
        ("q2", 1, "search"),
        ("q2", 2, "answer"),
    ]
    assert calls[0].snapshot == "abc"
    assert calls[0].time is not None
    assert calls[2].error == "Timed out."


def test_a_file_with_an_incomplete_line_is_not_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_text(json.dumps(call("q1", "answer", [], call=1)))
    with pytest.raises(QueryFileError, match="is incomplete"):
        TrajectoryWriter(path, append=True)


def test_threads_can_share_a_writer(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    with TrajectoryWriter(path) as writer, ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: writer.append(f"q{n % 3}", "search_papers", HELD), range(60)))
    calls = read_trajectory(path)
    assert len(calls) == 60
    for query_id in ("q0", "q1", "q2"):
        assert [c.call for c in calls if c.query_id == query_id] == list(range(1, 21))


# -- the page -------------------------------------------------------------------------------------------


def block(language: str) -> str:
    """The only block of that language in docs/trajectories.md."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.S | re.M)
    return str(found)


def test_the_page_describes_every_key_and_tool() -> None:
    page = PAGE.read_text(encoding="utf-8")
    keys = re.search(r"^\| key \| meaning \|$(.*?)^$", page, re.S | re.M)
    tools = re.search(r"^\| tool \| kind \|.*?$(.*?)^$", page, re.S | re.M)
    assert keys is not None
    assert tools is not None
    assert sorted(re.findall(r"^\| `(\w+)` \|", keys[1], re.M)) == sorted(KEYS)
    rows = re.findall(r"^\| (`.*?`) \| `(\w+)` \|", tools[1], re.M)
    assert {name: kind for names, kind in rows for name in re.findall(r"\w+", names)} == TOOLS


def test_a_trajectory_of_the_server_makes_a_run(url: str, sample_library: Path, tmp_path: Path) -> None:
    agent = Agent(url, query=QUESTION, query_id="q1")
    agent.search(limit=5)
    agent.expand(SEED, limit=5)
    agent.search(limit=0)  # fails
    file = json_lines(tmp_path / "calls.jsonl", agent.lines())
    row = {"query_id": "q1", "final_query": QUESTION, "answer_arxiv_ids": ["hep-th/9301068"]}
    queries = tmp_path / "queries.jsonl"
    queries.write_text(json.dumps(row) + "\n")
    command = ("eval", "trajectory", file, queries, "--library", sample_library, "--json")
    for ranking, recall in (("answer", 1), ("answer-only", 0)):  # the agent gives no answer
        made = succeeded(*command, "--ranking", ranking, "--name", ranking, cwd=tmp_path)
        [run] = json.loads(made.stdout)["runs"]
        assert run["measures"]["all"]["R@100"]["mean"] == recall

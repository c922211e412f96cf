"""The calls that raised recall, the routes to answers, and their tables in reports: tables 10 and 11 of
ScholarQuest, and by hand."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from scholarbase.errors import InvalidRequest
from scholarbase.models.calls import Call
from scholarbase_research.evaluation.agent_tables import Agents, route_counts, route_table, shared_failures
from scholarbase_research.evaluation.measured import Measured
from scholarbase_research.evaluation.report.page import build, to_html
from scholarbase_research.evaluation.report.tables import to_csv
from scholarbase_research.evaluation.routes import calls_of, gains, routes
from scholarbase_research.evaluation.run_data import (
    JudgedAnswer,
    JudgedQuery,
    Kind,
    RankedId,
    Run,
    RunManifest,
)
from scholarbase_research.evaluation.tables import Table
from tests.conftest import json_lines, run_cli
from tests.extensions.research.evaluation.test_report import QUERIES as REPORTED
from tests.extensions.research.evaluation.test_report import Page, a_run, two

__all__ = ["two"]

# Call, kind, query or seed, answers found for the first time, answers found so far.
_TABLE_10 = """
PaperScout 20
1 | search | deep reinforcement learning AND video summarization | 2001.05864 | 1
2 | search | reinforcement learning AND video summarization | 2007.14552 2106.10528 2109.01309 | 4
3 | search | deep reinforcement learning AND action selection AND video summarization | \
1801.00054 1807.03089 2005.09531 2407.04258 | 8
4 | search | reinforcement learning AND keyframe selection AND video summarization | 2505.23268 | 9
6 | expand | 1801.00054 | 2002.03740 2105.06441 | 11
20 | expand | 1805.02792 | 1807.09418 | 12
SPAR 47
1 | search | Literature review of application domains | 2407.04258 | 1
2 | expand | 2405.08890 | 1801.00054 2001.05864 | 3
3 | expand | 2101.06072 | 1807.03089 2005.09531 | 5
7 | expand | 2407.04258 | 2505.23268 | 6
14 | search | State-of-the-art in deep reinforcement learning | 2105.06441 | 7
32 | expand | 2412.08357 | 2106.10528 | 8
PaSa 60
1 | search | Survey papers on video summarization using deep reinforcement learning | \
1801.00054 1807.03089 2005.09531 2407.04258 2505.23268 | 5
8 | expand | 2101.06072 | 2001.05864 | 6
10 | expand | 2410.04449 | 2106.10528 | 7
50 | expand | 2105.04066 | 2002.03740 | 8
"""


def table_10() -> dict[str, tuple[int, list[tuple[int, str, str, str, int]]]]:
    """The number of calls of each agent, and those that raised recall."""
    table: dict[str, tuple[int, list[tuple[int, str, str, str, int]]]] = {}
    for line in _TABLE_10.strip().splitlines():
        if "|" not in line:
            name, length = line.split()
            table[name] = (int(length), [])
        else:
            call, kind, text, new, found = map(str.strip, line.split("|"))
            table[name][1].append((int(call), kind, text, new, int(found)))
    return table


TABLE_10 = table_10()
TABLE_11 = {
    "2505.23268": ("S4", "E7", "S1"),
    "2407.04258": ("S3", "S1", "S1"),
    "2109.01309": ("S2", None, None),
    "2106.10528": ("S2", "E32", "E10"),
    "2105.06441": ("E6", "S14", None),
    "2007.14552": ("S2", None, None),
    "2005.09531": ("S3", "E3", "S1"),
    "2002.03740": ("E6", None, "E50"),
    "2001.05864": ("S1", "E2", "E8"),
    "1807.09418": ("E20", None, None),
    "1807.03089": ("S3", "E3", "S1"),
    "1801.00054": ("S3", "E2", "S1"),
}
QUERY = "Which papers explore deep reinforcement learning for video summarization?"


def write_trajectory(path: Path, length: int, raising: Sequence[tuple[int, str, str, str, int]]) -> Path:
    """The calls of table 10. The others return earlier answers and a paper that is no answer."""
    by_number = {call[0]: call for call in raising}
    earlier: list[str] = []
    lines = []
    for number in range(1, length + 1):
        _, kind, text, new, _ = by_number.get(number, (number, "search", "more of the same", "", 0))
        found = new.split()
        ids = [f"1001.{number:04}", *earlier[:3], *found]
        earlier += found
        arguments = {"query": text} if kind == "search" else {"seeds": [text]}
        lines.append(
            {
                "query_id": "BQ_002897",
                "call": number,
                "tool": kind,
                "kind": kind,
                "arguments": arguments,
                "ids": ids,
            }
        )
    return json_lines(path, lines)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory, sample_library: Path) -> Path:
    """A folder with the runs of table 10's agents."""
    folder = tmp_path_factory.mktemp("routes")
    queries = folder / "queries.jsonl"
    query = {"query_id": "BQ_002897", "query": QUERY, "answers": list(TABLE_11), "intent": "method-oriented"}
    # The sample library has none of these answers, and refuses a query set of which it has none.
    held = {"query_id": "held", "query": "strings", "answers": ["arXiv:hep-th/9301068"], "intent": "none"}
    queries.write_text(json.dumps(query) + "\n" + json.dumps(held) + "\n")
    for name, (length, raising) in TABLE_10.items():
        calls = write_trajectory(folder / f"{name}.jsonl", length, raising)
        done = run_cli("eval", "trajectory", calls, queries, "--library", sample_library, cwd=folder)
        assert done.returncode == 0, done.stderr
    return folder


def test_table_10_and_11_are_shown(three: Path) -> None:
    runs = [three / "runs" / name for name in TABLE_10]
    done = run_cli("eval", "show", *runs, "--query", "BQ_002897", "--json")
    assert done.returncode == 0, done.stderr
    [case] = json.loads(done.stdout)["queries"]
    assert case["intent"] == "method-oriented"
    for name, (_, raising) in TABLE_10.items():
        shown = [
            (
                gain["call"],
                gain["kind"],
                gain["subject"],
                [i.removeprefix("arXiv:") for i in gain["new"]],
                gain["found"],
            )
            for gain in case["calls_that_raised_recall"][name]
        ]
        assert shown == [(call, kind, text, new.split(), found) for call, kind, text, new, found in raising]
    scout = case["calls_that_raised_recall"]["PaperScout"]
    assert [gain["found"] for gain in scout] == [1, 4, 8, 9, 11, 12]
    assert {gain["total"] for gain in scout} == {12}
    found = {
        answer["paper_id"].removeprefix("arXiv:"): tuple(
            route and route.split()[0] for route in (answer["routes"][name] for name in TABLE_10)
        )
        for answer in case["answers"]
    }
    assert found == TABLE_11
    assert case["answers"][0]["routes"]["PaperScout"].startswith(
        "S4 search: reinforcement learning AND keyframe"
    )
    shown_text = run_cli("eval", "show", *runs, "--query", "BQ_002897").stdout
    for text in ("Calls that raised recall", "12/12", "missed", "E20", "not in the library"):
        assert text in shown_text


def test_runs_are_shown_side_by_side_by_two_properties(three: Path) -> None:
    runs = [three / "runs" / name for name in TABLE_10]
    done = run_cli("eval", "show", *runs, "--by", "answers,intent", "--measure", "R@All")
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    # 12 answers of one query, and one of the other, which no agent searched for.
    assert ["5-25", "PaperScout", "1", "1.000", "–", "1.000"] in lines
    assert ["PaSa", "1", "0.667", "–", "0.667"] in lines
    assert ["Overall", "PaperScout", "2", "1.000", "0.000", "0.500"] in lines
    refused = run_cli("eval", "show", *runs, "--by", "answers,size")
    assert refused.returncode != 0
    assert "two different dimensions" in refused.stderr


# -- by hand --------------------------------------------------------------------------------------------


def query(name: str, *answers: str, intent: str | None = None) -> JudgedQuery:
    return JudgedQuery(name, f"question {name}", tuple(JudgedAnswer(a, "id") for a in answers), intent=intent)


def made(name: str, queries: Sequence[JudgedQuery], *calls: Call, kind: Kind = "trajectory") -> Run:
    facts = {"name": "made", "sha256": "0", "count": len(queries)}
    manifest = RunManifest(name, kind, "s", 9, "1", facts, None, {}, "scholarbase eval trajectory")
    seen: dict[str, dict[str, None]] = {one.id: {} for one in queries}
    for call in calls:
        seen[call.query_id] |= dict.fromkeys(call.ids)
    rankings = {i: tuple(RankedId(paper, -n) for n, paper in enumerate(ids)) for i, ids in seen.items()}
    return Run(manifest, tuple(queries), rankings, calls=calls)


def test_answers_failures_and_inspections() -> None:
    one = query("q", "a", "b", "c", "d")
    run = made(
        "agent",
        [one],
        Call("q", 1, "search_papers", "search", {"q": "x  y"}, ("z", "a", "a"), 1),
        Call("q", 2, "get_papers", "inspect", {"ids": ["b"]}, ("b",), 2),
        Call("q", 3, "answer", "answer", {}, ("c",), 3),
        Call("q", 4, "expand_papers", "expand", {"seeds": ["a", "z"]}, (), 4, error="TimeLimit: too slow"),
        Call("q", 5, "match_titles", "match", {"titles": ["B"]}, ("b", "a"), 5),
        Call("q", 6, "answer", "answer", {}, ("a", "d"), 6),
    )
    found = gains(one, calls_of(run)["q"])
    assert [(gain.label, gain.new, gain.found, gain.recall) for gain in found] == [
        ("S1 search: x y", ("a",), 1, 0.25),
        ("M5 match: B", ("b",), 2, 0.5),
        ("A6 answer: ", ("d",), 3, 0.75),  # the answer of call 3 was replaced
    ]
    assert {paper: gain.call for paper, gain in routes(found).items()} == {"a": 1, "b": 5, "d": 6}


def test_a_plain_search_is_one_call_and_an_import_has_none() -> None:
    one = query("q", "a", "b")
    calls = Call("q", 1, "search", "search", {}, ("z", "a"), 1)
    search = made("plain", [one], calls, kind="search")
    assert [(gain.label, gain.new) for gain in gains(one, calls_of(search)["q"])] == [
        ("S1 search: question q", ("a",))
    ]
    with pytest.raises(InvalidRequest, match="is imported and its calls are unknown"):
        route_counts(made("other", [one], calls, kind="import"))
    assert gains(query("empty"), calls_of(search)["q"]) == []


def rows(table: Table) -> list[dict[str, str]]:
    return list(csv.DictReader(to_csv(table).splitlines()))


QUERIES = (
    query("q1", "a", intent="scope"),
    query("q2", "b", "c", intent="scope"),
    query("q3", "d", intent="method"),
    query("q4", intent="method"),
    query("q5", "e"),
)


def two_agents() -> list[Run]:
    first = made(
        "first",
        QUERIES,
        Call("q1", 1, "s", "search", {"q": "x"}, ("p1", "p2"), 1),
        Call("q2", 1, "s", "search", {"q": "x"}, ("p1",), 1),
        Call("q2", 2, "e", "expand", {"seeds": ["p1"]}, ("b", "p3"), 2),
        Call("q5", 1, "s", "search", {"q": "x"}, ("p1", "p2", "p3", "p4"), 1),
    )
    second = made(
        "second",
        QUERIES,
        Call("q1", 1, "s", "search", {"q": "x"}, ("p1", "p2", "p3", "p4"), 1),
        Call("q3", 1, "s", "search", {"q": "x"}, ("d",), 1),
    )
    return [first, second]


def test_failures_that_all_agents_share_are_counted_by_intent() -> None:
    """Both find nothing for q1 and q5; first finds part of q2, second q3; q4 has no answer to find."""
    plain = made("plain", QUERIES, Call("q1", 1, "s", "search", {}, ("a",), 1), kind="search")
    runs = [*two_agents(), plain]
    summary = shared_failures(Agents(Measured.of(runs, ["R@All"])))
    assert rows(summary) == [
        {"Intent": "scope", "Failures": "1", "Candidates: first": "2.0", "Candidates: second": "4.0"},
        {"Intent": "(none)", "Failures": "1", "Candidates: first": "4.0", "Candidates: second": "0.0"},
        {"Intent": "Overall", "Failures": "2", "Candidates: first": "3.0", "Candidates: second": "2.0"},
    ]
    assert summary.notes[0].startswith("2 of 4 queries with answers (50.00%).")


def test_routes_are_counted_by_kind() -> None:
    found = Agents(Measured.of(two_agents(), ["R@All"]))
    first, second = rows(route_table(found))
    assert (first["Calls"], first["Raised recall"], float(first["Share"])) == ("4", "1", 0.25)
    assert (first["Answers"], first["Search"], first["Expansion"], first["Missed"]) == ("5", "0", "1", "4")
    assert (second["Search"], second["Missed"]) == ("1", "4")


@pytest.mark.slow
def test_an_agent_is_compared_with_a_plain_search(two: list[Run]) -> None:
    calls = (
        Call("q1", 1, "search_papers", "search", {}, ("a", "x"), 1),
        Call("q1", 2, "get_citations", "expand", {}, ("b", "x"), 2),
        Call("q2", 1, "search_papers", "search", {}, ("y", "w"), 1),
    )
    found = {"q1": ["a", "x", "b"], "q2": ["y", "w"]}
    agent = a_run("agent", REPORTED, found, kind="trajectory", calls=calls, search={"ranking": "observed"})
    report = build(Measured.of([two[0], agent], ["R@All"]), None, 10)
    page = Page(to_html(report))
    made = next(made for made in report.tables if made.name == "efficiency")
    efficiency = {row["Run"]: row for row in csv.DictReader(to_csv(made).splitlines())}
    # Two of four queries have calls: three calls, one of them an expansion; 3 and 2 candidates.
    assert float(efficiency["agent"]["Search calls"]) == 2 / 4
    assert float(efficiency["agent"]["Expansion calls"]) == 1 / 4
    assert float(efficiency["agent"]["Candidates"]) == 5 / 4
    failed = [(row[0], row[1], row[3]) for row in page.tables["failed-queries"][1:]]
    assert failed == [("agent", "q2", "2"), ("agent", "q3", "0"), ("agent", "q4", "0")]
    # The plain search found none of q4's answers.
    assert [row[1] for row in page.tables["failures"][1:]] == ["1", "3"]
    assert "recall-by-call" in page.ids
    assert next(p for p in report.plots if p.name == "recall-by-call").pdf().startswith(b"%PDF")

"""The ReAct agent with a scripted model server: turns, window, limits, wrong actions."""

from pathlib import Path
from typing import Any

import pytest

from scholarbase.errors import ModelError, RunExists
from scholarbase.responses.sizing import estimate_tokens
from scholarbase.search.library import Library
from scholarbase.tools import Tools
from scholarbase_research.agents.job import run_agent
from scholarbase_research.agents.react import ReactPolicy
from scholarbase_research.evaluation.queries import Answer, Query, QuerySet
from scholarbase_research.llm.base import Price
from scholarbase_research.trajectory_lines import read_trajectory
from tests.extensions.research.llm.model_server import ModelServer, Reply, in_order, model_server, tool_call

ANSWER = "arXiv:hep-th/9301068"
QUERIES = QuerySet("mine", "questions", (Query("q1", "How are QCD and strings related?", (Answer(ANSWER),)),))


def acting(thought: str, name: str, arguments: Any, call_id: str = "c") -> Reply:
    return Reply(thought, tool_calls=[tool_call(name, arguments, call_id)])


SEARCH = acting("I search first.", "search_papers", {"q": "QCD as a string theory", "limit": 3})
END = acting("That is all.", "answer", {"ids": [ANSWER, "hep-th/9301003"]})


def run(library: Library, server: ModelServer, folder: Path, **options: Any) -> dict[str, Any]:
    policy = ReactPolicy(server.model(retries=0), **options)
    return run_agent(library, Tools(library), QUERIES, policy, folder, price=Price(1000.0, 10_000.0))


def test_search_and_answer(sample: Library, tmp_path: Path) -> None:
    with model_server(in_order(SEARCH, END)) as server:
        manifest = run(sample, server, tmp_path)
    assert manifest["stops"] == {"answered": 1}
    assert (manifest["calls"], manifest["failed_calls"]) == (1, 0)
    assert (manifest["usage"]["input_tokens"], manifest["tokens_mean"], manifest["cost"]) == (200, 240, 0.6)
    search, answer = read_trajectory(tmp_path / "trajectory.jsonl")
    assert (search.kind, search.thought, search.round, search.tokens) == ("search", "I search first.", 1, 120)
    wanted = sample.search("QCD as a string theory", limit=3).results
    assert list(search.ids) == [hit.paper.id for hit in wanted]
    assert (answer.kind, answer.ids) == ("answer", (ANSWER, "arXiv:hep-th/9301003"))
    names = [tool["function"]["name"] for tool in server.requests[0]["tools"]]
    assert {"search_papers", "expand_papers", "answer"} <= set(names)
    # The second prompt has the first turn.
    assert [message["role"] for message in server.requests[1]["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
    ]
    assert wanted[0].paper.title in server.requests[1]["messages"][3]["content"]


WRONG = {
    "unknown tool": acting("Hm.", "web_search", {"q": "strings"}),
    "unknown argument": acting("Hm.", "search_papers", {"q": "strings", "colour": "red"}),
    "no argument": acting("Hm.", "search_papers", {}),
    "not JSON": acting("Hm.", "search_papers", '{"q": "stri'),
    "not an object": acting("Hm.", "search_papers", "[]"),
    "unknown paper": acting("Hm.", "get_citations", {"paper_id": "arXiv:1234.56789"}),
    "wrong answer": acting("Hm.", "answer", {"ids": "hep-th/9301068"}),
    "answer of no ids": acting("Hm.", "answer", {"ids": ["the first one"]}),
    "no action": Reply("I think that I know these papers."),
    "empty": Reply(None),
}


@pytest.mark.slow
@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_wrong_action_stays_in_the_history(sample: Library, tmp_path: Path, wrong: Reply) -> None:
    with model_server(in_order(wrong, SEARCH, END)) as server:
        manifest = run(sample, server, tmp_path)
    assert (manifest["failed_calls"], manifest["stops"]) == (1, {"answered": 1})
    first, second, last = read_trajectory(tmp_path / "trajectory.jsonl")
    assert first.error is not None
    assert (first.ids, second.error, last.kind) == ((), None, "answer")
    # The model reads the error, also in its last turn.
    for request in server.requests[1:]:
        assert request["messages"][3]["content"] == first.error


@pytest.mark.slow
def test_the_twentieth_turn_ends(sample: Library, tmp_path: Path) -> None:
    with model_server(in_order(SEARCH)) as server:
        manifest = run(sample, server, tmp_path)
    assert len(server.requests) == 20
    assert manifest["stops"] == {"turn limit": 1}
    calls = read_trajectory(tmp_path / "trajectory.jsonl")
    assert [call.round for call in calls] == list(range(1, 21))
    assert all(call.kind == "search" for call in calls)
    systems = [request["messages"][0]["content"] for request in server.requests]
    assert "20 turns are left." in systems[0]
    assert [place for place, text in enumerate(systems, 1) if "last turn" in text] == [20]
    # Five earlier turns: an action and an observation of each.
    assert [len(request["messages"]) for request in server.requests] == [2, 4, 6, 8, 10, *[12] * 15]


def test_observations_are_limited(sample: Library, tmp_path: Path) -> None:
    many = acting("More.", "search_papers", {"q": "string theory", "limit": 100, "max_tokens": 9000})
    with model_server(in_order(many, END)) as server:
        run(sample, server, tmp_path, observation_tokens=500)
    observation = server.requests[1]["messages"][3]["content"]
    assert estimate_tokens(observation.encode()) <= 500
    assert len(read_trajectory(tmp_path / "trajectory.jsonl")[0].ids) < 100


def test_several_calls_in_one_turn(sample: Library, tmp_path: Path) -> None:
    both = Reply(
        "Both.",
        tool_calls=[
            tool_call("search_papers", {"q": "strings", "limit": 2}, "a"),
            tool_call("nothing", {}, "b"),
        ],
    )
    with model_server(in_order(both, END)) as server:
        run(sample, server, tmp_path)
    first, second, _ = read_trajectory(tmp_path / "trajectory.jsonl")
    assert (first.round, second.round, first.error is None, second.error is None) == (1, 1, True, False)
    assert (first.tokens, second.tokens) == (120, None)
    tools = [one for one in server.requests[1]["messages"] if one["role"] == "tool"]
    assert [one["tool_call_id"] for one in tools] == ["a", "b"]


def test_a_model_that_fails_ends_the_job_which_continues(sample: Library, tmp_path: Path) -> None:
    with (
        model_server(in_order(SEARCH, Reply(status=500, body=b""))) as server,
        pytest.raises(ModelError, match="0 of 1 questions are done and kept"),
    ):
        run(sample, server, tmp_path)
    with model_server(in_order(SEARCH, END)) as server:
        assert run(sample, server, tmp_path)["stops"] == {"answered": 1}
    trajectory = (tmp_path / "trajectory.jsonl").read_bytes()
    with model_server(in_order(SEARCH)) as server:
        run(sample, server, tmp_path)
        assert server.requests == []  # the question is done
        with pytest.raises(RunExists, match="of another agent"):
            run(sample, server, tmp_path, turns=3)
    assert (tmp_path / "trajectory.jsonl").read_bytes() == trajectory
    # A killed process leaves at most one incomplete line.
    checkpoint = tmp_path / "agent.jsonl"
    checkpoint.write_bytes(checkpoint.read_bytes()[:-5])
    with model_server(in_order(SEARCH, END)) as server:
        run(sample, server, tmp_path)
    assert (tmp_path / "trajectory.jsonl").read_bytes() == trajectory

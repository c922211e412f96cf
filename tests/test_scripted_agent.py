"""The scripted agent of examples/ over function schemas, MCP and Python: one trajectory, and its own figures."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import orjson
import pytest
from anyio.from_thread import start_blocking_portal
from mcp import Client as McpClient
from mcp import StdioServerParameters

from scholarbase.sessions.store import SessionStore
from tests.conftest import ROOT


@pytest.fixture(scope="module")
def agent() -> Iterator[ModuleType]:
    """examples/scripted_agent.py, which finds agent_forms.py beside it as a script does."""
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        import scripted_agent

        yield scripted_agent
    finally:
        sys.path.remove(str(ROOT / "examples"))


@pytest.fixture(scope="module")
def forms(
    agent: ModuleType, sample_library: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Any]]:
    """The three forms on the sample, two of them over a server process."""
    with agent.opened(agent.FORMS, sample_library, tmp_path_factory.mktemp("sessions")) as opened:
        yield opened


def run(agent: ModuleType, question: Any, forms: Mapping[str, Any]) -> dict[str, tuple[list[Any], Any]]:
    """Form to the agent's log and itself, in a session of this question."""
    runs = {}
    for name, form in forms.items():
        form.open(question.id, question.text)
        runs[name] = (agent.run_agent(form, question), form)
    return runs


def check_one(log: Sequence[Any], lines: Sequence[Mapping[str, Any]], question: Any) -> None:
    """A trajectory says what the agent did, read off its log."""
    assert [line["call"] for line in lines] == list(range(1, len(log) + 2))
    assert [line["tool"] for line in lines] == [*(called.tool for called in log), "answer"]
    assert [line["round"] for line in lines] == [*(called.round for called in log), log[-1].round + 1]
    assert {(line["query_id"], line["query"]) for line in lines} == {(question.id, question.text)}
    for called, line in zip(log, lines, strict=False):
        # A response that was cut to the default size is recorded with it.
        assert called.arguments.items() <= line["arguments"].items()
        assert line["arguments"].keys() - called.arguments.keys() <= {"max_tokens"}
        assert line["ids"] == [paper["id"] for paper in called.papers]
        assert line["snapshot"] == called.content["snapshot"]
        earlier = [number for number, one in enumerate(log[: line["call"] - 1], 1)]
        seeds = set(called.arguments.get("seeds") or called.arguments.get("ids") or ())
        giving = [n for n in earlier if seeds & {paper["id"] for paper in log[n - 1].papers}]
        assert line.get("parent") == max(giving, default=None)


def seen_twice(log: Sequence[Any]) -> set[str]:
    """Papers that a search which leaves out what was seen has given again."""
    again: set[str] = set()
    seen: set[str] = set()
    for called in log:
        ids = {paper["id"] for paper in called.papers}
        again |= ids & seen if called.arguments.get("exclude_seen") else set()
        seen |= ids
    return again


@pytest.mark.slow
def test_three_forms_are_one_trajectory(agent: ModuleType, forms: dict[str, Any]) -> None:
    for question in agent.SAMPLE_QUESTIONS:
        runs = run(agent, question, forms)
        assert agent.differences(question, runs) == []
        assert list(runs) == ["http", "mcp", "python"]
        for log, form in runs.values():
            check_one(log, form.trajectory(), question)
            assert not seen_twice(log)
            # The sample's physics papers cite one another: both expansions find some.
            assert all(called.papers for called in log)
            assert agent.own_figures(question, log)["recall"] > 0.5


@pytest.mark.slow
def test_the_script_prints_the_table_of_the_documentation(
    agent: ModuleType, forms: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert agent.compare(forms, agent.SAMPLE_QUESTIONS) == []
    printed = capsys.readouterr().out
    assert printed.count("the same\n") == 3
    assert f"scripted_agent.py --library words\n{printed}```" in (ROOT / "docs" / "agents.md").read_text()


@pytest.mark.slow
def test_a_difference_is_told(agent: ModuleType, forms: dict[str, Any]) -> None:
    question = agent.SAMPLE_QUESTIONS[0]
    runs = run(agent, question, {name: forms[name] for name in ("http", "python")})
    forms["python"].call("get_papers", {"ids": list(question.answers[:1])}, 6)
    found = agent.differences(question, runs)
    assert "strings, python: the report has calls 8, the agent 7" in found
    assert "strings: http and python differ in the number of calls" in found


@pytest.mark.slow
def test_a_refused_call_is_the_sentence_that_says_why(forms: dict[str, Any]) -> None:
    said = set()
    for form in forms.values():
        form.open("q", "A question")
        with pytest.raises(Exception, match="Unknown argument 'colour'") as refused:
            form.call("search_papers", {"q": "strings", "colour": "red"}, 1)
        said.add(str(refused.value))
        assert form.report(())["failed_calls"] == 1
    assert len(said) == 1


@pytest.mark.slow
def test_the_command_on_standard_input_and_output_gives_the_same(
    agent: ModuleType, forms: dict[str, Any], sample_library: Path, tmp_path: Path
) -> None:
    question = agent.SAMPLE_QUESTIONS[0]
    log, form = run(agent, question, {"python": forms["python"]})["python"]
    check_stdio(agent, sample_library, question, (log, form.trajectory()), tmp_path / "stdio")


# -- over standard input and output ---------------------------------------------------------------------


class OverStdio:
    """``scholarbase mcp`` in a process of its own, as an MCP client starts it."""

    def __init__(self, portal: Any, client: McpClient) -> None:
        self._portal = portal
        self._client = client
        self.answered: Sequence[str] = ()

    def call(self, name: str, arguments: Mapping[str, Any], round: int) -> dict[str, Any]:
        meta: Any = {"scholarbase/round": round}

        async def called() -> Any:
            return await self._client.call_tool(name, dict(arguments), meta=meta)

        result = self._portal.call(called)
        assert not result.is_error
        content: dict[str, Any] = result.structured_content
        return content

    def answer(self, ids: Sequence[str]) -> None:
        self.answered = ids


def check_stdio(
    agent: ModuleType, library: Path, question: Any, expected: tuple[list[Any], list[Any]], folder: Path
) -> None:
    """The agent over ``scholarbase mcp`` sees what it saw in Python, and its calls are recorded as there."""
    options = ["--library", str(library), "--session", "stdio", "--query", question.text]
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "scholarbase.cli", "mcp", *options, "--sessions", str(folder)],
        env={"PYTHONPATH": str(ROOT)},
    )
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(McpClient(server)) as client,
    ):
        form = OverStdio(portal, client)
        log = agent.run_agent(form, question)
    assert log == expected[0]
    with SessionStore(folder) as store:
        lines = [orjson.loads(line) for line in store.lines("stdio")]
    own = (*agent.VARYING_KEYS, "query_id")
    calls, answer = expected[1][:-1], expected[1][-1]
    assert [without(line, own) for line in lines] == [without(line, own) for line in calls]
    assert form.answered == answer["ids"]


def without(line: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    return {key: value for key, value in line.items() if key not in keys}

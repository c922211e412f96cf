"""A task of Inspect (https://inspect.aisi.org.uk): the tools of ScholarBase as a tool set, and its reward as a scorer.

    pip install "scholarbase[evaluation]" inspect-ai
    inspect eval examples/inspect_task.py --model openai/gpt-5 -T library=papers -T queries=queries.jsonl

Each sample is an episode of ``scholarbase_research.episodes``, recorded as a session.
"""

# /// script
# requires-python = ">=3.11"
# dependencies = ["scholarbase[evaluation]", "inspect-ai==0.3.285"]
# ///

from __future__ import annotations

import asyncio
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageTool, execute_tools, get_model
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.tool import ToolDef, ToolParams

from scholarbase_research.agents.react import SYSTEM
from scholarbase_research.episodes import Episode, Episodes, Rules


def tool_set(episode: Episode) -> list[ToolDef]:
    """The tools of an episode, and ``answer``."""

    def tool(about: dict[str, Any]) -> ToolDef:
        async def call(**arguments: Any) -> str:
            given = {name: value for name, value in arguments.items() if value is not None}
            return await asyncio.to_thread(episode.call, about["name"], given)

        schema = about["parameters"]
        properties = {
            name: {"type": "string", "description": name, **kind}
            for name, kind in schema["properties"].items()
        }
        parameters = ToolParams(properties=properties, required=schema["required"])
        return ToolDef(call, about["name"], about["description"], parameters)

    return [tool(schema["function"]) for schema in episode.environment.schemas]


@solver
def search(episodes: Episodes) -> Solver:
    """A model that calls the tools until the episode ends, or it replies without a call."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        episode = await asyncio.to_thread(episodes.start, str(state.sample_id))
        state.metadata["session"] = episode.name
        tools = [tool.as_tool() for tool in tool_set(episode)]
        while not episode.done:
            state.output = await get_model().generate(state.messages, tools)
            state.messages.append(state.output.message)
            if not state.output.message.tool_calls:
                break
            messages = (await execute_tools(state.messages, tools)).messages
            state.messages += [one for one in messages if isinstance(one, ChatMessageTool)]
        return state

    return solve


@scorer(metrics=[mean(), stderr()])
def reward(episodes: Episodes) -> Scorer:
    """The reward of the session."""

    async def score(state: TaskState, target: Target) -> Score:
        session = state.metadata["session"]
        return Score(value=await asyncio.to_thread(episodes.reward, session, str(state.sample_id)))

    return score


@task
def literature(library: str, queries: str, sessions: str | None = None, **rules: Any) -> Task:
    """The queries of a file on a library's folder or a server's URL. ``rules`` are those of ``Rules``."""
    episodes = Episodes(library, queries, Rules(**rules), sessions=sessions)
    samples = [
        Sample(id=query.id, input=f"{SYSTEM}\n\n{query.text}", target=episodes.held_answers(query.id))
        for query in episodes.tasks
    ]
    return Task(dataset=samples, solver=search(episodes), scorer=reward(episodes))

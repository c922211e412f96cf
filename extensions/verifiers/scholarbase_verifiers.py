"""Literature search as an environment of verifiers (https://github.com/primeintellect-ai/verifiers).

    vf-eval scholarbase-verifiers --env.taskset.library papers --env.taskset.queries queries.jsonl

A task is a query of a query set, and a rollout an episode of :mod:`scholarbase_research.episodes`, recorded as a
session. One process serves the tools of all rollouts.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any

import verifiers.v1 as vf
from pydantic import BaseModel, ConfigDict, Field

from scholarbase_research.agents.react import SYSTEM
from scholarbase_research.episodes import Episode, Episodes, Rules

__all__ = ["PapersTaskset", "load_environment"]


class PapersSettings(BaseModel):
    """The environment: see :class:`Episodes` and :class:`Rules`."""

    model_config = ConfigDict(frozen=True)

    library: str = ""
    """The folder of a library, or the URL of a server."""
    queries: str = ""
    """A file or folder of a query set that `scholarbase eval` reads."""
    sessions: str | None = None
    """The folder of a library's sessions; by default the settings name it."""
    measure: str = "R@100"
    ranking: str = "answer-only"
    """What the reward measures: `answer-only`, `observed` or `answer`."""
    cost: float = 0.0
    """What each call of a tool reduces the reward by."""
    calls: int | None = 20
    tokens: int | None = None
    as_of: str | None = None
    """A date, or `query` for the date of each query."""


@cache
def opened(settings: PapersSettings) -> Episodes:
    """The episodes of a process, which all its rollouts share."""
    rules = settings.model_dump(exclude={"library", "queries", "sessions"})
    return Episodes(settings.library, settings.queries, Rules(**rules), sessions=settings.sessions)


class PapersState(vf.State):
    """What a rollout and its tools share."""

    session: str = ""
    task: str = ""
    done: bool = False


class PapersToolsetConfig(vf.SharedToolsetConfig):
    settings: PapersSettings = PapersSettings()


class PapersToolset(vf.Toolset[PapersToolsetConfig, PapersState]):
    """The tools of ScholarBase, and ``answer``."""

    TOOL_PREFIX = None

    async def setup(self) -> None:
        self._episodes = await asyncio.to_thread(opened, self.config.settings)
        self._running: dict[str, Episode] = {}

    def register(self, mcp: Any) -> None:
        for schema in self._episodes.schemas:
            about = schema["function"]
            function = _function(partial(self._call, about["name"]), about["parameters"])
            mcp.add_tool(self._with_state(function), name=about["name"], description=about["description"])

    async def _call(self, tool: str, **arguments: Any) -> str:
        state = self.state
        episode = self._running.get(state.session)
        if episode is None:
            episode = self._running[state.session] = self._episodes.resume(state.session, state.task)
        given = {name: value for name, value in arguments.items() if value is not None}
        text = await asyncio.to_thread(episode.call, tool, given)
        if episode.done:
            state.done = True
            self._running.pop(state.session, None)
        return text


def _function(call: Callable[..., Any], schema: dict[str, Any]) -> Callable[..., Any]:
    """A function whose signature has the arguments of a JSON schema, as servers of MCP read it."""

    async def function(**arguments: Any) -> str:
        return await call(**arguments)

    parameters = []
    for name, kind in schema["properties"].items():
        # An alias, since names of arguments may be keywords, and shadow attributes of pydantic's models.
        about = Field(alias=name, json_schema_extra=kind)
        default = inspect.Parameter.empty if name in schema["required"] else None
        parameters.append(
            inspect.Parameter(
                f"{name}_", inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[Any, about]
            )
        )
    function.__signature__ = inspect.Signature(parameters, return_annotation=str)  # type: ignore[attr-defined]
    return function


class PapersData(vf.TaskData):
    settings: PapersSettings


class PapersTask(vf.Task[PapersData, PapersState]):
    """A query, with the reward of its session."""

    async def setup(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        episode = await asyncio.to_thread(self._episodes.start, self._query)
        trace.state.session, trace.state.task = episode.name, self._query
        trace.info["session"] = episode.name

    async def validate(self, runtime: vf.Runtime) -> bool:
        """Whether the answers of the query set that the library holds have a reward."""

        def check() -> bool:
            episode = self._episodes.start(self._query)
            episode.answer(self._episodes.held_answers(self._query))
            return episode.reward > 0

        return await asyncio.to_thread(check)

    @vf.stop
    async def answered(self, trace: vf.Trace) -> bool:
        return bool(trace.state.done)

    @vf.reward
    async def reward(self, trace: vf.Trace) -> float:
        return await asyncio.to_thread(self._episodes.reward, trace.info["session"], self._query)

    @property
    def _episodes(self) -> Episodes:
        return opened(self.data.settings)

    @property
    def _query(self) -> str:
        assert self.data.id is not None
        return self.data.id


class PapersConfig(vf.TasksetConfig, PapersSettings):
    """The options of ``--env.taskset``."""

    model_config = ConfigDict(frozen=False)


class PapersTaskset(vf.Taskset[PapersTask, PapersConfig]):
    """The queries that have a relevant answer, in the order of their file."""

    def load(self) -> Iterator[PapersTask]:
        settings = _settings(self.config)
        for query in opened(settings).tasks:
            data = PapersData(id=query.id, prompt=query.text, system_prompt=SYSTEM, settings=settings)
            yield PapersTask(data, self.config.task)

    @classmethod
    def toolsets(cls, config: PapersConfig) -> list[vf.Toolset]:
        return [PapersToolset(PapersToolsetConfig(settings=_settings(config)))]


def _settings(config: PapersConfig) -> PapersSettings:
    settings = {name: getattr(config, name) for name in PapersSettings.model_fields}
    # Verifiers runs the tools in a process with another working directory. A library may have a name instead.
    for name in ("library", "queries", "sessions"):
        if (
            settings[name]
            and "://" not in settings[name]
            and (name != "library" or Path(settings[name]).exists())
        ):
            settings[name] = str(Path(settings[name]).absolute())
    return PapersSettings(**settings)


def load_environment(library: str, queries: str, **settings: Any) -> vf.Env:
    """The environment on a library's folder or a server's URL. ``settings`` are those of :class:`PapersSettings`."""
    taskset = {"id": __name__, "library": library, "queries": queries, **settings}
    return vf.load_environment(vf.resolve_env_config({"taskset": taskset}))


if __name__ == "__main__":  # verifiers starts a server of tools as the module of its class
    PapersToolset.run()

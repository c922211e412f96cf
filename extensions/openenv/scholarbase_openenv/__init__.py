"""Literature search as an environment of OpenEnv (https://github.com/huggingface/OpenEnv).

An episode is one of :mod:`scholarbase_research.episodes`, recorded as a session: ``reset`` opens it and returns the
question, ``step`` calls a tool, and the last step, which is the answer or a second call without budget, has the reward.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_types import (
    CallToolAction,
    CallToolObservation,
    ListToolsAction,
    ListToolsObservation,
    Tool,
)
from openenv.core.env_server.types import Action, EnvironmentMetadata, Observation, State

from scholarbase_research.episodes import Episode, Episodes, Rules

__all__ = ["PapersEnvironment", "PapersObservation", "PapersState", "load_environment"]

SPLIT: Final = "all"


class PapersObservation(Observation):
    """What ``reset`` returns: the question, and the tools as function schemas of OpenAI's form."""

    question: str
    tools: list[dict[str, Any]]


class PapersState(State):
    """The session is ``episode_id``, and ``task`` the id of the query."""

    task: str | None = None
    answered: bool = False


class PapersEnvironment(Environment[Action, Observation, PapersState]):
    """Episodes one after the other. Environments share the :class:`Episodes`."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, episodes: Episodes) -> None:
        super().__init__()
        self.episodes = episodes
        self._episode: Episode | None = None
        self._steps = 0

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        task: str | int | None = None,
        split: str = SPLIT,
        index: int | None = None,
        **kwargs: Any,
    ) -> PapersObservation:
        """Open an episode of ``task``, an id or a place, which ``seed`` chooses by default.

        Args:
            episode_id: the name of the session, by default a new one.
            split, index: the task as OpenEnv's task API names it.
        """
        _check_split(split)
        self._episode = self.episodes.start(index if task is None else task, seed=seed, name=episode_id)
        self._steps = 0
        return PapersObservation(
            question=self._episode.query.text, tools=self.episodes.schemas, done=False, reward=0.0
        )

    def step(self, action: Action, timeout_s: float | None = None, **kwargs: Any) -> Observation:
        """Call a tool, or list the tools. Without an episode, as over ``/mcp``, calls are not recorded."""
        if isinstance(action, ListToolsAction):
            return ListToolsObservation(
                tools=[
                    Tool(
                        name=function["name"],
                        description=function["description"],
                        input_schema=function["parameters"],
                    )
                    for function in (schema["function"] for schema in self.episodes.schemas)
                ]
            )
        if not isinstance(action, CallToolAction):
            raise TypeError(f"{type(action).__name__} is not a call of a tool")
        episode = self._episode
        if episode is None:
            text, reward, done = self.episodes.call(action.tool_name, action.arguments), 0.0, False
        else:
            text = episode.call(action.tool_name, action.arguments)
            self._steps += 1
            reward, done = (episode.reward if episode.done else 0.0), episode.done
        return CallToolObservation(tool_name=action.tool_name, result=text, reward=reward, done=done)

    @property
    def state(self) -> PapersState:
        episode = self._episode
        if episode is None:
            return PapersState()
        return PapersState(
            episode_id=episode.name, step_count=self._steps, task=episode.query.id, answered=episode.answered
        )

    def get_metadata(self) -> EnvironmentMetadata:
        return EnvironmentMetadata(
            name="scholarbase", description="Find the papers that answer a question.", version="0.2.0"
        )

    def list_splits(self) -> list[str]:
        return [SPLIT]

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        return [self.get_task(split, index) for index in range(self.num_tasks(split))]

    def num_tasks(self, split: str) -> int:
        _check_split(split)
        return len(self.episodes.tasks)

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        _check_split(split)
        query = self.episodes.tasks[index]
        return {"id": query.id, "index": index, "question": query.text}


def _check_split(split: str) -> None:
    if split != SPLIT:
        raise ValueError(f"There is no split {split!r}: use {SPLIT!r}.")


def load_environment(
    library: str | Path, queries: str | Path, *, sessions: str | Path | None = None, **rules: Any
) -> PapersEnvironment:
    """The environment on a library's folder or a server's URL; ``rules`` are those of :class:`Rules`."""
    return PapersEnvironment(Episodes(library, queries, Rules(**rules), sessions=sessions))

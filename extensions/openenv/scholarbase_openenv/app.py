"""The server of the environment: ``server papers queries.jsonl``, or an ASGI application.

The application reads the arguments of :func:`scholarbase_openenv.load_environment` as JSON from
``OPENENV_SCHOLARBASE``, such as ``{"library": "papers", "queries": "queries.jsonl", "calls": 20}``.
"""

from __future__ import annotations

import json
import os
from functools import cache
from typing import Any, Final

import click
import uvicorn
from fastapi import FastAPI
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation

from scholarbase_openenv import PapersEnvironment, PapersObservation, PapersState, load_environment

ARGUMENTS: Final = "OPENENV_SCHOLARBASE"
MOST_SESSIONS: Final = 1_000


@cache
def _first() -> PapersEnvironment:
    return load_environment(**json.loads(os.environ[ARGUMENTS]))


def environment() -> PapersEnvironment:
    """An environment on the library of this process."""
    return PapersEnvironment(_first().episodes)


@cache
def application() -> FastAPI:
    """The ASGI application. It opens the library."""
    return create_app(
        environment,
        CallToolAction,
        CallToolObservation,
        env_name="scholarbase",
        max_concurrent_envs=MOST_SESSIONS,
        state_cls=PapersState,
        reset_observation_cls=PapersObservation,
    )


def __getattr__(name: str) -> Any:
    if name == "app":
        return application()
    raise AttributeError(name)


@click.command()
@click.argument("library")
@click.argument("queries")
@click.option("--sessions", help="The folder of the sessions of a library.")
@click.option("--measure", default="R@100", show_default=True)
@click.option("--ranking", default="answer-only", show_default=True)
@click.option("--cost", default=0.0, help="What each call of a tool reduces the reward by.")
@click.option("--calls", default=20, show_default=True, help="The most calls of tools.")
@click.option("--tokens", type=int, help="The most tokens of all responses.")
@click.option("--as-of", help="A date, or query for the date of each query.")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True)
def main(host: str, port: int, **arguments: Any) -> None:
    """Serve the environment of a LIBRARY, a folder or the URL of a server, with the tasks of QUERIES."""
    os.environ[ARGUMENTS] = json.dumps(arguments)
    try:
        app = application()
    except Exception as error:  # of the arguments, in a sentence
        raise click.ClickException(str(error)) from error
    uvicorn.run(app, host=host, port=port)


if __name__ == "__main__":
    main()

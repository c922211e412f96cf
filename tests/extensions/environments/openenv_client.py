"""OpenEnv's own client against the server of ``scholarbase-openenv``: episodes with a policy by script.

The arguments are a library, a query set, the number of episodes, the folder of the sessions, and the file for their
names, tasks and rewards, as JSON.
"""

# /// script
# requires-python = ">=3.11"
# dependencies = ["scholarbase[evaluation]", "scholarbase-openenv"]
#
# [tool.uv]
# exclude-newer = "2026-11-26T00:00:00Z"
#
# [tool.uv.sources]
# scholarbase = { path = "../../..", editable = true }
# scholarbase-openenv = { path = "../../../extensions/openenv", editable = true }
# ///

import json
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
from openenv.core.generic_client import GenericEnvClient

ID = re.compile(r"^ {3}((?:arXiv|CorpusId|DOI):\S+)$", re.M)
SCRIPTS = Path(sys.executable).parent
RULES = ("--measure", "R@5", "--cost", "0.25", "--calls", "10")


def step(client: Any, tool: str, arguments: dict[str, Any]) -> Any:
    return client.step({"type": "call_tool", "tool_name": tool, "arguments": arguments})


def episode(client: Any, number: int, task: int) -> dict[str, Any]:
    """A search, a call that fails, and the answer."""
    question = client.reset(task=task).observation["question"]
    hits = step(client, "search_papers", {"q": question, "limit": 1 + task % 20, "max_tokens": 20_000})
    failed = step(client, "get_papers", {"nonsense": 1})
    assert not failed.done
    assert hits.reward == failed.reward == 0.0
    last = step(client, "answer", {"ids": ID.findall(hits.observation["result"])})
    assert last.done
    state = client.state()
    return {"session": state["episode_id"], "task": state["task"], "reward": last.reward}


def main(library: str, queries: str, episodes: int, sessions: str) -> list[dict[str, Any]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    url = f"http://127.0.0.1:{port}"
    command = (SCRIPTS / "server", library, queries, *RULES, "--sessions", sessions, "--port", port)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            while True:
                try:
                    httpx.get(f"{url}/health").raise_for_status()
                    break
                except httpx.TransportError:
                    assert server.poll() is None, "the server has ended"
                    time.sleep(0.2)
            counted = httpx.post(f"{url}/scholarbase/num_tasks", json={"split": "all"}).raise_for_status()
            tasks = counted.json()["num_tasks"]
            with GenericEnvClient(base_url=url).sync() as client:
                return [episode(client, number, number % tasks) for number in range(episodes)]
        finally:
            server.terminate()


if __name__ == "__main__":
    Path(sys.argv[5]).write_text(json.dumps(main(*sys.argv[1:3], int(sys.argv[3]), sys.argv[4])), "utf-8")

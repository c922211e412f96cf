"""Verifiers' own evaluation of ``scholarbase-verifiers``, with a stand-in for the model.

The arguments are a library, a query set, the number of rollouts, the folder of the sessions, and the file for their
names, tasks and rewards, as JSON.
"""

# /// script
# requires-python = ">=3.11"
# dependencies = ["scholarbase[evaluation]", "scholarbase-verifiers"]
#
# [tool.uv]
# exclude-newer = "2026-11-26T00:00:00Z"
#
# [tool.uv.sources]
# scholarbase = { path = "../../..", editable = true }
# scholarbase-verifiers = { path = "../../../extensions/verifiers", editable = true }
# ///

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from model import serve

RULES = ("--env.taskset.measure", "R@5", "--env.taskset.cost", "0.25")
AGENT = ("--env.agent.harness.id", "null", "--env.agent.runtime.type", "subprocess", "--model", "stub")


def main(library: str, queries: str, rollouts: str, sessions: str) -> list[dict[str, Any]]:
    model = serve()
    threading.Thread(target=model.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{model.server_address[1]}/v1"
    taskset = {"library": library, "queries": queries, "sessions": sessions}
    paths = [word for name, value in taskset.items() for word in (f"--env.taskset.{name}", value)]
    command = (Path(sys.executable).with_name("vf-eval"), "scholarbase-verifiers", *paths, *RULES, *AGENT)
    options = ("--client.base-url", url, "--select.limit", rollouts, "--max-concurrent", "2")
    subprocess.run([*command, *options, "--output-dir", "outputs"], check=True)
    [path] = Path("outputs").glob("*/traces.jsonl")
    traces = [trace for line in path.read_text("utf-8").splitlines() for trace in json.loads(line)["traces"]]
    return [
        {
            "session": trace["info"]["session"],
            "task": trace["task"]["data"]["id"],
            "reward": trace["rewards"]["reward"]["score"],
        }
        for trace in traces
    ]


if __name__ == "__main__":
    Path(sys.argv[5]).write_text(json.dumps(main(*sys.argv[1:5])), "utf-8")

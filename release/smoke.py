"""Run what the README shows, in order, with an installed ScholarBase: its commands, requests and Python.

``python -m release.smoke ENVIRONMENT`` uses the programs of a virtual environment, in a temporary folder.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
TIMEOUT: Final = 300
INITIALIZE: Final = (
    '{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18",'
    ' "capabilities": {}, "clientInfo": {"name": "smoke", "version": "1"}}}\n'
)


class Step(NamedTuple):
    """A command or a Python example of the README, and the lines that it prints there."""

    language: str
    text: str
    shown: list[str]


def steps(readme: str) -> list[Step]:
    """What the README shows, without ``git``, ``make`` and ``pip``, which are for a checkout."""
    found = []
    for match in re.finditer(r"^```(console|python)\n(.*?)^```\n(?:\n```\n(.*?)^```)?", readme, re.S | re.M):
        if match[1] == "python":
            found.append(Step("python", match[2], (match[3] or "").splitlines()))
            continue
        for command, shown in re.findall(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", match[2], re.M):
            if command.split()[0] not in ("git", "make", "pip"):
                found.append(Step("console", command, shown.splitlines()))
    return found


@contextmanager
def server(command: str, environment: dict[str, str]) -> Iterator[str]:
    """Run ``scholarbase serve`` on a free port, and yield its address."""
    process = subprocess.Popen(
        ["bash", "-c", f"exec {command} --port 0"], env=environment, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(line)
            if address := re.search(r" at (http://\S+) with", line):
                break
        else:
            raise SystemExit(f"{command} ended:\n{''.join(lines)}")
        yield address[1]
    finally:
        process.terminate()
        process.wait(timeout=TIMEOUT)
        process.stderr and process.stderr.close()


def run(step: Step, environment: dict[str, str], address: str) -> None:
    """Run one step. SystemExit if it fails, prints nothing, or lacks a line that the README shows."""
    text = step.text.replace("http://127.0.0.1:8000", address)
    text = text.replace("localhost:8000", address.removeprefix("http://"))
    command = ["python", "-c", text] if step.language == "python" else ["bash", "-c", text]
    given = INITIALIZE if " mcp " in text else ""
    done = subprocess.run(
        command, env=environment, input=given, capture_output=True, text=True, check=False, timeout=TIMEOUT
    )
    lacking = [line for line in step.shown if line not in done.stdout.splitlines()]
    if done.returncode or lacking or not done.stdout + done.stderr:
        raise SystemExit(
            f"{step.text}\nended with {done.returncode}; not printed: {lacking}\n{done.stdout}\n{done.stderr}"
        )
    if given and '"serverInfo"' not in done.stdout:
        raise SystemExit(f"{step.text}\ndid not answer an MCP client: {done.stdout}\n{done.stderr}")


def smoke(programs: Path, readme: str) -> list[str]:
    """Run every step of the README in a temporary folder with the sample; return what was run.

    Args:
        programs: the folder of an environment's programs, such as ``.venv/bin``.
        readme: the text.

    Raises:
        SystemExit: a step fails.
    """
    unwanted = ("PYTHONPATH", "SCHOLARBASE_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
    environment["PATH"] = f"{programs.resolve()}{os.pathsep}{environment['PATH']}"
    ran, before = [], Path.cwd()
    with tempfile.TemporaryDirectory(prefix="scholarbase-smoke-") as folder:
        os.chdir(folder)
        try:
            Path("sample").symlink_to(ROOT / "sample")
            environment["SCHOLARBASE_SESSIONS"] = str(Path(folder) / "sessions")
            todo = steps(readme)
            serve = next(step for step in todo if step.text.startswith("scholarbase serve"))
            start = todo.index(serve)
            for step in todo[:start]:
                run(step, environment, "")
                ran.append(step.text)
            with server(serve.text, environment) as address:
                ran.append(serve.text)
                for step in todo[start + 1 :]:
                    run(step, environment, address)
                    ran.append(step.text)
        finally:
            os.chdir(before)
    return ran


if __name__ == "__main__":
    for text in smoke(Path(sys.argv[1]) / "bin", (ROOT / "README.md").read_text("utf-8")):
        print(f"ok  {text.splitlines()[0]}")

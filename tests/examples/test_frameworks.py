"""The agents of examples/, each in the environment that its first lines describe, against a scripted model.

Everything is real but the model: the framework, its HTTP and MCP clients, the server and its sessions.
"""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import httpx
import orjson
import pytest

from scholarbase.markup import plain
from tests.conftest import ROOT, sample_edges, sample_rows
from tests.examples.model import MISSING, scripted_model

ENVIRONMENT = dict(os.environ)
"""As it was before the fixtures of the session, which remove the certificates that uv may need."""
QUESTION = "How is two-dimensional QCD related to string theory?"
AGENTS = {
    "langchain": "/v1/chat/completions",
    "openai": "/v1/responses",
    "pydantic_ai": "/v1/responses",
    "smolagents": "/v1/chat/completions",
    "claude": "/v1/messages",
}
"""Each agent, and the route of the model's API that it calls."""


def uv(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    binary = pytest.importorskip("uv", reason="needs uv, which installs the frameworks").find_uv_bin()
    return subprocess.run(
        [binary, *arguments], capture_output=True, text=True, timeout=600, env=ENVIRONMENT, check=False
    )


def interpreter(script: Path) -> str:
    """The Python of a script's own environment, which `uv run` would create and keep too."""
    command = ("sync", "--script", script, "--python", sys.executable, "--no-progress")
    # Without the network where everything is in uv's cache.
    done = uv(*command, "--offline")
    if done.returncode:
        done = uv(*command)
    if done.returncode:
        reason = f"The packages of {script.name} cannot be installed:\n{done.stderr}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return uv("python", "find", "--script", script).stdout.strip()


def run(
    command: Sequence[str | Path], home: Path, model: str, server: str
) -> subprocess.CompletedProcess[str]:
    """Run an agent. What it sends to other hosts than this one goes to the model's server, which refuses it."""
    environment = {
        "PATH": os.defpath,
        "HOME": str(home),
        "SCHOLARBASE_URL": server,
        "OPENAI_BASE_URL": f"{model}/v1",
        "OPENAI_API_KEY": "none",
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
        "ANTHROPIC_BASE_URL": model,
        "ANTHROPIC_API_KEY": "none",
        **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), model),
        "NO_PROXY": "127.0.0.1",
    }
    return subprocess.run(
        [*command], capture_output=True, text=True, timeout=300, cwd=home, env=environment, check=False
    )


@pytest.fixture(scope="module")
def citing() -> dict[str, set[str]]:
    """The arXiv id of each cited paper of the sample to the titles of the papers that cite it, from its files."""
    rows = {row["corpusid"]: row for row in sample_rows("papers")}
    found: dict[str, set[str]] = {}
    for source, target in sample_edges():
        if arxiv := (rows[target]["externalids"] or {}).get("ArXiv"):
            found.setdefault(f"arXiv:{arxiv}", set()).add(plain(rows[source]["title"]))
    return found


@pytest.mark.slow  # starts a framework, whose imports take seconds; the first time, installs it
@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_answers_from_the_library(
    name: str, server: str, citing: dict[str, set[str]], tmp_path: Path
) -> None:
    script = ROOT / "examples" / f"{name}_agent.py"
    python = interpreter(script)
    with scripted_model() as model:
        done = run([python, script, QUESTION], tmp_path, model.url, server)
    assert done.returncode == 0, done.stderr
    assert model.refused == []
    assert [path for path, _, _ in model.turns] == [AGENTS[name]] * 4

    # The model read the error, then the results of the search, then the citing papers.
    *_, (_, last, _) = model.turns
    assert len(last.observations) == 3
    assert f"No paper '{MISSING}' in this library" in last.observations[0]

    # The server recorded what the model said.
    session = re.search(r"^Recorded as session (\S+)$", done.stderr, re.M)
    assert session is not None
    lines = httpx.get(f"{server}/v1/sessions/{session[1]}").raise_for_status().text.splitlines()
    failed, search, citations = map(orjson.loads, lines)
    assert (failed["tool"], failed["error_type"]) == ("get_citations", "paper-not-found")
    assert (search["tool"], search["arguments"]["q"]) == ("search_papers", QUESTION)
    assert (citations["tool"], citations["parent"]) == ("get_citations", 2)
    cited = search["ids"][0]
    assert citations["arguments"]["paper_id"] == cited

    # The answer names papers that cite it in the sample's files.
    assert len(citations["ids"]) == 3
    named = done.stdout.strip().removeprefix("It is cited by ").removesuffix(".").split("; ")
    assert len(named) == 3
    assert set(named) <= citing[cited]

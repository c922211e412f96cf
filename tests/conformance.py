"""`make conformance`: the scenarios of the Model Context Protocol for servers, against a server of the sample library.

Runs npm's @modelcontextprotocol/conformance, which needs npm, and prints each scenario with its result, or the reason
why it does not apply. Exits with status 1 if a scenario that applies fails.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scholarbase.ingest.job import ingest
from tests.conftest import ROOT, serving

VERSION: Final = "0.1.16"
NODE: Final = "22"
"""The oldest Node.js that runs this version."""
TOOLS: Final = "calls a tool of a test server by its name, and this server has only its own"
REQUESTS: Final = "needs a tool that sends requests to the client, and these tools only read a library"
STREAM: Final = "needs a stream, and this server responds with JSON and keeps no state"
REASONS: Final = {
    "logging": "the server does not declare logging",
    "completion": "the server does not declare completions",
    "resources": "the server does not declare resources: papers are results of tools",
    "prompts": "the server does not declare prompts",
    "tools-call-sampling": REQUESTS,
    "tools-call-elicitation": REQUESTS,
    "elicitation": REQUESTS,
    "tools-call": TOOLS,
    "json-schema-2020-12": TOOLS,
    "server-sse": STREAM,
}
"""Beginnings of the names of scenarios that do not apply, the longest first where several match."""


def reason(scenario: str) -> str | None:
    """Why a scenario does not apply, None if it does."""
    matching = [beginning for beginning in REASONS if scenario.startswith(beginning)]
    return REASONS[max(matching, key=len)] if matching else None


def results(url: str) -> dict[str, tuple[int, int]]:
    """Each scenario with the numbers of checks that passed and failed."""
    command = [
        "npx",
        "--yes",
        f"--package=node@{NODE}",
        f"--package=@modelcontextprotocol/conformance@{VERSION}",
    ]
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run(
            [*command, "conformance", "server", "--url", f"{url}/mcp", "--suite", "all"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    found = re.findall(r"^. ([\w-]+): (\d+) passed, (\d+) failed$", run.stdout, re.MULTILINE)
    if not found:
        raise SystemExit(f"The conformance tests did not run:\n{run.stdout[-2000:]}\n{run.stderr[-2000:]}")
    return {name: (int(passed), int(failed)) for name, passed, failed in found}


def main() -> int:
    if shutil.which("npx") is None:
        sys.stderr.write("The conformance tests need npx: install Node.js with npm.\n")
        return 2
    with tempfile.TemporaryDirectory() as folder:
        ingest([ROOT / "sample" / "s2ag", ROOT / "sample" / "arxiv"], Path(folder) / "library")
        with serving(Path(folder) / "library", SCHOLARBASE_SESSIONS="none") as (url, _):
            found = results(url)
    failures = 0
    sys.stdout.write("| scenario | result |\n|---|---|\n")
    for scenario, (passed, failed) in sorted(
        found.items(), key=lambda item: (reason(item[0]) or "", item[0])
    ):
        why = reason(scenario)
        result = (
            f"does not apply: {why}" if why else f"{passed} passed" + (f", {failed} FAILED" if failed else "")
        )
        failures += 0 if why else failed
        sys.stdout.write(f"| {scenario} | {result} |\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

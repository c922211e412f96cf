"""The OpenAPI document against the server, by schemathesis: positive, negative and stateful requests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from benchmarks.servers import ROOT, serving
from torture.libraries import environment, sample
from torture.rows import Row, Setting, say, shown
from torture.watch import watching

REQUESTS, IN_SLICE = 10_000, 50
MOST_SECONDS: Final = 1800
CONFIG: Final = """
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", "503", "504"]
"""
CHECKS: Final = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "unsupported_method",
    "allow_header_conformance",
)
"""Not ``positive_data_acceptance``: rules over several values, such as from <= to, have no form in JSON Schema."""


def run(setting: Setting) -> list[Row]:
    wanted = setting.count(REQUESTS, IN_SLICE)
    failures: list[str] = []
    sent, seed, rates = 0, 0, Rates()
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(sample(setting), workers=1, SCHOLARBASE_SESSIONS=folder) as server,
        watching(server) as watched,
    ):
        # The number of test cases follows from the document, so whole runs are repeated with other seeds.
        while sent < wanted:
            seed += 1
            report = _schemathesis(server.url, Path(folder), seed, setting.is_slice)
            sent += report["test_cases"]["generated"]
            rates.add(report["valid_rates"])
            for failure in report["failures"]:
                for operation in failure["operations"]:
                    text = f"{failure['title']} ({operation})"
                    if text not in failures:
                        failures.append(text)
            failures += [f"schemathesis: {error}" for error in report["errors"]]
            say(f"{sent:,} requests, {len(failures)} different failures")
        crashed = server.log().count("Traceback")
    faults = [text for text in failures if text.startswith("Server error")]
    violations = [text for text in failures if text not in faults]
    tested = f"schemathesis, {sent:,} requests: examples, coverage, fuzzing, stateful; positive and negative"
    faulty = shown(faults) or f"none; {crashed} tracebacks in the log"
    return [
        Row("contract", "No status 5xx but 503 and 504", tested, faulty, not faults and not crashed),
        Row(
            "contract",
            "No response violates the OpenAPI document",
            tested,
            shown(violations) or f"none; {rates}",
            not violations,
        ),
        Row(
            "contract",
            "Health within 1 s",
            "during these requests",
            watched.seen.health(),
            watched.seen.is_healthy(setting),
        ),
    ]


class Rates:
    """Counts of accepted and rejected requests: a run that is refused everything tests nothing."""

    def __init__(self) -> None:
        self.accepted = self.sent = 0

    def add(self, rates: dict[str, dict[str, dict[str, int]]]) -> None:
        for phases in rates.values():
            for counts in phases.values():
                self.accepted += counts["accepted"]
                self.sent += sum(counts.values())

    def __str__(self) -> str:
        return f"{self.accepted:,} of {self.sent:,} counted requests accepted"


def _schemathesis(url: str, folder: Path, seed: int, is_slice: bool) -> dict[str, Any]:
    config, report = folder / "schemathesis.toml", folder / "report.json"
    config.write_text(CONFIG)
    report.unlink(missing_ok=True)
    command = [
        sys.executable,
        "-m",
        "schemathesis.cli",
        "--config-file",
        str(config),
        "run",
        f"{url}/openapi.json",
    ]
    command += ["--max-examples", "1" if is_slice else "40", "--mode", "all", "--checks", ",".join(CHECKS)]
    command += ["--phases", "fuzzing,stateful" if is_slice else "examples,coverage,fuzzing,stateful"]
    command += ["--seed", str(seed), "--no-shrink", "--generation-database", "none", "--warnings", "off"]
    command += ["--continue-on-failure", "--request-timeout", "30", "--no-color"]
    command += ["--suppress-health-check", "all"]
    command += ["--report", "json", "--report-json-path", str(report)]
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment(SCHEMATHESIS_HOOKS="torture.schemas", PYTHONPATH=os.pathsep.join([str(ROOT)])),
        capture_output=True,
        text=True,
        timeout=MOST_SECONDS,
        check=False,
    )
    if not report.is_file():
        raise RuntimeError(
            f"schemathesis wrote no report (status {done.returncode}):\n{done.stdout}{done.stderr}"
        )
    found: dict[str, Any] = json.loads(report.read_bytes())
    return found

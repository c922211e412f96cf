"""Judges a library in a process of its own: a damaged library may end the process that reads it.

Each line of standard input is a JSON list of an action and a library; each line of standard output is what came out:

- ``verify``: ``ok``, or the name of the error and its message
- ``open``: a digest of the answers to fixed requests, or the name of the error and its message

    python -m torture.judge
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Final

import orjson

from benchmarks.servers import ROOT
from scholarbase.errors import ScholarBaseError
from scholarbase.search.library import Library
from scholarbase.search.verification import verify
from torture.libraries import environment

QUESTIONS: Final = (
    "How is two-dimensional QCD related to string theory?",
    "black hole entropy",
    "duality",
    "quantum groups and their representations",
    "renormalization",
)
SECONDS: Final = 60.0


class Judge:
    """The process, started again where it died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __call__(self, action: str, library: Path) -> str:
        """What came out; ``aborted`` and the reason where the process died or did not end."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "torture.judge"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                cwd=ROOT,
                env=environment(),
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        process = self._process
        killer = threading.Timer(SECONDS, process.kill)
        killer.start()
        try:
            self._process.stdin.write(json.dumps([action, str(library)]) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            is_late = not killer.is_alive()
            killer.cancel()
        if line:
            return line.strip()
        status = process.wait(SECONDS)
        self.close()
        return f"aborted: no end within {SECONDS:.0f} s" if is_late else f"aborted with status {status}"


def answers(library: Library) -> str:
    """A digest of the answers to fixed requests, which read every part of a library."""
    found: list[Any] = []
    for question in QUESTIONS:
        for options in (
            {"engine": "bm25"},
            {"engine": "fts5"},
            {"engine": "bm25", "category": ["hep-th"], "from_": "1990", "min_citations": 1},
            {"engine": "feedback"},
        ):
            found.append(library.search(question, limit=100, **options))
        found.append(library.match_title(question, min_score=0.2))
    seeds = [hit.paper.id for hit in found[0].results[:20]]
    found += [
        library.citations(seeds[0]),
        library.references(seeds[0]),
        library.expand(seeds, hops=2, limit=200),
    ]
    return hashlib.sha256(repr(found).encode()).hexdigest()


def _judge(action: str, library: str) -> str:
    try:
        if action == "verify":
            for _ in verify(library):
                pass
            return "ok"
        with Library.open(library) as opened:
            return answers(opened)
    except ScholarBaseError as error:
        return f"{type(error).__name__}: {error}"
    except BaseException as error:  # a panic of Qdrant Edge is not an Exception
        return f"untyped {type(error).__name__}: {error}"


def main() -> None:
    for line in sys.stdin:
        text = _judge(*orjson.loads(line))
        print(" ".join(text.split()), flush=True)


if __name__ == "__main__":
    main()

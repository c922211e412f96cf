"""Every command and Python example of the documentation runs, page by page, or is listed here with the reason why not.

``test_docs.py`` compares what is printed; here each block only has to succeed. The commands of a page run in order, in
one folder, with the libraries that the docs call my-library, papers and words.
"""

import os
import re
import shlex
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from scholarbase.search.library import Library
from tests.conftest import ROOT, run_cli, serving_in_thread
from tests.test_docs import PAGES, curl_requests, my_library, printed_commands

pytestmark = pytest.mark.whole

__all__ = ["my_library"]

CHECKOUT = "needs a checkout, a package registry or the tests themselves"
NETWORK = "needs an address on the network"
RELEASE = "needs files of a release, which the sample does not have"
MODEL = "needs a model that is not in the package"
FILES = "needs files of the reader"
PROGRAM = "runs a program that is not of this project"
MACHINE = "opens a port to other machines, or signals servers that are not of the test"
EXCERPT = "is of a script in examples/, which tests/examples runs against a scripted model"
CLIENT = "is run by tests/extensions/dialects/test_clients.py, in an environment of the client"
LONG = "takes minutes to hours; the part has tests of its own"

NOT_RUN: Final = (
    (r"(make|pip|ruff) ", CHECKOUT),
    (r"(claude|kaggle|docker|LIBRARY_DIR=\S+ docker) ", PROGRAM),
    (r"scholarbase proxy .* -- python ", PROGRAM),
    (r"export RETRIEVER", CLIENT),
    (r"(SCHOLARBASE_S2_API_KEY=KEY )?scholarbase download ", NETWORK),
    (r".*(https://host/|https://example\.org/|http://server:)", NETWORK),
    (r".*localhost:6333", "needs a Qdrant server"),
    (
        r"cluster\.md: ",
        "needs Qdrant, PostgreSQL, docker or Kubernetes; tests/extensions/cluster has the servers",
    ),
    (r"scholarbase ingest (s2ag|openalex|arxiv|scifact|snapshot/|papers\.csv|cited/|--documents)", RELEASE),
    (r"scholarbase (update|encode s2ag) ", RELEASE),
    (r"SCHOLARBASE_LIBRARY=s3://", NETWORK),
    (r"(scholarbase verify --library|ln -sfn .*) ?(libraries/)?2026-07-14|ln -sfn 2026-07-14", RELEASE),
    (r".*(--encoder (MODEL|sentence-transformers/\S+)|minilm|large-model|info my-encoder)", MODEL),
    (r"scholarbase encoder train ", LONG),
    (
        r"scholarbase ingest sample/s2ag sample/arxiv --library (my-library|papers|words --encoder none)$",
        "a fixture builds this library; tests/test_packaging.py runs the README's command",
    ),
    (
        r"(SCHOLARBASE_SQL=true )?scholarbase serve ",
        "is parsed by tests/test_docs.py; tests/test_packaging.py runs the README's command",
    ),
    (r"python examples/scripted_agent\.py", "tests/test_scripted_agent.py compares what it prints"),
    (r"scholarbase construct (pools|relations|answers questions\.jsonl) ", FILES),
    (r"cli\.md: scholarbase session replay", "needs the session that the page for agents records"),
    (r"scholarbase eval (qa|trajectory calls|import) ?", FILES),
    (r"scholarbase eval run (questions|pools|scifact) ?", FILES),
    (r"kill -HUP|SCHOLARBASE_RATE_LIMIT=600 .* --host 0\.0\.0\.0", MACHINE),
    (r"sqlite3 ", PROGRAM),
    (r"export OPENAI_API_KEY|uv run ", EXCERPT),
    (
        r"vf-(validate|eval) |openenv |server papers ",
        "needs verifiers or openenv in an environment of its own",
    ),
    (r"scholarbase session report langchain-", "needs the session of an agent with a model"),
    (r"scholarbase demo", "serves until Ctrl-C; tests/test_demo.py runs it"),
)
"""The start of commands that do not run here, or of a page and its command, as regular expressions, and why."""

PYTHON_NOT_RUN: Final = (
    (
        "documents.md",
        "library.text(",
        "needs full texts, which the sample does not have; tests/search has them",
    ),
    ("extending.md", "class Example(Extension)", "is of examples/extension, which test_door.py installs"),
    ("encoders.md", 'serve_encoder("BAAI/bge-m3"', MODEL),
    ("reranking.md", "/models/ms-marco", MODEL),
    ("llm.md", "http://localhost:8080", "needs a server of a language model"),
    ("examples.md", "tool_runner(", EXCERPT),
    ("examples.md", "MultiServerMCPClient(", EXCERPT),
    ("examples.md", "MCPServerStreamableHttp(", EXCERPT),
    ("examples.md", "MCPToolset(", EXCERPT),
    ("examples.md", "self.inputs = ", EXCERPT),
    ("dialects.md", "from knowledge_storm.", CLIENT),
    ("dialects.md", "from langchain_community.", CLIENT),
    ("dialects.md", "from agno.", CLIENT),
    ("dialects.md", "from camel.", CLIENT),
)
"""Pages and texts of Python blocks that do not run here, and why."""

COMPARED: Final = {page.values[0] for page in printed_commands()}
REQUESTS: Final = {page.values[1].strip() for page in curl_requests()}
"""What test_docs.py runs, and compares with what is shown."""


FAILING_CURL: Final = 'curl() { command curl --fail-with-body "$@"; }\n'
"""In the shell, an error of the server fails the command."""


class Block(NamedTuple):
    page: str
    language: str
    text: str


def console_commands(block: str) -> list[str]:
    """The commands of a console block: lines after ``$``, with the lines that continue them or a quoted text."""
    found: list[str] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append(line[2:])
        elif found and (found[-1].endswith("\\") or found[-1].count("'") % 2):
            found[-1] += f"\n{line}"
    return found


def name_of(path: Path) -> str:
    """The path of a page in docs/, or in the repository."""
    return path.relative_to(ROOT).as_posix().removeprefix("docs/")


def page_blocks(path: Path) -> list[Block]:
    matches = re.finditer(r"^```(console|python)\n(.*?)^```$", path.read_text("utf-8"), re.S | re.M)
    return [Block(name_of(path), match[1], match[2]) for match in matches]


BLOCKS: Final = [block for path in PAGES for block in page_blocks(path)]


def listed(pattern: str, page: str, command: str) -> bool:
    return any(re.match(pattern, text, re.S) for text in (command, f"{page}: {command}"))


def reason(page: str, command: str) -> str | None:
    """Why a command does not run here, None if it does."""
    return next((why for pattern, why in NOT_RUN if listed(pattern, page, command)), None)


def python_reason(block: Block) -> str | None:
    return next(
        (why for page, part, why in PYTHON_NOT_RUN if page == block.page and part in block.text), None
    )


def compared(command: str) -> bool:
    return command.removeprefix("scholarbase ") in COMPARED or command in REQUESTS


def todo(path: Path) -> list[Block]:
    """What is left to run of a page: Python blocks, and console blocks with the commands that run here."""
    found = []
    for block in page_blocks(path):
        if block.language == "python":
            if python_reason(block) is None:
                found.append(block)
            continue
        commands = [
            one
            for one in console_commands(block.text)
            if reason(name_of(path), one) is None and not compared(one)
        ]
        found += [block._replace(text=one) for one in joined(commands)]
    return found


def single(text: str) -> bool:
    """Whether a text is one command of ScholarBase that needs no shell."""
    return re.fullmatch(r"scholarbase (?:\\\n|[^\n|&$<>])+", text) is not None


def joined(commands: list[str]) -> Iterator[str]:
    """Commands belong together where one sets a variable of the shell for those that follow."""
    if any(re.match(r"export |\w+='", command) for command in commands):
        yield "\n".join(commands)
    else:
        yield from commands


RUN_PAGES: Final = [path for path in PAGES if path.name != "README.md" and todo(path)]
"""tests/test_packaging.py runs the README with the wheel."""


def test_each_reason_is_that_of_a_block() -> None:
    commands = [
        (block.page, one)
        for block in BLOCKS
        if block.language == "console"
        for one in console_commands(block.text)
    ]
    for pattern, _ in NOT_RUN:
        assert any(listed(pattern, *one) for one in commands), f"no command of the docs matches {pattern}"
    for page, part, _ in PYTHON_NOT_RUN:
        assert any(block.page == page and part in block.text for block in BLOCKS), f"{page} has no {part}"
    assert len(RUN_PAGES) > 15


@pytest.mark.parametrize("page", sorted({page for page, _, why in PYTHON_NOT_RUN if why == EXCERPT}))
def test_excerpts_are_in_the_script_of_their_page(page: str) -> None:
    text = (ROOT / "docs" / page).read_text("utf-8")
    scripts = set(re.findall(r"\]\(\.\./(examples/\w+\.py)\)", text))
    lines = {line.strip() for script in scripts for line in (ROOT / script).read_text("utf-8").splitlines()}
    for block in BLOCKS:
        if block.page == page and block.language == "python":
            assert {line.strip() for line in block.text.splitlines()} <= lines


def built(blocks: list[Block]) -> set[str]:
    """The libraries that the commands of a page write."""
    text = "\n".join(block.text for block in blocks if block.language == "console")
    return set(re.findall(r"scholarbase ingest .*--library (\S+)", text))


@pytest.mark.slow
@pytest.mark.parametrize("path", RUN_PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_blocks_of_a_page_run(
    path: Path, sample_library: Path, my_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = todo(path)
    links = {
        "my-library": my_library,
        "papers": sample_library,
        "words": sample_library,
        "library": my_library,
    }
    for name in links.keys() - built(blocks):
        (tmp_path / name).symlink_to(links[name])
    for name in ("sample", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCHOLARBASE_SESSIONS", str(tmp_path / "sessions"))
    monkeypatch.setenv("SCHOLARBASE_SQL", "true")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    with ExitStack() as stack:
        address = "http://127.0.0.1:8000"
        if re.search(r"(localhost|127\.0\.0\.1):8000", "".join(block.text for block in blocks)):
            folder = sample_library if path.name == "agents.md" else my_library
            library = stack.enter_context(Library.open(folder))
            address = stack.enter_context(serving_in_thread(library))
            monkeypatch.setenv("SCHOLARBASE_URL", address)
        names: dict[str, Any] = {"__name__": "documentation"}
        for block in blocks:
            text = re.sub(r"http://(localhost|127\.0\.0\.1):8000", address, block.text)
            text = re.sub(r"(localhost|127\.0\.0\.1):8000", address.removeprefix("http://"), text)
            if block.language == "python":
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ResourceWarning)
                    exec(compile(text, path.name, "exec"), names)
            elif single(text):
                done = run_cli(*shlex.split(text.replace("\\\n", " "), comments=True)[1:])
                assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
            else:
                shell = subprocess.run(
                    ["bash", "-e", "-o", "pipefail", "-c", FAILING_CURL + text],
                    capture_output=True,
                    text=True,
                    check=False,
                )
                assert shell.returncode == 0, f"{text}\n{shell.stdout}{shell.stderr}"

"""Every command that takes a path, with paths that it cannot use: an exit status and a sentence, and no traceback."""

import os
import re
import shutil
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from scholarbase.models.limits import MAX_REFERENCE_BYTES
from tests.conftest import run_cli

pytestmark = pytest.mark.slow

WRONG: Final = (
    *(
        "file",
        "file/in",
        "empty",
        "huge",
        "folder",
        "folder/gone",
        "gone",
        "gone/gone",
        "broken",
        "loop",
        "loop/in",
    ),
    *("bytes", "socket", "fifo/in", "folder/", "unreadable", "unreadable/in", "read-only/in"),
    *("/proc/x", "/proc/self/mem", "/proc/self/fd/99", "/dev/null", "/dev/null/in"),
    *(
        " ",
        "x" * 300,
        "x/" * 3000,
        "folder/" + "x" * 255,
        "new\nline",
        "\udcff",
        "\udcff/in",
        "é",
        "*",
        "~nobody/in",
    ),
    *("http://[", "http://h:port/x", "file://[", "file:///nowhere", "ftp://h/x", "s3:", "http:", "://"),
)
EVERY: Final = 5
"""Each command has every fifth of these paths, of which the next command has the next ones."""
NEW: Final = "{new}"
"""A folder or file that a command would write."""
COMMANDS: Final = (
    *(
        f"{command} --library {{}}"
        for command in ("info", "verify", "doctor", "search x", "paper x", "check file")
    ),
    "ingest {sample} --encoder none --library {}",
    f"ingest {{}} --encoder none --library {NEW}",
    f"ingest --documents {{}} --encoder none --library {NEW}",
    f"ingest {{sample}} --vectors {{}} --library {NEW}",
    f"ingest {{sample}} --encoder none --set mine={{}} --library {NEW}",
    f"ingest {{sample}} --encoder {{}} --library {NEW}",
    "search x --library {library} --encoder {}",
    f"update {{}} folder --library {NEW}",
    f"update {{library}} {{}} --library {NEW}",
    "snapshots {}",
    "check {} --library {library}",
    "session list --sessions {}",
    "session show x --sessions {}",
    "key list --keys {}",
    "key create ana --keys {}",
    "eval run {} --library {library}",
    "eval run file --library {}",
    "eval show {}",
    "mcp --library {}",
    "mcp --url {}",
    "serve --library {} --port 0",
    "serve --library {library} --port 0 --dialect {}",
    "similar x --library {}",
    "title x --url {}",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wrong")
    (folder / "file").write_text("neither a library nor a query\n")
    (folder / "sample.bib").write_text("@misc{one, title = {A title}}\n")
    (folder / "empty").touch()
    with (folder / "huge").open("wb") as file:
        file.truncate(2 * MAX_REFERENCE_BYTES)
    (folder / "bytes").write_bytes(bytes(range(256)) * 20)
    (folder / "folder").mkdir()
    (folder / "broken").symlink_to("nowhere")
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "fifo")
    for name, mode in (("unreadable", 0o000), ("read-only", 0o500)):
        (folder / name).mkdir(mode=mode)
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_a_path_that_cannot_be_used_is_a_sentence(
    command: str, folder: Path, sample_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(command, COMMANDS, folder, sample_library, tmp_path, monkeypatch)


def check(
    command: str,
    commands: Sequence[str],
    folder: Path,
    sample_library: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with socket.socket(socket.AF_UNIX) as listener:
        (folder / "socket").unlink(missing_ok=True)
        listener.bind("socket")
        for number, path in enumerate(WRONG[commands.index(command) % EVERY :: EVERY]):
            builds = "{sample}" in command and command.endswith("{}")
            if builds and path in ("folder", "folder/", "gone"):
                continue  # these can become libraries
            names = {
                "sample": str(folder / "sample.bib"),
                "library": str(sample_library),
                "new": str(tmp_path / f"new-{number}"),
            }
            arguments = [word.format(path, **names) for word in command.split()]
            done = run_cli(*arguments)
            if builds and done.returncode == 0:
                shutil.rmtree(path)  # or "serve" would serve it
            output = done.stdout + done.stderr
            assert "Traceback" not in output, (arguments, output)
            if done.returncode not in (0, 1):
                assert re.search(r"^(scholarbase: .|Error: )(.|\n)*\S\n$", done.stderr, re.M), (
                    arguments,
                    output,
                )

"""The commands of extensions with paths that they cannot use: an exit status and a sentence, and no traceback."""

from pathlib import Path
from typing import Final

import pytest

from tests.test_wrong_paths import check, folder

__all__ = ["folder"]

pytestmark = pytest.mark.slow

NOWHERE: Final = "http://127.0.0.1:1"
COMMANDS: Final = (
    "diff {library} {}",
    "diff {} {library}",
    "encode {} --out {new}",
    "encoder store {} --encoder none --out {new}",
    "encoder train {} --out {new}",
    "eval qa {} file",
    "eval qa file {}",
    "eval report {}",
    "export {} --library {library}",
    f"load --library {{}} --qdrant-url {NOWHERE}",
    "pack {} {new}",
    "pack {library} {}",
    "session export x --sessions {} --library {library}",
    "session export x --library {library} -o {}",
    "sql SELECT --library {}",
    "sql SELECT --url {}",
    "unpack {} --library {new}",
    "unpack file --library {}",
    "unload --snapshot 1 --qdrant-url {}",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_path_that_cannot_be_used_is_a_sentence(
    command: str, folder: Path, sample_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(command, COMMANDS, folder, sample_library, tmp_path, monkeypatch)

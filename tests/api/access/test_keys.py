"""The key file: its contents, concurrent changes, and invalid files."""

import base64
import hashlib
import json
import os
import re
import stat
import threading
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from scholarbase.api.access import keys
from scholarbase.api.access.keys import Keys, create_key, read_keys, revoke_key
from scholarbase.errors import InvalidRequest, ScholarBaseError, StorageError
from tests.conftest import run_cli


def test_a_key_is_32_random_bytes_and_only_its_hash_is_stored(tmp_path: Path) -> None:
    path = tmp_path / "below" / "keys.json"
    text, key = create_key(path, "ana@lab", role="admin", rate=30)
    assert re.fullmatch(r"sb_[A-Za-z0-9_-]{43}", text)
    assert len(base64.urlsafe_b64decode(text.removeprefix("sb_") + "=")) == 32
    (row,) = json.loads(path.read_text())
    assert list(row) == ["id", "name", "role", "hash", "created", "rate"]
    assert row["hash"] == hashlib.sha256(text.encode()).hexdigest()
    assert (row["name"], row["role"], row["rate"]) == ("ana@lab", "admin", 30)
    assert datetime.fromisoformat(row["created"]).tzinfo is not None
    assert text.removeprefix("sb_") not in path.read_text()
    assert (key.id, key.name, key.role, key.rate) == (row["id"], "ana@lab", "admin", 30)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [p.name for p in path.parent.iterdir()] == ["keys.json"]
    assert create_key(path, "another")[0] != text


def test_names_and_ids_are_unique(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    _, ana = create_key(path, "ana")
    _, bo = create_key(path, "bo")
    for taken in ("ana", ana.id):
        with pytest.raises(InvalidRequest, match="There is already a key"):
            create_key(path, taken)
    assert revoke_key(path, ana.id) == ana
    assert revoke_key(path, "bo") == bo
    assert read_keys(path) == []
    with pytest.raises(InvalidRequest, match="no key 'bo'"):
        revoke_key(path, "bo")


@pytest.mark.parametrize("name", ["", "two words", "a\nb", "a/b", "x" * 65])
def test_an_invalid_name_is_rejected(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidRequest, match="not a valid key name"):
        create_key(tmp_path / "keys.json", name)
    assert not list(tmp_path.iterdir())


def test_a_secret_passed_as_a_name_is_not_quoted(tmp_path: Path) -> None:
    text, _ = create_key(tmp_path / "keys.json", "ana")
    with pytest.raises(InvalidRequest) as error:
        revoke_key(tmp_path / "keys.json", text)
    assert text not in str(error.value)


def test_concurrent_changes_lose_no_key_and_keep_none(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    for n in range(20):
        create_key(path, f"old{n}")
    changes = [change for n in range(20) for change in ((create_key, f"k{n}"), (revoke_key, f"old{n}"))]
    threads = [threading.Thread(target=change, args=(path, name)) for change, name in changes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {entry.name for entry in read_keys(path)} == {f"k{n}" for n in range(20)}


GOOD: dict[str, Any] = {
    "id": "0123abcd",
    "name": "ana",
    "role": "read",
    "hash": "0" * 64,
    "created": "2026-11-21T09:00:00Z",
    "rate": None,
}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "not a valid key file"),
        (b"[{]", "not a valid key file"),
        (b'{"keys": []}', "Expected `array`, got `object`"),
        (b"[1]", "Expected `object`, got `int`"),
        ([GOOD | {"secret": 1}], "unknown field `secret`"),
        ([{"id": "0123abcd"}], "missing required field `name`"),
        ([GOOD | {"id": "sb_x"}], "`$[0].id`"),
        ([GOOD | {"hash": "sb_this-is-a-key"}], "`$[0].hash`"),
        ([GOOD | {"role": "root"}], "`$[0].role`"),
        ([GOOD | {"rate": 0}], "`$[0].rate`"),
        ([GOOD | {"rate": True}], "`$[0].rate`"),
        ([GOOD | {"created": 5}], "`$[0].created`"),
        ([GOOD, GOOD | {"id": "0123abce", "hash": "1" * 64}], "two keys have the same name"),
    ],
)
def test_an_invalid_file_is_named(tmp_path: Path, content: Any, expected: str) -> None:
    path = tmp_path / "keys.json"
    before = content if isinstance(content, bytes) else json.dumps(content).encode()
    path.write_bytes(before)
    for broken in (lambda: read_keys(path), lambda: create_key(path, "bo"), lambda: revoke_key(path, "ana")):
        with pytest.raises(InvalidRequest) as error:
            broken()
        assert expected in str(error.value)
        assert str(path) in str(error.value)
        assert "sb_this" not in str(error.value)
    assert path.read_bytes() == before


def test_an_unwritable_file_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be written"):
        create_key(tmp_path / "file" / "keys.json", "ana")


def test_a_symbolic_link_to_the_file_is_kept(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "keys.json"
    link.symlink_to(tmp_path / "real" / "keys.json")
    create_key(link, "ana")
    assert link.is_symlink()
    assert [entry.name for entry in read_keys(tmp_path / "real" / "keys.json")] == ["ana"]


@pytest.mark.parametrize("change", ["removed", "emptied", "broken"])
def test_without_a_valid_file_all_keys_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Until the file is valid again."""
    now = 100.0
    monkeypatch.setattr(keys.time, "monotonic", lambda: now)
    path = tmp_path / "keys.json"
    text, ana = create_key(path, "ana")
    good = path.read_bytes()
    known = Keys(path)
    assert known.find(text) == ana
    if change == "removed":
        path.unlink()
    else:
        path.write_bytes(b"[]" if change == "emptied" else good[:-5])
    for _ in range(3):
        now += 1
        if change == "broken":  # which was answered as if the key had been revoked
            with pytest.raises(ScholarBaseError, match="cannot read its keys"):
                known.find(text)
        else:
            assert known.find(text) is None
    assert [record.message.startswith("All requests are rejected") for record in caplog.records] == [True]
    path.write_bytes(good)
    now += 1
    assert known.find(text) == ana


# -- the command line -----------------------------------------------------------------------------------


def test_the_commands_create_list_and_revoke(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    made = run_cli("key", "create", "ana", "--admin", "--rate", "30", "--keys", path)
    assert made.returncode == 0, made.stderr
    assert re.fullmatch(r"sb_[\w-]{43}\n", made.stdout)
    assert "cannot be shown again" in made.stderr
    assert made.stdout.strip() not in made.stderr
    assert run_cli("key", "create", "bo", SCHOLARBASE_KEYS=str(path)).returncode == 0
    again = run_cli("key", "create", "ana", SCHOLARBASE_KEYS=str(path))
    assert (again.returncode, again.stdout) == (2, "")
    assert "There is already a key 'ana'" in again.stderr
    listed = run_cli("key", "list", "--keys", path).stdout.splitlines()
    assert [line.split()[1:3] + line.split()[-1:] for line in listed] == [
        ["admin", "30", "ana"],
        ["read", "-", "bo"],
    ]
    assert run_cli("key", "revoke", "ana", "--keys", path).returncode == 0
    last = run_cli("key", "revoke", listed[1].split()[0], "--keys", path)
    assert last.returncode == 0
    assert "rejects all requests" in last.stderr
    assert run_cli("key", "revoke", "ana", "--keys", path).returncode == 2


def test_a_command_without_a_key_file_names_the_option() -> None:
    done = run_cli("key", "list")
    assert done.returncode == 2
    assert "--keys" in done.stderr
    assert "SCHOLARBASE_KEYS" in done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root can read everything")
def test_an_unreadable_file_is_an_invalid_request(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    create_key(path, "ana")
    path.chmod(0)
    with pytest.raises(InvalidRequest, match="cannot be read"):
        read_keys(path)


def test_a_pipe_is_not_read_as_keys(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "keys.json")
    with pytest.raises(InvalidRequest, match="is not a plain file"):
        read_keys(tmp_path / "keys.json")

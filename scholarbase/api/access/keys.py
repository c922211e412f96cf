"""API keys: who may ask a shared server, and how often.

A key is ``sb_`` and 43 characters, the base64url form of 32 random bytes. The file of keys holds no key, only
SHA-256 of each: a password, which may be guessed, needs a hash that is slow and salted, but nobody tries 2**256 keys,
however fast the hash (NIST SP 800-63B, section 5.1.2.2, asks for salt and stretching below 112 random bits alone). And
keys that are found by their hash need no comparison whose time would tell how near a guess was.

The file is a JSON list of ``{"id", "name", "role", "hash", "created", "rate"}``. It is written whole and renamed, so
that whoever reads it finds all of the old one or all of the new one.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

import orjson

from scholarbase.errors import InvalidRequest, StorageError
from scholarbase.files import atomic_write

log = logging.getLogger("scholarbase.keys")

Role = Literal["read", "admin"]

PREFIX: Final = "sb_"
"""What a key begins with, so that a search for lost keys finds those of ScholarBase."""
ID_LENGTH: Final = 8
MAX_RATE: Final = 1_000_000
LOOK_SECONDS: Final = 0.5
"""How long a serving process goes by what it has read before it looks whether the file has changed."""
_NAME: Final = re.compile(r"[\w.@+-]{1,64}")
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_ID: Final = re.compile(rf"[0-9a-f]{{{ID_LENGTH}}}")


@dataclass(frozen=True, slots=True)
class Key:
    """A key as a server knows it. ``rate`` is its own limit of requests a minute, None for the server's."""

    id: str
    name: str
    role: Role
    rate: int | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """A key as it stands in the file: ``hash`` is SHA-256 in hexadecimal, ``created`` a time of RFC 3339."""

    id: str
    name: str
    role: Role
    hash: str
    created: str
    rate: int | None = None

    @property
    def key(self) -> Key:
        return Key(self.id, self.name, self.role, self.rate)


def hashed(text: str) -> str:
    """What stands in the file for a key."""
    return hashlib.sha256(text.encode()).hexdigest()


# -- the file -------------------------------------------------------------------------------------------


def read_keys(path: Path) -> list[Entry]:
    """The keys of a file, in the order in which they were made; none where there is no file.

    Raises:
        InvalidRequest: the file cannot be read, or is no file of keys.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InvalidRequest(
            f"The file of keys {path} cannot be read ({error.strerror}): check who may read it."
        ) from error
    try:
        entries = [_entry(row) for row in _rows(orjson.loads(content))]
    except (orjson.JSONDecodeError, TypeError, ValueError) as error:
        raise InvalidRequest(
            f"{path} is no file of keys ({error}): take back its last good copy, or remove it and make new "
            'keys with "scholarbase key create".'
        ) from error
    for what in ("id", "name", "hash"):
        seen = {getattr(entry, what) for entry in entries}
        if len(seen) < len(entries):
            raise InvalidRequest(f"{path} is no file of keys (two keys have one {what}): remove one of them.")
    return entries


def _rows(content: Any) -> list[Any]:
    if not isinstance(content, list):
        raise ValueError("it is not a JSON list")
    return content


def _entry(row: Any) -> Entry:
    """An entry, checked; no message quotes a value, since what stands in a wrong place may be a key."""
    if not isinstance(row, dict):
        raise ValueError("an entry is not a JSON object")
    try:
        entry = Entry(**row)
    except TypeError:
        raise ValueError("an entry has not the keys id, name, role, hash, created and rate") from None
    for what, form in (("id", _ID), ("name", _NAME), ("hash", _HASH)):
        value = getattr(entry, what)
        if not isinstance(value, str) or not form.fullmatch(value):
            raise ValueError(f"an entry's {what} is not of its form")
    if entry.role not in ("read", "admin"):
        raise ValueError(f"the role of {entry.name} is neither read nor admin")
    if not isinstance(entry.created, str):
        raise ValueError(f"the time of {entry.name} is no text")
    if entry.rate is not None and (type(entry.rate) is not int or not 1 <= entry.rate <= MAX_RATE):
        raise ValueError(f"the rate of {entry.name} is not 1 to {MAX_RATE:,}")
    return entry


def create_key(path: Path, name: str, *, role: Role = "read", rate: int | None = None) -> tuple[str, Key]:
    """Make a key and add it to the file: the key's text, which is kept nowhere, and what a server knows of it.

    Raises:
        InvalidRequest: the name is no name or is taken, or the file is no file of keys.
        StorageError: the file cannot be written.
    """
    if not _NAME.fullmatch(name):
        raise InvalidRequest(
            f"{name!r} is no name for a key: give 1 to 64 letters, digits and any of . _ - + @, such as ana@lab."
        )
    if rate is not None and not 1 <= rate <= MAX_RATE:
        raise InvalidRequest(f"The rate {rate!r} is no limit: give 1 to {MAX_RATE:,} requests a minute.")
    text = PREFIX + secrets.token_urlsafe(32)
    with _locked(path):
        entries = read_keys(path)
        taken = {entry.name for entry in entries} | {entry.id for entry in entries}
        if name in taken:
            raise InvalidRequest(
                f"There is a key {name!r} in {path}: take another name, or revoke that one first."
            )
        while (new_id := secrets.token_hex(ID_LENGTH // 2)) in taken:
            pass
        now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        entry = Entry(new_id, name, role, hashed(text), now, rate)
        _write(path, [*entries, entry])
    return text, entry.key


def revoke_key(path: Path, id_or_name: str) -> Key:
    """Take a key out of the file.

    Raises:
        InvalidRequest: there is no such key, or the file is no file of keys.
        StorageError: the file cannot be written.
    """
    with _locked(path):
        entries = read_keys(path)
        found = [entry for entry in entries if id_or_name in (entry.id, entry.name)]
        if not found:
            # Who gives the key itself instead of its name has it in no message.
            shown = "of this text" if id_or_name.startswith(PREFIX) else repr(id_or_name)
            raise InvalidRequest(f'There is no key {shown} in {path}: "scholarbase key list" shows them.')
        _write(path, [entry for entry in entries if entry not in found])
    return found[0].key


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One at a time: of two that each read the file, add a key and write, the later would lose the earlier's."""
    try:
        folder = path.resolve().parent
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder, os.O_RDONLY)  # the folder itself: the file is another one after each change
    except OSError as error:
        raise _unwritable(path, error) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _write(path: Path, entries: list[Entry]) -> None:
    content = orjson.dumps(
        [asdict(entry) for entry in entries], option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    )
    try:
        with atomic_write(path.resolve(), 0o600) as file:  # a link stays one
            file.write(content)
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> StorageError:
    return StorageError(
        f"The file of keys {path} cannot be written ({error.strerror}): give another with --keys or SCHOLARBASE_KEYS."
    )


# -- while serving --------------------------------------------------------------------------------------


class Keys:
    """The keys of a file as it is now: a change counts within a second. Without the file, or where it is broken,
    no key is known, so that nobody comes in by removing it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._by_hash: dict[str, Key] = {}
        self._state: tuple[int, ...] | None = None
        self._looked = -LOOK_SECONDS

    def find(self, text: str) -> Key | None:
        """The key with this text."""
        now = time.monotonic()
        if now - self._looked >= LOOK_SECONDS:
            self._looked = now
            self._look()
        return self._by_hash.get(hashed(text))

    def _look(self) -> None:
        try:
            found = self._path.stat()
            state: tuple[int, ...] = found.st_mtime_ns, found.st_ino, found.st_size
        except OSError:
            state = ()
        if state == self._state:
            return
        try:
            entries = read_keys(self._path)
        except InvalidRequest as error:
            log.error("No request is let in: %s", error)
            entries = []
        else:
            if not entries:
                log.error("No request is let in: there are no keys in %s.", self._path)
            elif self._state is not None:
                log.info("There are %d keys now.", len(entries))
        self._by_hash = {entry.hash: entry.key for entry in entries}
        self._state = state

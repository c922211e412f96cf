"""API keys of a shared server, and the file that holds them.

A key is ``sb_`` and 43 characters, the base64url form of 32 random bytes. The file has only the SHA-256 of each key.
Random keys of 256 bits cannot be guessed, so they need neither salt nor a slow hash (NIST SP 800-63B, section 5.1.2.2,
requires these below 112 bits). Looking keys up by hash also avoids comparisons whose time depends on the key.

The file is a JSON list of ``{"id", "name", "role", "hash", "created", "rate"}``, replaced atomically.
"""

from __future__ import annotations

import hashlib
import logging
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from scholarbase.errors import InvalidRequest, ScholarBaseError, StorageError
from scholarbase.files import atomic_write, locked

log = logging.getLogger("scholarbase.keys")

Role = Literal["read", "admin"]

PREFIX: Final = "sb_"
"""The start of every key, so that scanners for leaked secrets can find them."""
ID_LENGTH: Final = 8
MAX_RATE: Final = 1_000_000
CHECK_SECONDS: Final = 0.5
"""The interval at which a server checks the file for changes."""
_NAME: Final = r"[\w.@+-]{1,64}"


class Key(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A key without its secret: ``hash`` is the SHA-256 of that in hexadecimal, ``created`` an RFC 3339 time, ``rate``
    the limit of requests per minute, None for the server's limit."""

    id: Annotated[str, Meta(pattern=rf"\A[0-9a-f]{{{ID_LENGTH}}}\Z")]
    name: Annotated[str, Meta(pattern=rf"\A{_NAME}\Z")]
    role: Annotated[str, Meta(pattern=r"\A(read|admin)\Z")]
    hash: Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
    created: str
    rate: Annotated[int, Meta(ge=1, le=MAX_RATE)] | None = None


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# -- the file -------------------------------------------------------------------------------------------


def read_keys(path: Path) -> list[Key]:
    """The keys of a file, oldest first; empty if the file does not exist.

    Raises:
        InvalidRequest: the file cannot be read, or is not a key file.
    """
    try:
        if path.exists() and not path.is_file():  # a pipe would be waited for, a device may have no end
            raise InvalidRequest(f"{path} is not a plain file, so it cannot be the key file: name another.")
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InvalidRequest(
            f"The key file {path} cannot be read ({error.strerror}): check its permissions."
        ) from error
    try:
        keys = msgspec.json.decode(content, type=list[Key])  # whose errors quote no values, which may be keys
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(
            f"{path} is not a valid key file ({error}): restore a backup, or remove it and create new keys with "
            '"scholarbase key create".'
        ) from error
    for name in ("id", "name", "hash"):
        values = {getattr(key, name) for key in keys}
        if len(values) < len(keys):
            raise InvalidRequest(
                f"{path} is not a valid key file (two keys have the same {name}): remove one of them."
            )
    return keys


def create_key(path: Path, name: str, *, role: Role = "read", rate: int | None = None) -> tuple[str, Key]:
    """Create a key and add it to the file. Returns the secret, which is not stored, and the key.

    Raises:
        InvalidRequest: the name is invalid or in use, or the file is not a key file.
        StorageError: the file cannot be written.
    """
    if not re.fullmatch(_NAME, name):
        raise InvalidRequest(
            f"{name!r} is not a valid key name: use 1 to 64 letters, digits and any of . _ - + @, such as ana@lab."
        )
    if rate is not None and not 1 <= rate <= MAX_RATE:
        raise InvalidRequest(f"The rate is {rate!r}: it must be from 1 to {MAX_RATE:,} requests per minute.")
    text = PREFIX + secrets.token_urlsafe(32)
    with _locked(path):
        keys = read_keys(path)
        taken = {key.name for key in keys} | {key.id for key in keys}
        if name in taken:
            raise InvalidRequest(
                f"There is already a key {name!r} in {path}: use another name, or revoke that key first."
            )
        while (new_id := secrets.token_hex(ID_LENGTH // 2)) in taken:
            pass
        now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        key = Key(new_id, name, role, _hash(text), now, rate)
        _write(path, [*keys, key])
    return text, key


def revoke_key(path: Path, id_or_name: str) -> Key:
    """Remove a key from the file.

    Raises:
        InvalidRequest: the key does not exist, or the file is not a key file.
        StorageError: the file cannot be written.
    """
    with _locked(path):
        keys = read_keys(path)
        revoked = next((key for key in keys if id_or_name in (key.id, key.name)), None)
        if revoked is None:
            # Do not quote a secret passed instead of a name.
            shown = "with this secret" if id_or_name.startswith(PREFIX) else repr(id_or_name)
            raise InvalidRequest(f'There is no key {shown} in {path}: "scholarbase key list" lists the keys.')
        _write(path, [key for key in keys if key != revoked])
    return revoked


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Lock the file against concurrent changes, which would lose keys."""
    folder = path.resolve().parent
    with ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(folder))  # the folder, because each change replaces the file
        except OSError as error:
            raise _unwritable(path, error) from error
        yield


def _write(path: Path, keys: list[Key]) -> None:
    content = msgspec.json.format(msgspec.json.encode(keys), indent=2) + b"\n"
    try:
        with atomic_write(path.resolve(), 0o600) as file:  # keep a symbolic link
            file.write(content)
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> StorageError:
    return StorageError(
        f"The key file {path} cannot be written ({error.strerror}): set another with --keys or SCHOLARBASE_KEYS."
    )


# -- while serving --------------------------------------------------------------------------------------


def state_of_keys(path: Path) -> str:
    """``ok``, or what callers may know of an invalid key file: the log has its path."""
    try:
        read_keys(path)
    except InvalidRequest:
        return "the key file cannot be read, or is invalid: see the log"
    return "ok"


class Keys:
    """The keys of a file. Changes take effect within a second. If the file is missing, all keys are rejected."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._by_hash: dict[str, Key] = {}
        self._is_valid = True
        self._state: tuple[int, ...] | None = None
        self._checked = -CHECK_SECONDS

    def find(self, text: str) -> Key | None:
        """The key with this secret.

        Raises:
            ScholarBaseError: the file cannot be read, or is invalid.
        """
        now = time.monotonic()
        if now - self._checked >= CHECK_SECONDS:
            self._checked = now
            self._reload()
        if not self._is_valid:
            raise ScholarBaseError(
                "This server cannot read its keys, so it rejects all requests: its operator must restore the key file."
            )
        return self._by_hash.get(_hash(text))

    def _reload(self) -> None:
        try:
            status = self._path.stat()
            state: tuple[int, ...] = status.st_mtime_ns, status.st_ino, status.st_size
        except OSError:
            state = ()
        if state == self._state:
            return
        self._is_valid = True
        try:
            keys = read_keys(self._path)
        except InvalidRequest as error:
            log.error("All requests are rejected: %s", error)
            keys, self._is_valid = [], False
        else:
            if not keys:
                log.error("All requests are rejected: there are no keys in %s.", self._path)
            elif self._state is not None:
                log.info("Reloaded %d keys.", len(keys))
        self._by_hash = {key.hash: key for key in keys}
        self._state = state

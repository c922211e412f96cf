"""Stores of sessions that extensions add."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scholarbase.errors import InvalidRequest
from scholarbase.extensions import Extension
from scholarbase.sessions.session import Session
from scholarbase.sessions.sqlite import SqliteStorage
from scholarbase.sessions.store import SessionStore
from scholarbase.sessions.writer import wait_for
from scholarbase.settings import load_settings


class Files(Extension):
    """Keeps sessions in the folder of a URL."""

    def session_stores(self) -> dict[str, Callable[[str], Any]]:
        return {"files": lambda url: SqliteStorage(Path(url.removeprefix("files://")))}


def test_an_extension_keeps_sessions_at_the_urls_of_its_scheme(
    extension: Callable[..., None], tmp_path: Path
) -> None:
    extension(Files)
    location = load_settings(sessions=f"files://{tmp_path}").sessions_location
    assert location is not None
    with SessionStore(location) as store:
        wait_for(store.open(Session("one")), 60)
    with SessionStore(tmp_path) as store:
        assert store.session("one").session.id == "one"


@pytest.mark.parametrize(("kinds", "schemes"), [((), "none"), ((Files,), "files")])
def test_another_scheme_is_an_error_that_lists_those_of_extensions(
    extension: Callable[..., None], kinds: tuple[type[Extension], ...], schemes: str
) -> None:
    extension(*kinds)
    sentence = (
        rf"scheme 'mysql': give a folder, or a URL of an installed extension \(its schemes: {schemes}\)\."
    )
    with pytest.raises(InvalidRequest, match=sentence):
        SessionStore("mysql://host/db")

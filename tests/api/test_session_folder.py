"""Two servers of one user: where they record sessions."""

from pathlib import Path

import pytest

from scholarbase.api.server import session_folder
from scholarbase.settings import load_settings


def test_servers_of_two_libraries_do_not_write_into_one_trajectory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    default, settings = tmp_path / "scholarbase", load_settings()
    with session_folder(settings, Path("a")) as first:
        assert first.sessions_location == default
        with session_folder(settings, Path("b")) as second, session_folder(settings, Path("a")) as third:
            assert isinstance(second.sessions_location, Path)
            assert second.sessions_location.parent == default
            assert second.sessions_location.name.startswith("b-")
            assert third.sessions_location == default, "servers of one library share their sessions"
        named = load_settings(sessions=str(tmp_path / "named"))
        with session_folder(named, Path("b")) as chosen:
            assert chosen.sessions_location == tmp_path / "named"
    with session_folder(settings, Path("b")) as later:
        assert later.sessions_location == default, "no other server runs"

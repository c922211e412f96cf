"""Two servers of one user: where they record sessions."""

from pathlib import Path

import pytest

from scholarbase.api.server import check_sessions, session_folder
from scholarbase.errors import StorageError
from scholarbase.settings import load_settings


def test_each_library_finds_its_sessions_again_whichever_server_starts_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    default, settings = tmp_path / "scholarbase", load_settings()
    assert session_folder(settings, Path("a")).sessions_location == default, "the first library"
    second = session_folder(settings, Path("b")).sessions_location
    assert isinstance(second, Path)
    assert second.parent == default
    assert second.name.startswith("b-")
    for path in (Path("b"), tmp_path / "b", Path("a/../b")):
        assert session_folder(settings, path).sessions_location == second, "also when no other server runs"
    assert session_folder(settings, tmp_path / "a").sessions_location == default
    named = load_settings(sessions=str(tmp_path / "named"))
    assert session_folder(named, Path("b")).sessions_location == tmp_path / "named"


def test_a_server_says_at_its_start_that_it_cannot_record_sessions(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    in_the_way = tmp_path / "sessions"
    in_the_way.write_text("a file")
    with pytest.raises(StorageError, match="set SCHOLARBASE_SESSIONS to another folder"):
        check_sessions(load_settings(sessions=str(in_the_way)), is_named=True)
    check_sessions(load_settings(sessions=str(in_the_way)), is_named=False)
    assert "No sessions are recorded" in caplog.text
    in_the_way.unlink()
    check_sessions(load_settings(sessions=str(in_the_way)), is_named=True)

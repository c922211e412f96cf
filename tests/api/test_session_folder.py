"""Two servers of one user: where they record sessions."""

from pathlib import Path

import pytest

from scholarbase.api.server import session_folder
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

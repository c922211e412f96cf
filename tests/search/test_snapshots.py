import json
import shutil
from pathlib import Path

import pytest

from scholarbase.errors import InvalidRequest, LibraryNotFound
from scholarbase.search.snapshots import locate, prune, snapshots
from tests.conftest import run_cli


@pytest.fixture
def folder(sample_library: Path, tmp_path: Path) -> Path:
    """A folder of three complete libraries, which is also some other things."""
    for name in ("2026-01", "2026-02", "2026-03"):
        (tmp_path / name).mkdir()
        for file in ("manifest.json", "files.json"):
            shutil.copy(sample_library / file, tmp_path / name)
    (tmp_path / "2026-04" / "building").mkdir(parents=True)
    (tmp_path / "2026-05").mkdir()
    shutil.copy(
        sample_library / "manifest.json", tmp_path / "2026-05"
    )  # whose list of files is not there yet
    (tmp_path / ".2026-06-views").mkdir()
    (tmp_path / "notes.txt").touch()
    return tmp_path


def names(folder: Path) -> list[str]:
    return [one.path.name for one in snapshots(folder)]


def test_the_last_complete_library_of_a_folder_or_the_current_one_is_served(folder: Path) -> None:
    assert locate(folder) == folder / "2026-03"
    (folder / "current").symlink_to("2026-01")
    assert locate(folder) == locate(folder / "current") == folder / "2026-01"
    assert locate(folder / "2026-02") == folder / "2026-02"
    (folder / "current").unlink()
    (folder / "current").symlink_to("nowhere")
    with pytest.raises(LibraryNotFound, match="nowhere"):
        locate(folder)
    with pytest.raises(LibraryNotFound, match="no complete one in it"):
        locate(folder / ".2026-06-views")


def test_libraries_are_listed_by_name(folder: Path) -> None:
    assert names(folder) == ["2026-01", "2026-02", "2026-03"]
    manifest = folder / "2026-02" / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"format": 11', b'"format": 1'))
    (folder / "current").symlink_to("2026-01")
    rows = json.loads(run_cli("snapshots", folder, "--json").stdout)
    assert [(row["name"], row["served"], row["papers"]) for row in rows] == [
        ("2026-01", True, 2440),
        ("2026-02", False, None),
        ("2026-03", False, 2440),
    ]
    lines = run_cli("snapshots", folder).stdout.splitlines()
    assert lines[0].startswith("* 2026-01  ")
    assert lines[0].endswith("  2,440 papers")
    assert "has format 1" in lines[1]
    assert run_cli("snapshots", folder / "2026-01").returncode == 2
    assert run_cli("snapshots", folder / "nowhere").returncode == 3


def test_pruning_keeps_the_last_libraries_and_the_current_one(folder: Path) -> None:
    (folder / "current").symlink_to("2026-01")
    (folder / ".pruned-2025-12").mkdir()  # left by an interrupted command
    for options in (
        ["--prune"],
        ["--keep", "1"],
        ["--prune", "--keep", "0"],
        ["--prune", "--keep", "1", "--json"],
    ):
        assert run_cli("snapshots", folder, *options).returncode == 2
    done = run_cli("snapshots", folder, "--prune", "--keep", "1")
    assert done.stdout.startswith(f"Removed {folder / '2026-02'} (snapshot ")
    assert names(folder) == ["2026-01", "2026-03"]
    assert {path.name for path in folder.iterdir()} == {
        "2026-01",
        "2026-03",
        "2026-04",
        "2026-05",
        ".2026-06-views",
        "notes.txt",
        "current",
    }
    assert prune(folder, 1) == []
    (folder / "current").unlink()
    assert [one.path.name for one in prune(folder, 1)] == ["2026-01"]
    with pytest.raises(InvalidRequest, match="keep is 0"):
        prune(folder, 0)

"""Releases: the changelog's sections, what the README shows with an installed wheel, and the workflows."""

import re
import tarfile
from pathlib import Path
from typing import Any

import pytest

from release.__main__ import CONTEXT, version, write_context
from release.changelog import PLACES, notes, with_version
from release.smoke import Step, steps
from scholarbase import __version__
from tests.conftest import ROOT

yaml = pytest.importorskip("yaml")

CHANGELOG = (
    "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- [Two](docs/two.md#a).\n\n"
    "## [0.1.0] - 2026-01-31\n\n- One.\n"
)


def test_the_entries_of_unreleased_become_those_of_the_version() -> None:
    text = with_version(CHANGELOG, "0.2.0", "2026-11-23")
    assert (
        "## [Unreleased]\n\n## [0.2.0] - 2026-11-23\n\n### Added\n\n- [Two](docs/two.md#a).\n\n## [0.1.0]"
        in text
    )
    link = "https://github.com/scholarbase/scholarbase/blob/v0.2.0/docs/two.md#a"
    assert notes(text, "0.2.0") == f"### Added\n\n- [Two]({link}).\n"
    assert notes(text, "0.1.0") == "- One.\n"
    with pytest.raises(ValueError, match=r"a section 0\.2\.0 already"):
        with_version(text, "0.2.0", "2026-11-24")
    with pytest.raises(ValueError, match="nothing under"):
        with_version(text, "0.3.0", "2026-11-24")
    with pytest.raises(ValueError, match=r"no entries for 0\.3\.0"):
        notes(text, "0.3.0")


def test_the_notes_begin_with_a_summary() -> None:
    summary = notes((ROOT / "CHANGELOG.md").read_text("utf-8"), __version__).partition("\n\n")[0]
    assert re.match(r"[A-Z]\w+ ", summary), "not a heading or a list"
    assert 3 <= len(re.findall(r"\.(?=\s|$)", summary)) <= 4


def test_every_place_names_the_same_version() -> None:
    for name, pattern in PLACES.items():
        lines = list(re.finditer(pattern, (ROOT / name).read_text("utf-8"), re.M))
        assert lines, name
        assert all(line[0] == f"{line[1]}{__version__}{line[2]}" for line in lines), name


def test_a_release_has_the_tag_of_its_version() -> None:
    assert version(f"v{__version__}") == version(None) == __version__
    with pytest.raises(SystemExit, match=r"v9\.9\.9 is not that of version"):
        version("v9.9.9")


def test_the_steps_of_a_readme_are_its_commands_and_examples() -> None:
    readme = (
        "```console\n$ make demo   # all\n$ scholarbase one \\\n    --two\nprinted\n  more\n"
        "$ scholarbase three\n```\n\n"
        "```python\nprint(1)\n```\n\n```\n1\n```\n\n```json\n{}\n```\n"
    )
    assert steps(readme) == [
        Step("console", "scholarbase one \\\n    --two", ["printed", "  more"]),
        Step("console", "scholarbase three", []),
        Step("python", "print(1)\n", ["1"]),
    ]


@pytest.mark.slow
def test_the_context_has_what_the_dockerfile_copies(tmp_path: Path) -> None:
    write_context(tmp_path / "one.tar.gz")
    write_context(tmp_path / "two.tar.gz")
    assert (tmp_path / "one.tar.gz").read_bytes() == (tmp_path / "two.tar.gz").read_bytes()
    with tarfile.open(tmp_path / "one.tar.gz") as tar:
        names = set(tar.getnames())
    dockerfile = (ROOT / "docker" / "Dockerfile").read_text("utf-8")
    for sources in re.findall(r"^COPY (?!--from)(.+) \S+$", dockerfile, re.M):
        assert {source.removeprefix("./") for source in sources.split()} <= names
    assert {"docker/Dockerfile", "scholarbase/py.typed"} <= names
    assert not any("__pycache__" in name for name in names)
    assert {name.split("/")[0] for name in names} == {name.split("/")[0] for name in CONTEXT}


WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_pin_actions_and_run_targets_that_exist(path: Path) -> None:
    workflow: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    targets = set(re.findall(r"^([a-z-]+(?: [a-z-]+)*):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        for step in job.get("steps", ()):
            if "uses" in step:
                assert re.fullmatch(r"[\w-]+/[\w-]+@v\d+\.\d+\.\d+", step["uses"])
            for target in re.findall(r"^make ([a-z-]+)", step.get("run", ""), re.M):
                assert target in targets
        needed = job.get("needs", [])
        assert set(needed) <= set(workflow["jobs"])


def test_nothing_is_published_that_was_not_checked() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8"))["jobs"]
    publishing = {name for name, job in jobs.items() if "write" in job.get("permissions", {}).values()}
    assert publishing == {"pypi", "image", "site", "publish"}
    assert all({"check", "build"} <= set(jobs[name]["needs"]) for name in publishing - {"publish"})
    assert {"pypi", "image"} <= set(jobs["publish"]["needs"])

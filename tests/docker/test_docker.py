"""The Dockerfile and the compose file match the package: commands, settings, extras and files.

No container is started. The commands of the health checks run against a server.
"""

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from scholarbase.api.access.guard import check_access
from scholarbase.cli import main
from scholarbase.manifest import read_manifest
from scholarbase.settings import PREFIX, Settings, load_settings
from tests.conftest import DENSE_PAPERS, ROOT, arxiv_rows, json_lines

yaml = pytest.importorskip("yaml")

SETTINGS = {PREFIX + name.upper() for name in Settings.model_fields}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, with continued lines joined and without comments."""
    lines = (ROOT / "docker" / "Dockerfile").read_text().splitlines()
    joined = "\n".join(line for line in lines if not line.startswith("#")).replace("\\\n", " ")
    return [(name, rest.strip()) for name, _, rest in (li.partition(" ") for li in joined.splitlines() if li)]


def last(name: str) -> str:
    return [rest for instruction, rest in instructions() if instruction == name][-1]


def environment() -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in shlex.split(last("ENV")))


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text())
    return content


@pytest.fixture
def closed_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# -- the image ------------------------------------------------------------------------------------------


def test_the_image_runs_the_command_line_and_serves() -> None:
    assert json.loads(last("ENTRYPOINT")) == ["scholarbase"]
    assert PROJECT["scripts"]["scholarbase"] == "scholarbase.cli:main"
    (command,) = json.loads(last("CMD"))
    assert command in main.commands


def test_the_image_sets_settings_that_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {name: value for name, value in environment().items() if name.startswith(PREFIX)}
    assert variables.keys() <= SETTINGS
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    settings = load_settings()
    assert (str(settings.library), settings.host, settings.port) == (
        "/library",
        "0.0.0.0",
        int(last("EXPOSE")),
    )
    # SCHOLARBASE_PUBLIC allows this address without keys.
    check_access(settings)
    assert json.loads(f'["{last("VOLUME")}"]') == [str(settings.library)]


def test_the_image_does_not_run_as_root() -> None:
    names = [name for name, _ in instructions()]
    assert last("USER") == "scholarbase"
    assert "useradd --uid 1000" in " ".join(rest for name, rest in instructions() if name == "RUN")
    assert names.index("USER") < names.index("ENTRYPOINT")


ALWAYS = ("mcp", "qdrant", "postgres")
"""Extras in every image."""


def install_commands(extras: str, folder: Path) -> list[list[str]]:
    """What the Dockerfile runs to install the package, for a value of EXTRAS."""
    script = next(rest for name, rest in instructions() if name == "RUN" and "pip install" in rest)
    (folder / "dist").mkdir(exist_ok=True)
    (folder / "dist" / "scholarbase-1-py3-none-any.whl").touch()
    commands = [command.strip() for command in script.split("&&")]
    shown = [f"printf '%s\\n' {command.split(' ', 1)[1]}; echo --" for command in commands]
    run = subprocess.run(
        ["sh", "-c", "\n".join(shown)],
        env={"EXTRAS": extras, "PATH": os.environ["PATH"]},
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return [words.split("\n")[:-1] for words in run.stdout.split("--\n")[:-1]]


def test_the_image_installs_extras_that_exist(tmp_path: Path) -> None:
    (default,) = [rest.removeprefix("EXTRAS=") for name, rest in instructions() if rest.startswith("EXTRAS=")]
    assert {*filter(None, default.split(",")), *ALWAYS} <= set(PROJECT["optional-dependencies"])
    wheel = "dist/scholarbase-1-py3-none-any.whl"
    for extras, wanted in (("", ",".join(ALWAYS)), ("bge-m3", ",".join((*ALWAYS, "bge-m3")))):
        assert install_commands(extras, tmp_path)[-1][-1] == f"{wheel}[{wanted}]"


def test_the_image_installs_the_locked_versions_and_checks_their_hashes(tmp_path: Path) -> None:
    _, locked, wheel, package = install_commands("", tmp_path)
    assert {"--require-hashes", "-r", "docker/requirements.lock"} <= set(locked)
    # Neither the backend of the build nor a dependency comes unlocked from the index.
    assert {"--no-deps", "--no-build-isolation"} <= set(wheel)
    assert package[package.index("--constraint") + 1] == "docker/encoders.lock"


def locked(name: str) -> dict[str, Version]:
    lines = (ROOT / "docker" / name).read_text().splitlines()
    pins = [Requirement(line.rstrip(" \\")) for line in lines if not line.startswith((" ", "#"))]
    versions = {}
    for pin in pins:
        (only,) = pin.specifier
        assert only.operator == "==", pin
        versions[canonicalize_name(pin.name)] = Version(only.version)
    return versions


def required(extras: Sequence[str]) -> Iterator[Requirement]:
    """The requirements of the package with these extras, and of extras within them, for the image's Python."""
    image = {"python_version": "3.12", "sys_platform": "linux", "platform_system": "Linux", "extra": ""}
    lines = [*PROJECT["dependencies"], *(li for e in extras for li in PROJECT["optional-dependencies"][e])]
    for requirement in map(Requirement, lines):
        if requirement.name == "scholarbase":
            yield from required(sorted(requirement.extras))
        elif requirement.marker is None or requirement.marker.evaluate(image):
            yield requirement


def test_the_locks_have_every_dependency_at_a_version_that_satisfies_it() -> None:
    base, encoders = locked("requirements.lock"), locked("encoders.lock")
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    for requirement in (*required(ALWAYS), *map(Requirement, build)):
        assert requirement.specifier.contains(base[canonicalize_name(requirement.name)]), requirement
    for requirement in required(("sentence-transformers", "bge-m3")):
        assert requirement.specifier.contains(encoders[canonicalize_name(requirement.name)]), requirement
    for name in base.keys() & encoders.keys():
        assert base[name] == encoders[name], f"{name}: run make lock"


def test_every_locked_package_of_the_server_has_hashes_and_no_index_is_named() -> None:
    content = (ROOT / "docker" / "requirements.lock").read_text()
    packages = re.split(r"\n(?=\S)", content)
    assert len(packages) == len(locked("requirements.lock"))
    for package in packages:
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", package), package
    for name in ("requirements.lock", "encoders.lock"):
        assert "://" not in (ROOT / "docker" / name).read_text()


def test_the_image_has_a_python_that_the_package_supports() -> None:
    bases = {rest.split()[0] for name, rest in instructions() if name == "FROM"}
    assert len(bases) == 1
    minor = re.fullmatch(r"python:3\.(\d+)-slim@sha256:[0-9a-f]{64}", bases.pop())
    least = re.fullmatch(r">=3\.(\d+)", PROJECT["requires-python"])
    assert minor is not None
    assert least is not None
    assert int(minor[1]) >= int(least[1])
    makefile = (ROOT / "Makefile").read_text()
    assert f"--python-version 3.{minor[1]} " in makefile


def test_files_that_the_image_copies_exist_and_are_not_ignored() -> None:
    kept = {
        li[1:]
        for li in (ROOT / "docker" / "Dockerfile.dockerignore").read_text().splitlines()
        if li.startswith("!")
    }
    copied = {
        part.removeprefix("./")
        for name, rest in instructions()
        if name == "COPY" and not rest.startswith("--from")
        for part in rest.split()[:-1]
    }
    assert copied == kept
    assert all((ROOT / part).exists() for part in copied)
    # The build of the package reads these besides its code.
    read = {"README.md", "hatch_build.py", "sample", "pyproject.toml", "scholarbase"}
    assert {*read, *PROJECT["license-files"]} <= copied


def health_check(port: int) -> int:
    words = json.loads(last("HEALTHCHECK").partition(" CMD ")[2])
    assert words[0] == "python"
    run = subprocess.run(
        [sys.executable, *words[1:]],
        env=os.environ | {"SCHOLARBASE_PORT": str(port)},
        capture_output=True,
        check=False,
        timeout=120,
    )
    return run.returncode


def test_the_health_check_of_the_image(server: str, closed_port: int) -> None:
    assert health_check(urlsplit(server).port or 0) == 0
    assert health_check(closed_port) != 0


# -- compose --------------------------------------------------------------------------------------------


def test_the_services_run_commands_that_exist(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert services.keys() == {"qdrant", "load", "api"}
    assert [services[name]["command"] for name in ("load", "api")] == [["load"], ["serve"]]
    assert "serve" in main.commands  # load is of an extension


def test_the_services_have_settings_that_exist(compose: dict[str, Any]) -> None:
    for name in ("load", "api"):
        variables = compose["services"][name]["environment"]
        assert variables.keys() <= SETTINGS
        assert variables["SCHOLARBASE_QDRANT_URL"] == "http://qdrant:6333"
    # Variables of compose have no SCHOLARBASE_ prefix, since the command line rejects unknown settings.
    assert not re.findall(r"\$\{(SCHOLARBASE_\w+)", (ROOT / "docker" / "compose.yaml").read_text())


def test_the_api_waits_for_the_vectors(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert services["load"]["depends_on"]["qdrant"]["condition"] == "service_healthy"
    assert services["api"]["depends_on"]["load"]["condition"] == "service_completed_successfully"
    assert services["load"].get("restart", "no") == "no"


def test_only_the_api_is_published_and_only_on_localhost(compose: dict[str, Any]) -> None:
    published = {name: service.get("ports", []) for name, service in compose["services"].items()}
    assert published == {"qdrant": [], "load": [], "api": ["127.0.0.1:${PORT:-8000}:8000"]}


def test_the_library_is_read_only_and_other_volumes_are_named(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        for volume in service["volumes"]:
            if isinstance(volume, dict):
                assert volume["target"] == "/library"
                assert volume["read_only"] is True
            else:
                assert volume.partition(":")[0] in compose["volumes"], f"{name}: {volume}"
    assert f"models:{environment()['HF_HOME']}" in compose["services"]["api"]["volumes"]


def test_compose_builds_the_dockerfile(compose: dict[str, Any]) -> None:
    build = compose["services"]["load"]["build"]
    context = (ROOT / "docker" / build["context"]).resolve()
    assert (context / build["dockerfile"]) == ROOT / "docker" / "Dockerfile"
    arguments = {rest.partition("=")[0] for name, rest in instructions() if name == "ARG"}
    assert build["args"].keys() == arguments
    assert compose["services"]["load"]["image"] == compose["services"]["api"]["image"]


def test_qdrant_is_pinned_to_a_version_that_the_client_supports(compose: dict[str, Any]) -> None:
    """Qdrant's rule: one major version, and minor versions at most one apart."""
    image = re.fullmatch(r"qdrant/qdrant:v(\d+)\.(\d+)\.\d+", compose["services"]["qdrant"]["image"])
    assert image is not None
    major, minor = (int(part) for part in version("qdrant-client").split(".")[:2])
    assert int(image[1]) == major
    assert abs(int(image[2]) - minor) <= 1


@pytest.mark.skipif(shutil.which("bash") is None, reason="the check is a bash command")
def test_the_health_check_of_qdrant(compose: dict[str, Any], server: str, closed_port: int) -> None:
    """``GET /readyz`` returns 200 from a ScholarBase server as from Qdrant."""
    kind, *command = compose["services"]["qdrant"]["healthcheck"]["test"]
    assert kind == "CMD"
    script = command[-1].replace("$$", "$")
    for port, healthy in ((urlsplit(server).port, True), (closed_port, False)):
        run = subprocess.run(
            [*command[:-1], script.replace("/6333", f"/{port}")],
            capture_output=True,
            check=False,
            timeout=120,
        )
        assert (run.returncode == 0) is healthy
    not_found = script.replace("/6333", f"/{urlsplit(server).port}").replace("/readyz", "/nowhere")
    assert (
        subprocess.run([*command[:-1], not_found], capture_output=True, check=False, timeout=120).returncode
        != 0
    )


# -- the demo -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def demo() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
    service: dict[str, Any] = content["services"]["scholarbase"]
    return service


def test_the_demo_builds_the_dockerfile_and_is_published_on_localhost(demo: dict[str, Any]) -> None:
    assert (ROOT / demo["build"]["context"] / demo["build"]["dockerfile"]).is_file()
    assert demo["ports"] == ["127.0.0.1:${PORT:-8000}:8000"]
    assert set(demo["environment"]) <= SETTINGS
    mounts = dict(
        volume.rsplit(":", 1) if volume.endswith(":ro") else (volume, "") for volume in demo["volumes"]
    )
    assert {"./sample:/sample", "${LIBRARY_DIR:-library}:/library"} <= set(mounts)


@pytest.mark.slow
def test_the_demo_builds_the_library_once_and_serves_it(
    demo: dict[str, Any], small_snapshot: Path, tmp_path: Path
) -> None:
    sample = tmp_path / "sample"
    (sample / "arxiv").mkdir(parents=True)
    json_lines(sample / "arxiv" / "few.jsonl", islice(arxiv_rows(), 5))
    (sample / "s2ag").symlink_to(small_snapshot)
    [shell, option] = demo["entrypoint"]
    [command] = demo["command"]
    script = command.replace("$$", "$").replace("/sample", str(sample))
    here = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "SCHOLARBASE_LIBRARY": str(tmp_path / "library"),
        "SCHOLARBASE_PORT": "0",
        "SCHOLARBASE_SESSIONS": "none",
        "SCHOLARBASE_ENCODER": re.sub(
            r"\$\{ENCODER:-(.*)\}", r"\1", demo["environment"]["SCHOLARBASE_ENCODER"]
        ),
    }
    for first in (True, False):
        with subprocess.Popen(
            [shell, option, script], env=os.environ | here, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stderr is not None
            lines = []
            for line in process.stderr:
                lines.append(line)
                if "Serving" in line:
                    break
            process.terminate()
            process.stderr.read()
        papers = read_manifest(tmp_path / "library")[0].counts["papers"]
        assert papers > DENSE_PAPERS
        assert f"{papers} papers, hybrid" in lines[-1]
        assert any("index full text" in line for line in lines) == first

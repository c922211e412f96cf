"""What a release needs besides its packages: registries, citations, a unit of systemd, a skill, and PyPI's README."""

import hashlib
import json
import re
import shutil
import subprocess
import tomllib
import zipfile
from pathlib import Path

import msgspec
import pytest

from hatch_build import absolute
from release.__main__ import write_catalogue
from release.kit import manifest, recipe, write_bundle
from scholarbase import __version__
from scholarbase.settings import Settings
from scholarbase_download.catalogue import Catalogue
from tests.conftest import ROOT, run_cli

yaml = pytest.importorskip("yaml")


def test_the_mcp_registry_finds_the_package() -> None:
    """The limits are those of the schema that server.json names; the marker shows who owns the package."""
    server = json.loads((ROOT / "server.json").read_text("utf-8"))
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", server["name"])
    assert f"<!-- mcp-name: {server['name']} -->" in (ROOT / "README.md").read_text("utf-8")
    assert len(server["description"]) <= 100
    [package] = server["packages"]
    assert {"registryType", "identifier", "version", "transport"} <= set(package)
    assert server["version"] == package["version"] == __version__
    for variable in package["environmentVariables"]:
        assert variable["name"].removeprefix("SCHOLARBASE_").lower() in Settings.model_fields
    [argument] = package["packageArguments"]
    assert run_cli(argument["value"], "--help").returncode == 0


def test_the_citation_has_what_the_format_requires() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert str(citation["version"]) == __version__
    assert citation["license"] == "Apache-2.0"
    assert all("name" in author for author in citation["authors"])


def test_links_of_the_readme_lead_somewhere_on_pypi() -> None:
    text = absolute((ROOT / "README.md").read_text("utf-8"), __version__)
    links = re.findall(r"\]\(([^)\s]+)", text)
    assert links
    assert all(link.startswith(("https://", "#")) for link in links)
    assert f"https://raw.githubusercontent.com/scholarbase/scholarbase/v{__version__}/docs/images/" in text
    for name in re.findall(rf"/v{re.escape(__version__)}/([^)#\s]+)", text):
        assert (ROOT / name).exists(), name


def test_the_skill_has_a_name_a_description_and_commands_that_exist() -> None:
    _, head, body = (ROOT / "examples" / "skill" / "SKILL.md").read_text("utf-8").split("---\n", 2)
    about = yaml.safe_load(head)
    assert re.fullmatch(r"[a-z0-9-]{1,64}", about["name"])
    assert 0 < len(about["description"]) <= 1024
    for command in {*re.findall(r"scholarbase ([a-z]+)", body)}:
        assert run_cli(command, "--help").returncode == 0, command


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    unit = (ROOT / "docker" / "systemd" / "scholarbase.service").read_text("utf-8")
    for name in re.findall(r"^Environment=SCHOLARBASE_(\w+)=", unit, re.M):
        assert name.lower() in Settings.model_fields
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    path = tmp_path / "scholarbase.service"
    path.write_text(unit.replace("/opt/scholarbase/bin/scholarbase", "/bin/true"))
    done = subprocess.run([program, "verify", path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_bundle_has_a_manifest_of_the_published_schema(tmp_path: Path) -> None:
    """The schema is that of the npm package @anthropic-ai/mcpb 2.1.2; ``mcpb validate`` accepts the manifest too."""
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((ROOT / "tests" / "data" / "mcpb-manifest-v0.3.schema.json").read_text("utf-8"))
    path, again = tmp_path / "one.mcpb", tmp_path / "two.mcpb"
    write_bundle(path, __version__)
    write_bundle(again, __version__)
    assert path.read_bytes() == again.read_bytes()
    with zipfile.ZipFile(path) as bundle:
        written = json.loads(bundle.read("manifest.json"))
        assert written["server"]["entry_point"] in bundle.namelist()
    jsonschema.validate(written, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(manifest(__version__) | {"servers": {}}, schema)
    assert len(written["tools"]) == 9
    assert written["server"]["mcp_config"]["args"][-1] == "mcp"
    assert run_cli("mcp", "--help").returncode == 0


def test_the_conda_recipe_names_every_dependency() -> None:
    """The keys that version 1 of the format requires, and the packages of pyproject.toml."""
    sha256 = hashlib.sha256(b"an sdist").hexdigest()
    written = yaml.safe_load(recipe(__version__, sha256))
    assert written["schema_version"] == 1
    assert written["context"]["version"] == __version__
    assert {"package", "source", "build", "requirements", "tests", "about"} <= set(written)
    assert written["source"]["sha256"] == sha256
    assert written["build"]["python"]["entry_points"] == ["scholarbase = scholarbase.cli:main"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = {re.split(r"[ <>=!~]", one)[0] for one in written["requirements"]["run"]} - {"python"}
    assert named == {re.split(r"[ \[<>=!~;]", one)[0] for one in project["dependencies"]}
    assert all(re.fullmatch(r"[a-z0-9-]+( [<>=!~].*)?", one) for one in written["requirements"]["run"])


@pytest.mark.slow
def test_a_release_has_two_libraries(tmp_path: Path) -> None:
    listed = msgspec.json.decode(write_catalogue(tmp_path, "9.9.9"), type=Catalogue).libraries
    assert [(entry.name, entry.papers) for entry in listed] == [("demo", 2440), ("bibliography", 50)]
    for entry in listed:
        file = tmp_path / entry.url.rpartition("/")[2]
        assert file.stat().st_size == entry.packed_bytes
        assert (tmp_path / f"{file.name}.sha256").read_text().startswith(entry.sha256)

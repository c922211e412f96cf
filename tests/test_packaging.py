"""The artefacts that are published: each file once, the links of the checkout not followed."""

import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from release.smoke import smoke

pytestmark = [pytest.mark.whole, pytest.mark.slow]

ROOT = Path(__file__).parent.parent
EXTENSIONS = ROOT / "extensions"
FOLDERS = (
    "scholarbase", "extensions", "tests", "sample", "docs", "docker", "examples", "benchmarks", "torture", "website",
    "release", ".github",
)  # fmt: skip
FILES = (
    *("Makefile", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "CITATION.cff", "server.json"),
    *("hatch_build.py", "pyproject.toml"),
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist, built from a copy of the files that are of the project."""
    pytest.importorskip("hatchling")
    pytest.importorskip("build")
    copy, out = tmp_path_factory.mktemp("checkout"), tmp_path_factory.mktemp("dist")
    unwanted = shutil.ignore_patterns("__pycache__", ".*_cache", ".hypothesis", "work")
    for name in FOLDERS:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=unwanted)
    for name in (*FILES, ".gitignore"):
        if (ROOT / name).is_file():
            shutil.copyfile(ROOT / name, copy / name)
    for name in ("api", "indexes", "ingest"):
        (copy / name).symlink_to(Path("scholarbase") / name)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(copy)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return out


@pytest.fixture(scope="module")
def artefacts(built: Path) -> tuple[list[str], list[str]]:
    """The names in the wheel and in the sdist."""
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive, tarfile.open(sdist) as packed:
        return archive.namelist(), [member.name for member in packed.getmembers() if not member.isdir()]


def test_pypi_accepts_the_readme(built: Path) -> None:
    pytest.importorskip("twine")
    command = [sys.executable, "-m", "twine", "check", "--strict", *built.glob("scholarbase-*")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_file_is_there_once(artefacts: tuple[list[str], list[str]]) -> None:
    for names in artefacts:
        assert sorted(set(names)) == sorted(names)


def test_the_wheel_holds_the_package_and_nothing_else(artefacts: tuple[list[str], list[str]]) -> None:
    wheel, _ = artefacts
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "scholarbase").rglob("*.py")}
    modules |= {str(path.relative_to(EXTENSIONS)) for path in EXTENSIONS.glob("scholarbase_*/**/*.py")}
    typed = {f"{path.name}/py.typed" for path in EXTENSIONS.glob("scholarbase_*")}
    sample = {
        f"scholarbase/{path.relative_to(ROOT)}"
        for source in ("s2ag", "arxiv")
        for path in (ROOT / "sample" / source).rglob("*")
        if path.is_file()
    }
    info = {name for name in wheel if ".dist-info/" in name}
    templates = {
        f"scholarbase_research/evaluation/report/templates/report.{end}" for end in ("css", "html.j2", "js")
    }
    folder = "scholarbase/encoders/packaged/arxiv-static-v1"
    encoder = {f"{folder}/{name}" for name in ("config.json", "model.safetensors", "tokenizer.json")}
    rubrics = {
        f"scholarbase_research/llm/packaged/relevance-{name}.toml"
        for name in ("0-2", "1-10", "binary", "half")
    }
    measured = {f"scholarbase_cluster/planning/{name}.json" for name in ("gpus", "measured")}
    data = {
        "scholarbase_research/construction/categories.toml",
        "scholarbase/ingest/background.txt",
        "scholarbase_download/catalogue.json",
        "scholarbase/py.typed",
        "scholarbase_research/evaluation/report/published.toml",
        *typed,
        *measured,
    }
    names = (
        "api", "author", "compare", "completeness", "copyas", "dom", "draft", "formulas", "fulltext", "graph",
        "library", "paper", "papers", "references", "search", "sessions", "app",
    )  # fmt: skip
    page = ("index.html", "style.css", "icon.svg", *(f"{name}.js" for name in names))
    explorer = {f"scholarbase/api/explorer/files/{name}" for name in page}
    assert set(wheel) - info == {*modules, *templates, *encoder, *rubrics, *explorer, *data, *sample}
    assert {name.partition("/")[2] for name in info} >= {
        "METADATA",
        "RECORD",
        "entry_points.txt",
        "licenses/LICENSE",
    }


def test_the_sdist_holds_what_is_named_and_nothing_else(artefacts: tuple[list[str], list[str]]) -> None:
    _, sdist = artefacts
    inner = [name.partition("/")[2] for name in sdist]
    tops = {name.split("/")[0] for name in inner}
    assert tops <= {*FOLDERS, *FILES, "PKG-INFO", ".gitignore"}
    assert {"scholarbase", "tests", "sample", "pyproject.toml", "LICENSE"} <= tops
    # The checkout's links lead to parts of the package, which are there already.
    assert not tops & {"api", "indexes", "ingest"}
    assert "scholarbase/api/app.py" in inner
    assert "tests/snapshots/openapi.json" in inner


def test_the_wheel_by_itself_runs_every_command_of_the_readme(built: Path, tmp_path: Path) -> None:
    """In an environment that has the wheel, and the other packages of this one; `make release` installs those too."""
    (wheel,) = built.glob("*.whl")
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=False)
    python = environment / "bin" / "python"
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    command = [sys.executable, "-m", "pip", f"--python={python}", "install", "--no-deps", "--no-index", wheel]
    subprocess.run([*command, "--ignore-installed"], check=True, capture_output=True, timeout=300)
    where = "import scholarbase; print(scholarbase.__file__)"
    found = subprocess.run([python, "-I", "-c", where], check=True, capture_output=True, text=True).stdout
    assert Path(found.strip()).is_relative_to(packages)
    ran = smoke(environment / "bin", (ROOT / "README.md").read_text("utf-8"))
    programs = [text.split()[0] for text in ran]
    assert programs.count("scholarbase") >= 5
    assert {"curl", "from"} <= set(programs)

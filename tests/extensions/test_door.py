"""The door as other people's packages meet it: installed, used, broken, left out and chosen."""

import re
import shutil
import sqlite3
import subprocess
import sys
import venv
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from tests.conftest import ROOT, SAMPLE, run_cli, run_process, serving, succeeded
from tests.forks import run_fork
from tests.test_docs import blocks, text

EXAMPLE = ROOT / "examples" / "extension"
ENDNOTE = """%0 Journal Article
%T On the Movement of Small Particles
%A Einstein, Albert
%D 1905
%J Annalen der Physik
%R 10.1002/andp.19053220806

%0 Book
%T The Art of Computer Programming
%A Knuth, Donald E.
%D 1997
"""


def test_the_page_shows_the_example() -> None:
    page = text("docs/extending.md")
    assert blocks(page, "toml")[0] == (EXAMPLE / "pyproject.toml").read_text()
    code = (EXAMPLE / "scholarbase_example.py").read_text()
    assert f"\n{blocks(page, 'python')[0]}" in code
    assert sum(bool(line.strip()) for line in code.splitlines()) < 40


def years(library: Path) -> dict[int, int]:
    with closing(sqlite3.connect(library / "catalog.sqlite")) as db:
        rows = db.execute("SELECT year, count(*) FROM papers WHERE year IS NOT NULL GROUP BY year").fetchall()
    return dict(rows)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has the packages of this one, and the example, which pip installed."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "others.pth").write_text("\n".join(path for path in sys.path if Path(path).is_dir()))
    copy = shutil.copytree(EXAMPLE, folder / "example")
    command = [sys.executable, "-m", "pip", f"--python={python}", "install", "--no-index", "--no-deps"]
    subprocess.run([*command, "--no-build-isolation", copy], check=True, capture_output=True, timeout=300)
    shutil.rmtree(copy)
    return python


@pytest.mark.slow
def test_the_example_is_installed_with_pip_and_used(
    environment: Path, sample_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", str(environment))
        found = run_process("doctor", "--library", sample_library).stdout
    what = r"scholarbase-example 0\.1\.0: commands \(1\), routes \(1\), sources \(1\)"
    assert re.search(rf"^ok +extension example {what}$", found, re.M), found

    (packages,) = environment.parents[1].glob("lib/python*/site-packages")
    installed = {"PYTHONPATH": str(packages)}
    expected = years(sample_library)
    assert len(expected) > 20
    assert "years" in run_fork("--help", **installed).stdout
    printed = run_fork("years", "--library", sample_library, **installed)
    assert printed.returncode == 0, printed.stderr
    assert {
        int(a): int(b.replace(",", "")) for a, b in map(str.split, printed.stdout.splitlines())
    } == expected

    with serving(sample_library, **installed) as (url, _):
        response = httpx.get(f"{url}/v1/years")
        assert response.json() == {str(year): papers for year, papers in expected.items()}
        assert response.headers["X-ScholarBase-Snapshot"]
        assert sum(httpx.get(f"{url}/v1/years?q=supersymmetry").json().values()) in range(1, 1000)
        wrong = httpx.get(f"{url}/v1/years?q=%20")
        assert wrong.status_code == 400
        assert wrong.headers["Content-Type"] == "application/problem+json"
        document = httpx.get(f"{url}/openapi.json").json()["paths"]["/v1/years"]["get"]
        assert document["summary"] == "Count papers by year"
        assert "q" in [one["name"] for one in document["parameters"]]

    (tmp_path / "papers.enw").write_text(ENDNOTE)
    command = ("ingest", tmp_path / "papers.enw", "--library", tmp_path / "mine", "--encoder", "none")
    built = run_fork(*command, **installed)
    assert built.returncode == 0, built.stderr
    assert "2 papers" in built.stdout
    assert years(tmp_path / "mine") == {1905: 1, 1997: 1}
    # Without the example.
    assert "extension example" not in run_cli("doctor").stdout
    for words in (["verify"], ["search", "small particles"]):
        succeeded(*words, "--library", tmp_path / "mine")
    refused = run_cli("update", tmp_path / "mine", tmp_path / "papers.enw", "--library", tmp_path / "new")
    assert refused.returncode != 0
    assert "was built from files of the format endnote, which no installed extension reads" in refused.stderr


# -- extensions that fail -------------------------------------------------------------------------------------


def package(folder: Path, name: str, code: str) -> Path:
    """A package with an extension ``name``, as pip leaves it in a folder of packages."""
    (folder / f"{name}_package.py").parent.mkdir(exist_ok=True)
    (folder / f"{name}_package.py").write_text(f"from scholarbase import Extension\nimport click\n{code}")
    about = folder / f"{name}_package-1.5.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-package\nVersion: 1.5\n")
    (about / "entry_points.txt").write_text(f"[scholarbase.extensions]\n{name} = {name}_package:Mine\n")
    return folder


GOOD = """
class Mine(Extension):
    def commands(self):
        return {"hello": "good_package:hello"}

@click.command()
def hello():
    print("hello")
"""


@pytest.mark.slow
def test_an_extension_that_raises_is_named_and_the_others_work(tmp_path: Path, sample_library: Path) -> None:
    package(tmp_path, "broken", "raise RuntimeError('no licence')")
    package(tmp_path, "other", "class Mine: pass")
    package(tmp_path, "ends", "raise SystemExit(3)")
    for name, method in {
        "partly": "commands(self): return ['x']",
        "number": "commands(self): return {1: 'x'}",
        "empty": "commands(self): return {'': 'x'}",
        "source": "sources(self): return {'x': 5}",
        "text": "document_readers(self): return 'ab'",
        "tools": "tool_sets(self): return {'x': 5}",
        "encoder": "encoders(self): return {'x': 5}",
        "exits": "routes(self): raise SystemExit(3)",
    }.items():
        package(tmp_path, name, f"class Mine(Extension):\n    def {method}\n")
    path = str(package(tmp_path, "good", GOOD))
    doctor = run_fork("doctor", PYTHONPATH=path, SCHOLARBASE_PORT="0")
    assert doctor.returncode == 0
    for line in (
        "warning  extension broken broken-package 1.5: cannot be loaded (RuntimeError: no licence): update or",
        "warning  extension other other-package 1.5: cannot be loaded (TypeError: other_package:Mine is not a subclass",
        "warning  extension ends ends-package 1.5: cannot be loaded (SystemExit: 3)",
        "warning  extension partly partly-package 1.5: cannot add its commands (TypeError: it is a list, not a",
        "cannot add its commands (TypeError: the name 1 is not a text)",
        "cannot add its commands (TypeError: the name '' is not a text)",
        "cannot add its sources (TypeError: 5 is not a SourceFormat)",
        "cannot add its document readers (TypeError: 'a' is not a DocumentReader)",
        "cannot add its tool sets (TypeError: 'int' object is not iterable)",
        "cannot add its encoders (TypeError: 5 is not a Callable)",
        "cannot add its routes (SystemExit: 3)",
        "ok       extension good good-package 1.5: commands (1)\n",
        "ok       sqlite",
    ):
        assert line in doctor.stdout

    hello = run_fork("hello", PYTHONPATH=path)
    assert (hello.returncode, hello.stdout) == (0, "hello\n")
    for name in ("broken", "other", "partly"):
        assert f"The extension {name} ({name}-package 1.5) cannot " in hello.stderr
    search = run_fork("search", "strings", "--library", sample_library, PYTHONPATH=path)
    assert (search.returncode, search.stderr) == (0, "")


@pytest.mark.slow
def test_extensions_are_chosen_by_a_setting(tmp_path: Path) -> None:
    package(tmp_path, "broken", "raise RuntimeError('no licence')")
    path = str(package(tmp_path, "good", GOOD))
    chosen = {"PYTHONPATH": path, "SCHOLARBASE_EXTENSIONS": "good"}
    doctor = run_fork("doctor", **chosen).stdout
    assert re.findall(r"extension (\w+)", doctor) == ["good"]
    assert run_fork("hello", **chosen).stderr == ""

    none = chosen | {"SCHOLARBASE_EXTENSIONS": "none"}
    doctor = run_fork("doctor", **none).stdout
    assert "extension " not in doctor
    assert "none enabled (SCHOLARBASE_EXTENSIONS=none)" in doctor
    refused = run_fork("hello", **none)
    assert refused.returncode == 2
    assert "No such command 'hello': SCHOLARBASE_EXTENSIONS leaves out " in refused.stderr
    assert "good" in refused.stderr
    assert "Unset it" in refused.stderr
    assert "Did you mean" not in refused.stderr

    for command in (["hello"], ["search", "strings"], ["serve"]):
        unknown = run_fork(*command, **(chosen | {"SCHOLARBASE_EXTENSIONS": "good,god"}))
        assert unknown.returncode == 2
        assert (
            "SCHOLARBASE_EXTENSIONS names 'god', which is not an installed extension: the in"
            in unknown.stderr
        )


# -- what a process imports -----------------------------------------------------------------------------------


def imported(log: str) -> set[str]:
    """The modules in a log of ``PYTHONVERBOSE``."""
    return set(re.findall(r"^import '([\w.]+)' #", log, re.M))


def extensions_in(log: str) -> set[str]:
    return {name for name in imported(log) if re.match(r"scholarbase_|\w+_package", name)}


@pytest.mark.slow
def test_a_process_imports_no_extension_that_it_does_not_use(
    sample_library: Path, small_snapshot: Path, tmp_path: Path
) -> None:
    path = str(package(tmp_path, "good", GOOD))
    logged = {"PYTHONPATH": path, "PYTHONVERBOSE": "1", "SCHOLARBASE_PORT": "0"}
    library = ("--library", sample_library)
    for arguments, without in (
        (
            ["search", "strings", *library],
            ("scholarbase_research.evaluation", "scholarbase.api.app", "pypdfium2"),
        ),
        (
            ["ingest", small_snapshot, SAMPLE / "own", "--library", tmp_path / "new"],
            ("scholarbase_research.evaluation",),
        ),
    ):
        done = run_process(*arguments, **logged)
        assert done.returncode == 0, done.stderr[-1000:]
        names = imported(done.stderr)
        assert "scholarbase.search" in names or "scholarbase.ingest.job" in names
        assert not extensions_in(done.stderr)
        assert not [name for name in names if name.startswith(without)]
    assert "good_package" in imported(run_process("hello", **logged).stderr)

    said: list[str] = []
    paper = "/v1/papers/arXiv:hep-th/9301068"
    with serving(sample_library, said=said, new=True, **logged) as (url, _):
        for native in (
            "/v1/search?q=strings",
            paper,
            "/v1/facets",
            "/v1/snapshot",
            "/healthz",
            "/readyz",
            "/metrics",
            "/",
        ):
            assert httpx.get(url + native, follow_redirects=True).status_code == 200, native
        assert httpx.post(f"{url}/v1/search", json={"q": "strings"}).status_code == 200
        assert httpx.get(f"{url}/v1/search?limits=3").status_code == 400
        assert not extensions_in("".join(said))
        assert httpx.get(f"{url}/v1/none").status_code == 404
    assert "good_package" in imported("".join(said))

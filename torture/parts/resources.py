"""Missing resources and changes from outside: errors with a reason, and no wrong response."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from benchmarks.memory import Peak
from benchmarks.servers import Server, ServerError, serving
from scholarbase.manifest import read_manifest
from torture.judge import Judge
from torture.libraries import SAMPLE, command, copy, environment, large, sample
from torture.requests import request
from torture.rows import Row, Setting, say, shown
from torture.stopping import terminated

MB: Final = 2**20
LIMITED_SECONDS: Final = 300.0
"""Without a limit, an ingest of the sample takes a few seconds, or minutes where the disk and the cores are busy."""
TERM_SECONDS: Final = 10.0
BOMB_MB, BOMB_MB_IN_SLICE = 10_000, 100
MEMBER_MB: Final = 100
BOMB_MEMORY_MB: Final = 400.0
"""An ingest with a bomb needs at most this much more than without."""
LONGEST_LINE_MB: Final = 64
# Searches that take a while, so that many run at once.
SLOW_PATHS: Final = tuple(
    f"/v1/search?q={a}*+OR+{b}*&engine=fts5&limit=1000"
    for a in ("th", "an", "in", "co")
    for b in ("re", "st", "de")
)
PATHS: Final = (
    "/v1/search?q=string+theory&limit=20&engine=fts5",
    "/v1/search?q=duality+of+fields&limit=20",
    "/v1/search?q=black+holes&limit=20&category=hep-th",
    "/v1/papers/arXiv:hep-th/9301068",
    "/v1/papers/arXiv:hep-th/9301068/citations?limit=50",
    "/v1/title-match?title=two+dimensional+qcd",
)


def run(setting: Setting) -> Iterator[Row]:
    for part in PARTS_IN_SLICE if setting.is_slice else PARTS:
        for row in part(setting):
            say(f"{row.promise}: {row.figure}")
            yield row


def _row(promise: str, tested: str, wrong: list[str], figure: str) -> Row:
    return Row("resources", promise, tested, shown(wrong) or figure, not wrong)


def _ingest(
    sources: tuple[Path, ...] | list[Path],
    library: Path,
    *,
    prefix: tuple[str, ...] = (),
    seconds: float = 600,
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*prefix, *command("ingest", *sources, "--library", library)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def _fault(done: subprocess.CompletedProcess[str]) -> str | None:
    """What is wrong with how a command failed: a signal, a traceback, or no reason. None for a proper error."""
    if done.returncode < 0:
        return f"ended by signal {-done.returncode}"
    if "Traceback" in done.stderr:
        return f"traceback: {done.stderr.strip().splitlines()[-1]}"
    if done.returncode and not done.stderr.strip():
        return f"status {done.returncode} without a message"
    return None


# -- a full disk -----------------------------------------------------------------------------------------


@contextmanager
def _tmpfs(folder: Path, megabytes: int) -> Iterator[Path | None]:
    """A file system of this size; None where mounting is not allowed."""
    folder.mkdir(parents=True, exist_ok=True)
    options = ["-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    is_mounted = subprocess.run(["mount", *options], capture_output=True, check=False).returncode == 0
    try:
        yield folder if is_mounted else None
    finally:
        if is_mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=False)


def _grow(folder: Path, megabytes: int) -> None:
    subprocess.run(["mount", "-o", f"remount,size={megabytes}m", str(folder)], check=True)


def _full_disk(setting: Setting) -> list[Row]:
    promise = "An ingest on a full disk fails with a reason, and continues with space"
    sizes = (1, 3, 6, 10, 16, 24)
    with TemporaryDirectory(dir=setting.work) as folder:
        _ingest(SAMPLE, Path(folder) / "library")
        right = read_manifest(Path(folder) / "library")[1]
    wrong, failed = [], 0
    with Judge() as judge:
        for size in sizes:
            with _tmpfs(setting.work / "disk", size) as disk:
                if disk is None:
                    return [Row("resources", promise, "a small tmpfs", "this user cannot mount one", None)]
                library = disk / "library"
                done = _ingest(SAMPLE, library)
                fault = _fault(done)
                if fault:
                    wrong.append(f"{size} MB: {fault}")
                if done.returncode and (library / "manifest.json").exists():
                    wrong.append(f"{size} MB: the failed ingest left a manifest")
                failed += done.returncode != 0
                _grow(disk, 1000)
                again = _ingest(SAMPLE, library)
                if again.returncode or read_manifest(library)[1] != right or judge("verify", library) != "ok":
                    wrong.append(f"{size} MB: after more space {again.stderr.strip()[-200:]}")
                judge.close()  # it has files of the disk open
    tested = f"tmpfs of {', '.join(map(str, sizes))} MB, then made larger"
    return [_row(promise, tested, wrong, f"{failed} of {len(sizes)} failed with a reason, all continued")]


def _full_sessions(setting: Setting) -> list[Row]:
    promise = "A full disk of sessions stops no search, and loses no call"
    with _tmpfs(setting.work / "sessions-disk", 1) as disk:
        if disk is None:
            return [Row("resources", promise, "a small tmpfs", "this user cannot mount one", None)]
        wrong, statuses = [], []
        with serving(sample(setting), workers=1, SCHOLARBASE_SESSIONS=str(disk)) as server:
            headers = {"X-ScholarBase-Session": "full"}
            request(server.url, "POST", "/v1/sessions", {"session": "full"})
            for number in range(600):
                path = f"/v1/search?q=theory+{number}&limit=100&fields=id"
                found = request(server.url, "GET", path, headers=headers)
                statuses.append(found.status)
                if found.status not in (200, 503, 507):
                    wrong.append(f"status {found.status or found.error}")
            plain = request(server.url, "GET", "/v1/search?q=theory&limit=5")
            if plain.status != 200:
                wrong.append(f"a search without a session: {plain.status}")
            _grow(disk, 500)
            answered, recorded = statuses.count(200), 0
            deadline = time.monotonic() + 60
            while recorded < answered and time.monotonic() < deadline:
                time.sleep(1)
                lines = request(server.url, "GET", "/v1/sessions/full")
                recorded = len(lines.body.splitlines()) if lines.status == 200 else 0
            if recorded < answered:
                wrong.append(f"{recorded} of {answered} answered calls recorded after there was space")
            if "Traceback" in server.log():
                wrong.append("traceback in the log")
    figure = f"{answered} answered and recorded, {len(statuses) - answered} refused"
    return [_row(promise, "600 recorded calls, sessions in a tmpfs of 1 MB, then made larger", wrong, figure)]


# -- little memory, few descriptors ----------------------------------------------------------------------


def _little_memory(setting: Setting) -> list[Row]:
    ingests, servers = (64, 300, 500, 700, 1000, 1500, 1700, 2500, 4000), (500, 800, 1200, 2000, 3000)
    wrong, ended = [], 0
    for size in ingests:
        is_complete, fault = _limited_ingest(setting, ("prlimit", f"--as={size * MB}", "--"))
        ended += is_complete
        if fault:
            wrong.append(f"ingest with {size} MB: {fault}")
    rows = [
        _row(
            "An ingest with little memory fails with a reason",
            f"address space of {', '.join(map(str, ingests))} MB",
            wrong,
            f"{ended} ended, {len(ingests) - ended} failed with a reason",
        )
    ]
    wrong, started = [], 0
    for size in servers:
        outcome = _limited_server(setting, ("prlimit", f"--as={size * MB}", "--"))
        started += outcome is None
        if outcome:
            wrong.append(f"server with {size} MB: {outcome}")
    promise = "A server with little memory responds, or ends with a reason"
    tested = f"address space of {', '.join(map(str, servers))} MB, 40 searches at once"
    return [*rows, _row(promise, tested, wrong, f"no other outcome in {len(servers)} runs")]


def _few_descriptors(setting: Setting) -> list[Row]:
    wrong = []
    sizes = (16, 24, 32, 48, 64, 128)
    for size in sizes:
        prefix = ("prlimit", f"--nofile={size}", "--")
        _, fault = _limited_ingest(setting, prefix)
        if fault:
            wrong.append(f"ingest with {size} files: {fault}")
        outcome = _limited_server(setting, prefix)
        if outcome:
            wrong.append(f"server with {size} files: {outcome}")
    tested = f"{', '.join(map(str, sizes))} open files; ingest, and a server with 40 searches at once"
    return [_row("With few open files there is a reason, or a response", tested, wrong, "no other outcome")]


def _limited_ingest(setting: Setting, prefix: tuple[str, ...]) -> tuple[bool, str | None]:
    """Whether an ingest under a limit completed, and what it did wrong."""
    with TemporaryDirectory(dir=setting.work) as folder:
        try:
            done = _ingest(SAMPLE, Path(folder) / "library", prefix=prefix, seconds=LIMITED_SECONDS)
        except subprocess.TimeoutExpired:
            return False, f"hangs: no end within {LIMITED_SECONDS:.0f} s"
    return done.returncode == 0, _fault(done)


def _limited_server(setting: Setting, prefix: tuple[str, ...]) -> str | None:
    """What a server did wrong under a limit: None where it responded, or ended with a reason."""
    try:
        with (
            TemporaryDirectory() as folder,
            serving(
                sample(setting), workers=1, prefix=prefix, start_seconds=60, SCHOLARBASE_SESSIONS=folder
            ) as server,
        ):
            with ThreadPoolExecutor(40) as pool:
                answers = list(
                    pool.map(
                        lambda n: request(server.url, "GET", PATHS[n % len(PATHS)], timeout=60), range(200)
                    )
                )
            log, ended = server.log(), server.process.poll()
    except ServerError as error:
        # It did not start, or ended before it was idle: the message has its output.
        log = str(error)
        if "not idle" in log or "status None" in log:
            return "neither started nor ended within a minute"
        return log.strip().splitlines()[-1] if "Traceback" in log or "status -" in log else None
    if "Traceback" in log or (ended is not None and ended < 0):
        return f"ended with status {ended}: {log.strip().splitlines()[-1]}"
    faults = [answer for answer in answers if answer.status not in (200, 503, 504)]
    if ended is None and faults:
        return f"{len(faults)} of {len(answers)} without a proper response: {faults[0].status or faults[0].error}"
    return None


# -- changes from outside --------------------------------------------------------------------------------


def _answers(server: Server, paths: tuple[str, ...] = PATHS) -> list[bytes]:
    return [request(server.url, "GET", path).body for path in paths]


def _other_library(setting: Setting) -> Path:
    """A library with other papers: half of the sample."""
    other = setting.work / "other"
    if not (other / "manifest.json").is_file():
        done = _ingest([SAMPLE[1]], other)
        assert done.returncode == 0, done.stderr
    return other


def _replaced(setting: Setting) -> list[Row]:
    """Another library takes the place of the one that is served, in three ways."""
    wrong: list[str] = []
    paths = (*SLOW_PATHS, *PATHS)
    ways: dict[str, Callable[[Path, Path], None]] = {
        "renamed": _rename_over,
        "copied into the folder": _copy_into,
        "removed": lambda served, other: shutil.rmtree(served),
        "catalogue renamed over": lambda served, other: _rename_file(served, other, "catalog.sqlite"),
    }
    for way, replace in ways.items():
        served = copy(sample(setting), setting.work / "served")
        other = copy(_other_library(setting), setting.work / "replacement")
        try:
            with serving(served, workers=1, SCHOLARBASE_SESSIONS="none") as server:
                right = _answers(server, paths)
                replace(served, other)
                # At once, so that the server needs more connections to the catalogue than are open.
                with ThreadPoolExecutor(24) as pool:
                    answers = list(
                        pool.map(lambda n: (n, request(server.url, "GET", paths[n % len(paths)])), range(240))
                    )
                wrong += [
                    f"{way}: another response to {paths[n % len(paths)]}"
                    for n, answer in answers
                    if answer.status == 200 and answer.body != right[n % len(paths)]
                ]
                wrong += [
                    f"{way}: status {answer.status or answer.error}"
                    for _, answer in answers
                    if answer.status not in (200, 503, 504)
                ]
        finally:
            for path in (served, setting.work / "replacement"):
                shutil.rmtree(path, ignore_errors=True)
    tested = f"the served folder {', '.join(ways)}; 240 requests to each, compared with those before"
    return [_row("A replaced library gives no wrong response", tested, wrong, "old responses or errors only")]


def _rename_over(served: Path, other: Path) -> None:
    served.rename(served.with_name("served-before"))
    other.rename(served)
    shutil.rmtree(served.with_name("served-before"))


def _copy_into(served: Path, other: Path) -> None:
    shutil.rmtree(served)
    shutil.copytree(other, served)


def _rename_file(served: Path, other: Path, name: str) -> None:
    (other / name).replace(served / name)


def _truncated(setting: Setting) -> list[Row]:
    """Cut each large file of a served library: the server responds with errors or stops, with a reason."""
    wrong: list[str] = []
    sizes = {"inverted_index.dat": 4096, "catalog.sqlite": 8192, "point_to_values.bin": 0, "page_0.dat": 0}
    names = list(sizes)[: 1 if setting.is_slice else None]
    for name in names:
        served = copy(sample(setting), setting.work / "served")
        try:
            with serving(served, workers=1, SCHOLARBASE_SESSIONS="none") as server:
                right = _answers(server)
                for path in served.rglob(name):
                    os.truncate(path, sizes[name])
                for n in range(60):
                    place = n % len(PATHS)
                    found = request(server.url, "GET", PATHS[place])
                    if found.status == 200 and found.body != right[place]:
                        wrong.append(f"{name}: another response to {PATHS[place]}")
                    more = request(
                        server.url, "GET", f"/v1/search?q=theory+{n}+quantum+field&limit=100&category=hep-th"
                    )
                    if more.status not in (200, 503, 504, None):
                        wrong.append(f"{name}: status {more.status}")
                time.sleep(0.5)
                status, log = server.process.poll(), server.log()
                if status is not None and status < 0:
                    wrong.append(f"{name}: the server was ended by signal {-status}")
                if "Traceback" in log:
                    wrong.append(f"{name}: traceback in the log")
        finally:
            shutil.rmtree(served, ignore_errors=True)
    tested = f"{', '.join(names)} cut while serving, then 120 requests each"
    return [
        _row(
            "A file cut while it is served ends in errors or a clean stop", tested, wrong, "no other outcome"
        )
    ]


def _changed_source(setting: Setting) -> list[Row]:
    """Change a source while an ingest runs, right after its fingerprint was taken. Size and time stay the same."""
    wrong, outcomes = [], []
    with TemporaryDirectory(dir=setting.work) as folder:
        source = _plain_source(Path(folder) / "s2ag")
        before = _ingest([source], Path(folder) / "before")
        assert before.returncode == 0, before.stderr
        right = read_manifest(Path(folder) / "before")[1]
        changes = (("abstracts", b"the ", b"eth "), ("citations", b'"isinfluential":', b'"isinfluentiel":'))
        for number in range(6):
            dataset, old, new = changes[number % len(changes)]
            changed = _plain_source(Path(folder) / f"s2ag-{number}" / "s2ag")
            library = Path(folder) / f"library-{number}"
            status, was_changed = _ingest_while(changed, library, dataset, old, new)
            if not was_changed:
                outcomes.append("too late")
                continue
            if status == 0 and read_manifest(library)[1] == right:
                same = _rows_of(library) == _rows_of(Path(folder) / "before")
                if not same:
                    wrong.append(f"{dataset} changed, and the snapshot id is the same")
                outcomes.append("read before the change" if same else "unnoticed")
            else:
                outcomes.append("refused" if status else "another snapshot id")
    figure = ", ".join(f"{outcomes.count(text)} {text}" for text in sorted(set(outcomes)))
    promise = "A source that changes during an ingest changes the snapshot id, or is refused"
    tested = f"{len(outcomes)} changes right after the fingerprint, with the same size and time"
    row = _row(promise, tested, wrong, figure)
    if not wrong and set(outcomes) <= {"too late", "read before the change"}:
        return [Row("resources", promise, tested, figure, None)]
    return [row]


def _plain_source(folder: Path) -> Path:
    """The sample's S2AG files, not compressed."""
    for path in sorted(SAMPLE[0].rglob("*.gz")):
        target = folder / path.relative_to(SAMPLE[0]).with_suffix("")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(gzip.decompress(path.read_bytes()))
    return folder


def _ingest_while(source: Path, library: Path, dataset: str, old: bytes, new: bytes) -> tuple[int, bool]:
    """Ingest, and change a dataset when the fingerprint is logged. Returns the status, and whether it was changed."""
    with subprocess.Popen(
        command("ingest", source, "--library", library),
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        was_changed = False
        for line in process.stderr:
            if "fingerprint" in line and not was_changed and process.poll() is None:
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGSTOP)
                    for path in (source / dataset).iterdir():
                        times = path.stat()
                        content = path.read_bytes()
                        with path.open("r+b") as file:
                            file.write(content.replace(old, new))
                        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
                    was_changed = True
                    os.kill(process.pid, signal.SIGCONT)
    return process.returncode, was_changed


def _rows_of(library: Path) -> Any:
    """All papers, abstracts and edges of a library."""
    with closing(sqlite3.connect(f"file:{library / 'catalog.sqlite'}?mode=ro&immutable=1", uri=True)) as db:
        return [db.execute(f"SELECT * FROM {table}").fetchall() for table in ("papers", "abstracts", "edges")]


# -- an ingest of zeros ----------------------------------------------------------------------------------


def _gzip_bomb(setting: Setting) -> list[Row]:
    megabytes = setting.count(BOMB_MB, BOMB_MB_IN_SLICE)
    with TemporaryDirectory(dir=setting.work) as folder:
        sources = Path(folder) / "s2ag"
        shutil.copytree(SAMPLE[0], sources)
        plain = _peak(command("ingest", sources, "--library", Path(folder) / "plain"))
        member = gzip.compress(bytes(MEMBER_MB * MB))
        with next((sources / "papers").glob("*.gz")).open("ab") as file:
            for _ in range(max(1, megabytes // MEMBER_MB)):
                file.write(member)
        library = Path(folder) / "bombed"
        status, peak, error = _peak(command("ingest", sources, "--library", library))
        rejects = read_manifest(library)[0].rejects if status == 0 else {}
    above = peak - plain[1]
    wrong = []
    if above > BOMB_MEMORY_MB:
        wrong.append(f"{above:+,.0f} MB of memory")
    if status != 0 or not rejects:
        wrong.append(f"status {status}, rejects {rejects}: {error[-200:]}")
    tested = f"one line of {megabytes:,} MB of zeros, gzip; the ingest without it needs {plain[1]:,.0f} MB"
    promise = f"A line over {LONGEST_LINE_MB} MB is a counted reject, and memory stays bounded"
    return [_row(promise, tested, wrong, f"{above:+,.0f} MB, rejects {rejects}")]


def _peak(arguments: list[str]) -> tuple[int, float, str]:
    """Run a command. Returns its status, its peak memory in MB, and its errors."""
    peak = Peak()
    with subprocess.Popen(
        arguments, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        while process.poll() is None:
            peak.sample(process.pid)
            time.sleep(0.05)
        assert process.stderr is not None
        return process.returncode, peak.resident, process.stderr.read()


# -- signals ---------------------------------------------------------------------------------------------


def _signals(setting: Setting) -> list[Row]:
    library = large(setting)
    hung, slow, times = [], [], []
    for workers in (1, 2):
        with (
            TemporaryDirectory() as folder,
            serving(library, workers=workers, SCHOLARBASE_SESSIONS=folder) as server,
        ):
            os.kill(server.process.pid, signal.SIGHUP)
            time.sleep(1)
            for _ in range(10):
                # Workers that restart may take a while.
                found = request(server.url, "GET", "/v1/search?q=theory&limit=5", timeout=60)
                if found.status != 200:
                    hung.append(f"{workers} workers: {found.status or found.error}")
            if server.process.poll() is not None:
                hung.append(f"{workers} workers: ended with status {server.process.returncode}")
                continue
            seconds, left, status = terminated(server)
            times.append(seconds)
            if seconds > TERM_SECONDS or left:
                slow.append(f"{workers} workers: {seconds:.1f} s, {left} processes left")
            if status != 0:
                slow.append(f"{workers} workers: status {status}")
    return [
        _row(
            "SIGHUP does not stop a server", "1 and 2 workers, 10 requests afterwards", hung, "all answered"
        ),
        _row(
            "SIGTERM ends a server within ten seconds, whatever runs",
            "16 expensive searches and batches running; 1 and 2 workers",
            slow,
            f"{', '.join(f'{seconds:.1f} s' for seconds in times)}",
        ),
    ]


# -- recorded calls --------------------------------------------------------------------------------------


def _order(setting: Setting) -> list[Row]:
    """Send calls of one session at once, and read them back: they are ordered by their end."""
    with (
        TemporaryDirectory() as folder,
        serving(large(setting), workers=2, SCHOLARBASE_SESSIONS=folder) as server,
    ):
        headers = {"X-ScholarBase-Session": "order"}
        kinds: list[dict[str, Any]] = [
            {"q": "theory"},
            {"q": "the* OR an* OR in*", "engine": "fts5"},
            {"q": "quantum field theory of strings", "engine": "feedback", "limit": 100},
        ]

        def search(number: int) -> int | None:
            body = kinds[number % 3] | {"fields": ["id"]}
            return request(server.url, "POST", "/v1/search", body, headers=headers).status

        with ThreadPoolExecutor(16) as pool:
            statuses = list(pool.map(search, range(162)))
        time.sleep(3)
        lines = [
            json.loads(line) for line in request(server.url, "GET", "/v1/sessions/order").body.splitlines()
        ]
    answered = statuses.count(200)
    promise, tested = (
        "Recorded calls are in the order of their ends",
        "162 calls of one session, 16 at once, 2 workers",
    )
    if not lines or "ended" not in lines[0]:
        return [
            _row(promise, tested, [f"a line has no ended, but {', '.join(lines[0] if lines else ())}"], "")
        ]
    ends = [line["ended"] for line in lines]
    late = sum(a > b for a, b in pairwise(ends))
    wrong = [f"{late} of {len(lines)} out of order"] if late else []
    wrong += [f"{len(lines)} recorded, {answered} answered"] if len(lines) < answered else []
    return [_row(promise, tested, wrong, f"all {len(lines)} in order")]


def _refused_bodies(setting: Setting) -> list[Row]:
    with (
        TemporaryDirectory() as folder,
        serving(sample(setting), workers=1, SCHOLARBASE_SESSIONS=folder) as server,
    ):
        body = json.dumps({"nonsense": "y" * 8_000_000}).encode()
        headers = {"X-ScholarBase-Session": "refused"}
        statuses = {
            request(server.url, "POST", "/v1/search", body, headers=headers).status for _ in range(20)
        }
        time.sleep(2)
        size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()) / MB
    wrong = [] if size < 5 else [f"{size:.0f} MB on disk"]
    wrong += [] if statuses == {400} else [f"statuses {statuses}"]
    tested, figure = "20 bodies of 8 MB refused", f"{size:.1f} MB on disk"
    return [_row("A refused body is not recorded whole", tested, wrong, figure)]


PARTS: Final[tuple[Callable[[Setting], list[Row]], ...]] = (
    _replaced,
    _truncated,
    _changed_source,
    _signals,
    _full_disk,
    _full_sessions,
    _few_descriptors,
    _little_memory,
    _order,
    _refused_bodies,
    _gzip_bomb,
)
PARTS_IN_SLICE: Final = (_truncated, _gzip_bomb)

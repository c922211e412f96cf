"""A PostgreSQL server on loopback, in a temporary folder: for tests and measurements."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psycopg

PASSWORD = "p/w:1@d%"
QUOTED = "p%2Fw%3A1%40d%25"
_names = count()


class ProgramMissing(Exception):
    """A program that is not a Python package is not installed."""


def _program(name: str) -> str:
    program = shutil.which(name) or next(
        (str(path) for path in sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)), None
    )
    if program is None:
        raise ProgramMissing("PostgreSQL is not installed (in Debian: apt-get install postgresql).")
    return program


class Postgres:
    """A server that stops and starts again with its data. ``url`` is that of a database of its own."""

    def __init__(self, folder: Path) -> None:
        self._data = folder / "data"
        self._folder = folder
        self._shared: str | None = None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        # The server refuses to run as root.
        self._user = pwd.getpwnam("postgres" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name)
        if os.getuid() == 0:
            os.chown(folder, self._user.pw_uid, self._user.pw_gid)
        (folder / "password").write_text(PASSWORD)
        (folder / "password").chmod(0o644)
        self._run(
            *("initdb", "--no-sync", "-D", str(self._data), "-U", "library", "-E", "UTF8", "--no-locale"),
            *("-A", "scram-sha-256", "--pwfile", str(folder / "password")),
        )

    def _run(self, program: str, *arguments: str) -> str:
        run = subprocess.run(
            [_program(program), *arguments],
            user=self._user.pw_uid if os.getuid() == 0 else None,
            group=self._user.pw_gid if os.getuid() == 0 else None,
            env={"PATH": os.environ["PATH"], "PGPASSWORD": PASSWORD, "HOME": str(self._folder)},
            cwd=self._folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stdout + run.stderr
        return run.stdout

    def start(self) -> None:
        options = f"-p {self.port} -h 127.0.0.1 -k {self._folder} -c fsync=off -c max_connections=60"
        log = str(self._folder / "log")
        self._run("pg_ctl", "-D", str(self._data), "-w", "-t", "120", "-l", log, "-o", options, "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-D", str(self._data), "-w", "-t", "120", "-m", "immediate", "stop")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to every process of the server."""
        main = int((self._data / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
        for process in (main, *map(int, children)):
            os.kill(process, number)

    def sql(self, statement: str, database: str = "postgres") -> str:
        address = ("-h", "127.0.0.1", "-p", str(self.port), "-U", "library", "-d", database)
        return self._run("psql", *address, "-X", "-q", "-A", "-t", "-c", statement)

    def url(self) -> str:
        """A new, empty database."""
        name = f"sessions{next(_names)}"
        self.sql(f"CREATE DATABASE {name}")
        return f"postgresql://library:{QUOTED}@127.0.0.1:{self.port}/{name}"

    def emptied(self) -> str:
        """The database that tests share, without tables."""
        if self._shared is None:
            self._shared = self.url()
        with psycopg.connect(self._shared) as connection:
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute("CREATE SCHEMA public")
        return self._shared


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    """A running server.

    Raises:
        ProgramMissing: PostgreSQL is not installed.
    """
    _program("initdb")
    # Not in a folder of this user, which others cannot enter.
    with tempfile.TemporaryDirectory(prefix="scholarbase-postgres-") as folder:
        Path(folder).chmod(0o755)
        postgres = Postgres(Path(folder))
        postgres.start()
        try:
            yield postgres
        finally:
            postgres.stop()

"""``scholarbase proxy``: answers for other services' hosts from a library, for one command or until it is stopped."""

from __future__ import annotations

import asyncio
import os
import runpy
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from scholarbase.cli.options import as_of_option, encoder_option, library_option, require_library
from scholarbase.errors import AddressError, InvalidRequest, LibraryError
from scholarbase.settings import Settings, state_folder

if TYPE_CHECKING:
    from scholarbase_dialects.proxy.serving import Proxy

DEFAULT_PORT = 8180
START_SECONDS = 600
"""Loading a large model or library from a slow disk takes minutes."""
STOP_SECONDS = 15
"""When a server is killed that has not ended since SIGTERM."""
LOCAL = ("localhost", "127.0.0.1", "::1")
"""Hosts that need no proxy."""
NOT_FOUND, NOT_EXECUTABLE = 127, 126
"""The exit status for a command that cannot be started, as shells have it."""
_SERVE = f"import {__name__} as proxy; proxy.run_below()"


@click.command(short_help="Answer for other services' hosts from a library.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option("--url", help="A ScholarBase server to use instead of a library. [env: SCHOLARBASE_URL]")
@library_option
@encoder_option
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help=f"The port on 127.0.0.1; 0 chooses a free one. [default: {DEFAULT_PORT}; a free one with COMMAND]",
)
@click.option("--session", "name", help="Record all requests in the session of this name.")
@as_of_option
@click.option(
    "--certificates",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder of the proxy's certificate authority. [default: in the user's state folder]",
)
@click.pass_obj
def proxy(
    settings: Settings,
    command: Sequence[str],
    url: str | None,
    library: Path | None,
    encoder: str | None,
    port: int | None,
    name: str | None,
    as_of: str | None,
    certificates: Path | None,
) -> None:
    """Answer the requests of unchanged programs to other services from a library.

    Without COMMAND, print the environment variables that point a program at the proxy, and serve until SIGINT or
    SIGTERM. With COMMAND, run it with these variables, and end with its exit status.
    """
    from scholarbase.extras import check_installed

    check_installed("proxy", "The proxy")
    from scholarbase.models.checks import as_of_day
    from scholarbase.sessions.session import check_session_id
    from scholarbase_dialects.proxy.authority import Authority
    from scholarbase_dialects.proxy.destinations import HOSTS
    from scholarbase_dialects.proxy.serving import Backend, Proxy

    headers = {}
    if name is not None:
        headers["X-ScholarBase-Session"] = check_session_id(name)
    if as_of is not None:
        as_of_day(as_of)
        headers["X-ScholarBase-As-Of"] = as_of
    if settings.api_key is not None:
        headers["Authorization"] = f"Bearer {settings.api_key.get_secret_value()}"
    authority = Authority(certificates or state_folder() / "proxy", HOSTS, os.environ)
    with _ending_by_signals(), _backend(settings, library, url, encoder) as address:
        server = Proxy(authority, Backend(address, headers))
        chosen = port if port is not None else 0 if command else DEFAULT_PORT
        status = asyncio.run(_serve(server, chosen, authority.bundle, command))
    sys.exit(status)


@contextmanager
def _ending_by_signals() -> Iterator[None]:
    """End with SystemExit on SIGTERM and SIGHUP, so that no server of a library is left behind."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, stop) for number in _ending()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ending() -> list[signal.Signals]:
    """SIGTERM and SIGHUP, but none that is ignored, such as by nohup."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    return [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]


async def _serve(server: Proxy, port: int, bundle: Path, command: Sequence[str]) -> int:
    try:
        await server.start(port)
    except OSError as error:
        raise AddressError(
            f"Cannot listen on 127.0.0.1 port {port} ({error.strerror}): use another --port (0 picks a free one)."
        ) from error
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (*_ending(), signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    try:
        exported = variables(server.url, bundle, os.environ)
        if command:
            return await _run(command, os.environ | exported)
        for name, value in exported.items():
            click.echo(f"export {name}={shlex.quote(value)}")
        sys.stdout.flush()
        await stopped.wait()
        return 0
    finally:
        await server.stop()


async def _run(command: Sequence[str], environment: dict[str, str]) -> int:
    """The exit status of a command, as a shell has it. SIGTERM and SIGHUP are passed on; a terminal sends SIGINT to
    both."""
    loop = asyncio.get_running_loop()
    started: asyncio.Future[asyncio.subprocess.Process] = loop.create_future()

    def pass_on(number: int) -> None:
        started.add_done_callback(lambda future: _signal(future.result(), number))

    for number in _ending():  # before the command starts, so that no signal is lost
        loop.add_signal_handler(number, pass_on, number)
    loop.add_signal_handler(signal.SIGINT, lambda: None)
    try:
        process = await asyncio.create_subprocess_exec(*command, env=environment)
    except OSError as error:
        click.echo(f"scholarbase: Cannot run {command[0]}: {error.strerror}.", err=True)
        return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
    started.set_result(process)
    status = await process.wait()
    return 128 - status if status < 0 else status


def _signal(process: asyncio.subprocess.Process, number: int) -> None:
    with suppress(ProcessLookupError):
        process.send_signal(number)


def variables(url: str, bundle: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables for a proxy at ``url``. Those of lower case too, which take precedence in some clients."""
    from scholarbase_dialects.proxy.authority import ROOT_VARIABLES

    proxies = {name: url for upper in ("HTTPS_PROXY", "HTTP_PROXY") for name in (upper, upper.lower())}
    listed = (environ.get("no_proxy") or environ.get("NO_PROXY") or "").split(",")
    direct = ",".join(dict.fromkeys([*(host.strip() for host in listed if host.strip()), *LOCAL]))
    return {
        **proxies,
        **dict.fromkeys(("NO_PROXY", "no_proxy"), direct),
        **dict.fromkeys(ROOT_VARIABLES, str(bundle)),
    }


@contextmanager
def _backend(settings: Settings, library: Path | None, url: str | None, encoder: str | None) -> Iterator[str]:
    """The URL of the server to send requests to: the one in the options, or a new one for the library.

    Raises:
        InvalidRequest: options contradict each other, or the URL is not valid.
        LibraryError: the server ended before it was ready.
    """
    import httpx

    if url is not None and library is not None:
        raise InvalidRequest("Give --library for a local library or --url for a server, not both.")
    if url is not None or (library or settings.library) is None:
        if encoder is not None:
            raise InvalidRequest(f"--encoder {encoder} needs a local library: omit it, or give --library.")
        try:
            address = httpx.URL(url or settings.url)
        except httpx.InvalidURL:
            address = httpx.URL()
        if address.scheme not in ("http", "https") or not address.host:
            raise InvalidRequest(
                f"{url or settings.url!r} is not the URL of a server, such as http://host:8000."
            )
        yield str(address)
        return
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    options = [
        "--library",
        str(require_library(library, settings)),
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    if encoder is not None:
        options += ["--encoder", encoder]
    environment = {name: value for name, value in os.environ.items() if name != "SCHOLARBASE_DIALECT"}
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", _SERVE, str(os.getpid()), "serve", *options],
        env=environment,
        stdin=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for the command, which the server outlives
    )
    try:
        _wait_ready(f"http://127.0.0.1:{port}", process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def run_below() -> None:
    """Run ``scholarbase`` in this process, which ends with the one whose id is its first argument."""
    from scholarbase.workers import end_with

    end_with(int(sys.argv.pop(1)))
    runpy.run_module("scholarbase.cli", run_name="__main__", alter_sys=True)


def _wait_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    import httpx

    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(httpx.HTTPError):
            if httpx.get(f"{url}/readyz", trust_env=False, timeout=10).is_success:
                return
        time.sleep(0.05)
    raise LibraryError("The server of the library did not start: see its messages above.")

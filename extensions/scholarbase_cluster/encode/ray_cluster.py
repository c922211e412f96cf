"""Connections to Ray clusters. A cluster that is started here is quiet, local, and ends with the connection."""

from __future__ import annotations

import logging
import math
import os
import secrets
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from scholarbase.errors import EncoderError
from scholarbase.extras import require
from scholarbase.workers import module_environment

LOCAL: Final = "local"
"""The address of a cluster that is started on this machine, and ends with the connection."""
STORE_BYTES: Final = 100 << 20
"""The object store of such a cluster, which has only numbers: texts and vectors are in files."""
CONNECT_SECONDS: Final = 10.0


@contextmanager
def connected(address: str, cpus: float | None) -> Iterator[Any]:
    """Connect to the cluster at ``address``, or start one with ``cpus``, which ends with the block. Yields ``ray``.

    Raises:
        EncoderError: there is no cluster.
        MissingExtra: ray is not installed.
    """
    # Read when ray is imported.
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_DATA_LOG_LEVEL", "ERROR")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    if address == LOCAL:
        # Otherwise Ray writes a token to the home folder.
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    ray = require("ray", "ray", "Encoding on Ray")
    with _started(ray, cpus) if address == LOCAL else _joined(ray, address):
        yield ray


@contextmanager
def _joined(ray: Any, address: str) -> Iterator[None]:
    try:
        _check_reachable(address)
        ray.init(address=address, logging_level=logging.WARNING, log_to_driver=False)
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise EncoderError(
            f"No Ray cluster at {address} ({reason}): check --ray, and run the command on a machine of the cluster. "
            "--ray local starts one here."
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


def _check_reachable(address: str) -> None:
    """Raises OSError or ValueError: nothing listens at ``host:port``, for which Ray would wait many minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon:
        socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()


@contextmanager
def _started(ray: Any, cpus: float | None) -> Iterator[None]:
    folder = tempfile.mkdtemp(prefix="ray-")
    try:
        with _environment(PYTHONPATH=module_environment()["PYTHONPATH"]):
            ray.init(
                address=LOCAL,
                num_cpus=None if cpus is None else math.ceil(cpus),
                include_dashboard=False,
                object_store_memory=STORE_BYTES,
                logging_level=logging.ERROR,
                log_to_driver=False,
                _temp_dir=folder,
            )
        yield
    finally:
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    """Set environment variables in the block, for the processes that it starts."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

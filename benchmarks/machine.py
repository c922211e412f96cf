"""Facts of the machine that results depend on, nothing that identifies its owner."""

from __future__ import annotations

import os
import platform
import sqlite3
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

ENGINES: Final = ("qdrant-edge-py", "tantivy", "bm25s", "numba", "numpy", "torch", "granian", "orjson")


def facts() -> dict[str, Any]:
    """Cores, processor model, memory in GB, system, and versions of Python and the engines, None if not installed."""
    return {
        "cores": cores(),
        "cpu": _cpu(),
        "memory_gb": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {"sqlite": sqlite3.sqlite_version} | {name: _version(name) for name in ENGINES},
    }


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None

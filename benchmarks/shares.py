"""Equal shares of the processor for servers: a control group of each with a quota, else a core of its own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

GROUPS: Final = Path("/sys/fs/cgroup")
PERIOD: Final = 100_000
"""Microseconds, the default of the kernel (https://docs.kernel.org/scheduler/sched-bwc.html)."""


class NoShares(Exception):
    """This machine allows neither control groups nor cores of their own."""


@contextmanager
def share_of_core(number: int, share: float, servers: int) -> Iterator[list[str]]:
    """The command that runs another one, and its processes, with a share of a core.

    Args:
        number: which of the ``servers`` it is for, from 0.

    Raises:
        NoShares: groups cannot be made, and there are not two cores more than servers.
    """
    name = f"scholarbase-{os.getpid()}-{number}"
    folder = GROUPS / "cpu" / name if (GROUPS / "cpu").is_dir() else GROUPS / name
    try:
        folder.mkdir()
    except OSError as error:
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < servers + 2 or shutil.which("taskset") is None:
            raise NoShares(
                f"Control groups cannot be made ({error}), and there are {len(cores)} cores."
            ) from error
        yield ["taskset", "--cpu-list", str(cores[number])]
        return
    try:
        quota = int(share * PERIOD)
        try:
            if (folder / "cpu.cfs_quota_us").exists():
                (folder / "cpu.cfs_quota_us").write_text(str(quota))
            else:
                (folder / "cpu.max").write_text(f"{quota} {PERIOD}")
        except OSError as error:
            raise NoShares(f"The quota of a control group cannot be set ({error}).") from error
        yield ["sh", "-c", f'echo $$ >{folder}/cgroup.procs && exec "$0" "$@"']
    finally:
        folder.rmdir()

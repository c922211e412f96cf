"""Ingest beside the bare sum of its work, and its memory at two sizes."""

from __future__ import annotations

import time

from benchmarks.rows import Row, Setting
from scholarbase.ingest.job import ingest


def run(setting: Setting) -> list[Row]:
    """Build the library."""
    began = time.perf_counter()
    ingest([setting.corpus], setting.library)
    here = setting.papers / (time.perf_counter() - began)
    return [Row("ingest", "ingest", "nothing yet", here, here, "papers/s", 1.0)]

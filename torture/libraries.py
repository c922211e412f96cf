"""The libraries that are attacked: the sample, a large one from the data folder, and one with vectors."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from benchmarks import corpus, rows
from benchmarks.servers import ROOT
from tests.libraries import copied
from torture.rows import Setting, say

SAMPLE: Final = (ROOT / "sample" / "s2ag", ROOT / "sample" / "arxiv")
PAPERS: Final = 100_000


def environment(**more: str) -> dict[str, str]:
    """This process's environment for a child, without settings of ScholarBase."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SCHOLARBASE_")}
    path = os.pathsep.join(filter(None, (str(ROOT), kept.get("PYTHONPATH"))))
    return kept | {"PYTHONPATH": path} | more


def command(*arguments: str | Path) -> list[str]:
    """The command line of ScholarBase, as arguments of a process."""
    return [sys.executable, "-m", "scholarbase.cli", *map(str, arguments)]


def sample(setting: Setting) -> Path:
    """The sample's library, sparse only."""
    return _built(setting.work / "sample", SAMPLE, "--encoder", "none")


def large(setting: Setting) -> Path:
    """A library of 100,000 arXiv records, as an ingest builds it by default; in a slice, or without the data folder,
    that of the sample."""
    if setting.is_slice or setting.data is None:
        return sample(setting)
    wanted = rows.Setting(setting.data, PAPERS, setting.work)
    try:
        corpus.make(wanted)
    except FileNotFoundError as error:
        say(f"{error} The sample is used.")
        return sample(setting)
    return _built(setting.work / f"default-library-{PAPERS}", [wanted.corpus])


def dense(setting: Setting) -> Path | None:
    """The sample's first papers with vectors of a tiny model; None where torch is not installed."""
    try:
        from tests.encoders.tiny_bge_m3 import make_tiny_bge_m3

        model = tiny_model(setting)
        if not model.is_dir():
            make_tiny_bge_m3(model)
    except ImportError:
        return None
    return _built(setting.work / "dense", [SAMPLE[1]], "--encoder", str(model))


def tiny_model(setting: Setting) -> Path:
    """The folder of the model of :func:`dense`."""
    return setting.work / "tiny-bge-m3"


def copy(library: Path, target: Path) -> Path:
    """A copy of a library that may be damaged. Sparse files stay sparse, and an earlier copy is replaced."""
    shutil.rmtree(target, ignore_errors=True)
    return copied(library, target)


def _built(library: Path, sources: list[Path] | tuple[Path, ...], *options: str) -> Path:
    if not (library / "manifest.json").is_file():
        say(f"building {library.name}")
        library.parent.mkdir(parents=True, exist_ok=True)
        built = subprocess.run(
            command("ingest", *sources, "--library", library, *options),
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        if built.returncode:
            raise RuntimeError(f"The library {library.name} could not be built:\n{built.stderr}")
    return library

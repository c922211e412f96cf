"""Make a release: ``python -m release`` writes it to build/release. ``make release`` runs this.

It has the wheel and the sdist, checked with twine and tried in an empty environment; the context of the image; two
packed libraries and their catalogue; a bundle for MCP clients; a conda recipe; the notes, from CHANGELOG.md; and a list
of hashes.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from contextlib import closing
from pathlib import Path
from typing import Final

import msgspec

from release.changelog import ROOT, SOURCE, notes
from release.kit import recipe, write_bundle
from release.smoke import smoke
from scholarbase.encoders import open_encoder
from scholarbase.ingest.job import ingest
from scholarbase.models.encoders import PACKAGED
from scholarbase_download.catalogue import PACKAGED as PACKAGED_CATALOGUE
from scholarbase_download.catalogue import Catalogue, Entry
from scholarbase_download.packing import pack

CONTEXT: Final = (
    "docker/Dockerfile",
    "docker/requirements.lock",
    "docker/encoders.lock",
    "pyproject.toml",
    "hatch_build.py",
    "README.md",
    "LICENSE",
    "extensions",
    "sample",
    "scholarbase",
)
"""What docker/Dockerfile copies, and itself."""
LIBRARIES: Final = {
    "demo": (
        "High-energy physics with citations, and natural language processing.",
        "CC0 1.0, citations ODbL 1.0",
        ("s2ag", "arxiv"),
    ),
    "bibliography": ("Papers of a bibliography from Zotero.", "CC0 1.0", ("own/zotero.bib",)),
}
"""The libraries of the catalogue: what they have, their licences, and their sources in the sample."""


def version(tag: str | None) -> str:
    """The version of pyproject.toml. SystemExit if a tag is given that is not this version's."""
    number: str = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    if tag and tag != f"v{number}":
        sys.exit(f"The tag {tag} is not that of version {number}: it would be v{number}.")
    return number


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if "__pycache__" in member.name:
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = 0
    member.mode = 0o755 if member.isdir() else 0o644
    return member


def write_context(path: Path) -> None:
    """Write the files that the image is built from; the same files give the same bytes."""
    with (
        path.open("wb") as raw,
        gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, filename="") as packed,
        tarfile.open(fileobj=packed, mode="w") as tar,
    ):
        for name in CONTEXT:
            tar.add(ROOT / name, name, filter=_plain)


def write_catalogue(out: Path, number: str) -> bytes:
    """Build and pack the libraries, write ``catalogue.json``, and return it."""
    entries = []
    with tempfile.TemporaryDirectory(prefix="scholarbase-libraries-") as folder:
        for name, (description, licence, sources) in LIBRARIES.items():
            library, file = Path(folder) / name, out / f"{name}-library.tar.zst"
            with closing(open_encoder(PACKAGED)) as encoder:
                manifest = ingest(
                    [ROOT / "sample" / source for source in sources],
                    library,
                    encoder=encoder,
                    encoder_location=PACKAGED,
                )
            packed = pack(library, file)
            entries.append(
                Entry(
                    name=name,
                    description=description,
                    licence=licence,
                    papers=manifest.counts["papers"],
                    bytes=packed.bytes,
                    packed_bytes=packed.packed_bytes,
                    snapshot=packed.snapshot,
                    url=f"{SOURCE}/releases/download/v{number}/{file.name}",
                    sha256=packed.sha256,
                )
            )
    written = msgspec.json.format(msgspec.json.encode(Catalogue(tuple(entries))), indent=2) + b"\n"
    (out / "catalogue.json").write_bytes(written)
    return written


def build(out: Path, catalogue: bytes) -> Path:
    """Build and check the sdist and the wheel, with the catalogue in both, and the recipe. Returns the wheel."""
    before = PACKAGED_CATALOGUE.read_bytes()
    try:
        PACKAGED_CATALOGUE.write_bytes(catalogue)
        subprocess.run([sys.executable, "-m", "build", "--outdir", out / "dist", ROOT], check=True)
    finally:
        PACKAGED_CATALOGUE.write_bytes(before)
    (wheel,), (sdist,) = (out / "dist").glob("*.whl"), (out / "dist").glob("*.tar.gz")
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", wheel, sdist], check=True)
    (out / "recipe.yaml").write_text(
        recipe(version(None), hashlib.sha256(sdist.read_bytes()).hexdigest()), "utf-8"
    )
    return wheel


def try_wheel(wheel: Path) -> None:
    """Install the wheel by itself in an empty environment, and run the README and the demo."""
    readme = (ROOT / "README.md").read_text("utf-8")
    extras = re.search(r'pip install "\.\[([a-z,-]+)\]"', readme)
    if extras is None:
        sys.exit("The README does not say how to install ScholarBase.")
    with tempfile.TemporaryDirectory(prefix="scholarbase-release-") as folder:
        environment = Path(folder) / "environment"
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        pip = [
            environment / "bin" / "python",
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ]
        command = environment / "bin" / "scholarbase"
        library = Path(folder) / "demo-library"
        sources = [ROOT / "sample" / "s2ag", ROOT / "sample" / "arxiv"]
        subprocess.run([*pip, wheel], check=True, cwd=folder)
        print("the core, without extras:", flush=True)
        subprocess.run([command, "--version"], check=True, cwd=folder)
        subprocess.run([command, "ingest", *sources, "--library", library], check=True, cwd=folder)
        subprocess.run([command, "search", "string theory", "--library", library, "--limit", "1"], check=True)
        subprocess.run([*pip, f"{wheel}[{extras[1]}]"], check=True, cwd=folder)
        for text in smoke(environment / "bin", readme):
            print(f"ok  {text.splitlines()[0]}", flush=True)
        cache = os.environ | {"SCHOLARBASE_CACHE_DIR": str(Path(folder) / "cache")}
        subprocess.run([command, "demo", "--once", "--port", "0"], check=True, cwd=folder, env=cache)


def main() -> None:
    """Build, try and describe a release."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "release", help="the folder to write")
    parser.add_argument("--tag", help="stop unless the version is that of this tag, such as v0.2.0")
    arguments = parser.parse_args()
    number, out = version(arguments.tag), arguments.out.resolve()
    try:
        text = notes((ROOT / "CHANGELOG.md").read_text("utf-8"), number)
    except ValueError as error:
        sys.exit(str(error))
    shutil.rmtree(out, ignore_errors=True)
    (out / "dist").mkdir(parents=True)
    (out / "release-notes.md").write_text(text, "utf-8")
    try_wheel(build(out, write_catalogue(out, number)))
    write_context(out / f"scholarbase-{number}-image-context.tar.gz")
    write_bundle(out / "scholarbase.mcpb", number)
    files = sorted(path for path in out.rglob("*") if path.is_file())
    sums = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(out)}\n" for path in files)
    (out / "SHA256SUMS").write_text("".join(sums), "utf-8")
    print(f"The release {number} is in {out}")


if __name__ == "__main__":
    main()

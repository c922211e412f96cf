"""Make a release: ``python -m release`` writes it to build/release. ``make release`` runs this.

It has the wheel and the sdist, tried in an empty environment; the context of the image; the sample as a packed library;
the notes, from CHANGELOG.md; and a list of hashes.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path
from typing import Final

from release.changelog import ROOT, notes
from release.smoke import smoke

CONTEXT: Final = (
    "docker/Dockerfile",
    "docker/requirements.lock",
    "docker/encoders.lock",
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "extensions",
    "sample",
    "scholarbase",
)
"""What docker/Dockerfile copies, and itself."""


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


def try_wheel(wheel: Path, out: Path) -> None:
    """Install the wheel by itself in an empty environment, run the README, and pack the sample's library."""
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
        subprocess.run([command, "pack", library, out / "demo-library.tar.zst"], check=True)


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
    subprocess.run([sys.executable, "-m", "build", "--outdir", out / "dist", ROOT], check=True)
    (wheel,) = (out / "dist").glob("*.whl")
    try_wheel(wheel, out)
    write_context(out / f"scholarbase-{number}-image-context.tar.gz")
    files = sorted(path for path in out.rglob("*") if path.is_file())
    sums = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(out)}\n" for path in files)
    (out / "SHA256SUMS").write_text("".join(sums), "utf-8")
    print(f"The release {number} is in {out}")


if __name__ == "__main__":
    main()

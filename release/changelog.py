"""The sections of CHANGELOG.md, and the version where it is written.

``python -m release.changelog 0.3.0 2027-02-01`` makes [Unreleased] the section of a version, and sets the version.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

SOURCE: Final = "https://github.com/scholarbase/scholarbase"
ROOT: Final = Path(__file__).resolve().parent.parent
PLACES: Final = {
    "pyproject.toml": r'^(version = ")[^"]+(")$',
    "CITATION.cff": r"^(version: )\S+()$",
    "server.json": r'^( +"version": ")[^"]+(",)$',
    "scholarbase/__init__.py": r'^(__version__ = ")[^"]+(")$',
    "tests/snapshots/openapi.json": r'^(    "version": ")[^"]+(")$',
}
"""The files that name the version, and where."""


def notes(changelog: str, version: str) -> str:
    """The section of a version, without its heading. Its links lead to the files of the version's tag.

    Raises:
        ValueError: there is none, or it is empty.
    """
    match = re.search(
        rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## |\Z)", changelog, re.S | re.M
    )
    if match is None or not match[1].strip():
        raise ValueError(f"CHANGELOG.md has no entries for {version}: run python -m release.changelog first.")
    return re.sub(r"\]\((?!https?:|#)", f"]({SOURCE}/blob/v{version}/", match[1].strip()) + "\n"


def with_version(changelog: str, version: str, date: str) -> str:
    """The changelog with the entries of [Unreleased] under ``version``, and an empty [Unreleased] above.

    Raises:
        ValueError: the version has a section already, or nothing is unreleased.
    """
    if f"## [{version}]" in changelog:
        raise ValueError(f"CHANGELOG.md has a section {version} already.")
    unreleased = re.search(r"^## \[Unreleased\]\n(.*?)(?=^## |\Z)", changelog, re.S | re.M)
    if unreleased is None or not unreleased[1].strip():
        raise ValueError("CHANGELOG.md has nothing under [Unreleased].")
    return changelog.replace("## [Unreleased]\n", f"## [Unreleased]\n\n## [{version}] - {date}\n", 1)


def main(version: str, date: str) -> None:
    """Write the version to every place, and the section to CHANGELOG.md."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version) or not re.fullmatch(r"\d{4}-\d\d-\d\d", date):
        sys.exit(f"Give a version such as 0.3.0 and a date such as 2027-02-01, not {version!r} and {date!r}.")
    path = ROOT / "CHANGELOG.md"
    path.write_text(with_version(path.read_text("utf-8"), version, date), "utf-8")
    for name, pattern in PLACES.items():
        place = ROOT / name
        text, count = re.subn(pattern, rf"\g<1>{version}\g<2>", place.read_text("utf-8"), flags=re.M)
        if not count:
            sys.exit(f"{name} has no line that matches {pattern}.")
        place.write_text(text, "utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])

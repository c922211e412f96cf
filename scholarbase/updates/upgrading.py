"""``scholarbase upgrade``: what a library of an older format lacks, which only its sources have.

No format has yet been followed by one whose libraries can be made without the sources.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

import orjson

from scholarbase import manifest
from scholarbase.errors import InvalidRequest, LibraryCorrupt, LibraryError
from scholarbase.manifest import FORMAT

ADDED: Final[Mapping[int, str]] = {
    1: "BM25 vectors with other weights",
    2: "hashes of main titles",
    3: "hashes of its content and files",
    4: "document frequencies by month, and weights whose sums are exact",
    5: "the similarity of unrelated papers for its encoder",
    6: "journals, publication types, fields of study, open access, comments and versions of papers",
    7: "numbers of papers that follow from their ids, and a content hash that an update can change",
    8: "which papers were withdrawn or retracted",
}
"""What a library of the next format has and only the sources have, by format."""


def upgrade(library: str | Path) -> NoReturn:
    """Explain why a library cannot be one of the present format, and which command builds it again.

    Raises:
        InvalidRequest: the library has the present format.
        LibraryError: it needs its sources, or has a newer format.
        LibraryNotFound, LibraryCorrupt: its manifest cannot be read.
    """
    library = Path(library)
    data = manifest.read_bytes(library)
    try:
        content = orjson.loads(data)
        found, rebuild = content["format"], _rebuild(content)
        if type(found) is not int:
            raise TypeError("its format is not a number")
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise LibraryCorrupt(
            f"{library / manifest.FILE_NAME} is not a valid manifest of a library: {error}. Ingest the library again."
        ) from error
    has = f"The library at {library} has format {found}"
    if found == FORMAT:
        raise InvalidRequest(f"{has}, the present one: there is nothing to upgrade.")
    if found not in ADDED:
        raise LibraryError(
            f"{has}, and this ScholarBase upgrades formats {min(ADDED)} to {max(ADDED)}: use the release that built "
            "it, or a newer one."
        )
    missing = "; ".join(ADDED[number] for number in range(found, FORMAT))
    raise LibraryError(
        f"{has}, and one of format {FORMAT} has also: {missing}. Only its sources have this, so build it from them: "
        f"{rebuild}"
    )


def _rebuild(content: Mapping[str, Any]) -> str:
    """The command that builds the library, and its sources."""
    rules, encoder = content["rules"], content["encoder"]
    options = ["--keep", str(rules["keep"])]
    if rules.get("profile", "default") != "default":
        options += ["--profile", str(rules["profile"])]
    options += ["--encoder", str(encoder["name"]) if encoder else "none"]
    names = sorted(str(source["name"]) for source in content["sources"])
    sources = ", ".join(names[:3]) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")
    return f"scholarbase ingest SOURCES --library NEW {shlex.join(options)} (SOURCES are {sources})."

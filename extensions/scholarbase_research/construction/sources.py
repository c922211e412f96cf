"""Where candidates come from: the library, in each mode and with each sparse engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from scholarbase.errors import InvalidRequest
from scholarbase.models.limits import ENGINES, MODES, Engine, Mode
from scholarbase.models.source import Source


class LibrarySource:
    """The library in one mode, with one sparse engine."""

    def __init__(self, source: Source, mode: Mode, engine: Engine | None = None) -> None:
        self.name = f"library:{mode}" + (f":{engine}" if engine else "")
        self._source = source
        self._mode: Mode = mode
        self._engine = engine

    def search(self, text: str, depth: int, to: str | None) -> list[str]:
        """The ids of at most ``depth`` papers, best first, with dates up to ``to``. Raises as ``Library.search``."""
        response = self._source.search(
            text, syntax="plain", mode=self._mode, engine=self._engine, limit=depth, to=to, fields=["id"]
        )
        return [hit.paper.id for hit in response.results]


def open_sources(source: Source, name: str) -> list[LibrarySource]:
    """``library`` is the library in every mode that it has; ``library:MODE`` or ``library:MODE:ENGINE`` one.

    Raises:
        InvalidRequest: an unknown mode or engine.
        UnsupportedMode: the library lacks the mode.
    """
    kind, _, rest = name.partition(":")
    mode, _, engine = rest.partition(":")
    if name == "library":
        best = source.search("search", limit=1, fields=["id"]).mode
        modes: Sequence[Mode] = MODES if best == "hybrid" else (best,)
        return [LibrarySource(source, mode) for mode in modes]
    if kind != "library" or mode not in get_args(Mode) or (engine and engine not in get_args(Engine)):
        raise InvalidRequest(
            f"--source {name}: use library, library:MODE or library:MODE:ENGINE, with a mode of {', '.join(MODES)} and "
            f"an engine of {', '.join(ENGINES)}."
        )
    opened = LibrarySource(source, mode, engine or None)  # type: ignore[arg-type]  # checked above
    opened.search("search", 1, None)
    return [opened]

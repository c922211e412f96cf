"""Trace one search through the package: which modules run, in which order, and which of its types they exchange.

    python examples/trace_search.py
    python examples/trace_search.py --library my-library --target "/v1/search?q=string+theory&mode=hybrid"

Builds a library from the sample unless one is given, serves it on a free port, and prints for one GET request:

* the modules of ``scholarbase`` in the order in which they are entered. A module is entered when a function of it is
  called from another module of the package (code of other packages in between is not counted). It is *entered again*
  when that happens after a module that comes later in the list was entered. Resuming a coroutine is no call.
* the classes of ``scholarbase`` among the arguments and return values of the traced calls. ``self`` and ``cls`` are not
  counted; the items of tuples, lists and dicts are.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import socket
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final
from urllib.request import urlopen

from scholarbase.api.app import create_app
from scholarbase.asgi import Embedded, options
from scholarbase.ingest.job import ingest
from scholarbase.search.library import Library

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "scholarbase"
TARGET = "/v1/search?q=How+is+two-dimensional+QCD+related+to+string+theory"


class Trace:
    """Records calls of functions of the package, in every thread, while ``active``."""

    def __init__(self) -> None:
        self.active = False
        self.modules: list[str] = []
        """In the order in which they were first entered."""
        self.again: list[tuple[str, str]] = []
        """Modules that were entered again, each with the module that called it."""
        self.classes: dict[str, str] = {}
        """The classes, each with the first place where it was seen."""
        self._entries: list[str] = []
        self._suspended: dict[int, FrameType] = {}
        """Frames of coroutines and generators by id, kept so that no id is used twice."""
        self._lock = threading.RLock()

    def profile(self, frame: FrameType, event: str, value: object) -> None:
        """A profile function: https://docs.python.org/3/library/sys.html#sys.setprofile."""
        module = _module(frame)
        if not self.active or module is None or frame.f_code.co_name in _COMPREHENSIONS:
            return
        where = f"{module}.{frame.f_code.co_name}"
        with self._lock:
            if event == "return":
                self._note(value, f"returned by {where}")
            elif event == "call" and not self._is_resumed(frame):
                self._enter(module, _caller(frame))
                for name in _arguments(frame.f_code):
                    self._note(frame.f_locals.get(name), f"argument {name} of {where}")

    def _is_resumed(self, frame: FrameType) -> bool:
        if not frame.f_code.co_flags & _SUSPENDING:
            return False
        known = id(frame) in self._suspended
        self._suspended[id(frame)] = frame
        return known

    def _enter(self, module: str, caller: str | None) -> None:
        if module == caller:
            return
        if module not in self.modules:
            self.modules.append(module)
        else:
            place = self.modules.index(module)
            since = self._entries[len(self._entries) - self._entries[::-1].index(module) :]
            if any(self.modules.index(other) > place for other in since):
                self.again.append((module, caller or "outside"))
        self._entries.append(module)

    def _note(self, value: object, where: str) -> None:
        items: tuple[Any, ...] = (value,)
        if type(value) is dict:
            items = tuple(value.values())
        elif type(value) in (tuple, list, set, frozenset):
            items = tuple(value)  # type: ignore[arg-type]
        for kind in map(type, items):
            if kind.__module__.split(".")[0] == PACKAGE:
                self.classes.setdefault(f"{kind.__module__}.{kind.__qualname__}", where)


_COMPREHENSIONS: Final = ("<listcomp>", "<dictcomp>", "<setcomp>")
"""They are no functions from Python 3.12 on (PEP 709)."""
_SUSPENDING: Final = inspect.CO_COROUTINE | inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR


def _module(frame: FrameType) -> str | None:
    name: str = frame.f_globals.get("__name__", "")
    return name if name.split(".", maxsplit=1)[0] == PACKAGE else None


def _caller(frame: FrameType) -> str | None:
    """The module of the nearest function of the package that is waiting for this one."""
    below = frame.f_back
    while below is not None:
        if (module := _module(below)) is not None:
            return module
        below = below.f_back
    return None


def _arguments(code: CodeType) -> Iterator[str]:
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return (name for name in code.co_varnames[:count] if name not in ("self", "cls"))


@contextmanager
def served(library: Library) -> Iterator[str]:
    """Serve a library on a free port; yields the server's address."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = Embedded(create_app(library), listener, **options(max_connections=10))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_until_complete, args=(server.serve(),), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        loop.call_soon_threadsafe(server.stop)
        thread.join()
        loop.close()
        listener.close()


def trace(library: Library, target: str) -> Trace:
    """The trace of one GET request for ``target`` to a server of this library."""
    traced = Trace()
    threading.setprofile(traced.profile)  # for the threads that start from now on: the server's
    try:
        with served(library) as address:
            with urlopen(f"{address}/healthz", timeout=60) as response:  # so that the server has started
                response.read()
            traced.active = True
            with urlopen(address + target, timeout=60) as response:
                response.read()
            traced.active = False
    finally:
        threading.setprofile(None)
    return traced


def show(traced: Trace) -> None:
    print(f"{len(traced.modules)} modules, in the order in which they are entered:")
    for place, module in enumerate(traced.modules, 1):
        print(f"{place:4}. {module}")
    again = Counter(traced.again)
    print(f"{len({module for module, _ in again})} modules entered again:")
    for (module, caller), count in again.items():
        print(f"      {module}, called by {caller}" + (f" ({count} times)" if count > 1 else ""))
    print(f"{len(traced.classes)} classes among arguments and return values:")
    for name, where in traced.classes.items():
        print(f"      {name} ({where})")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--library", type=Path, help="an existing library; without it the sample is ingested")
    parser.add_argument("--target", default=TARGET, help="path and query of the request")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.library or Path(folder) / "sample"
        if arguments.library is None:
            ingest([ROOT / "sample" / "s2ag", ROOT / "sample" / "arxiv"], path)
        with Library.open(path) as library:
            show(trace(library, arguments.target))


if __name__ == "__main__":
    main()

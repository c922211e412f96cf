"""Three interfaces to the same tools: function schemas over HTTP, MCP, and Python.

Each opens a session for a question, calls tools in it, records the answer, and returns the session's trajectory and
report. An agent only needs ``call``.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

import httpx
from anyio.from_thread import start_blocking_portal
from mcp import Client as McpClient

from scholarbase.search.library import Library
from scholarbase.sessions.report import held_answers, report
from scholarbase.sessions.session import CallRecord, Session
from scholarbase.sessions.store import SessionStore
from scholarbase.tools import Tools


class Form(Protocol):
    """The interface between the agent and ScholarBase."""

    def open(self, query_id: str, query: str) -> str:
        """Open a session for a question. Returns its name."""

    def call(self, name: str, arguments: Mapping[str, Any], round: int) -> dict[str, Any]:
        """Call a tool in that session. ``round`` is the number of the agent's turn."""

    def answer(self, ids: Sequence[str]) -> None:
        """Record the agent's answer, best first."""

    def trajectory(self) -> list[dict[str, Any]]:
        """The recorded calls of the session."""

    def report(self, answers: Sequence[str]) -> dict[str, Any]:
        """The session's costs, and its recall of the question's answers."""


class OverHttp:
    """Function schemas over HTTP: a model's calls are sent unchanged to ``POST /v1/tools/{name}``."""

    def __init__(self, url: str) -> None:
        self._http = httpx.Client(base_url=url, timeout=60)
        self._session = ""

    def schemas(self) -> list[dict[str, Any]]:
        """The ``tools`` of a request to a model."""
        headers = {"X-ScholarBase-Session": self._session} if self._session else {}
        response = self._http.get("/v1/tools?format=openai", headers=headers)
        tools: list[dict[str, Any]] = response.raise_for_status().json()["tools"]
        return tools

    def open(self, query_id: str, query: str) -> str:
        self._session = self._json("POST", "/v1/sessions", {"query_id": query_id, "query": query})["session"]
        return self._session

    def call(self, name: str, arguments: Mapping[str, Any], round: int) -> dict[str, Any]:
        headers = {"X-ScholarBase-Session": self._session, "X-ScholarBase-Round": str(round)}
        return self._json("POST", f"/v1/tools/{name}", arguments, headers)

    def answer(self, ids: Sequence[str]) -> None:
        self._json("POST", f"/v1/sessions/{self._session}/answer", {"ids": ids})

    def trajectory(self) -> list[dict[str, Any]]:
        lines = self._http.get(f"/v1/sessions/{self._session}").raise_for_status().text.splitlines()
        return [json.loads(line) for line in lines]

    def report(self, answers: Sequence[str]) -> dict[str, Any]:
        return self._json("POST", f"/v1/sessions/{self._session}/report", {"answers": answers})

    def _json(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        response = self._http.request(method, path, json=body, headers=headers)
        content: dict[str, Any] = response.json()
        if response.is_error:
            raise RuntimeError(content["detail"])
        return content

    def close(self) -> None:
        self._http.close()


class OverMcp(OverHttp):
    """MCP at the server's ``/mcp``. ``_meta`` names the session of a call; sessions are opened and read over HTTP."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._stack = ExitStack()
        self._portal = self._stack.enter_context(start_blocking_portal())  # the client is asynchronous
        client = McpClient(f"{url}/mcp")
        self._mcp = self._stack.enter_context(self._portal.wrap_async_context_manager(client))

    def call(self, name: str, arguments: Mapping[str, Any], round: int) -> dict[str, Any]:
        meta = {"scholarbase/session": self._session, "scholarbase/round": round}
        result = self._portal.call(lambda: self._mcp.call_tool(name, dict(arguments), meta=meta))
        content: dict[str, Any] = result.structured_content
        if result.is_error:
            raise RuntimeError(content["detail"])
        return content

    def close(self) -> None:
        self._stack.close()
        super().close()


class InPython:
    """The tools on a local library, without a server. Calls are recorded in a session store."""

    def __init__(self, library: Library, store: SessionStore) -> None:
        self._library = library
        self._store = store

    def open(self, query_id: str, query: str) -> str:
        self._session = Session(secrets.token_hex(8), query_id=query_id, query=query)
        self._tools = Tools(self._library, session=self._session, store=self._store)
        return self._session.id

    def call(self, name: str, arguments: Mapping[str, Any], round: int) -> dict[str, Any]:
        content = self._tools.call(name, arguments, round=round)
        assert isinstance(content, dict)
        return content

    def answer(self, ids: Sequence[str]) -> None:
        call = CallRecord("answer", "answer", {}, tuple(ids), snapshot=self._library.snapshot_id)
        self._store.record(self._session, [call]).result()

    def trajectory(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._store.lines(self._session.id)]

    def report(self, answers: Sequence[str]) -> dict[str, Any]:
        lines = self._store.lines(self._session.id)
        return report(self._session, lines, held_answers(self._library, answers))


FORMS = ("http", "mcp", "python")


@contextmanager
def opened(names: Sequence[str], library: Path, sessions: Path) -> Iterator[dict[str, Form]]:
    """Open the forms of these names, with a server if one needs it. Sessions are stored below a folder."""
    with ExitStack() as stack:
        forms: dict[str, Form] = {}
        url = stack.enter_context(serving(library, sessions / "server")) if set(names) - {"python"} else ""
        for name in names:
            if name == "python":
                store = stack.enter_context(SessionStore(sessions / "python"))
                forms[name] = InPython(stack.enter_context(Library.open(library)), store)
            else:
                form = OverHttp(url) if name == "http" else OverMcp(url)
                stack.callback(form.close)
                forms[name] = form
        yield forms


@contextmanager
def serving(library: Path, sessions: Path) -> Iterator[str]:
    """Serve the library on a free port. Yields the address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "scholarbase.cli", "serve", "--library", str(library), "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"SCHOLARBASE_SESSIONS": str(sessions)},
    )
    assert process.stderr is not None
    lines = []
    reading = threading.Thread(target=process.stderr.read)
    try:
        for line in process.stderr:
            lines.append(line)
            if address := re.search(r" at (http://\S+) with", line):
                reading.start()  # an unread pipe would block the server once it is full
                yield address[1]
                return
        raise RuntimeError(f"The server did not start:\n{''.join(lines)}")
    finally:
        process.terminate()
        process.wait()
        if reading.ident is not None:
            reading.join()
        process.stderr.close()

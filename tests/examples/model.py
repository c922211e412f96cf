"""A language model by script, on a real HTTP server: chat completions and Responses of OpenAI, Messages of Anthropic.

The script asks for a paper that the library lacks, reads the error, searches for the question, asks which papers cite
the first paper that it was shown, and answers with their titles. It knows no paper: ids and titles are read from the
observations in the request. It calls only tools that the request lists, with arguments that their schemas allow, and
refuses requests to stream.

The server also stands as the HTTP proxy of a process. What the process sends to any other host is recorded and refused.
"""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, NamedTuple

import jsonschema

MISSING: Final = "arXiv:2401.00001"
ID: Final = re.compile(r"arXiv:[\w.-]+(?:/\d+)?")
TITLE: Final = re.compile(r'^\d+\. (.+)$|"title":("(?:[^"\\]|\\.)*")', re.M)  # in text, in JSON


class Turn(NamedTuple):
    """A request without its form: the question, the observations so far, and the tools' schemas by name."""

    question: str
    observations: list[str]
    tools: dict[str, dict[str, Any]]


class Call(NamedTuple):
    """A tool call."""

    name: str
    arguments: dict[str, Any]


def script(turn: Turn) -> Call | str:
    """The next call, or the answer."""
    match turn.observations:
        case []:
            return Call("get_citations", {"paper_id": MISSING})
        case [_]:
            return Call("search_papers", {"q": turn.question, "limit": 2})
        case [_, found]:
            return Call("get_citations", {"paper_id": ID.findall(found)[0], "limit": 3})
    titles = [text or json.loads(quoted) for text, quoted in TITLE.findall(turn.observations[-1])]
    answer = "It is cited by " + "; ".join(titles) + "."
    # smolagents requires a call in every reply, and has a tool for the answer.
    return Call("final_answer", {"answer": answer}) if "final_answer" in turn.tools else answer


# -- the forms -------------------------------------------------------------------------------------------


def text_of(content: Any) -> str:
    """The text of a message's content: a text, or a list of parts."""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if "text" in part)


def read_chat(body: dict[str, Any]) -> Turn:
    texts = [(one["role"], text_of(one["content"] or "")) for one in body["messages"]]
    [question, *others] = [text for role, text in texts if role == "user"]
    # smolagents writes "New task:" before the question, and sends observations as messages of the user.
    observations = [text for role, text in texts if role == "tool"]
    observations += [text for text in others if text.startswith("Observation:")]
    functions = [tool["function"] for tool in body["tools"]]
    return Turn(
        question.removeprefix("New task:\n"),
        observations,
        {one["name"]: one["parameters"] for one in functions},
    )


def write_chat(number: int, model: str, said: Call | str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": said if isinstance(said, str) else None}
    if isinstance(said, Call):
        function = {"name": said.name, "arguments": json.dumps(said.arguments)}
        message["tool_calls"] = [{"id": f"call_{number}", "type": "function", "function": function}]
    finish = "tool_calls" if isinstance(said, Call) else "stop"
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


def read_responses(body: dict[str, Any]) -> Turn:
    items = body["input"]
    questions = [text_of(one["content"]) for one in items if one.get("role") == "user"]
    observations = [text_of(one["output"]) for one in items if one.get("type") == "function_call_output"]
    return Turn(questions[0], observations, {tool["name"]: tool["parameters"] for tool in body["tools"]})


def write_responses(number: int, model: str, said: Call | str) -> dict[str, Any]:
    item: dict[str, Any]
    if isinstance(said, Call):
        item = {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": f"call_{number}",
            "name": said.name,
            "arguments": json.dumps(said.arguments),
            "status": "completed",
        }
    else:
        part = {"type": "output_text", "text": said, "annotations": []}
        item = {
            "type": "message",
            "id": f"msg_{number}",
            "role": "assistant",
            "status": "completed",
            "content": [part],
        }
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "model": model,
        "output": [item],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2, **details},
    }


def read_messages(body: dict[str, Any]) -> Turn:
    users = [one["content"] for one in body["messages"] if one["role"] == "user"]
    parts = [part for content in users if not isinstance(content, str) for part in content]
    observations = [text_of(part["content"]) for part in parts if part["type"] == "tool_result"]
    return Turn(
        text_of(users[0]), observations, {tool["name"]: tool["input_schema"] for tool in body["tools"]}
    )


def write_messages(number: int, model: str, said: Call | str) -> dict[str, Any]:
    part: dict[str, Any] = {"type": "text", "text": said}
    if isinstance(said, Call):
        part = {"type": "tool_use", "id": f"toolu_{number}", "name": said.name, "input": said.arguments}
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [part],
        "stop_reason": "tool_use" if isinstance(said, Call) else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


FORMS: Final = {
    "/v1/chat/completions": (read_chat, write_chat),
    "/v1/responses": (read_responses, write_responses),
    "/v1/messages": (read_messages, write_messages),
}


# -- the server ------------------------------------------------------------------------------------------


class ScriptedModel:
    """``turns`` are the requests, each with what was replied; ``refused`` the requests that it did not understand, and
    those to other hosts."""

    def __init__(self) -> None:
        self.url = ""
        self.turns: list[tuple[str, Turn, Call | str]] = []
        self.refused: list[str] = []
        self._held: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()

    def reply(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """The reply to a request. Raises ``ValueError`` for one that the script can't answer."""
        path = path.partition("?")[0]
        if path not in FORMS or body.get("stream"):
            raise ValueError(f"no answer to {path}, stream {body.get('stream')}")
        read, write = FORMS[path]
        with self._lock:
            body = self._continued(body)
            turn = read(body)
            said = script(turn)
            if isinstance(said, Call):
                jsonschema.validate(said.arguments, turn.tools[said.name])
            self.turns.append((path, turn, said))
            reply = write(len(self.turns), body["model"], said)
            self._held[reply["id"]] = body
            return reply

    def _continued(self, body: dict[str, Any]) -> dict[str, Any]:
        """A request with what the server holds of its thread, of which Anthropic's SDK sends only the new messages."""
        thread = body.get("thread") or {}
        if thread.get("type") != "continue":
            return body
        before = self._held[thread["previous_message_id"]]
        return {**before, **body, "messages": [*before["messages"], *body["messages"]]}

    def refuse(self, what: str) -> None:
        with self._lock:
            self.refused.append(what)


@contextmanager
def scripted_model() -> Iterator[ScriptedModel]:
    """Serve on a free port of this machine."""
    model = ScriptedModel()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                self._send(200, model.reply(self.path, json.loads(content)))
            except Exception as error:  # reported by the test, and not retried by the client
                model.refuse(f"POST {self.path}: {error!r}")
                self._send(400, {"error": {"type": "invalid_request_error", "message": repr(error)}})

        def _elsewhere(self) -> None:
            model.refuse(f"{self.command} {self.path}")
            self._send(403, {"error": {"type": "forbidden", "message": "no network"}})

        do_GET = do_HEAD = do_PUT = do_CONNECT = _elsewhere

        def _send(self, status: int, content: dict[str, Any]) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    model.url = f"http://127.0.0.1:{http.server_address[1]}"
    try:
        yield model
    finally:
        http.shutdown()
        thread.join(60)
        http.server_close()

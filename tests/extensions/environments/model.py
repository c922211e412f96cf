"""A stand-in for a language model behind the chat completions of OpenAI: it searches once, and answers with what came.

python tests/extensions/environments/model.py 8090
"""

import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ID = re.compile(r"^ {3}((?:arXiv|CorpusId|DOI):\S+)$", re.M)
LIMIT = 50


def call_for(body: dict[str, Any]) -> dict[str, Any]:
    """The call of a turn: a search for the question, then the answer with its results."""
    observed = [message["content"] for message in body["messages"] if message["role"] == "tool"]
    question = next(message["content"] for message in body["messages"] if message["role"] == "user")
    if not isinstance(question, str):
        question = question[0]["text"]
    if not observed:
        return {"name": "search_papers", "arguments": json.dumps({"q": question, "limit": LIMIT})}
    text = observed[0] if isinstance(observed[0], str) else observed[0][0]["text"]
    return {"name": "answer", "arguments": json.dumps({"ids": ID.findall(text)})}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        call = call_for(body)
        assert call["name"] in {tool["function"]["name"] for tool in body["tools"]}
        call = {"index": 0, "id": f"call-{call['name']}", "type": "function", "function": call}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        streams = bool(body.get("stream"))
        row = {
            "id": "1",
            "object": "chat.completion.chunk" if streams else "chat.completion",
            "created": 0,
            "model": body["model"],
            "choices": [
                {"index": 0, "delta" if streams else "message": message, "finish_reason": "tool_calls"}
            ],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }
        content = json.dumps(row).encode()
        if streams:
            content = b"data: " + content + b"\n\ndata: [DONE]\n\n"
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if streams else "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments: Any) -> None:
        pass


def serve(port: int = 0) -> ThreadingHTTPServer:
    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


if __name__ == "__main__":
    serve(int(sys.argv[1])).serve_forever()

"""A stand-in for language models, which rewrites and judges by counting words.

It is not a language model: it only shows the path from questions to a report without one. The cassette in
``examples/construction`` has its replies. To record them again:

    python examples/stand_in_model.py 8090 &
    scholarbase construct answers ... --cassette cassette.jsonl --record    # the command of docs/construct.md
    xz cassette.jsonl
"""

from __future__ import annotations

import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from scholarbase_research.construction.terms import overlap, stems, words

KINDS = ("method", "task", "broader", "narrower", "terminology")
THRESHOLDS = {"judge-a": (0.7, 0.4), "judge-b": (0.6, 0.45), "judge-c": (0.65, 0.4)}
"""The shares of the question's words from which a judge calls a paper a strict and a partial match."""


def rewrites(prompt: str) -> str:
    found = re.search(r"^Question: (.*)$", prompt, re.M)
    terms = words(found[1]) if found else []
    half = max(1, len(terms) // 2)
    texts = (terms[half:], terms[:half], terms[-2:], [*terms, "model"], sorted(terms, key=len)[-3:])
    rows = [{"kind": kind, "text": " ".join(text)} for kind, text in zip(KINDS, texts, strict=True)]
    return json.dumps({"rewrites": rows})


def verdict(model: str, prompt: str) -> str:
    parts = {name: re.search(rf"^{name}: (.*)$", prompt, re.M) for name in ("Query", "Title", "Abstract")}
    question, title, abstract = (part[1] if part else "" for part in parts.values())
    share = overlap(stems(question), stems(f"{title} {abstract}"))
    strict, partial = THRESHOLDS[model]
    score = 2 if share >= strict else 1 if share >= partial else 0
    return json.dumps({"reason": f"{share:.0%} of the words of the query.", "score": score})


def reply(body: dict[str, Any]) -> str:
    """A reply. ``judge-b`` sometimes writes prose first, as models do, and is asked again."""
    prompt = body["messages"][-1]["content"]
    if "Reply again" in prompt:
        return verdict(body["model"], body["messages"][-3]["content"])
    if body["model"] == "rewriter":
        return rewrites(prompt)
    if body["model"] == "judge-b" and len(prompt) % 29 == 0:
        return "This paper looks relevant to me."
    return verdict(body["model"], prompt)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = reply(body)
        read = sum(len(message["content"]) for message in body["messages"]) // 4
        row = {
            "model": body["model"],
            "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": read, "completion_tokens": len(text) // 4},
        }
        content = json.dumps(row).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments: Any) -> None:
        pass


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()

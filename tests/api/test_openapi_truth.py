"""Real responses against the OpenAPI document: status, content type, headers and body."""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from jsonschema import Draft202012Validator

from scholarbase.api.access.keys import create_key
from scholarbase.search.library import Library
from tests.conftest import serving_in_thread
from tests.fulltexts import ABSTRACT_ONLY, MERGING, SORTING

PAPER: Final = "arXiv:hep-th/9301068"
TITLE: Final = "Two Dimensional QCD is a String Theory"
SEARCH: Final = {"q": "string theory"}
UNKNOWN: Final = "arXiv:2401.00001"
Sent = tuple[str, str, dict[str, Any], int]

NATIVE: Final[list[tuple[str, str, dict[str, Any]]]] = [
    ("GET", "/v1/search", SEARCH),
    ("POST", "/v1/search", SEARCH),
    ("POST", "/v1/search/batch", {"searches": [SEARCH, {"q": "gravity"}]}),
    ("GET", "/v1/title-match", {"title": TITLE}),
    ("POST", "/v1/title-match/batch", {"titles": [TITLE, "nothing of this kind"]}),
    ("POST", "/v1/references/check", {"references": f"{TITLE}. 1993.\n{UNKNOWN}\n{PAPER}"}),
    ("GET", f"/v1/papers/{PAPER}", {}),
    ("POST", "/v1/papers/batch", {"ids": [PAPER, UNKNOWN]}),
    ("GET", f"/v1/papers/{PAPER}/citations", {}),
    ("GET", f"/v1/papers/{PAPER}/references", {}),
    ("GET", f"/v1/papers/{PAPER}/similar", {}),
    ("POST", f"/v1/papers/{PAPER}/similar", {}),
    ("POST", "/v1/expand", {"seeds": [PAPER]}),
    ("POST", "/v1/tools/search_papers", SEARCH),
    ("POST", "/v1/tools/match_titles", {"titles": [TITLE]}),
    ("POST", "/v1/tools/check_references", {"references": f"{TITLE}. 1993.\n{UNKNOWN}\n{PAPER}"}),
    ("POST", "/v1/tools/get_papers", {"ids": [PAPER, UNKNOWN, "no id"]}),
    ("POST", "/v1/tools/get_citations", {"paper_id": PAPER}),
    ("POST", "/v1/tools/get_references", {"paper_id": PAPER}),
    ("POST", "/v1/tools/expand_papers", {"seeds": [PAPER]}),
]
"""One request of each route that returns papers."""
AUTHOR: Final = "name:washington taylor"
UNRECORDED: Final[list[tuple[str, str, dict[str, Any]]]] = [
    ("GET", "/v1/authors", {"q": "W. Taylor", "limit": 1}),
    ("GET", f"/v1/authors/{AUTHOR}", {}),
    ("POST", "/v1/authors/batch", {"ids": [AUTHOR, "7"]}),
    ("GET", f"/v1/authors/{AUTHOR}/papers", {}),
    ("GET", "/v1/facets", {"q": "string theory", "limit": 3}),
    ("POST", "/v1/facets", {"q": "string theory", "exact": True, "from": "1993"}),
    ("POST", "/v1/references/correct", {"references": PAPER}),
]
"""One request of each route that no session records."""
TEXTS: Final[list[tuple[str, str, dict[str, Any]]]] = [
    ("GET", f"/v1/papers/{SORTING}/text", {}),
    ("GET", f"/v1/papers/{SORTING}/text", {"section": "1"}),
    ("GET", f"/v1/papers/{MERGING}/find", {"q": "zebra"}),
    ("GET", f"/v1/papers/{SORTING}/passages", {"q": "zebra"}),
    ("GET", f"/v1/papers/{SORTING}/citation-contexts", {}),
    ("GET", f"/v1/papers/{SORTING}/citation-contexts", {"direction": "references"}),
    ("POST", "/v1/passages/search", {"q": "zebra"}),
    ("POST", "/v1/tools/search_passages", {"q": "zebra"}),
    ("POST", "/v1/tools/read_paper", {"paper_id": SORTING}),
    ("POST", "/v1/tools/read_paper", {"paper_id": SORTING, "find": "zebra"}),
    ("POST", "/v1/tools/read_paper", {"paper_id": SORTING, "q": "zebra"}),
]
"""Requests of each route of full texts, in the library that has some."""
FORMS: Final[dict[str, dict[str, Any]]] = {
    "plain": {},
    "sized": {"max_tokens": 700},
    "text": {"format": "text"},
    "sized text": {"format": "text", "max_tokens": 700},
    "few fields": {"fields": ["title", "year"]},
}


def request(method: str, path: str, values: Mapping[str, Any], status: int = 200, **headers: str) -> Sent:
    body = {"params" if method == "GET" else "json": values}
    return method, path, {**body, "headers": headers}, status


def in_session(name: str, method: str, path: str, values: Mapping[str, Any], status: int = 200) -> Sent:
    return request(method, path, values, status, **{"X-ScholarBase-Session": name, "Idempotency-Key": path})


def papers() -> Iterator[Sent]:
    for form, options in FORMS.items():
        for method, path, values in NATIVE:
            if form == "few fields" and "batch" in path and "search" in path:
                values = {"searches": [SEARCH | options]}  # noqa: PLW2901
                yield request(method, path, values)
                continue
            yield request(method, path, values | options)
    for method, path, values in UNRECORDED:
        yield request(method, path, values)
    for form in ("bibtex", "ris", "csl", "csv"):
        for method, path, values in NATIVE:
            if values.get("ids"):
                values = values | {"ids": [PAPER]}  # noqa: PLW2901 - a bibliography has no place for a missing one
            if not any(name in path for name in ("search/batch", "title", "check", "tools")):
                yield request(method, path, values | {"format": form})
    for options in FORMS.values():
        yield request("GET", f"/v1/authors/{AUTHOR}/papers", options)
    for explained in ({"explain": True}, {"exclude_ids": [UNKNOWN]}, {"q": "nothinghasthisword"}):
        yield request("POST", "/v1/search", SEARCH | explained)


def errors() -> Iterator[Sent]:
    for method, path, values in NATIVE:
        yield request(method, path, values | {"surprise": 1}, 400)
        yield request(method, path, values | {"max_tokens": 1}, 400)
        yield request(method, path, values, 400, **{"X-ScholarBase-Session": "two words"})
        yield in_session("spent", method, path, values, 403)
    for method, path, values in UNRECORDED:
        yield request(method, path, values | {"surprise": 1}, 400)
    for method, path, values in (
        ("GET", "/v1/authors/7", {}),
        ("GET", "/v1/authors/7/papers", {}),
        ("GET", "/v1/search", SEARCH | {"within": UNKNOWN}),
        ("POST", "/v1/search", SEARCH | {"within": [UNKNOWN]}),
        ("POST", "/v1/search/batch", {"searches": [SEARCH | {"within": [UNKNOWN]}]}),
        ("GET", f"/v1/papers/{UNKNOWN}", {}),
        ("GET", f"/v1/papers/{UNKNOWN}/citations", {}),
        ("GET", f"/v1/papers/{UNKNOWN}/references", {}),
        ("GET", f"/v1/papers/{UNKNOWN}/similar", {}),
        ("POST", f"/v1/papers/{UNKNOWN}/similar", {}),
        ("POST", "/v1/papers/batch", {"ids": [UNKNOWN], "missing": "error"}),
        ("POST", "/v1/expand", {"seeds": [UNKNOWN]}),
        ("POST", "/v1/tools/get_citations", {"paper_id": UNKNOWN}),
        ("POST", "/v1/tools/no_such_tool", {}),
        *(("GET", f"/v1/sessions/nobody{end}", {}) for end in ("", "/report")),
        ("POST", "/v1/sessions/nobody/report", {"answers": [PAPER]}),
        ("POST", "/v1/sessions/nobody/answer", {"ids": [PAPER]}),
    ):
        yield request(method, path, values, 404)
    for path in (
        "/healthz",
        "/readyz",
        "/metrics",
        "/v1/snapshot",
        "/v1/snapshots",
        "/v1/tools",
        "/v1/sessions",
    ):
        yield request("GET", path, {"surprise": 1}, 400)
    for path in ("", "/report"):
        yield request("GET", f"/v1/sessions/one{path}", {"surprise": 1}, 400)
    yield "DELETE", "/v1/sessions/one", {"params": {"surprise": 1}}, 400
    writing = [path for method, path, _ in (*NATIVE, *UNRECORDED) if method == "POST"]
    for path in (*writing, "/v1/sessions", "/v1/sessions/one/report", "/v1/sessions/one/answer"):
        yield "POST", path, {"content": b" " * 200_000}, 413
        yield "POST", path, {"content": b"{", "headers": {"Content-Type": "application/json"}}, 400


def sessions() -> Iterator[Sent]:
    for method, path, values in NATIVE:
        yield in_session("one", method, path, values)
        yield in_session("limited", method, path, values | {"max_tokens": 900})
    yield request("POST", "/v1/sessions", {"session": "one"}, 409)
    yield request("POST", "/v1/sessions", {"session": "two words"}, 400)
    yield request("POST", "/v1/sessions", {}, 201)
    yield request("GET", "/v1/sessions", {})
    yield request("GET", "/v1/sessions/one", {})
    yield request("GET", "/v1/sessions/one/report", {})
    yield request("POST", "/v1/sessions/one/report", {"answers": [PAPER]})
    yield request("POST", "/v1/sessions/one/answer", {"ids": [PAPER]})
    yield "DELETE", "/v1/sessions/one", {}, 204
    yield "DELETE", "/v1/sessions/one", {}, 404


def texts() -> Iterator[Sent]:
    for method, path, values in TEXTS:
        for form, options in FORMS.items():
            if form != "few fields" or not path.endswith("/text"):
                yield request(method, path, values | options)
        yield request(method, path, values | {"surprise": 1}, 400)
        yield in_session("texts", method, path, values)
        yield in_session("spent", method, path, values, 403)
        if method == "POST":
            yield "POST", path, {"content": b" " * 200_000}, 413
    for end in ("text", "find?q=a", "passages?q=a", "pages/1", "citation-contexts?direction=references"):
        yield "GET", f"/v1/papers/{ABSTRACT_ONLY}/{end}", {}, 404
    yield request("GET", f"/v1/papers/{SORTING}/pages/1", {"surprise": 1}, 400)
    yield request("POST", "/v1/passages/search", {"q": "a", "within": [UNKNOWN]}, 404)


def about() -> Iterator[Sent]:
    for path in ("/v1/snapshot", "/v1/snapshots", "/v1/tools", "/healthz", "/readyz", "/metrics"):
        yield request("GET", path, {})
    for form in ("openai-responses", "anthropic", "gemini", "mcp"):
        yield request("GET", "/v1/tools", {"format": form})
    yield request("GET", "/v1/tools", {"format": "openai", "strict": "true"})


class Document:
    """An OpenAPI document that checks responses."""

    def __init__(self, url: str) -> None:
        self._content: dict[str, Any] = httpx.get(f"{url}/openapi.json").json()
        self.seen: set[tuple[str, str, str]] = set()

    def _operation(self, method: str, path: str) -> tuple[str, dict[str, Any]]:
        def pattern(template: str) -> str:
            return re.sub(r"\\\{[^}]*\\\}", lambda m: ".+" if "_id" in m[0] else "[^/]+", re.escape(template))

        # As the server, which matches the more specific path first.
        found = [name for name in self._content["paths"] if re.fullmatch(pattern(name), path)]
        best = max((name for name in found if method.lower() in self._content["paths"][name]), key=len)
        return best, self._content["paths"][best][method.lower()]

    def body(self, path: str) -> dict[str, list[dict[str, Any]]]:
        """The kinds of value that each key of a body may have."""
        schema = self._operation("POST", path)[1]["requestBody"]["content"]["application/json"]["schema"]
        if "$ref" in schema:
            schema = self._content["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        return {name: kind.get("anyOf", [kind]) for name, kind in schema.get("properties", {}).items()}

    def check(self, response: httpx.Response) -> None:
        method, path = response.request.method, response.request.url.path
        template, operation = self._operation(method, path)
        where = f"{method} {path}: {response.status_code}"
        documented = operation["responses"].get(str(response.status_code))
        assert documented is not None, f"{where} is not documented: {response.text:.300}"
        known = {name.lower() for name in documented.get("headers", {})}
        ours = {name for name in response.headers if name.startswith("x-") or name == "retry-after"}
        assert ours <= known, f"{where}: {ours - known}"
        self.seen.add((method, template, str(response.status_code)))
        if "content" not in documented:
            assert not response.content, where
            return
        media_type = response.headers["Content-Type"].partition(";")[0]
        assert media_type in documented["content"], f"{where}: {media_type}"
        schema = documented["content"][media_type].get("schema")
        if schema is None:
            return
        instance = response.json() if media_type.endswith("json") else response.text
        validator = Draft202012Validator({**schema, "components": self._content["components"]})
        problems = sorted(validator.iter_errors(instance), key=str)
        assert not problems, f"{where}: {problems[0].message:.300} at {problems[0].json_path}"
        if media_type == "application/json" and "$ref" in schema:
            component = self._content["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
            assert instance.keys() <= component["properties"].keys(), where

    def statuses(self) -> set[tuple[str, str, str]]:
        return {
            (method.upper(), path, status)
            for path, methods in self._content["paths"].items()
            for method, operation in methods.items()
            for status in operation["responses"]
        }


SINGLE: Final = {
    "ids": PAPER, "seeds": PAPER, "titles": TITLE, "fields": "title", "category": "hep-th", "venue": "Physics",
    "status": "active", "author": "Taylor", "exclude": "quantum", "exclude_ids": PAPER, "within": PAPER,
    "answers": PAPER, "type": "Review",
}  # fmt: skip
"""A value of each list of strings in a body."""


@pytest.mark.slow
def test_a_string_in_place_of_a_list_is_accepted_where_the_document_says_so(
    sample: Library, tmp_path: Path
) -> None:
    with serving_in_thread(sample, sessions=str(tmp_path)) as url, httpx.Client(base_url=url) as client:
        document = Document(url)
        client.post("/v1/sessions", json={"session": "one"})
        reported = [
            ("/v1/sessions/one/report", {"answers": [PAPER]}),
            ("/v1/sessions/one/answer", {"ids": [PAPER]}),
        ]
        written = [(path, values) for method, path, values in (*NATIVE, *UNRECORDED) if method == "POST"]
        compared = 0
        for path, values in written + reported:
            for name, kinds in document.body(path).items():
                if any(kind.get("items") == {"type": "string"} for kind in kinds):
                    sent = client.post(path, json=values | {name: SINGLE[name]})
                    assert (sent.status_code < 400) == ({"type": "string"} in kinds), (
                        f"{path} {name}: {sent.text:.300}"
                    )
                    compared += 1
        assert compared >= 30


NOT_PROVOKED: Final = {"503", "504", "507"}
"""Statuses of a server under load, and of a library, a disk or a service that fails."""


@pytest.mark.slow
def test_the_document_has_every_response_and_no_other(
    extension: Callable[..., None], sample: Library, full_texts: Library, tmp_path: Path
) -> None:
    extension()
    keys = tmp_path / "keys.json"
    key = create_key(keys, "reader")[0]
    admins = [create_key(keys, name, role="admin")[0] for name in ("one", "two")]
    folder = str(tmp_path / "sessions")
    with serving_in_thread(sample, sessions=folder, max_body_bytes=100_000) as url:
        document = Document(url)
        with httpx.Client(base_url=url, timeout=120) as client:
            limits = {"session": "limited", "limits": {"calls": 100}}
            document.check(client.post("/v1/sessions", json=limits))
            document.check(client.post("/v1/sessions", json={"session": "spent", "limits": {"calls": 1}}))
            client.get("/v1/search", params=SEARCH, headers={"X-ScholarBase-Session": "spent"})
            for method, path, arguments, status in (*papers(), *about(), *errors(), *sessions()):
                response = client.request(method, path, **arguments)
                assert response.status_code == status, f"{method} {path} {arguments}: {response.text:.300}"
                document.check(response)
    with (
        serving_in_thread(full_texts, sessions=folder, max_body_bytes=100_000) as url,
        httpx.Client(base_url=url, timeout=120) as client,
    ):
        for method, path, arguments, status in texts():
            response = client.request(method, path, **arguments)
            assert response.status_code == status, f"{method} {path} {arguments}: {response.text:.300}"
            document.check(response)
    with serving_in_thread(sample, sessions=folder, keys=str(keys), rate_limit=1) as url:
        limited = [
            (method, path) for method, path, _ in document.statuses() if path not in ("/healthz", "/readyz")
        ]
        for method, path in sorted(set(limited)):
            target = path.format(paper_id=PAPER, author_id=AUTHOR, name="search_papers", page=1)
            document.check(httpx.request(method, url + target))
        for body in (b"", b"{}"):  # this server was not started from a path
            headers = {"X-API-Key": admins.pop()}
            document.check(httpx.post(f"{url}/v1/admin/reload", content=body, headers=headers))
        # The first request is allowed, the others are not.
        for method, path in [("GET", "/metrics"), *sorted(set(limited))]:
            target = path.format(paper_id=PAPER, author_id=AUTHOR, name="search_papers", page=1)
            document.check(httpx.request(method, url + target, headers={"X-API-Key": key}))
    with serving_in_thread(sample) as url:  # without keys
        for method, path in sorted({(method, path) for method, path, _ in document.statuses()}):
            target = path.format(paper_id=PAPER, author_id=AUTHOR, name="search_papers", page=1)
            document.check(httpx.request(method, url + target, headers={"Host": "pages.example"}))
            document.check(httpx.request(method, url + target, headers={"X-ScholarBase-Snapshot": "0" * 32}))
    swapped = ("POST", "/v1/admin/reload", "200")  # tests/api/test_swapping.py
    image = ("GET", "/v1/papers/{paper_id}/pages/{page}", "200")  # of a PDF, which this library lacks
    missing = {one for one in document.statuses() - document.seen if one[2] not in NOT_PROVOKED}
    missing -= {swapped, image}
    assert not missing, sorted(missing)

"""The tool set of AirQA: its actions, whose errors are observations, over HTTP, MCP and in Python."""

import base64
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from anyio.from_thread import start_blocking_portal
from mcp import Client as McpClient
from PIL import Image

from scholarbase.client import Client
from scholarbase.errors import InvalidRequest, ToolNotFound
from scholarbase.responses.sizing import estimate_tokens
from scholarbase.search.library import Library
from scholarbase.sessions.session import Session
from scholarbase.sessions.store import SessionStore
from scholarbase.tools import Tools
from scholarbase.tools.definitions import schemas, tools_in
from scholarbase_research.replay.calls import differences, replay
from tests.api.test_openapi_truth import Document
from tests.conftest import serving_in_thread
from tests.fulltexts import ABSTRACT_ONLY, GRAPHS, MERGING, RED_SQUARE, SORTING

NAMES = ["retrieve", "query", "view", "answer"]
TITLES = "SELECT paper_id, title FROM papers WHERE year = 2021"


@pytest.fixture(scope="module")
def url(full_texts: Library, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("sessions-of-actions")
    with serving_in_thread(full_texts, sessions=str(folder), sql=True) as address:
        yield address


@pytest.fixture(scope="module")
def tools(full_texts: Library) -> Tools:
    return Tools(full_texts, tool_set="airqa")


def listed(found: Any) -> list[str]:
    return [tool["function"]["name"] for tool in found]


class TestSchemas:
    def test_the_actions_have_the_arguments_of_the_paper(self) -> None:
        arguments = {
            tool["function"]["name"]: (
                list(tool["function"]["parameters"]["properties"]),
                tool["function"]["parameters"]["required"],
            )
            for tool in schemas("openai", tools=tools_in("airqa"))
        }
        assert arguments == {
            "retrieve": (["query", "limit"], ["query"]),
            "query": (["sql"], ["sql"]),
            "view": (["paper_id", "page_number", "bounding_box"], ["paper_id", "page_number"]),
            "answer": (["answer"], ["answer"]),
        }

    def test_the_set_is_named_in_each_interface(self, url: str, full_texts: Library) -> None:
        assert listed(httpx.get(f"{url}/v1/tools?set=airqa").json()["tools"]) == NAMES
        with Client(url) as client:
            assert listed(client.tools(tool_set="airqa")) == NAMES
            assert listed(Tools(client, tool_set="airqa").schemas()) == NAMES
            with pytest.raises(InvalidRequest, match="'other'"):
                client.tools(tool_set="other")  # type: ignore[arg-type]
            with pytest.raises(ToolNotFound, match="the tools are search_papers"):
                client.call_tool("retrieve", {"query": "zebra"})
        with pytest.raises(InvalidRequest, match="Unknown set of tools 'other'"):
            Tools(full_texts, tool_set="other")  # type: ignore[arg-type]

    def test_a_server_without_sql_does_not_list_it(self, full_texts: Library) -> None:
        with serving_in_thread(full_texts, sessions="none") as url:
            names = listed(httpx.get(f"{url}/v1/tools?set=airqa").json()["tools"])
            assert names == ["retrieve", "view", "answer"]
            response = httpx.post(f"{url}/v1/tools/query?set=airqa", json={"sql": TITLES})
            assert response.status_code == 200
            assert response.json()["error_type"] == "sql-off"
            assert "SCHOLARBASE_SQL=true" in response.json()["observation"]


class TestActions:
    def test_retrieve_gives_five_passages_by_default(self, tools: Tools) -> None:
        content = tools.call("retrieve", {"query": "graph vertices and their colouring"})
        assert len(content["results"]) <= 5
        assert content["results"][0]["paper"]["id"] == GRAPHS
        assert len(tools.call("retrieve", {"query": "graph", "limit": 1})["results"]) == 1

    def test_query_runs_sql(self, tools: Tools) -> None:
        content = tools.call("query", {"sql": TITLES})
        assert content["columns"] == ["paper_id", "title"]
        assert [row[1] for row in content["rows"]] == ["Old graphs"]

    def test_the_statements_of_the_paper_run(self, tools: Tools) -> None:
        [[paper]] = tools.call("query", {"sql": "SELECT paper_id FROM metadata WHERE title = 'Old graphs'"})[
            "rows"
        ]
        content = tools.call("query", {"sql": f"SELECT abstract FROM metadata WHERE paper_id = '{paper}';"})
        assert content["rows"] == [["We colour graphs."]]
        joined = (
            "SELECT pages.page_number FROM images JOIN pages JOIN metadata ON images.ref_page_id = pages.page_id AND "
            f"pages.ref_paper_id = metadata.paper_id WHERE metadata.paper_id = '{paper}' AND images.image_caption "
            "LIKE '%Figure 3%';"
        )
        assert tools.call("query", {"sql": joined})["rows"] == []

    def test_an_observation_has_five_thousand_tokens_at_most(self, tools: Tools) -> None:
        sql = "SELECT a.passage_id, b.passage_id, a.text FROM passages a, passages b, passages c"
        for content, text in (
            (tools.call("query", {"sql": sql}), tools.call_as_text("query", {"sql": sql})),
            (
                tools.call("retrieve", {"query": "graph", "limit": 100}),
                tools.call_as_text("retrieve", {"query": "graph", "limit": 100}),
            ),
        ):
            assert estimate_tokens(json.dumps(content, separators=(",", ":"), ensure_ascii=False)) <= 5_000
            assert estimate_tokens(text) <= 5_000

    def test_answers_of_any_type_are_returned(self, tools: Tools) -> None:
        for answer in (42, ["Results", "Discussion"], ["one"], "zebra", {"a": 1.5}, True):
            content = tools.call("answer", {"answer": answer})
            assert (content["answer"], content["done"]) == (answer, True)
            # Without a session nothing is recorded.
            assert content["observation"] == "This is the final answer."

    def test_view_shows_a_page_or_a_part_of_it(self, tools: Tools) -> None:
        def image(**arguments: Any) -> Image.Image:
            content = tools.call("view", {"paper_id": MERGING, "page_number": 2, **arguments})
            assert content["media_type"] == "image/png"
            return Image.open(io.BytesIO(base64.b64decode(content["image"]))).convert("RGB")

        whole = image(bounding_box=[])
        assert whole.width / whole.height == pytest.approx(400 / 600, abs=0.01)
        scale = whole.width / 400
        x, y, width, height = RED_SQUARE
        assert whole.getpixel((int((x + width / 2) * scale), int((y + height / 2) * scale))) == (255, 0, 0)
        assert whole.getpixel((int(x * scale / 2), int(y * scale / 2))) == (255, 255, 255)
        part = image(bounding_box=list(RED_SQUARE))
        assert part.getpixel((part.width // 2, part.height // 2)) == (255, 0, 0)
        assert part.width == pytest.approx(part.height, abs=1)

    def test_the_text_of_a_view_says_what_it_shows(self, tools: Tools) -> None:
        text = tools.call_as_text("view", {"paper_id": "2302.00002", "page_number": 2})
        assert text == f"Page 2 of {MERGING}."

    def test_the_document_has_the_responses(self, url: str) -> None:
        document = Document(url)
        view = {"paper_id": SORTING, "page_number": 1}
        for name, arguments in (
            ("query", {"sql": TITLES}),
            ("view", view),
            ("answer", {"answer": ["zebra"]}),
        ):
            path = f"{url}/v1/tools/{name}?set=airqa"
            for headers in ({}, {"X-ScholarBase-Session": "actions"}):
                document.check(httpx.post(path, json=arguments, headers=headers))


class TestErrors:
    def test_an_error_is_an_observation(self, url: str, tools: Tools) -> None:
        refused: list[tuple[str, dict[str, Any], str, str]] = [
            (
                *("retrieve", {"query": "zebra", "colour": "red"}, "invalid-request"),
                "Unknown argument 'colour': retrieve takes query, limit.",
            ),
            ("retrieve", {}, "invalid-request", "The argument 'query' is missing."),
            ("retrieve", {"query": "zebra", "limit": 5000}, "invalid-request", "limit is 5000"),
            ("query", {"sql": "DROP TABLE papers"}, "invalid-sql", ""),
            ("query", {"sql": "SELECT nothing FROM papers"}, "invalid-sql", "nothing"),
            ("query", {"sql": " "}, "invalid-request", "query is empty"),
            (
                "view",
                {"paper_id": ABSTRACT_ONLY, "page_number": 1},
                "document-not-found",
                "has no full text of",
            ),
            ("view", {"paper_id": SORTING, "page_number": 1}, "document-not-found", "has no PDF of"),
            ("view", {"paper_id": "arXiv:2401.99999", "page_number": 1}, "paper-not-found", "No paper"),
            ("view", {"paper_id": MERGING, "page_number": 0}, "invalid-request", "page_number is 0"),
            (
                *("view", {"paper_id": MERGING, "page_number": 1, "bounding_box": [1, 2]}),
                *("invalid-request", "box is"),
            ),
            ("answer", {}, "invalid-request", "The argument 'answer' is missing."),
            ("search_papers", {"q": "zebra"}, "tool-not-found", "tools are retrieve, query, view, answer"),
            ("Retrieve From Vectorstore", {}, "tool-not-found", "no tool 'Retrieve From Vectorstore'"),
        ]
        for name, arguments, kind, sentence in refused:
            content = tools.call(name, arguments)
            assert content["error_type"] == kind
            assert sentence in content["observation"]
            assert tools.call_as_text(name, arguments) == content["observation"]
            response = httpx.post(f"{url}/v1/tools/{name}?set=airqa", json=arguments)
            assert (response.status_code, response.json()) == (200, content)

    def test_a_statement_that_takes_too_long_is_an_observation(self, full_texts: Library) -> None:
        endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n"
        content = Tools(full_texts, tool_set="airqa").call("query", {"sql": endless, "timeout": 0.1})
        assert content["error_type"] == "time-limit"


class TestMcp:
    def test_the_actions_over_mcp(self, url: str) -> None:
        with (
            start_blocking_portal() as portal,
            portal.wrap_async_context_manager(McpClient(f"{url}/mcp/airqa")) as client,
        ):
            tools = portal.call(client.list_tools).tools
            assert [tool.name for tool in tools] == NAMES

            def call(name: str, arguments: dict[str, Any]) -> Any:
                return portal.call(lambda: client.call_tool(name, arguments))

            found = call("retrieve", {"query": "zebra", "limit": 2})
            assert found.structured_content["results"]
            assert found.content[0].text.startswith("2 of ")
            refused = call("view", {"paper_id": SORTING, "page_number": 1})
            assert refused.is_error
            assert "has no PDF of" in refused.content[0].text
            assert call("retrieve", {"query": "zebra", "colour": 1}).is_error
            seen = call("view", {"paper_id": MERGING, "page_number": 2})
            text, image = seen.content
            assert text.text == f"Page 2 of {MERGING}."
            assert (image.type, image.mime_type) == ("image", "image/png")
            assert base64.b64decode(image.data).startswith(b"\x89PNG")
            body = {"paper_id": MERGING, "page_number": 2}
            over_http = httpx.post(f"{url}/v1/tools/view?set=airqa", json=body).json()
            assert over_http["image"] == image.data
            assert "image" not in seen.structured_content


def recorded_actions(library: Library, store: SessionStore) -> tuple[Session, list[bytes]]:
    """A session of each action but ``view``, one of them failed, and its lines."""
    session = Session("qa", query="Which paper colours graphs?")
    tools = Tools(library, session=session, store=store, tool_set="airqa")
    tools.call("retrieve", {"q": "colouring", "limit": "2"})
    tools.call("query", {"sql": "SELECT nothing"})
    tools.call("query", {"sql": TITLES})
    tools.call("answer", {"answer": ["Old graphs"]})
    return store.session("qa").session, list(store.lines("qa"))


class TestSessions:
    def test_actions_are_recorded_and_replayed(self, full_texts: Library, tmp_path: Path) -> None:
        with SessionStore(tmp_path) as store:
            recorded, lines = recorded_actions(full_texts, store)
            rows = [json.loads(line) for line in lines]
            assert [(row["tool"], row["kind"]) for row in rows] == [
                ("retrieve", "search"),
                ("query", "inspect"),
                ("query", "inspect"),
                ("answer", "answer"),
            ]
            assert rows[0]["arguments"] == {"query": "colouring", "limit": 2}
            assert GRAPHS in rows[0]["ids"]
            assert rows[1]["error_type"] == "invalid-sql"
            assert "nothing" in rows[1]["error"]
            assert rows[2]["ids"] == [GRAPHS]
            assert rows[3]["arguments"] == {"answer": ["Old graphs"]}
            assert differences(replay(full_texts, recorded, lines)) == []

    def test_the_answer_ends_the_episode(self, full_texts: Library, tmp_path: Path) -> None:
        """In AirQA's environment ``done`` is true then, and no action follows."""
        with SessionStore(tmp_path) as store:
            tools = Tools(full_texts, session=Session("qa"), store=store, tool_set="airqa")
            assert tools.call("unheard_of", {})["error_type"] == "tool-not-found"
            assert tools.call("answer", {})["error_type"] == "invalid-request"  # without an answer it goes on
            assert tools.call("retrieve", {"query": "zebra", "limit": 1})["results"]
            assert tools.call("Answer", {"answer": "seven"})["done"] is True
            sentence = "The session 'qa' ended with the answer of call 4: open another one."
            for name, arguments in (("answer", {"answer": "nine"}), ("retrieve", {"query": "zebra"})):
                content = tools.call(name, arguments)
                assert (content["observation"], content["error_type"]) == (sentence, "session")
            # The tools of another set are not part of the episode.
            others = Tools(full_texts, session="qa", store=store)
            assert others.call("search_papers", {"q": "graphs"})["results"]
            rows = [json.loads(line) for line in store.lines("qa")]
        assert [(row["tool"], "error" in row) for row in rows] == [
            ("unheard_of", True),
            ("answer", True),
            ("retrieve", False),
            ("answer", False),
            ("answer", True),
            ("retrieve", True),
            ("search_papers", False),
        ]

    def test_an_answer_that_is_sent_again_gets_the_same_response(self, url: str) -> None:
        """As any call with the same key. The answer of another call is refused."""
        for key, is_taken in (("k1", True), ("k1", True), ("k2", False)):
            headers = {"X-ScholarBase-Session": "again", "Idempotency-Key": key}
            response = httpx.post(f"{url}/v1/tools/answer?set=airqa", json={"answer": 7}, headers=headers)
            assert response.json().get("done", False) is is_taken, response.text

    def test_an_image_counts_no_tokens(self, full_texts: Library, tmp_path: Path) -> None:
        with SessionStore(tmp_path) as store:
            tools = Tools(full_texts, session=Session("seen"), store=store, tool_set="airqa")
            tools.call("view", {"paper_id": MERGING, "page_number": 1})
            [row] = [json.loads(line) for line in store.lines("seen")]
        assert row["ids"] == [MERGING]
        assert row["tokens"] < 200

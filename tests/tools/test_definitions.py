"""The tool schemas that a model sees, and the requests made of its arguments."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scholarbase.errors import InvalidRequest, ToolNotFound
from scholarbase.models.requests import (
    EdgeBody,
    ExpandBody,
    OneSearch,
    PaperBatchBody,
    SearchBody,
    TitleBatchBody,
)
from scholarbase.responses.sizing import estimate_tokens
from scholarbase.search.library import Library
from scholarbase.sessions.recording import returned_papers as papers_of
from scholarbase.tools.definitions import SCHEMA_FORMS, TOOLS, schemas, tool_named

QUESTION = "How is two-dimensional QCD related to string theory?"
SEED = "arXiv:hep-th/9301068"
NAMES = ["search_papers", "match_titles", "get_papers", "get_citations", "get_references", "expand_papers"]
MOST_TOKENS = 1500


def test_the_six_tools_by_name() -> None:
    assert [tool.name for tool in TOOLS] == NAMES
    with pytest.raises(ToolNotFound, match="no tool 'find': the tools are search_papers"):
        tool_named("find")


@pytest.mark.parametrize("name", NAMES)
def test_every_shown_argument_is_one_of_the_native_request(name: str) -> None:
    tool = tool_named(name)
    native = tool.request.model_json_schema()["properties"]
    schema = tool.schema()
    assert list(schema["properties"]) == list(tool.shown), "every shown name exists"
    for argument, shown in schema["properties"].items():
        types = [option.get("type") for option in native[argument].get("anyOf", [native[argument]])]
        assert shown["type"] in types
    assert set(schema["required"]) <= set(tool.shown)


def test_the_three_forms_name_the_same_tools() -> None:
    openai, anthropic, mcp = (schemas(form) for form in SCHEMA_FORMS)
    assert [tool["function"]["name"] for tool in openai] == NAMES
    assert [tool["name"] for tool in anthropic] == [tool["name"] for tool in mcp] == NAMES
    for one, two, three in zip(openai, anthropic, mcp, strict=True):
        assert one["type"] == "function"
        assert one["function"]["parameters"] == two["input_schema"] == three["inputSchema"]
        assert one["function"]["description"] == two["description"] == three["description"]
    with pytest.raises(InvalidRequest, match="openai, anthropic, mcp"):
        schemas("gemini")  # type: ignore[arg-type]


@pytest.mark.parametrize("form", SCHEMA_FORMS)
def test_the_list_of_tools_is_short(form: Any) -> None:
    assert estimate_tokens(json.dumps(schemas(form), separators=(",", ":"))) < MOST_TOKENS


@pytest.mark.parametrize("form", SCHEMA_FORMS)
def test_the_list_of_tools_is_short_in_wordpiece_tokens(form: Any, minilm_folder: Any) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer.from_file(str(minilm_folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    count = len(tokenizer.encode(json.dumps(schemas(form), separators=(",", ":"))).ids)
    # WordPiece makes a token of each punctuation mark, of which JSON is full.
    assert count < MOST_TOKENS * 1.5, count


def test_null_arguments_mean_omitted(sample: Library) -> None:
    for tool in TOOLS:
        least: dict[str, Any] = {
            name: [SEED] if name in ("ids", "seeds", "titles") else SEED for name in tool.schema()["required"]
        }
        nulls = dict.fromkeys(set(tool.shown) - set(least))
        assert tool.parse({**least, **nulls}) == tool.parse(least)


@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        ("search_papers", {"q": "a", "query": "b"}, "Unknown argument 'query': search_papers takes q, mode,"),
        ("search_papers", {}, "The argument 'q' is missing."),
        ("search_papers", {"q": "a", "limit": "ten"}, "limit is 'ten': input should be a valid integer."),
        ("search_papers", {"q": "a", "from_": "2000"}, "Unknown argument 'from_'"),
        ("get_papers", {"ids": SEED}, "ids must be a list of paper ids"),
        ("get_papers", {"ids": []}, "ids is empty:"),
        ("expand_papers", {"seeds": [SEED], "direction": "up"}, "direction is 'up':"),
        ("get_citations", ["a"], "The arguments of get_citations are not a JSON object"),
    ],
)
def test_invalid_arguments_raise_invalid_request(name: str, arguments: Any, sentence: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        tool_named(name).parse(arguments)
    assert str(refused.value).startswith(sentence), str(refused.value)


NATIVE: list[tuple[str, Any]] = [
    ("search_papers", SearchBody(q=QUESTION)),
    (
        "search_papers",
        SearchBody(q=QUESTION, limit=25, offset=5, engine="fts5", mode="sparse", fields=["id"]),
    ),
    (
        "search_papers",
        SearchBody.model_validate({"q": "strings", "from": "1993", "to": "1995-06", "limit": 40}),
    ),
    ("search_papers", SearchBody(q="strings", category=["hep-th"], min_citations=5, exclude=["QCD"])),
    ("search_papers", SearchBody(q="strings", as_of="1995-01", within=[SEED], venue=[])),
    ("search_papers", SearchBody(q="strings", limit=30, max_tokens=700)),
    ("search_papers", SearchBody(q="strings", limit=30, max_tokens=700, fields=["title"], format="text")),
    ("search_papers", SearchBody.model_construct(**vars(OneSearch(q="strings", explain=True)))),
    ("match_titles", TitleBatchBody(titles=["Two Dimensional QCD is a String Theory", "zz"], limit=3)),
    ("match_titles", TitleBatchBody(titles=["Two Dimensional QCD"], min_score=0.3)),
    ("get_papers", PaperBatchBody(ids=[SEED, "arXiv:2001.00001"], fields=["title"])),
    ("get_papers", PaperBatchBody(ids=[SEED, "hep-th/9303046"], max_tokens=400)),
    ("get_citations", EdgeBody(paper_id=SEED)),
    ("get_citations", EdgeBody(paper_id=SEED, limit=25, sort="date")),
    ("get_references", EdgeBody.model_validate({"paper_id": SEED, "to": "1992", "limit": 3, "offset": 1})),
    ("expand_papers", ExpandBody(seeds=[SEED])),
    ("expand_papers", ExpandBody(seeds=[SEED], limit=25, hops=2, direction="references", exclude_ids=[SEED])),
]


@pytest.mark.parametrize(("name", "request_"), NATIVE)
def test_the_arguments_of_a_native_request_return_the_same_papers(
    sample: Library, name: str, request_: Any
) -> None:
    tool = tool_named(name)
    arguments = json.loads(json.dumps(tool.arguments_for(request_)))
    parsed = tool.parse(arguments)
    papers = [papers_of(tool.run(sample, one).to_dict(), 0) for one in (parsed, request_)]
    assert papers[0] == papers[1]
    if request_.max_tokens is not None:
        assert (parsed.max_tokens, parsed.format) == (request_.max_tokens, request_.format)  # type: ignore[attr-defined]

"""The tool schemas that a model sees, and the requests made of its arguments."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from scholarbase.client import Client
from scholarbase.errors import DocumentNotFound, InvalidRequest, ToolNotFound
from scholarbase.models.limits import SCHEMA_FORMS
from scholarbase.responses.sizing import estimate_tokens
from scholarbase.search.library import Library
from scholarbase.tools import Tools
from scholarbase.tools.definitions import RECORDED, TOOLS, schemas, tool_named, tools_in

SEED = "arXiv:hep-th/9301068"
NAMES = [
    *("search_papers", "match_titles", "check_references", "get_papers"),
    *("get_citations", "get_references", "expand_papers"),
    *("search_passages", "read_paper"),
]
OF_TEXTS = NAMES[-2:]
"""The tools that a library without full texts has not."""
MOST_TOKENS = {True: 2400, False: 1900}
"""Of the list with the tools for full texts, and without them."""


def parsed(name: str, arguments: Any) -> Any:
    tool = tool_named(name)
    return tool.parse(tool.canonical(arguments))


def test_the_nine_tools_by_name() -> None:
    assert [tool.name for tool in TOOLS] == NAMES
    names = "no tool 'find': the tools are search_papers, .*; for full texts also search_passages, read_paper"
    with pytest.raises(ToolNotFound, match=names):
        tool_named("find")


def test_every_shown_argument_is_one_of_the_native_request() -> None:
    for tool in TOOLS:
        native = tool.request.model_json_schema()["properties"]
        schema = tool.schema()
        assert list(schema["properties"]) == list(tool.shown), "every shown name exists"
        for argument, shown in schema["properties"].items():
            types = [option.get("type") for option in native[argument].get("anyOf", [native[argument]])]
            assert shown["type"] in types
            assert shown["description"].strip(), f"{tool.name} {argument}"
        assert set(schema["required"]) <= set(tool.shown)


def test_the_forms_name_the_same_tools() -> None:
    forms = {form: schemas(form) for form in SCHEMA_FORMS}
    chat = [tool["function"] for tool in forms.pop("openai")]
    assert [tool["name"] for tool in chat] == NAMES
    keys = {
        "openai-responses": "parameters",
        "anthropic": "input_schema",
        "gemini": "parameters",
        "mcp": "inputSchema",
    }
    for form, tools in forms.items():
        for tool, other in zip(tools, chat, strict=True):
            assert (tool["name"], tool["description"]) == (other["name"], other["description"])
            assert tool[keys[form]] == other["parameters"]
    with pytest.raises(InvalidRequest, match="openai, openai-responses, anthropic, gemini, mcp"):
        schemas("cohere")  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="'gemini' has no strict schemas"):
        schemas("gemini", strict=True)


def test_strict_schemas_require_every_argument_and_allow_null() -> None:
    for tool in schemas("openai", strict=True):
        function = tool["function"]
        parameters = function["parameters"]
        assert function["strict"] is True
        assert parameters["required"] == list(parameters["properties"])
        assert parameters["additionalProperties"] is False
        plain = tool_named(function["name"]).schema()
        for name, kind in parameters["properties"].items():
            assert ("null" in kind["type"]) == (name not in plain["required"])
            if "enum" in kind and name not in plain["required"]:
                assert kind["enum"][-1] is None


def test_exclude_seen_is_shown_in_sessions_and_only_modes_of_the_library(
    sample: Library, dense: Library
) -> None:
    def search(tools: Any) -> Any:
        return tools.schemas()[0]["function"]["parameters"]["properties"]

    assert "mode" not in search(Tools(sample))
    assert search(Tools(dense))["mode"]["enum"] == ["hybrid", "sparse", "dense"]
    assert "exclude_seen" not in search(Tools(sample))
    assert "exclude_seen" in schemas()[0]["function"]["parameters"]["properties"]


def test_tools_of_full_texts_are_listed_where_a_library_has_some(
    sample: Library, full_texts: Library, server: str
) -> None:
    def listed(found: Any) -> list[str]:
        return [tool["function"]["name"] for tool in found]

    assert listed(Tools(full_texts).schemas()) == NAMES
    without = [name for name in NAMES if name not in OF_TEXTS]
    assert listed(Tools(sample).schemas()) == without
    with Client(server) as client:
        assert listed(Tools(client).schemas()) == without
    for name in OF_TEXTS:
        least = {"q": "a"} if name == "search_passages" else {"paper_id": SEED}
        with pytest.raises(DocumentNotFound, match="has no full texts: ingest it with --documents"):
            Tools(sample).call(name, least)


@pytest.mark.slow
def test_the_forms_are_those_of_the_vendors() -> None:
    from anthropic.types import ToolParam
    from google.genai.types import FunctionDeclaration
    from mcp_types import Tool as McpTool
    from openai.types.chat import ChatCompletionToolParam
    from openai.types.responses import FunctionToolParam

    for strict in (False, True):
        for tool in schemas("openai", strict=strict):
            assert exact(ChatCompletionToolParam, tool)
        for tool in schemas("openai-responses", strict=strict):
            assert exact(FunctionToolParam, tool)
    for tool in schemas("anthropic"):
        assert exact(ToolParam, tool)
    for tool in schemas("gemini"):
        declaration = FunctionDeclaration.model_validate(tool)  # rejects unknown keys, of the schema too
        assert declaration.parameters is not None
        assert list(declaration.parameters.properties or ()) == list(tool["parameters"]["properties"])
    for tool in schemas("mcp"):
        assert McpTool.model_validate(tool).input_schema == tool["inputSchema"]


def exact(kind: Any, value: Any) -> bool:
    """Whether a value has a vendor's type, with no other keys."""
    return bool(TypeAdapter(kind).validate_python(value) == value)


def test_search_is_described_by_what_the_library_has() -> None:
    def about(**library: Any) -> str:
        return str(schemas("anthropic", **library)[0]["description"])

    assert about().startswith("Search titles and abstracts by words, meaning and citations, best")
    assert about(graph=False).startswith("Search titles and abstracts by words and meaning, best")
    assert about(modes=("sparse",), graph=False).startswith("Search titles and abstracts by words, best")


def test_the_list_of_tools_is_short() -> None:
    for form in SCHEMA_FORMS:
        for full_texts, most in MOST_TOKENS.items():
            tools = json.dumps(schemas(form, full_texts=full_texts), separators=(",", ":"))
            assert estimate_tokens(tools) < most


@pytest.mark.whole
@pytest.mark.parametrize("null", [None, "", " ", "null", "None", "all", ["null"], ["all"], '["none"]'])
def test_nulls_in_optional_arguments_mean_left_out(null: Any) -> None:
    for tool in (*TOOLS, *tools_in("airqa"), *RECORDED):
        least: dict[str, Any] = {
            name: [SEED] if name in ("ids", "seeds", "titles") else 1 if name == "page_number" else SEED
            for name in tool.required
        }
        lists = {name for name, kind in tool.kinds.items() if kind.get("type") == "array"}
        optional = set(tool.kinds) - set(least)
        nulls = dict.fromkeys(
            optional & lists if isinstance(null, list) or "[" in str(null) else optional, null
        )
        assert tool.canonical({**least, **nulls}) == tool.canonical(least)


SPELLINGS = re.findall(
    r"^\| `(\w+)` \| `(.*?)` \| (.*) \|$",
    "\n".join(
        (Path(__file__).parents[2] / page).read_text()
        for page in ("docs/arguments.md", "tests/data/tool-arguments.md")
    ),
    re.MULTILINE,
)
"""Tool, arguments, and what is understood or the message: the rows of the documentation, and more."""


def test_arguments_are_understood_as_documented() -> None:
    assert len(SPELLINGS) >= 60
    for name, written, result in SPELLINGS:
        tool, arguments = tool_named(name), json.loads(written)
        if result.startswith("`{"):
            understood = json.loads(result.strip("`"))
            assert tool.canonical(arguments) == understood, written
            assert parsed(name, arguments) == tool.parse(understood)
        else:
            with pytest.raises(InvalidRequest) as refused:
                parsed(name, arguments)
            whole = str(refused.value)
            assert whole == result or (
                result.endswith(" ...") and whole.startswith(result.removesuffix("..."))
            )

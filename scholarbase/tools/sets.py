"""The sets of tools by name, and their schemas."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from scholarbase.errors import InvalidRequest, ToolNotFound
from scholarbase.extensions import added_names
from scholarbase.models.checks import shown
from scholarbase.models.limits import ToolSet
from scholarbase.tools.airqa import ACTIONS
from scholarbase.tools.definitions import RECORDED, TOOLS, Tool, tool_named

_SETS: Final[dict[ToolSet, Sequence[Tool]]] = {"scholarbase": TOOLS, "airqa": ACTIONS}
_RECORDED: Final = {tool.name: tool for tool in (*TOOLS, *ACTIONS, *RECORDED)}


def tools_in(tool_set: ToolSet) -> Sequence[Tool]:
    """The tools of a set. Raises InvalidRequest: there is no such set."""
    if isinstance(tool_set, str):
        tools = _SETS.get(tool_set) or added_names("tool_sets").get(tool_set)
        if tools is not None:
            return tools
    names = ", ".join((*_SETS, *added_names("tool_sets")))
    raise InvalidRequest(f"Unknown set of tools {shown(tool_set)}: use one of {names}.")


def tool_in(tool_set: ToolSet, name: str) -> Tool:
    """The tool of this name in a set.

    Raises:
        ToolNotFound: the set has no such tool.
        InvalidRequest: there is no such set.
    """
    tools = tools_in(tool_set)
    for tool in tools:
        if isinstance(name, str) and tool.name == name:
            return tool
    raise ToolNotFound(
        f"There is no tool {shown(name)}: the tools are {', '.join(one.name for one in tools)}."
    )


def recorded_tool(name: str) -> Tool:
    """The tool that a session records calls under. Raises ToolNotFound: it records none so."""
    if name in _RECORDED:
        return _RECORDED[name]
    added = (tool for tools in added_names("tool_sets").values() for tool in tools)
    return next((tool for tool in added if tool.name == name), None) or tool_named(name)


def sets_of(names: Iterable[str]) -> list[ToolSet]:
    """The sets whose schemas an agent read that called these tools, by default the first one. An ``answer`` may also be
    what a session's owner recorded."""
    called = set(names) - {"answer"}
    known = _SETS | added_names("tool_sets")
    found = [name for name, tools in known.items() if called & {tool.name for tool in tools}]
    return found or ["scholarbase"]

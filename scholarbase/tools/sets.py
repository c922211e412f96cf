"""The sets of tools by name, and their schemas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from scholarbase.errors import InvalidRequest, ToolNotFound
from scholarbase.models.checks import shown
from scholarbase.models.limits import TOOL_SETS, ToolSet
from scholarbase.tools.airqa import ACTIONS
from scholarbase.tools.definitions import RECORDED, TOOLS, Tool, tool_named

_SETS: Final[dict[ToolSet, tuple[Tool, ...]]] = {"scholarbase": TOOLS, "airqa": ACTIONS}
_BY_NAME: Final = {name: {tool.name: tool for tool in tools} for name, tools in _SETS.items()}
_RECORDED: Final = {tool.name: tool for tool in (*TOOLS, *ACTIONS, *RECORDED)}


def tools_in(tool_set: ToolSet) -> tuple[Tool, ...]:
    """The tools of a set. Raises InvalidRequest: there is no such set."""
    if not isinstance(tool_set, str) or tool_set not in _SETS:
        raise InvalidRequest(f"Unknown set of tools {shown(tool_set)}: use one of {', '.join(TOOL_SETS)}.")
    return _SETS[tool_set]


def tool_in(tool_set: ToolSet, name: str) -> Tool:
    """The tool of this name in a set.

    Raises:
        ToolNotFound: the set has no such tool.
        InvalidRequest: there is no such set.
    """
    tools_in(tool_set)
    try:
        return _BY_NAME[tool_set][name]
    except (KeyError, TypeError):
        names = ", ".join(_BY_NAME[tool_set])
        raise ToolNotFound(f"There is no tool {shown(name)}: the tools are {names}.") from None


def recorded_tool(name: str) -> Tool:
    """The tool that a session records calls under. Raises ToolNotFound: it records none so."""
    return _RECORDED.get(name) or tool_named(name)


def sets_of(names: Iterable[str]) -> list[ToolSet]:
    """The sets whose schemas an agent read that called these tools, by default the first one. An ``answer`` may also be
    what a session's owner recorded."""
    called = set(names) - {"answer"}
    found = [name for name, tools in _BY_NAME.items() if called & tools.keys()]
    return found or ["scholarbase"]

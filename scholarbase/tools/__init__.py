"""The tools that agents call: one definition for function schemas, for MCP and for Python.

    with Library.open("papers") as library:
        tools = Tools(library)
        response = tools.call("search_papers", {"q": "speculative decoding", "max_tokens": 2000})

``definitions`` has the tools and their sets, ``responding`` the responses, and ``calling`` the Python interface.
"""

from scholarbase.tools.calling import Tools
from scholarbase.tools.definitions import TOOLS, tool_named
from scholarbase.tools.tool import Tool

__all__ = ["TOOLS", "Tool", "Tools", "tool_named"]

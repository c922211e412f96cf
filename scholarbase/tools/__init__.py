"""The tools that agents call: one definition for function schemas, for MCP and for Python.

    with Library.open("papers") as library:
        tools = Tools(library)
        response = tools.call("search_papers", {"q": "speculative decoding", "max_tokens": 2000})

``definitions`` has the tools, ``answering`` the responses, ``calling`` the Python interface, ``replay`` repeats
recorded sessions, and ``conversations`` exports them as training data.
"""

from scholarbase.tools.calling import Tools
from scholarbase.tools.definitions import TOOLS, Tool, tool_named

__all__ = ["TOOLS", "Tool", "Tools", "tool_named"]

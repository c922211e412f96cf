"""The tools that agents call: one definition for function schemas, for MCP and for Python.

    with Library.open("papers") as library:
        tools = Tools(library)
        answer = tools.call("search_papers", {"q": "speculative decoding", "max_tokens": 2000})

``definitions`` has the tools, ``answering`` makes an answer, ``calling`` is the Python form, ``replay`` runs a recorded
session again, and ``conversations`` makes training data of one.
"""

from scholarbase.tools.calling import Tools
from scholarbase.tools.definitions import TOOLS, Tool, tool_named

__all__ = ["TOOLS", "Tool", "Tools", "tool_named"]

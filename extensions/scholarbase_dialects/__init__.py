"""The interfaces of other services, and the proxy that answers for their hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scholarbase.extensions import Extension


class Dialects(Extension):
    """The interfaces of other services, and the proxy that answers for their hosts."""

    def commands(self) -> Mapping[str, str]:
        return {"proxy": "scholarbase_dialects.proxy.command:proxy"}

    def dialects(self) -> Mapping[str, Any]:
        from scholarbase_dialects.all import DIALECTS
        from scholarbase_dialects.semantic_scholar import datasets

        return {dialect.name: dialect.served() for dialect in (*DIALECTS.values(), datasets.DIALECT)}

    def tool_sets(self) -> Mapping[str, Sequence[Any]]:
        from scholarbase_dialects.asta import ASTA

        return {"asta": ASTA}

    def mcp_tool_sets(self) -> Mapping[str, Any]:
        from scholarbase_dialects.retrieval import RETRIEVAL

        return {"retrieval": RETRIEVAL}

"""The interfaces of other services, and the proxy that answers for their hosts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scholarbase.extensions import Extension


class Dialects(Extension):
    """The interfaces of other services, and the proxy that answers for their hosts."""

    def dialects(self) -> Mapping[str, Any]:
        from scholarbase.api.dialects.all import DIALECTS

        return {name: dialect.served() for name, dialect in DIALECTS.items()}

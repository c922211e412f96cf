"""The interfaces of other services, and the proxy that answers for their hosts."""

from __future__ import annotations

from scholarbase.extensions import Extension


class Dialects(Extension):
    """The interfaces of other services, and the proxy that answers for their hosts."""

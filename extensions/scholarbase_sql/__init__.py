"""SQL statements over the views of a library."""

from __future__ import annotations

from scholarbase.extensions import Extension


class Sql(Extension):
    """SQL statements over the views of a library."""

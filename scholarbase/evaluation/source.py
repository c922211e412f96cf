"""What an evaluation asks: a library here, or a server through the client. Both answer the same calls alike."""

from __future__ import annotations

from scholarbase.client import Client
from scholarbase.library import Library

Source = Library | Client

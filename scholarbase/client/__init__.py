"""A ScholarBase server from Python: ``Client``, and ``AsyncClient`` for asyncio."""

from scholarbase.client.async_client import AsyncClient
from scholarbase.client.client import Client

__all__ = ["AsyncClient", "Client"]

"""A ScholarBase server from Python: ``Client``, and ``AsyncClient`` for asyncio."""

from scholarbase.client.clients import AsyncClient, Client

__all__ = ["AsyncClient", "Client"]

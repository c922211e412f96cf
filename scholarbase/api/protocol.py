"""The HTTP parser: httptools, and h11 for methods that httptools does not know."""

from __future__ import annotations

import sys

import httptools
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class HttpProtocol(HttpToolsProtocol):
    """Passes connections with unknown methods to h11, so that the application responds with 405.

    httptools accepts only known methods, h11 any word.
    """

    def data_received(self, data: bytes) -> None:
        self._last = data
        super().data_received(data)

    def send_400_response(self, msg: str) -> None:
        """Respond to a parser error; uvicorn calls this while it handles the exception."""
        between_requests = self.cycle is None or self.cycle.response_complete
        unknown = isinstance(sys.exc_info()[1], httptools.HttpParserInvalidMethodError)
        if not (unknown and between_requests):
            super().send_400_response(msg)
            return
        self.connections.discard(self)
        successor = H11Protocol(self.config, self.server_state, self.app_state)
        successor.connection_made(self.transport)
        self.transport.set_protocol(successor)
        successor.data_received(self._last)

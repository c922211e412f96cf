"""How connections are read: by httptools, and by h11 where a method is one that httptools does not know."""

from __future__ import annotations

import sys

import httptools
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class HttpProtocol(HttpToolsProtocol):
    """httptools refuses methods that it has not heard of before anyone can say which methods a route takes. h11 reads
    any word, so it goes on with such a connection, and the application answers as it does for every other method."""

    def data_received(self, data: bytes) -> None:
        self._last = data
        super().data_received(data)

    def send_400_response(self, msg: str) -> None:
        """Answer what cannot be read; called by uvicorn while the parser's error is being handled."""
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

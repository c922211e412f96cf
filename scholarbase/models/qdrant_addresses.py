"""The addresses of a Qdrant cluster."""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from scholarbase.models.checks import shown

REST_PORT: Final = 6333
MAX_ADDRESSES: Final = 64
_HOST: Final = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]")


class Address(NamedTuple):
    """One node: its REST interface, and the host, port and encryption of its gRPC interface."""

    url: str
    host: str
    grpc_port: int
    tls: bool

    @property
    def grpc(self) -> str:
        return f"{self.host}:{self.grpc_port}"

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read ``http://host:6333``. Without a port it is 6333; that of gRPC is the next one, or ``?grpc_port=``.

        Raises:
            ValueError: it is not such an address. The message is the rest of a sentence, and names it.
        """
        problem = f"{shown(text)} is not the address of a Qdrant node, such as http://localhost:6333"
        try:
            parts = urlsplit(text)
            port = parts.port or REST_PORT
            options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
            grpc_port = int(options.pop("grpc_port", port + 1))
        except ValueError as error:
            raise ValueError(problem) from error
        host = parts.netloc.rpartition("@")[2]
        host = host.removesuffix(f":{parts.port}") if parts.port else host.removesuffix(":")
        if parts.scheme not in ("http", "https") or not _HOST.fullmatch(host) or parts.fragment:
            raise ValueError(problem)
        if "@" in parts.netloc:
            raise ValueError(f"{host!r} has a user name or password: use SCHOLARBASE_QDRANT_API_KEY")
        if options or not 0 < grpc_port < 65536:
            raise ValueError(f"{problem} or http://localhost:6333?grpc_port=6334")
        return cls(
            f"{parts.scheme}://{host}:{port}{parts.path.rstrip('/')}",
            host,
            grpc_port,
            parts.scheme == "https",
        )


def read_addresses(text: str) -> tuple[str, ...]:
    """The addresses in a list separated by commas, each checked.

    Raises:
        ValueError: as :meth:`Address.parse`; or there is none, one is repeated, or there are more than 64.
    """
    addresses = tuple(address.strip() for address in text.split(","))
    urls = [Address.parse(address).url for address in addresses]
    if len(urls) > MAX_ADDRESSES:
        raise ValueError(f"it has {len(urls)} addresses, and the maximum is {MAX_ADDRESSES}")
    if len(set(urls)) < len(urls):
        raise ValueError(f"{next(url for url in urls if urls.count(url) > 1)} is listed twice")
    return addresses

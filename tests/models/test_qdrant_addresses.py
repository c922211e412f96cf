import pytest

from scholarbase.errors import InvalidRequest
from scholarbase.models.qdrant_addresses import Address, read_addresses
from scholarbase.settings import load_settings


@pytest.mark.parametrize(
    ("text", "url", "grpc", "tls"),
    [
        ("http://localhost:6333", "http://localhost:6333", "localhost:6334", False),
        ("http://qdrant-1", "http://qdrant-1:6333", "qdrant-1:6334", False),
        (
            "https://qdrant.example.org:443/a/",
            "https://qdrant.example.org:443/a",
            "qdrant.example.org:444",
            True,
        ),
        ("http://10.0.0.1:6333?grpc_port=7000", "http://10.0.0.1:6333", "10.0.0.1:7000", False),
        ("http://[::1]:6333", "http://[::1]:6333", "[::1]:6334", False),
    ],
)
def test_an_address_has_a_rest_and_a_grpc_port(text: str, url: str, grpc: str, tls: bool) -> None:
    address = Address.parse(text)
    assert (address.url, address.grpc, address.tls) == (url, grpc, tls)


def test_addresses_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHOLARBASE_QDRANT_URL", "http://a:6333, http://b:6333?grpc_port=7000")
    assert load_settings().qdrant_url == ("http://a:6333", "http://b:6333?grpc_port=7000")


def test_other_addresses_are_rejected() -> None:
    for text, message in (
        ("localhost:6333", "'localhost:6333' is not the address"),
        ("http://", "'http://' is not the address"),
        ("ftp://a:6333", "'ftp://a:6333' is not the address"),
        ("http://a:99999", "'http://a:99999' is not the address"),
        ("http://a:6333?port=1", r"'http://a:6333\?port=1' is not the address"),
        ("http://a:6333?grpc_port=x", "is not the address"),
        ("http://a:6333#b", "is not the address"),
        ("http://a:6333,,http://b:6333", "'' is not the address"),
        ("http://a:6333,http://a", "http://a:6333 is listed twice"),
        (",".join(f"http://n{n}" for n in range(65)), "65 addresses, and the maximum is 64"),
    ):
        with pytest.raises(InvalidRequest, match=message):
            load_settings(qdrant_url=text)


def test_a_password_in_an_address_is_not_repeated() -> None:
    with pytest.raises(ValueError, match="use SCHOLARBASE_QDRANT_API_KEY") as raised:
        read_addresses("http://me:secret@a:6333")
    assert "secret" not in str(raised.value)

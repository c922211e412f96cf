"""``POST /v1/references/check``, over HTTP and with the clients."""

import httpx
import pytest

from scholarbase import AsyncClient, Client
from scholarbase.search.library import Library

LINES = "D. J. Gross and W. Taylor. Two dimensional QCD is a string theory. 1993.\narXiv:2001.00001\n"
FIELDS = ["id", "title", "year"]


def test_a_list_is_checked_in_its_order(server: str) -> None:
    body = {"references": LINES, "fields": FIELDS}
    response = httpx.post(f"{server}/v1/references/check", json=body)
    assert response.status_code == 200
    content = response.json()
    assert content["input_format"] == "text"
    assert content["counts"]["held"] == content["counts"]["not_in_snapshot"] == 1
    first, second = content["results"]
    assert first["paper"] == {
        "id": "arXiv:hep-th/9301068",
        "title": "Two Dimensional QCD is a String Theory",
        "year": 1993,
    }
    assert (first["position"], first["line"], first["status"]) == (1, 1, "held")
    assert "paper" not in second


@pytest.mark.slow
async def test_the_clients_return_what_the_library_returns(server: str, sample: Library) -> None:
    text = LINES * 501  # two requests
    own = sample.check_references(text, fields=FIELDS)
    with Client(server) as client:
        assert client.check_references(text, fields=FIELDS) == own
    async with AsyncClient(server) as async_client:
        assert await async_client.check_references(text, fields=FIELDS) == own
    assert own.counts["held"] == 501


def test_what_cannot_be_checked_is_refused(server: str) -> None:
    for body, message in (
        (
            {"references": "a\n" * 1001},
            "has 1,001 references: the maximum in one request is 1,000. Split them",
        ),
        ({"references": "é" * 600_000}, "longer than 1,000,000 bytes: split it"),
        ({"references": "% only a comment", "input_format": "bibtex"}, "no reference in the format bibtex"),
        ({"references": "a", "input_format": "word"}, "input_format is 'word'"),
        ({"references": ["a"]}, "references is ['a']"),
    ):
        response = httpx.post(f"{server}/v1/references/check", json=body)
        assert response.status_code == 400
        assert message in response.json()["detail"]

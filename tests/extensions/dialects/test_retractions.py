"""Retracted papers in dialects."""

from collections.abc import Iterator

import httpx
import pytest

from scholarbase import Library
from tests.conftest import serving_in_thread
from tests.search.test_status import BOTH, OPENALEX, RETRACTED, make_library


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = make_library(tmp_path_factory.mktemp("retractions"))
    with Library.open(path) as library, serving_in_thread(library) as address:
        yield address


def test_dialects_show_retractions(url: str) -> None:
    work = httpx.get(f"{url}/openalex/works/doi:10.48550/arXiv.{RETRACTED}").json()
    assert work["is_retracted"] is True
    by_id = httpx.get(f"{url}/openalex/works/W{OPENALEX[RETRACTED]}").json()
    assert (by_id["id"], by_id["is_retracted"]) == (work["id"], True)
    listed = httpx.get(f"{url}/openalex/works", params={"filter": "is_retracted:true"}).json()
    assert listed["meta"]["count"] == 3
    listed = httpx.get(f"{url}/openalex/works", params={"filter": "is_retracted:false"}).json()
    assert listed["meta"]["count"] == 3
    paper = httpx.get(f"{url}/graph/v1/paper/arXiv:{BOTH}", params={"fields": "isRetracted"}).json()
    assert paper["isRetracted"] is True

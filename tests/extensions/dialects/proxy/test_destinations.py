"""Which requests a library answers, and where."""

from __future__ import annotations

import pytest

from scholarbase.errors import InvalidRequest
from scholarbase_dialects.proxy.destinations import library_target, split_target


def test_targets() -> None:
    for url, target in (
        ("https://google.serper.dev/search", "/serper/search"),
        ("https://google.serper.dev/scholar?q=a", "/serper/scholar?q=a"),
        ("https://api.semanticscholar.org/graph/v1/paper/search?query=a", "/graph/v1/paper/search?query=a"),
        ("https://api.semanticscholar.org/recommendations/v1/papers/", "/recommendations/v1/papers/"),
        ("http://api.semanticscholar.org/v1/paper/arXiv:1706.03762", "/s2-legacy/v1/paper/arXiv:1706.03762"),
        ("https://api.semanticscholar.org/graph/v10/paper", "/graph/v1/unknown/graph/v10/paper"),
        ("http://export.arxiv.org/api/query?search_query=all:a", "/api/query?search_query=all:a"),
        ("https://arxiv.org/api/query?id_list=1706.03762", "/api/query?id_list=1706.03762"),
        ("https://arxiv.org/search/?query=a&searchtype=title", "/arxiv-search?query=a&searchtype=title"),
        ("https://arxiv.org/search/?query=a&searchtype=all", None),
        ("https://arxiv.org/search/cs?query=a&searchtype=title", None),
        ("https://export.arxiv.org/search/?query=a&searchtype=title", None),
        ("https://arxiv.org/pdf/1706.03762", "/ar5iv/pdf/1706.03762"),
        ("https://export.arxiv.org/pdf/1706.03762v1.pdf", "/ar5iv/pdf/1706.03762v1.pdf"),
        ("https://arxiv.org/html/1706.03762v1", "/ar5iv/html/1706.03762v1"),
        ("https://ar5iv.labs.arxiv.org/html/1706.03762", "/ar5iv/html/1706.03762"),
        ("https://ar5iv.labs.arxiv.org/assets/a.css", None),
        ("https://arxiv.org/abs/1706.03762", None),
        ("https://export.arxiv.org/", None),
        ("https://export.arxiv.org/api/query/more", None),
        ("https://api.openalex.org/works?search=a", "/openalex/works?search=a"),
        ("https://API.OpenAlex.org./works", "/openalex/works"),
        ("https://api.crossref.org/works/10.1000/1", "/crossref/works/10.1000/1"),
        ("https://api.crossref.org", "/crossref/"),
        ("https://api.crossref.org?query=a", "/crossref/?query=a"),
        ("https://api.openalex.org:8443/works", None),
        ("http://api.openalex.org:443/works", None),
        ("https://openalex.org/works", None),
        ("https://example.org/search", None),
        ("https://serper.dev/search", None),
    ):
        assert library_target(*split_target(url)) == target


@pytest.mark.parametrize(
    "target", ["/search", "*", "ftp://arxiv.org/", "http://", "https://a:b/", "http://u@h/"]
)
def test_what_is_no_whole_url_is_rejected(target: str) -> None:
    with pytest.raises(InvalidRequest):
        split_target(target)

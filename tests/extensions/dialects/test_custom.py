"""The list of documents that GPT Researcher's custom retriever reads."""

import httpx

from scholarbase.search.library import Library


def test_documents(server: str, sample: Library) -> None:
    documents = httpx.get(f"{server}/custom", params={"query": "string theory"}).json()
    native = [hit.paper for hit in sample.search("string theory", limit=10).results]
    assert [set(document) for document in documents] == [{"url", "raw_content"}] * 10
    assert [document["raw_content"].split("\n")[0] for document in documents] == [p.title for p in native]
    assert all((p.abstract or "") in d["raw_content"] for p, d in zip(native, documents, strict=True))
    # Every link is an id that the library reads.
    assert [paper and paper.id for paper in sample.papers([d["url"] for d in documents])] == [
        p.id for p in native
    ]

"""The clients of docs/dialects.md, unmodified and pointed at a server as the page says, in an environment of their own
(:mod:`tests.extensions.dialects.clients`)."""

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from scholarbase.search.library import Library
from scholarbase_dialects.proxy.authority import Authority
from scholarbase_dialects.proxy.command import variables
from scholarbase_dialects.proxy.destinations import HOSTS
from scholarbase_dialects.proxy.serving import Backend, Proxy
from tests.conftest import ROOT
from tests.examples.test_frameworks import interpreter
from tests.extensions.dialects.clients import DOI, PAPER, QUERY, TITLE
from tests.extensions.dialects.proxy.test_proxy import proxying

slow = pytest.mark.slow
"""A client's imports take seconds; the first time, all are installed."""
SCRIPT: Final = Path(__file__).parent / "clients.py"
PAGE: Final = (ROOT / "docs" / "dialects.md").read_text("utf-8")
SNIPPETS: Final = {
    client: block
    for block in re.findall(r"^```python\n(.*?)^```$", PAGE, re.S | re.M)
    for client in ("agno", "camel", "knowledge_storm", "langchain_community")
    if f"from {client}." in block
}
"""The page's Python for each client."""
EXPORTS: Final = dict(
    re.findall(r"(\w+)=(\S+)", " ".join(re.findall(r"^\$ export (RETRIEVER.*)$", PAGE, re.M)))
)

Run = Callable[[str], Any]


@pytest.fixture(scope="module")
def run(server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Runs a client, and returns what its calls returned."""
    folder = tmp_path_factory.mktemp("clients")
    python = interpreter(SCRIPT)
    authority = Authority(folder / "authority", HOSTS, {})

    def here(text: str) -> str:
        return text.replace("http://127.0.0.1:8000", server)

    with proxying(Proxy(authority, Backend(server), {})) as proxy:
        environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(folder),
            "SERPER_API_KEY": "none",
            **variables(proxy, authority.bundle, {}),
            **{name: here(value) for name, value in EXPORTS.items()},
        }

        def run(client: str) -> Any:
            out = folder / f"{client}.json"
            done = subprocess.run(
                [python, SCRIPT, client, out],
                input=here(SNIPPETS.get(client, "")),
                capture_output=True,
                text=True,
                timeout=600,
                cwd=folder,
                env=environment,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            return json.loads(out.read_text("utf-8"))

        yield run


@pytest.fixture(scope="module")
def titles(sample: Library) -> list[str]:
    """The titles that a native search finds, best first."""
    return [hit.paper.title or "" for hit in sample.search(QUERY, limit=10, syntax="plain").results]


@pytest.fixture(scope="module")
def at_arxiv(server: str) -> list[str]:
    """The titles that the arXiv dialect finds."""
    feed = httpx.get(f"{server}/api/query", params={"search_query": f'ti:"{QUERY}"', "max_results": 3}).text
    return re.findall(r"<entry>.*?<title>(.*?)</title>", feed, re.S)


@slow
def test_agno(run: Run, titles: list[str], at_arxiv: list[str]) -> None:
    assert run("agno") == {"arxiv": at_arxiv, "searxng": titles[:3]}


@slow
def test_camel(run: Run, titles: list[str], sample: Library) -> None:
    found = run("camel")
    assert found["searxng"] == titles[:3]
    assert found["title"]["data"][0]["title"] == found["paper"]["title"] == TITLE
    assert found["paper"]["citationCount"] == sample.paper(PAPER).citation_count
    assert found["bulk"]["total"] == len(found["bulk"]["data"]) > 100
    assert found["author"][0]["name"] == "Edward Witten"


@slow
def test_gpt_researcher(run: Run, titles: list[str], at_arxiv: list[str], sample: Library) -> None:
    assert EXPORTS.keys() == {"RETRIEVER", "RETRIEVER_ENDPOINT", "SEARX_URL"}
    found = run("gpt_researcher")
    links = [
        f"https://arxiv.org/abs/{hit.paper.id.removeprefix('arXiv:')}" for hit in sample.search(QUERY).results
    ]
    assert [one["href"] for one in found["searx"]] == links[:3]
    assert [one["url"] for one in found["custom"]] == links
    assert [one["raw_content"].partition("\n")[0] for one in found["custom"]] == titles
    assert [one["title"] for one in found["arxiv"]] == at_arxiv
    assert [one["title"] for one in found["semantic_scholar"]] == titles[:3]
    assert [one["title"] for one in found["serper"]] == titles[:3]


@slow
def test_knowledge_storm(run: Run, titles: list[str]) -> None:
    found = run("knowledge_storm")
    assert [one["title"] for one in found] == titles
    assert all(one["snippets"] for one in found)


@slow
def test_langchain_community(run: Run, titles: list[str], at_arxiv: list[str]) -> None:
    found = run("langchain_community")
    assert [one["title"] for one in found["searx"]] == titles[:3]
    assert re.findall(r"^Title: (.*)$", found["arxiv"], re.M) == at_arxiv
    listed = re.findall(r"^Title: (.*)$", found["scholar"], re.M)
    assert listed == titles[: len(listed)] != []


@slow
def test_paperqa(run: Run, sample: Library) -> None:
    """Three services, each by a title and by a DOI. The BibTeX is Crossref's own, from another route."""
    papers = [sample.paper(PAPER), sample.paper(f"DOI:{DOI}")]
    for provider, details in run("paperqa").items():
        for paper, (title, authors, year, citations, bibtex) in zip(papers, details, strict=True):
            assert (title, year, citations) == (paper.title, paper.year, paper.citation_count), provider
            assert authors == [author.name for author in paper.authors], provider
            assert bibtex.startswith("@"), provider


@pytest.mark.parametrize(
    "client", ["agno", "camel-ai", "gpt-researcher", "knowledge-storm", "langchain-community", "paper-qa"]
)
def test_the_page_names_the_version_that_is_tested(client: str) -> None:
    version = re.search(rf'"{client}==([\d.]+)"', SCRIPT.read_text("utf-8"))
    assert version is not None
    assert f"`{client} {version[1]}`" in PAGE

"""The documentation site: it builds without a warning, its links lead somewhere, and it needs no other host."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytest.importorskip("sphinx")
pytest.importorskip("myst_parser")

from website.build import sections, with_site_links
from website.check import problems
from website.http_reference import type_of
from website.notebook import notebook_page

SNAPSHOTS = ROOT / "tests" / "snapshots"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as ``make docs`` builds it; a warning, a broken link and a file of another host fail the build."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "website.build", "--out", folder / "site", "--work", folder / "work"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return folder / "site"


@pytest.mark.slow
def test_every_page_is_built_and_listed_for_models(site: Path) -> None:
    pages = {path.stem for path in ROOT.glob("docs/*.md")} | {"contributing", "changelog"}
    listed = set(re.findall(r"\]\((\S+)\.md\)", (site / "llms.txt").read_text("utf-8")))
    assert pages - {"index"} <= listed
    for page in {*pages, *listed}:
        assert (site / f"{page}.html").is_file()
        assert (site / f"{page}.md").is_file()


@pytest.mark.slow
def test_markdown_pages_lead_to_pictures_and_classes(site: Path) -> None:
    assert (site / "images" / "explorer-graph.png").is_file()
    python = (site / "reference" / "python.md").read_text("utf-8")
    assert "- [Library](python/library.html)" in python
    assert "python/library.md" not in python


@pytest.mark.slow
def test_the_references_have_every_route_command_and_class(site: Path) -> None:
    http = (site / "reference" / "http.html").read_text("utf-8")
    document = json.loads((SNAPSHOTS / "openapi.json").read_bytes())
    for path, methods in document["paths"].items():
        for method in methods:
            assert f"{method.upper()} {path}<" in http
    for name in document["components"]["schemas"]:
        assert f'id="{name.lower()}"' in http
    commands = (site / "reference" / "commands.md").read_text("utf-8")
    helps = re.findall(r"^\$ (.+) --help$", (SNAPSHOTS / "cli-help.txt").read_text("utf-8"), re.M)
    assert re.findall(r"^## (.+)$", commands, re.M) == helps
    python = "".join(path.read_text("utf-8") for path in (site / "reference" / "python").glob("*.html"))
    for name in ("Library.search", "Client.search", "SearchRequest", "write_papers", "errors.PaperNotFound"):
        assert re.search(rf'id="scholarbase\.(\w+\.)*{re.escape(name)}"', python), name


def test_every_section_of_the_index_lists_pages() -> None:
    found = sections((ROOT / "docs" / "index.md").read_text("utf-8"))
    assert all(found.values())
    assert len(found) >= 6
    with pytest.raises(ValueError, match="what it describes"):
        sections("## One\n\n- [A page](page.md)\n")


@pytest.mark.parametrize(
    ("page", "link", "expected"),
    [
        ("docs/agents.md", "../examples/trace_search.py", "/blob/main/examples/trace_search.py)"),
        ("docs/agents.md", "../examples", "/tree/main/examples)"),
        ("docs/agents.md", "../README.md", "(index.md)"),
        ("docs/agents.md", "../CONTRIBUTING.md#tests", "(contributing.md#tests)"),
        ("docs/agents.md", "api.md#a-paper", "(api.md#a-paper)"),
        ("docs/agents.md", "api.md", "(api.md)"),
        ("CONTRIBUTING.md", "docs/api.md#a-paper", "(api.md#a-paper)"),
        ("CONTRIBUTING.md", "LICENSE", "/blob/main/LICENSE)"),
        ("docs/agents.md", "https://example.org/", "(https://example.org/)"),
    ],
)
def test_links_of_the_repository_lead_to_pages_or_sources(page: str, link: str, expected: str) -> None:
    assert with_site_links(f"See [this]({link}).", ROOT / page).endswith(f"{expected}.")
    assert with_site_links(f"```\n[this]({link})\n```", ROOT / page) == f"```\n[this]({link})\n```"


def test_a_notebook_is_a_page_with_its_output(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# A\n", "b"]},
        {"cell_type": "code", "source": ["%%bash\n", "ls"], "outputs": [{"name": "stdout", "text": ["c\n"]}]},
        {
            "cell_type": "code",
            "source": "d()",
            "outputs": [{"data": {"image/png": "aGk=", "text/plain": "e"}}],
        },
    ]
    (tmp_path / "in.ipynb").write_text(json.dumps({"cells": cells}))
    notebook_page(tmp_path / "in.ipynb", tmp_path / "out.md")
    assert (tmp_path / "out.md").read_text("utf-8") == (
        "# A\nb\n\n```bash\nls\n```\n\n```text\nc\n```\n\n```python\nd()\n```\n\n"
        "![The plot of the code above](out-2.png)\n"
    )
    assert (tmp_path / "out-2.png").read_bytes() == b"hi"


def test_broken_links_and_other_hosts_are_found(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "index.html").write_text('<h1 id="a b">A</h1>')
    (tmp_path / "style.css").write_text("@import 'https://example.org/a.css'; p { background: url(data:x) }")
    (tmp_path / "llms.txt").write_text("- [Gone](gone.md): nothing\n")
    (tmp_path / "folder" / "page.md").write_text(
        "[Top](../index.html#top) ![Lost](lost.png) [Lost](lost.md#a) [Far](<https://example.org/a>)\n\n```\n[Code](code.md)\n```\n"
    )
    (tmp_path / "index.html").write_text(
        '<link rel="stylesheet" href="style.css"><script src="//example.org/a.js"></script>'
        '<a href="folder/#a%20b"></a><a href="folder/#b"></a><a href="#top"></a><a href="lost.html"></a>'
        '<a href="https://example.org"></a><img src="picture.png">'
    )
    assert problems(tmp_path) == [
        "folder/page.md links to lost.md#a, which is not there",
        "folder/page.md links to lost.png, which is not there",
        "index.html links to #top, which has no such anchor",
        "index.html links to folder/#b, which has no such anchor",
        "index.html links to lost.html, which is not there",
        "index.html links to picture.png, which is not there",
        "index.html loads //example.org/a.js",
        "llms.txt links to gone.md, which is not there",
        "style.css loads https://example.org/a.css",
    ]


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "integer or null"),
        ({"type": "array", "items": {"$ref": "#/components/schemas/Hit"}}, "list of [Hit](#hit)"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "object of string"),
        ({"enum": ["asc", "desc"], "type": "string"}, "`asc`, `desc`"),
        ({}, "any value"),
    ],
)
def test_types_are_words(schema: dict[str, object], text: str) -> None:
    assert type_of(schema) == text

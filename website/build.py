"""Build the documentation site: ``python -m website.build`` writes it to build/site.

The pages of docs/ are copied, links to files outside docs/ lead to their sources, the references are generated, Sphinx
builds the HTML, and every link and anchor of the result is checked.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Final, NamedTuple

from sphinx.cmd.build import main as sphinx

from website.check import external, markdown_links, outside_code, problems
from website.http_reference import http_reference
from website.notebook import notebook_page

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCE: Final = "https://github.com/scholarbase/scholarbase"
PAGES: Final = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "examples/recall.ipynb": "notebook.md",
}
"""Pages of the site for files outside docs/."""
PYTHON: Final = {
    "Library": ["autoclass:: scholarbase.Library"],
    "Clients": ["autoclass:: scholarbase.Client", "autoclass:: scholarbase.AsyncClient"],
    "Requests, papers and bibliographies": [
        "autoclass:: scholarbase.SearchRequest",
        "autoclass:: scholarbase.Paper",
        "autofunction:: scholarbase.write_papers",
    ],
    "Responses": ["automodule:: scholarbase.models.responses"],
    "Tools for agents": ["automodule:: scholarbase.tools.calling"],
    "Sessions": ["automodule:: scholarbase.sessions.session"],
    "Encoders": ["automodule:: scholarbase.models.encoders"],
    "Ingest": ["automodule:: scholarbase.ingest.job"],
    "Query sets": ["automodule:: scholarbase_research.evaluation.formats"],
    "Measures": ["automodule:: scholarbase_research.evaluation.measures"],
    "Language models": ["automodule:: scholarbase_research.llm.base"],
    "Errors": ["automodule:: scholarbase.errors"],
}
"""The pages of the Python reference, as directives of Sphinx."""


class Entry(NamedTuple):
    """A page in the list of docs/index.md."""

    title: str
    page: str
    """Its path in the site's sources, such as ``agents.md``."""
    description: str


def with_site_links(text: str, path: Path) -> str:
    """The page at ``path`` with the links that leave docs/ led to pages of the site, or to the sources."""

    def link(match: re.Match[str]) -> str:
        name, hash_, anchor = match[1].partition("#")
        if not name or "://" in name:
            return match[0]
        target = Path(os.path.normpath(path.parent / name)).relative_to(ROOT)
        if target.as_posix() in PAGES:
            page = ROOT / "docs" / PAGES[target.as_posix()]
        elif target.parts[0] == "docs":
            page = ROOT / target
        else:
            kind = "tree" if (ROOT / target).is_dir() else "blob"
            return f"]({SOURCE}/{kind}/main/{target.as_posix()}{hash_}{anchor})"
        folder = path.parent if path.is_relative_to(ROOT / "docs") else ROOT / "docs"
        return f"]({Path(os.path.relpath(page, folder)).as_posix()}{hash_}{anchor})"

    return "".join(
        re.sub(r"\]\(([^)\s]+)\)", link, part) if prose else part for prose, part in outside_code(text)
    )


def sections(index: str) -> dict[str, list[Entry]]:
    """The lists of docs/index.md by their headings.

    Raises:
        ValueError: a line of a list is not ``- [Title](page.md): what it describes``.
    """
    found: dict[str, list[Entry]] = {}
    for heading, body in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", index, re.S | re.M):
        for item in re.split(r"^- ", body, flags=re.M)[1:]:
            match = re.fullmatch(r"\[([^\]]+)\]\(([^)]+\.(?:md|ipynb))\): (.+?)\s*", item, re.S)
            if match is None:
                raise ValueError(f"docs/index.md: {item!r} is not [Title](page.md): what it describes")
            found.setdefault(heading, []).append(Entry(match[1], match[2], " ".join(match[3].split())))
    return found


def command_reference(text: str) -> str:
    """The page of every command's help."""
    page = ["# Commands\n\nThe help of every command. [The command line](../cli.md) has examples.\n"]
    for command, help_ in re.findall(r"^\$ (scholarbase.*?) --help\n+(.*?)(?=^\$ |\Z)", text, re.S | re.M):
        page.append(f"## {command}\n\n```text\n{help_.strip()}\n```\n")
    return "\n".join(page)


def python_reference(folder: Path) -> str:
    """Write a page for each part to ``folder``: directives for Sphinx, which takes the text from the docstrings.

    Returns:
        The page that lists them.
    """
    page = ["# Python classes and functions\n", "What the guides use, from the docstrings.\n"]
    folder.mkdir()
    for heading, objects in PYTHON.items():
        name = heading.split(",")[0].lower().replace(" ", "-")
        text = "\n".join(f".. {directive}\n" for directive in objects)
        (folder / f"{name}.md").write_text(f"# {heading}\n\n```{{eval-rst}}\n{text}```\n", "utf-8")
        page.append(f"- [{heading}]({folder.name}/{name}.md)")
    names = "".join(f"{folder.name}/{path.stem}\n" for path in sorted(folder.glob("*.md")))
    return "\n".join(page) + f"\n\n```{{toctree}}\n:hidden:\n\n{names}```\n"


HTTP: Final = Entry(
    "HTTP routes and schemas",
    "reference/http.md",
    "every route, parameter and schema of the OpenAPI document",
)
CLASSES: Final = Entry("Python classes and functions", "reference/python.md", "from their docstrings")
COMMANDS: Final = Entry("Commands and options", "reference/commands.md", "the help of every command")


def write_references(folder: Path) -> None:
    """Write the generated pages, from the snapshots that tests compare with the code, and the docstrings."""
    snapshots = ROOT / "tests" / "snapshots"
    (folder / "reference").mkdir()
    document = json.loads((snapshots / "openapi.json").read_bytes())
    (folder / HTTP.page).write_text(http_reference(document), "utf-8")
    (folder / COMMANDS.page).write_text(
        command_reference((snapshots / "cli-help.txt").read_text("utf-8")), "utf-8"
    )
    (folder / CLASSES.page).write_text(python_reference(folder / "reference" / "python"), "utf-8")


def stage(folder: Path) -> dict[str, list[Entry]]:
    """Write the sources of the site to ``folder``, and return its navigation."""
    shutil.copytree(ROOT / "docs", folder)
    for name, page in PAGES.items():
        if name.endswith(".ipynb"):
            notebook_page(ROOT / name, folder / page)
        elif not (folder / page).exists():
            (folder / page).write_text(
                with_site_links((ROOT / name).read_text("utf-8"), ROOT / name), "utf-8"
            )
    for path in folder.rglob("*.md"):
        original = ROOT / "docs" / path.relative_to(folder)
        if original.exists():
            path.write_text(with_site_links(original.read_text("utf-8"), original), "utf-8")
    write_references(folder)
    index = folder / "index.md"
    text = index.read_text("utf-8")
    generated = "".join(
        f"- [{one.title}]({one.page}): {one.description}\n" for one in (HTTP, CLASSES, COMMANDS)
    )
    text = text.replace("\n## Reference\n\n", f"\n## Reference\n\n{generated}")
    navigation = sections(text)
    for heading, entries in navigation.items():
        pages = "".join(f"{one.title} <{one.page.removesuffix('.md')}>\n" for one in entries)
        text += f"\n```{{toctree}}\n:hidden:\n:caption: {heading}\n\n{pages}```\n"
    index.write_text(text, "utf-8")
    return navigation


def llms_txt(navigation: dict[str, list[Entry]]) -> str:
    """The map of the site for language models (llmstxt.org), with links to the pages as Markdown."""
    introduction = (ROOT / "docs" / "index.md").read_text("utf-8").split("\n\n")[1]
    lines = ["# ScholarBase", "", f"> {' '.join(introduction.split())}"]
    for heading, entries in navigation.items():
        lines += ["", f"## {heading}", ""]
        lines += [f"- [{one.title}]({one.page}): {one.description}" for one in entries]
    return "\n".join(lines) + "\n"


def copy_pages(pages: Path, out: Path) -> None:
    """Copy the pages as Markdown, for language models, with their pictures.

    The pages of the Python classes are directives for Sphinx, so links to them lead to HTML.
    """
    for page in pages.rglob("*.md"):
        if page.parent == pages / "reference" / "python":
            continue
        text = page.read_text("utf-8")
        if page == pages / CLASSES.page:
            text = re.sub(r"\]\((python/.+?)\.md\)", r"](\1.html)", text)
        copy = out / page.relative_to(pages)
        copy.write_text(text, "utf-8")
        for url in markdown_links(text):
            if re.search(r"\.(png|svg)$", url) and not external(url):
                picture = copy.parent / url
                picture.parent.mkdir(exist_ok=True)
                shutil.copyfile(page.parent / url, picture)


def build(out: Path, work: Path) -> list[str]:
    """Build the site in ``out``; return what is wrong with it: broken links, and files of other hosts.

    Raises:
        SystemExit: Sphinx fails, or warns.
    """
    for folder in (out, work / "pages"):
        shutil.rmtree(folder, ignore_errors=True)
    navigation = stage(work / "pages")
    options = ["-q", "-W", "--keep-going", "-E", "-b", "html", "-c", str(ROOT / "website")]
    status = sphinx([*options, "-d", str(work / "doctrees"), str(work / "pages"), str(out)])
    if status:
        raise SystemExit(status)
    copy_pages(work / "pages", out)
    (out / "llms.txt").write_text(llms_txt(navigation), "utf-8")
    return problems(out)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site", help="the folder to write")
    parser.add_argument(
        "--work", type=Path, default=ROOT / "build" / "site-work", help="for files in between"
    )
    arguments = parser.parse_args()
    found = build(arguments.out.resolve(), arguments.work.resolve())
    for problem in found:
        print(problem, file=sys.stderr)
    if found:
        sys.exit(f"{len(found)} problems in {arguments.out}")
    print(f"The site is in {arguments.out}: open {arguments.out / 'index.html'}")

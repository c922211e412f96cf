"""Check a built site: its links exist, in HTML and Markdown, and reading it needs no other host."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote


class Page(HTMLParser):
    """The ids of a page, its links, and the files that a browser loads to show it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attrs if value}
        if "id" in values:
            self.ids.add(values["id"])
        if "src" in values:
            self.loaded.append(values["src"])
        if "href" in values:
            loads = tag == "link" and values.get("rel") not in (
                "next",
                "prev",
                "index",
                "search",
                "canonical",
            )
            (self.loaded if loads else self.links).append(values["href"])


def external(url: str) -> bool:
    return re.match(r"(?:[a-z][a-z0-9+.-]*:)?//|mailto:|data:", url) is not None


def outside_code(text: str) -> Iterator[tuple[bool, str]]:
    """The parts of a page in Markdown, and whether each is prose; the others are fenced blocks."""
    for part in re.split(r"(^```.*?^```$)", text, flags=re.S | re.M):
        yield not part.startswith("```"), part


def markdown_links(text: str) -> list[str]:
    """The targets of the links and pictures of a page in Markdown."""
    return [
        url.strip("<>")
        for prose, part in outside_code(text)
        if prose
        for url in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]+`", "", part))
    ]


def problems(site: Path) -> list[str]:
    """What is wrong with the site in a folder, one sentence each; empty if nothing is."""
    pages = {path.resolve(): Page(path.read_text("utf-8")) for path in site.rglob("*.html")}
    found = []
    for path, page in pages.items():
        name = path.relative_to(site.resolve()).as_posix()
        found += [
            f"{name} loads {url}" for url in page.loaded if external(url) and not url.startswith("data:")
        ]
        for url in {*page.links, *page.loaded}:
            if external(url):
                continue
            file, _, anchor = url.partition("#")
            file = unquote(file.partition("?")[0])
            target = (path.parent / file).resolve() if file else path
            if target.is_dir():
                target /= "index.html"
            if not target.is_file():
                found.append(f"{name} links to {url}, which is not there")
            elif anchor and target in pages and unquote(anchor) not in pages[target].ids:
                found.append(f"{name} links to {url}, which has no such anchor")
    for path in site.rglob("*.css"):
        for url in re.findall(r"(?:url\(|@import )\s*['\"]?([^'\")]+)", path.read_text("utf-8")):
            if external(url) and not url.startswith("data:"):
                found.append(f"{path.relative_to(site)} loads {url}")
    for path in [site / "llms.txt", *site.rglob("*.md")]:
        for url in markdown_links(path.read_text("utf-8")):
            file = unquote(url.partition("#")[0])
            if not external(url) and file and not (path.parent / file).is_file():
                found.append(f"{path.relative_to(site).as_posix()} links to {url}, which is not there")
    return sorted(found)


if __name__ == "__main__":
    wrong = problems(Path(sys.argv[1]))
    print(*wrong, sep="\n")
    sys.exit(bool(wrong))

"""The documentation says what is there: links, commands, errors, settings, routes and examples."""

import ast
import importlib
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import click
import httpx
import pytest

from scholarbase.cli import main
from scholarbase.errors import ScholarBaseError
from scholarbase.ingest.sources import Dataset
from scholarbase.search.library import Library
from scholarbase.settings import PREFIX, Settings
from tests.conftest import ROOT, run_cli, serving_in_thread

pytestmark = pytest.mark.whole

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "sample" / "README.md"])


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(page: str, *languages: str) -> list[str]:
    """The fenced blocks of a page in any of the languages."""
    return [m[2] for m in re.finditer(r"^```(\w*)\n(.*?)^```$", page, re.S | re.M) if m[1] in languages]


def prose(page: str) -> str:
    return re.sub(r"^```.*?^```$", "", page, flags=re.S | re.M)


def anchors(page: str) -> set[str]:
    """The anchors that GitHub gives the headings: lower case, punctuation dropped, spaces to hyphens."""
    found = set()
    for heading in re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", page, flags=re.S | re.M), re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
        found.add(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return found


def test_relative_links_resolve() -> None:
    links = [
        (path, target)
        for path in PAGES
        for target in re.findall(r"\]\(([^)\s]+)\)", prose(path.read_text(encoding="utf-8")))
    ]
    for path, target in links:
        if target.lstrip("<").startswith(("https://", "http://")):
            continue
        name, _, anchor = target.partition("#")
        linked = (path.parent / unquote(name)).resolve() if name else path
        assert linked.exists(), f"{path.name} links to {target}, which is not there"
        assert linked.is_relative_to(ROOT), f"{path.name} links to {target}, outside the repository"
        if anchor and linked.suffix == ".md":
            known = anchors(linked.read_text(encoding="utf-8"))
            assert anchor in known, f"{path.name} links to {target}: {linked.name} has {sorted(known)}"


def test_the_index_lists_every_page() -> None:
    listed = re.findall(r"^- \[[^\]]+\]\((\w[\w/-]*\.md)\): ", text("docs/index.md"), re.M)
    assert len(set(listed)) == len(listed)
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in ROOT.glob("docs/**/*.md")}
    assert set(listed) == pages - {"index.md"}


def test_the_pages_keep_to_their_budget_of_words() -> None:
    words = sum(len(page.read_text("utf-8").split()) for page in ROOT.glob("docs/**/*.md"))
    assert words <= 55_000, f"docs/ has {words:,} words: link to a fact instead of repeating it"


# -- the command line -----------------------------------------------------------------------------------


def commands(
    group: click.Group = main, context: click.Context | None = None, prefix: str = ""
) -> dict[str, click.Command]:
    """Every command by its full name: ``search``, ``eval run``."""
    found: dict[str, click.Command] = {}
    context = context or click.Context(main)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        full = f"{prefix}{name}"
        if isinstance(command, click.Group):
            found |= commands(command, click.Context(command, context, info_name=name), f"{full} ")
        else:
            found[full] = command
    return found


def test_every_command_has_its_row() -> None:
    page = text("docs/cli.md")
    for name in commands():
        assert re.search(rf"^\| .*`{name}`.* \|", page, re.M), f"docs/cli.md has no row for {name}"


OPTIONS: Final = tuple(f"docs/{page}.md" for page in ("cli", "ingest", "evaluation", "construct"))
"""The pages that describe options."""


def test_every_option_is_documented() -> None:
    page = "".join(map(text, OPTIONS))
    named = set(re.findall(r"--[a-z][a-z0-9-]*", page))
    for command in commands().values():
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert named & set(parameter.opts), f"{command.name} {parameter.opts} is nowhere in the docs"


def documented_commands() -> Iterator[tuple[str, str]]:
    for path in PAGES:
        for block in blocks(path.read_text(encoding="utf-8"), "console"):
            for line in block.replace("\\\n", " ").splitlines():
                if match := re.match(r"\$ (?:\w+=\S+ )*(scholarbase .+)", line):
                    yield path.name, match[1]


def test_documented_commands_are_what_the_command_line_takes() -> None:
    seen = 0
    # With the group's own settings: click keeps a command's help option from the first context that asks for it.
    parent = click.Context(main, **main.context_settings)
    known = commands()
    for page, line in documented_commands():
        _, name, *arguments = shlex.split(line, comments=True)
        while name not in known and arguments:
            name, arguments = f"{name} {arguments[0]}", arguments[1:]
        try:
            known[name].make_context(name, arguments, parent=parent)
        except (KeyError, click.ClickException) as error:
            pytest.fail(f"{page} shows {line!r}: {error!r}")
        seen += 1
    assert seen > 15


# -- errors and settings --------------------------------------------------------------------------------


def error_classes(root: type[ScholarBaseError] = ScholarBaseError) -> Iterator[type[ScholarBaseError]]:
    yield root
    for child in root.__subclasses__():
        if child.__module__ == root.__module__:
            yield from error_classes(child)


def test_every_error_has_its_section() -> None:
    page = text("docs/errors.md")
    for error in error_classes():
        head = f"## {error.slug}\n\n`{error.__name__}`, {error.status}, {error.exit_code}.\n"
        assert head in page, f"docs/errors.md lacks {head}"


def test_every_problem_of_http_itself_has_its_section() -> None:
    sources = "".join(path.read_text() for path in (ROOT / "scholarbase" / "api").rglob("*.py"))
    slugs = set(re.findall(r'problem\(\s*\d+, "([a-z-]+)"', sources)) | set(
        re.findall(r'\("([a-z-]+)", "[A-Z][a-z ]+"\)', sources)
    )
    assert {"internal", "not-found", "not-ready"} <= slugs
    for slug in slugs:
        assert f"## {slug}\n" in text("docs/errors.md"), f"docs/errors.md has no section {slug}"


def test_every_setting_has_its_line() -> None:
    rows = dict(
        re.findall(r"^- `(SCHOLARBASE_\w+)` \((?:`([^`]*)`|unset)\): ", text("docs/settings.md"), re.M)
    )
    defaults = {
        PREFIX + name.upper(): "" if field.default is None else str(field.default)
        for name, field in Settings.model_fields.items()
    }
    assert rows == defaults


def test_no_page_names_a_setting_that_does_not_exist() -> None:
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    for path in PAGES:
        for name in re.findall(r"SCHOLARBASE_[A-Z0-9_]+[A-Z0-9]", path.read_text(encoding="utf-8")):
            assert name in known, f"{path.name} names {name}"


# -- ingest ---------------------------------------------------------------------------------------------


def test_every_dataset_is_documented() -> None:
    rows = set(
        re.findall(r"`([a-z0-9-]+)`", "".join(re.findall(r"^\| (.+?) \|", text("docs/ingest.md"), re.M)))
    )
    assert {dataset.value for dataset in Dataset} - {"arxiv"} <= rows


def test_every_reason_to_reject_a_line_is_documented() -> None:
    sources = "".join(path.read_text() for path in (ROOT / "scholarbase" / "ingest" / "sources").glob("*.py"))
    reasons = set(re.findall(r'(?:BadRecord\(|Reject\(|_required\(record, "\w+",)\s*"([a-z-]+)"', sources))
    assert {"bad-type", "no-title", "no-abstract"} <= reasons
    assert reasons <= set(re.findall(r"`([a-z-]+)`", text("docs/ingest.md")))


def test_every_count_is_documented(sample_library: Path) -> None:
    named = set(re.findall(r"`(\w+)`", text("docs/ingest.md")))
    counts = json.loads((sample_library / "manifest.json").read_text())["counts"]
    kinds = ("lines_", "rejects_", "s2ag_")
    assert {name for name in counts if not name.startswith(kinds)} <= named
    assert {f"{kind}D" for kind in kinds} <= named


# -- the API --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def openapi(server: str) -> dict[str, Any]:
    document: dict[str, Any] = httpx.get(f"{server}/openapi.json").raise_for_status().json()
    return document


def test_every_route_is_documented(openapi: dict[str, Any]) -> None:
    page = text("docs/api.md")
    table = page.partition("\n## Routes\n")[2].partition("\n## ")[0]
    for path, methods in openapi["paths"].items():
        for method in methods:
            route = f"{method.upper()} {path}"
            headings = re.findall(r"^## (.+)$", page, re.M)
            assert any(method.upper() in h and path in h for h in headings) or f"`{route}`" in page.replace(
                "\n", " "
            ), f"docs/api.md lacks {route}"
            assert f"`{route}`" in table, f"the table of docs/api.md lacks {route}"


def test_every_parameter_is_documented(openapi: dict[str, Any]) -> None:
    named = set(re.findall(r"`([a-z_]+)`", text("docs/api.md")))
    for path, methods in openapi["paths"].items():
        for operation in methods.values():
            names = {p["name"] for p in operation.get("parameters", ()) if p["in"] == "query"}
            body = operation.get("requestBody", {}).get("content", {}).get("application/json")
            if body and "$ref" in body["schema"]:  # a tool's arguments are an object of any keys
                schema = openapi["components"]["schemas"][body["schema"]["$ref"].rpartition("/")[2]]
                names |= set(schema["properties"])
            assert names <= named, f"docs/api.md does not explain {names - named} of {path}"


def test_every_key_of_a_paper_is_documented(openapi: dict[str, Any]) -> None:
    section = text("docs/api.md").partition("## A paper\n")[2].partition("\n## ")[0]
    rows = set(re.findall(r"`([a-z_]+)`", "".join(re.findall(r"^- (.+?):", section, re.M))))
    assert rows == set(openapi["components"]["schemas"]["Paper"]["properties"])


def curl_requests() -> list[Any]:
    """Each curl call of the docs to a server here, with the JSON that stands below it, where some does."""
    found = []
    for path in PAGES:
        page = path.read_text(encoding="utf-8")
        for match in re.finditer(
            r"^```console\n\$ (curl (?:.|\n)+?)^```\n(?:\n```json\n(.*?)^```$)?", page, re.M | re.S
        ):
            if "localhost:8000" in match[1]:
                found.append(pytest.param(path.name, match[1], match[2], id=f"{path.stem}-{len(found)}"))
    return found


def sent(command: str, server: str) -> httpx.Response:
    """What curl would send, sent by httpx: the options that the docs use, and no others."""
    words = iter(shlex.split(command.replace("\\\n", " "))[1:])
    url, data, headers, as_get = "", [], {}, False
    for word in words:
        if word in ("-d", "--data-urlencode"):
            data.append(next(words))
        elif word == "-H":
            name, _, value = next(words).partition(": ")
            headers[name] = value
        elif word in ("-s", "-sG"):
            as_get = as_get or "G" in word
        else:
            assert not word.startswith("-"), f"curl's {word} is unknown to this test"
            url = word.replace("localhost:8000", server)
    if as_get:
        return httpx.get(url, params=[tuple(item.split("=", 1)) for item in data])
    return httpx.post(url, content=data[0], headers=headers) if data else httpx.get(url)


VARYING = frozenset({"opened", "used", "seconds", "time"})
"""Keys whose values differ from run to run."""
HASH = re.compile(r"\b[0-9a-f]{32}(?:[0-9a-f]{32})?\b")
"""A snapshot id or a hash. Those of a library with dense vectors depend on how the processor rounds."""


@pytest.fixture(scope="module")
def my_library(default_library: Path) -> Path:
    """The library of most pages."""
    return default_library


@pytest.fixture(scope="module")
def my_server(my_library: Path) -> Iterator[str]:
    with Library.open(my_library) as library, serving_in_thread(library) as url:
        yield url


def same_values(shown: Any, real: Any, where: str = "the response") -> None:
    """The values are those that the docs show, with all or fewer decimals. ``"..."`` matches any value, and other keys
    or elements."""
    if isinstance(shown, dict) and isinstance(real, dict):
        if "..." in shown:
            assert shown.keys() - {"..."} <= real.keys(), where
        else:
            assert list(shown) == list(real), where
        for key in shown.keys() & real.keys() - VARYING:
            same_values(shown[key], real[key], f"{where}: {key}")
    elif isinstance(shown, list) and isinstance(real, list):
        whole = "..." not in shown
        for one, other in zip(shown if whole else shown[: shown.index("...")], real, strict=whole):
            same_values(one, other, where)
    elif isinstance(shown, str) and isinstance(real, str) and shown.endswith("...") and shown != "...":
        assert real.startswith(shown.removesuffix("...")), where
    elif isinstance(shown, float) and isinstance(real, float):
        assert shown == round(real, len(repr(shown).partition(".")[2])), where
    elif shown != "...":
        assert shown == real, where


@pytest.mark.parametrize(("page", "command", "shown"), curl_requests())
def test_curl_examples_answer_as_shown(
    server: str, my_server: str, page: str, command: str, shown: str | None
) -> None:
    words_only = page == "agents.md"
    response = sent(command, server if words_only else my_server)
    if shown is None:
        assert response.status_code == 200
        return
    example = json.loads(shown if words_only else HASH.sub("...", shown))
    if "status" in example and "detail" in example:
        assert response.json() == example
        assert response.status_code == example["status"]
    else:
        assert response.status_code == 200, response.text
        same_values(example, response.json())


# -- Python ---------------------------------------------------------------------------------------------


def test_python_blocks_compile_and_import_what_exists() -> None:
    shown = [(path, block) for path in PAGES for block in blocks(path.read_text(encoding="utf-8"), "python")]
    for path, block in shown:
        for node in ast.walk(
            compile(block, path.name, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        ):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("scholarbase"):
                module = importlib.import_module(node.module or "")
                for alias in node.names:
                    assert hasattr(module, alias.name), f"{path.name}: {node.module} has no {alias.name}"


def printed_examples() -> list[Any]:
    """The Python examples of the docs that are followed by what they print."""
    found = []
    for path in PAGES:
        pattern = r"^```python\n((?:(?!^```).)*?)^```\n\n```\n(.*?)^```$"
        for match in re.finditer(pattern, path.read_text(encoding="utf-8"), re.M | re.S):
            found.append(pytest.param(path.name, match[1], match[2], id=f"{path.stem}-{len(found)}"))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("page", "example", "shown"), printed_examples())
def test_python_examples_print_what_is_shown(
    page: str,
    example: str,
    shown: str,
    sample_library: Path,
    my_library: Path,
    server: str,
    my_server: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    go_to_libraries(sample_library, my_library, tmp_path, monkeypatch)
    url = server if page == "agents.md" else my_server
    monkeypatch.setenv("SCHOLARBASE_URL", url)
    done = subprocess.run(
        [sys.executable, "-c", example.replace("http://127.0.0.1:8000", url)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == shown


# -- the command line -----------------------------------------------------------------------------------

RUN: Final = (
    "search", "facets", "title", "check", "paper", "similar", "citations", "references", "info", "verify",
)  # fmt: skip
"""Commands whose output the docs show as it is. That of others depends on the machine or the time."""


def go_to_libraries(
    sample_library: Path, my_library: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Work in a folder where the libraries have the names that the docs use."""
    (folder / "my-library").symlink_to(my_library)
    for name in ("papers", "words"):
        (folder / name).symlink_to(sample_library)
    (folder / "sample").symlink_to(ROOT / "sample")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("SCHOLARBASE_SESSIONS", str(folder / "sessions"))


def printed_commands() -> list[Any]:
    """The commands of console blocks that are followed by what they print."""
    found = []
    for path in PAGES:
        for block in blocks(path.read_text(encoding="utf-8"), "console"):
            for match in re.finditer(
                r"^\$ scholarbase ((?:[^\n]*\\\n)*[^\n]*)\n((?:(?!\$ )[^\n]*\n)+)", block, re.M
            ):
                if match[1].split()[0] in RUN:
                    found.append(pytest.param(match[1], match[2], id=f"{path.stem}-{len(found)}"))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("command", "shown"), printed_commands())
def test_commands_print_what_is_shown(
    command: str,
    shown: str,
    sample_library: Path,
    my_library: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    go_to_libraries(sample_library, my_library, tmp_path, monkeypatch)
    done = run_cli(*shlex.split(command.replace("\\\n", " "), comments=True))
    assert done.returncode == 0, done.stderr
    output = done.stdout
    if "my-library" in command:
        shown, output = HASH.sub("HASH", shown), HASH.sub("HASH", output)
    printed = output.splitlines()
    lines = shown.rstrip("\n").splitlines()
    if "..." in lines:  # the rest may be anything
        lines = lines[: lines.index("...")]
        printed = printed[: len(lines)]
    assert [line.rstrip() for line in printed] == lines


def test_the_examples_are_found() -> None:
    assert len(printed_commands()) >= 5
    assert len(printed_examples()) >= 2
    assert len([one for one in curl_requests() if one.values[2] is not None]) >= 10

"""The contracts that tests hold: the OpenAPI document, the tools, the help of the command line, and public names.

``python -m tests.refresh_snapshots`` writes them anew after a change that is meant; the difference belongs in
the same commit, and in CHANGELOG.md where users will notice it.
"""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click
import orjson

from scholarbase.api.app import create_app
from scholarbase.cli import main
from scholarbase.tools.definitions import schemas
from tests.libraries import opened_library

FOLDER = Path(__file__).parent / "snapshots"
HOW = "If the change is meant, run `python -m tests.refresh_snapshots` and commit the difference."


def openapi() -> bytes:
    """The OpenAPI document, which does not depend on what is served."""
    row = {
        "corpusid": 1,
        "title": "A title",
        "abstract": "An abstract.",
        "externalids": {"ArXiv": "2401.00001"},
    }
    with tempfile.TemporaryDirectory() as folder, opened_library(Path(folder), [row]) as library:
        document = create_app(library).openapi()
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def tools() -> bytes:
    """The tools as a model sees them."""
    return orjson.dumps(schemas("openai"), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def cli_help() -> bytes:
    """The help of every command, one after the other."""
    # With the group's own settings: click keeps a command's help option from the first context that asks for it.
    settings = {**main.context_settings, "terminal_width": 100, "max_content_width": 100}
    context = click.Context(main, info_name="scholarbase", **settings)
    return "\n\n".join(_helps(main, context)).encode()


def _helps(command: click.Command, context: click.Context) -> Iterator[str]:
    yield f"$ {context.command_path} --help\n\n{command.get_help(context)}\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            below = click.Context(child, parent=context, info_name=name, terminal_width=100)
            yield from _helps(child, below)


PUBLIC_NAMES = """# Public names

What [extensions](../docs/extending.md) may import of ScholarBase, by module. A change of one is an entry in the
[changelog](../CHANGELOG.md). Names that are not here may change at any time.

"""


def public_names() -> bytes:
    """The page of the names that extensions import."""
    from tests.extensions.test_imports import used

    rows = (
        f"- `{module}`: {', '.join(f'`{name}`' for name in sorted(names))}"
        for module, names in used().items()
    )
    return (PUBLIC_NAMES + "\n".join(sorted(rows)) + "\n").encode()


SNAPSHOTS = {"openapi.json": openapi, "tools.json": tools, "cli-help.txt": cli_help}

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file_name, make in SNAPSHOTS.items():
        (FOLDER / file_name).write_bytes(make())
        sys.stdout.write(f"{FOLDER / file_name}\n")
    page = FOLDER.parent.parent / "extensions" / "public-names.md"
    page.write_bytes(public_names())
    sys.stdout.write(f"{page}\n")

"""Groups of commands, with those of extensions."""

from __future__ import annotations

import click

from scholarbase.errors import ExtensionError, InvalidRequest
from scholarbase.extensions import FAILURES, added_names, left_out, load_attribute, reason


class Commands(click.Group):
    """A group whose commands may come from extensions, which are loaded only for a command that the core lacks."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            return command
        words = " ".join((*_words(ctx), cmd_name))
        location = added_names("commands").get(words)
        if location is None:
            return None
        try:
            return load_command(words, location)
        except ExtensionError as error:
            return _failing(cmd_name, error)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        # Those left out are not imported, so which of them has the command is unknown.
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-") and (names := left_out()):
            raise InvalidRequest(
                f"No such command {' '.join((*_words(ctx), args[0]))!r}: SCHOLARBASE_EXTENSIONS leaves out "
                f"{', '.join(names)}. Unset it to use the commands of these extensions; without it, "
                '"scholarbase --help" lists all commands.'
            )
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        path = _words(ctx)
        added = (words.split() for words in added_names("commands"))
        return sorted({*super().list_commands(ctx), *(parts[-1] for parts in added if parts[:-1] == path)})


def _failing(name: str, error: ExtensionError) -> click.Command:
    """A command that raises an error, so that the help of its group can list it."""

    def fail() -> None:
        raise error

    settings = {"ignore_unknown_options": True, "allow_extra_args": True}
    return click.Command(
        name, callback=fail, short_help="Cannot be loaded.", add_help_option=False, context_settings=settings
    )


def load_command(words: str, location: str) -> click.Command:
    """Import a command of an extension. Raises ExtensionError: there is none at this location."""
    try:
        command = load_attribute(location)
        if not isinstance(command, click.Command):
            raise TypeError(f"it is a {type(command).__name__}, not a click command")
    except FAILURES as error:
        raise ExtensionError(
            f'The command "{words}" of an extension cannot be loaded from {location} ({reason(error)}): update or '
            'uninstall the extension, which "scholarbase doctor" names.'
        ) from error
    return command


def find_command(main: click.Group, words: str) -> click.Command | None:
    """The command that runs for these words."""
    command: click.Command | None = main
    context = click.Context(main, info_name=main.name)
    for word in words.split():
        if not isinstance(command, click.Group):
            return None
        command = command.get_command(context, word)
        if command is None:
            return None
        context = click.Context(command, parent=context, info_name=word)
    return command


def _words(ctx: click.Context) -> list[str]:
    """The words of a group's command, without the program's name."""
    words: list[str] = []
    while ctx.parent is not None:
        words.insert(0, ctx.info_name or "")
        ctx = ctx.parent
    return words

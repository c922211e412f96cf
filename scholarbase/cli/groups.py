"""Groups of commands, with those of extensions."""

from __future__ import annotations

import click

from scholarbase.errors import ExtensionError
from scholarbase.extensions import added_names, load_attribute


class Commands(click.Group):
    """A group whose commands may come from extensions, which are loaded only for a command that the core lacks."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        words = " ".join((*_words(ctx), cmd_name))
        place = added_names("commands").get(words)
        if place is None:
            return None
        try:
            command = load_attribute(place)
        except Exception as error:
            raise ExtensionError(
                f'The command "{words}" of an extension cannot be loaded from {place} ({type(error).__name__}: '
                f'{error}): see "scholarbase doctor".'
            ) from error
        if not isinstance(command, click.Command):
            raise ExtensionError(
                f'The command "{words}" of an extension is {place}, which is not a click command: '
                'see "scholarbase doctor".'
            )
        return command

    def list_commands(self, ctx: click.Context) -> list[str]:
        path = _words(ctx)
        added = (words.split() for words in added_names("commands"))
        return sorted({*super().list_commands(ctx), *(one[-1] for one in added if one[:-1] == path)})


def _words(ctx: click.Context) -> list[str]:
    """The words of a group's command, without the program's name."""
    words: list[str] = []
    while ctx.parent is not None:
        words.insert(0, ctx.info_name or "")
        ctx = ctx.parent
    return words

"""``scholarbase key``: the API keys of a shared server."""

from __future__ import annotations

from pathlib import Path

import click

from scholarbase.api.access.keys import MAX_RATE, create_key, read_keys, revoke_key
from scholarbase.cli.groups import Commands
from scholarbase.errors import InvalidRequest
from scholarbase.settings import Settings


@click.group("key", cls=Commands)
def key() -> None:
    """Create, list and revoke the keys of a shared server."""


keys_option = click.option(
    "--keys", type=click.Path(path_type=Path), help="The key file. [env: SCHOLARBASE_KEYS]"
)


def _require_keys(keys: Path | None, settings: Settings) -> Path:
    path = keys or settings.keys
    if path is None:
        raise InvalidRequest("No key file: give --keys FILE, or set SCHOLARBASE_KEYS.")
    return path


@key.command()
@click.argument("name")
@click.option("--admin", is_flag=True, help="Allow the key to read /metrics too.")
@click.option(
    "--rate",
    type=click.IntRange(1, MAX_RATE),
    help="Requests per minute. [default: SCHOLARBASE_RATE_LIMIT]",
)
@keys_option
@click.pass_obj
def create(settings: Settings, name: str, admin: bool, rate: int | None, keys: Path | None) -> None:
    """Create a key called NAME and print it. A server that reads this file accepts it within a second."""
    path = _require_keys(keys, settings)
    text, entry = create_key(path, name, role="admin" if admin else "read", rate=rate)
    click.echo(text)
    click.echo(
        f"This is the key {entry.name!r} (id {entry.id}). It cannot be shown again: {path} has only its hash.",
        err=True,
    )


@key.command("list", short_help="List the keys.")
@keys_option
@click.pass_obj
def show(settings: Settings, keys: Path | None) -> None:
    """List the keys: id, role, requests per minute, time of creation, name."""
    for entry in read_keys(_require_keys(keys, settings)):
        rate = "-" if entry.rate is None else str(entry.rate)
        click.echo(f"{entry.id}  {entry.role:<5}  {rate:>7}  {entry.created}  {entry.name}")


@key.command()
@click.argument("id_or_name")
@keys_option
@click.pass_obj
def revoke(settings: Settings, id_or_name: str, keys: Path | None) -> None:
    """Revoke the key ID_OR_NAME. A server that reads this file rejects it within a second."""
    path = _require_keys(keys, settings)
    revoked = revoke_key(path, id_or_name)
    click.echo(f"The key {revoked.name!r} (id {revoked.id}) is revoked.")
    if not read_keys(path):
        click.echo("No keys are left: a server with this key file rejects all requests.", err=True)

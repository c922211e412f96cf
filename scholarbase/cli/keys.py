"""The commands for the keys of a shared server: ``scholarbase key``."""

from __future__ import annotations

from pathlib import Path

import click

from scholarbase.api.access.keys import MAX_RATE, create_key, read_keys, revoke_key
from scholarbase.cli.options import F
from scholarbase.errors import InvalidRequest
from scholarbase.settings import Settings


@click.group("key")
def key() -> None:
    """Make, list and revoke the keys that a shared server asks for."""


def keys_option(command: F) -> F:
    return click.option(
        "--keys", type=click.Path(path_type=Path), help="The file of keys. [env: SCHOLARBASE_KEYS]"
    )(command)


def _need_keys(given: Path | None, settings: Settings) -> Path:
    path = given or settings.keys
    if path is None:
        raise InvalidRequest("Which file of keys? Give --keys FILE, or set SCHOLARBASE_KEYS.")
    return path


@key.command()
@click.argument("name")
@click.option("--admin", is_flag=True, help="A key that may also read /metrics.")
@click.option(
    "--rate",
    type=click.IntRange(1, MAX_RATE),
    help="Its own limit of requests a minute; SCHOLARBASE_RATE_LIMIT when left out.",
)
@keys_option
@click.pass_obj
def create(settings: Settings, name: str, admin: bool, rate: int | None, keys: Path | None) -> None:
    """Make a key called NAME, and print it. A server that is running knows it within a second."""
    path = _need_keys(keys, settings)
    text, made = create_key(path, name, role="admin" if admin else "read", rate=rate)
    click.echo(text)
    click.echo(
        f"This is the key {made.name!r} (id {made.id}). It is not kept and cannot be shown again: {path} has only "
        "its hash.",
        err=True,
    )


@key.command("list")
@keys_option
@click.pass_obj
def show(settings: Settings, keys: Path | None) -> None:
    """List the keys: id, role, requests a minute, when it was made, name."""
    for entry in read_keys(_need_keys(keys, settings)):
        rate = "-" if entry.rate is None else str(entry.rate)
        click.echo(f"{entry.id}  {entry.role:<5}  {rate:>7}  {entry.created}  {entry.name}")


@key.command()
@click.argument("id_or_name")
@keys_option
@click.pass_obj
def revoke(settings: Settings, id_or_name: str, keys: Path | None) -> None:
    """Revoke the key that ID_OR_NAME names. A server that is running refuses it within a second."""
    path = _need_keys(keys, settings)
    revoked = revoke_key(path, id_or_name)
    click.echo(f"The key {revoked.name!r} (id {revoked.id}) is revoked.")
    if not read_keys(path):
        click.echo("It was the last one: a server that asks for keys now refuses everybody.", err=True)

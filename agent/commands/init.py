"""`nostr-agent init` and `check`: write a configuration, and say what is wrong with one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from agent.commands.options import chosen_file, config_option, config_options
from nostr_client.cli.entry import OK, USAGE, run_async
from nostr_client.cli.output import force_option, json_option, print_json, print_option, say
from nostr_client.errors import InvalidInput, StoreError
from nostr_client.paths import config_path, write_private

if TYPE_CHECKING:
    from pathlib import Path

    from agent.config import Draft, StoredNames


@click.command()
@config_option
@force_option
@print_option
@click.option("--reference", is_flag=True, help="Print the reference of all keys, in Markdown.")
@json_option
def init(
    config: Path | None,
    force: bool,
    to_stdout: bool,
    reference: bool,
    as_json: bool,
) -> None:
    """Write a commented configuration that runs as it stands."""
    from agent.config import describe

    if to_stdout or reference:
        text = describe.reference() if reference else describe.template()
        if as_json:
            print_json({"text": text})
        else:
            click.echo(text, nl=False)
        return
    path = config or chosen_file(None) or config_path()
    _write(path, describe.template(), force=force)
    if as_json:
        print_json({"config": str(path)})
    else:
        click.echo(path)
        say("start it with: nostr-agent run")


def _write(path: Path, text: str, *, force: bool) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    if os.path.lexists(path) and not force:
        raise InvalidInput(f"{path} is there; --force replaces it")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise InvalidInput(f"cannot write {path}: {error.filename} is not a folder") from error
    write_private(path, text.encode())


@click.command()
@config_options
@json_option
@click.pass_context
def check(
    ctx: click.Context, config: Path | None, settings: tuple[str, ...], as_json: bool
) -> None:
    """Say what is wrong with the configuration. Exit code 2 for any mistake.

    Names are compared with those that were added to the store; keys, tokens, credentials, TLS files
    and the store's folder are checked. A secret that others can read is a mistake.
    """
    from agent.config import InvalidConfig, read
    from agent.service.preflight import check_machine

    path = chosen_file(config)
    mistakes: tuple[tuple[str, str, str], ...] = ()
    try:
        draft = read(path, settings=settings, also=check_machine)
        draft.checked(_added(draft))
    except InvalidConfig as error:
        mistakes = error.mistakes
    if as_json:
        found = [{"where": where, "key": key, "why": why} for where, key, why in mistakes]
        print_json({"config": str(path) if path else None, "ok": not found, "mistakes": found})
    else:
        for mistake in mistakes:
            click.echo(mistake)
        if not mistakes:
            click.echo(f"{path or 'defaults'}: ok")
    ctx.exit(USAGE if mistakes else OK)


def _added(draft: Draft) -> StoredNames:
    """Names that were added to the configured store; none if that does not exist."""
    from agent.config import StoredNames
    from agent.service.parts import store_file

    path = store_file(draft.config)
    if not path.is_file():
        return StoredNames()
    try:
        return run_async(_read_added(path))
    except StoreError as error:
        say(f"names are not compared with those in the store: {error}")
        return StoredNames()


async def _read_added(path: Path) -> StoredNames:
    from agent.state import all_added
    from nostr_client.store.file.database import Database

    async with await Database.open(path, read_only=True) as database:
        return await database.read(all_added)

"""`nostr-agent backup` and `restore`: whole copies of the store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from agent.api.address import running
from agent.commands.options import chosen_store, config_options
from nostr_client.cli.output import console, force_option, json_option, print_json
from nostr_client.cli.parameters import UserPath
from nostr_client.cli.place import store_option
from nostr_client.errors import StoreLocked

if TYPE_CHECKING:
    from collections.abc import Mapping


@click.command()
@click.argument("file", type=UserPath(path_type=Path, dir_okay=False))
@store_option
@config_options
@json_option
def backup(
    file: Path, store: Path | None, config: Path | None, settings: tuple[str, ...], as_json: bool
) -> None:
    """Copy the store into FILE and check the copy; works beside the running agent.

    FILE.sha256 gets its SHA-256. The command replaces neither file.
    """
    from rich.progress import Progress

    if str(file) == "-":
        raise click.UsageError("a backup goes into a FILE, not to stdout")

    from agent.maintenance.backup import back_up

    source = chosen_store(store, config, settings)
    err = console(stderr=True)
    with Progress(console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task("copying", total=None)
        size = back_up(source, file, lambda n, of: bar.update(task, completed=n, total=of))
    _print_result(file, size, "checked", as_json=as_json)


@click.command()
@click.argument("file", type=UserPath(path_type=Path, dir_okay=False, exists=True))
@store_option
@force_option
@click.option("--without-sum", is_flag=True, help="For a backup of an earlier version.")
@config_options
@json_option
def restore(
    file: Path,
    store: Path | None,
    force: bool,
    without_sum: bool,
    config: Path | None,
    settings: tuple[str, ...],
    as_json: bool,
) -> None:
    """Replace the store by the backup FILE. No program may have the store open.

    Its SHA-256 in FILE.sha256 is compared, then every page, id, signature and index row is checked.
    """
    from agent.maintenance.backup import restore as put_back

    target = chosen_store(store, config, settings)
    try:
        size, kept = put_back(file, target, force=force, sums=not without_sum)
    except StoreLocked as error:
        raise _with_agent(error) from error
    what = f"restored; what was there is {kept}" if kept else "restored"
    more = {"kept": str(kept) if kept else None}
    _print_result(target, size, what, as_json=as_json, more=more)


def _with_agent(error: StoreLocked) -> StoreLocked:
    """Return the error with what to do, and with the agent's address if an agent has the store."""
    agent = next((one for one in running() if one.pid == error.pid), None)
    who = "" if agent is None else f", the agent at {agent.api}"
    return StoreLocked(f"{error}{who}: stop it first", pid=error.pid)


def _print_result(
    path: Path, size: int, what: str, *, as_json: bool, more: Mapping[str, str | None] | None = None
) -> None:
    if as_json:
        print_json({"file": str(path), "bytes": size, **(more or {})})
    else:
        click.echo(f"{path}: {size:,} bytes, {what}")

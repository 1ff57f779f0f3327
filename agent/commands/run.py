"""`nostr-agent run`: the service in the foreground."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import click

from agent.commands.options import chosen_file, config_options
from agent.service.process.supervision import end_with_stdin
from nostr_client.cli.entry import FAILURE, OK, USAGE
from nostr_client.cli.output import json_option, once_option, say, until_eof_option
from nostr_client.cli.place import store_option
from nostr_client.errors import InvalidInput, NetworkError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from agent.config import Draft

ADDRESS_IN_USE: Final = "address_in_use"
"""The line of the log that reports which address replaces one that is in use."""

SWITCH_S = 0.0005
"""How long a thread may keep the GIL while another wants it: the loop shares it with the store."""


@click.command()
@config_options
@store_option
@until_eof_option
@once_option
@json_option
@click.pass_context
def run(
    ctx: click.Context,
    config: Path | None,
    settings: tuple[str, ...],
    store: Path | None,
    once: bool,
    until_eof: bool,
    as_json: bool,
) -> None:
    """Run the agent until SIGTERM or Ctrl-C; SIGHUP reads the configuration again.

    With --once it does what is due, and ends: for cron. With --until-eof it listens on a free port
    instead of one that another program uses, and logs which.

    Logs go to stderr: key=value on a terminal, JSON otherwise and with --json.
    """
    from agent.config import InvalidConfig

    given = list(settings)
    if store is not None:
        given.append(f"store.path={store}")
    if as_json:
        given.append("service.log_format=json")
    sys.setswitchinterval(SWITCH_S)
    if until_eof:
        end_with_stdin()
    try:
        given += _elsewhere(config, tuple(given)) if until_eof else ()
        ctx.exit(_run(config, tuple(given), once=once))
    except NetworkError as error:  # an address in use: 3 says that no agent is running
        raise click.ClickException(f"{error}; {_instead(error)}") from error
    except InvalidConfig as error:
        for mistake in error.mistakes:
            say(str(mistake))
        ctx.exit(USAGE)


def _instead(error: NetworkError) -> str:
    """What to do about an address in use: an agent that runs there is the likeliest reason."""
    from agent.api.address import on_port
    from agent.relay.listen import CannotListen
    from agent.service.process.runfile import holds

    elsewhere = "other addresses: --set relay.listen=HOST:PORT, --set api.listen=HOST:PORT"
    found = on_port(error.port) if isinstance(error, CannotListen) else None
    if found is None or not holds(found[0], found[1].pid):
        return elsewhere
    there = f"an agent runs there already, process {found[1].pid}: nostr-agent status"
    return f"{there}; for a second one, with another store, {elsewhere}"


def _elsewhere(config: Path | None, settings: tuple[str, ...]) -> list[str]:
    """Settings with a free port for each address of the configuration that is in use.

    Raises InvalidConfig, InvalidInput.
    """
    from agent.log import Log
    from agent.relay.listen import free_address

    read = ConfigReader(config, settings).read().config
    sections = {"api": read.api.listen} | (
        {"relay": read.relay.listen} if read.relay.enabled else {}
    )
    found = []
    for section, address in sections.items():
        with suppress(InvalidInput):  # later reported with all other mistakes
            free = free_address(address)
            if free is not None:
                log = Log(time.time, level=read.service.log, style=read.service.log_format)
                log.warning(ADDRESS_IN_USE, key=f"{section}.listen", address=address, instead=free)
                found.append(f"{section}.listen={free}")
    return found


def _run(config: Path | None, settings: tuple[str, ...], *, once: bool) -> int:
    source = ConfigReader(config, settings)
    draft = source.read()
    path = str(source.path or "")
    if once:
        from agent.service import run as service
        from nostr_client.cli.entry import run_async

        return FAILURE if run_async(service.once(draft.checked(), path)) else OK
    _serve(draft, source.read, path)
    return OK


class ConfigReader:
    """Reads the configuration of a run, at the start and again at each reload, from one file.

    If no file existed at the start, a reload may find one. A file that has disappeared since is an
    error, not "no file": the defaults would replace everything in it.
    """

    def __init__(self, given: Path | None, settings: tuple[str, ...]) -> None:
        self.path: Path | None = None
        self._given = given
        self._settings = settings

    def read(self) -> Draft:
        """Read it, again. Raises InvalidConfig, InvalidInput for a file that is not there."""
        from agent.config import read

        path = self.path or chosen_file(self._given)
        found = read(path, settings=self._settings)
        self.path = path
        return found


def _serve(draft: Draft, load: Callable[[], Draft], path: str) -> None:
    from agent.relay.bounded import raise_open_files
    from agent.service import run as service
    from nostr_client.cli.entry import run_async
    from nostr_client.cli.gc_tuning import prepare_for_long_runs

    prepare_for_long_runs()
    raise_open_files()
    run_async(service.serve(draft.checked(), load, path))

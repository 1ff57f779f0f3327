"""`nostr-agent status`, `relays`, `logs`, `store` and `retention`: how the running agent stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from agent.api.schema import Cut, Delta
from agent.commands import tables
from agent.commands.connect import agent_options, asked, asks
from nostr_client.cli.entry import FAILURE, OK, USAGE
from nostr_client.cli.output import json_option, print_json

if TYPE_CHECKING:
    from pathlib import Path

    from agent.api.client import AgentClient
    from agent.api.schema import LogLine
    from agent.commands.connect import Ask


@click.command()
@asks(tables.status, code=lambda found: OK if found.ready else FAILURE)
def status() -> Ask:
    """Whether the agent runs and is ready. Exit code 0 ready, 1 not ready, 3 not running."""
    return lambda c: c.status()


@click.command()
@asks(tables.reloaded, code=lambda found: OK if found.ok else USAGE)
def reload() -> Ask:
    """Have the agent read its configuration again. Exit code 2 where it has mistakes."""
    return lambda c: c.reload()


@click.command()
@asks(tables.relays)
def relays() -> Ask:
    """Every relay: connection, latency, what it can, what it has to do."""
    return lambda c: c.relays()


@click.command()
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="Lines."
)
@click.option("--follow", "-f", is_flag=True, help="Go on with new lines until interrupted.")
@agent_options
@json_option
def logs(limit: int, follow: bool, api: str | None, token_file: Path | None, as_json: bool) -> None:
    """The newest lines of the agent's log; with --json one object a line."""
    asked(api, token_file, lambda c: _logs(c, limit, follow=follow, as_json=as_json))


async def _logs(client: AgentClient, limit: int, *, follow: bool, as_json: bool) -> None:
    seen = 0
    for line in (await client.log(limit=limit)).lines:
        _print(line, as_json)
        seen = line.n
    if not follow:
        return
    async for _, message in client.events():
        if isinstance(message, Cut):
            click.echo(message.reason, err=True)
        if isinstance(message, Delta) and message.log is not None and message.log.n > seen:
            _print(message.log, as_json)


def _print(line: LogLine, as_json: bool) -> None:
    if as_json:
        print_json(line)
    else:
        tables.log_line(line)


@click.group()
def store() -> None:
    """What the store of the running agent holds."""


@store.command("show")
@asks(tables.store)
def show_() -> Ask:
    """Totals: events, authors, kinds, bytes, and how the derived tables stand."""
    return lambda c: c.store()


@store.command()
@click.option("--name", metavar="TAG", help="Of this tag only, as e or p.")
@click.option("--kind", type=click.IntRange(0, 65_535), help="Of events of this kind only.")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="Rows.")
@asks(tables.hot_targets)
def hot(name: str | None, kind: int | None, limit: int) -> Ask:
    """The targets with most events: exact authors beside what their registers say."""
    return lambda c: c.hot(name=name, kind=kind, limit=limit)


@click.group()
def retention() -> None:
    """What is removed when it gets old."""


@retention.command("show")
@asks(tables.retention)
def rules() -> Ask:
    """The rules, and what their newest run removed."""
    return lambda c: c.retention()


@retention.command("run")
@asks("removing what is old")
def run() -> Ask:
    """Apply the rules now; `retention show` tells when that was done."""
    return lambda c: c.run_retention()

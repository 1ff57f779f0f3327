"""`nostr-agent store …` and `retention …`: what the running agent keeps, and what it removes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from agent.commands import tables
from agent.commands.connect import asks

if TYPE_CHECKING:
    from agent.commands.connect import Ask


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

"""`nostr-agent counter …`: the counters of the running agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from agent.commands import tables
from agent.commands.connect import agent_options, asked, show
from nostr_client.cli.exitcodes import FAILURE, OK
from nostr_client.cli.output import json_option

if TYPE_CHECKING:
    from pathlib import Path

    from agent.api import schema

stream_option = click.option("--stream", default="app", show_default=True, help="Which stream.")


@click.group()
def counter() -> None:
    """Add to counters, and read them."""


@counter.command()
@click.argument("pattern", default=">")
@stream_option
@click.option("--limit", type=click.IntRange(1, 10_000), default=1000, show_default=True)
@agent_options
@json_option
def get(
    pattern: str, stream: str, limit: int, api: str | None, token_file: Path | None, as_json: bool
) -> None:
    """Counters by subject; `*` stands for one token, a last `>` for the rest."""
    found = asked(api, token_file, lambda c: c.counters(stream, pattern, limit=limit))
    show(found, as_json, tables.counters)


@counter.command(context_settings={"ignore_unknown_options": True})
@click.argument("subject")
@click.argument("n", type=int)
@click.option("--id", "id_", default="", help="The same id again adds nothing.")
@stream_option
@agent_options
@json_option
def add(
    subject: str,
    n: int,
    id_: str,
    stream: str,
    api: str | None,
    token_file: Path | None,
    as_json: bool,
) -> None:
    """Add N, which may be negative, and print the value."""
    found = asked(api, token_file, lambda c: c.add(stream, subject, n, id_))
    show(found, as_json, lambda one: click.echo(one.value if one.value else "counted before"))


@counter.command()
@click.argument("subject")
@stream_option
@click.option("--limit", type=click.IntRange(1, 10_000), default=1000, show_default=True)
@agent_options
@json_option
def history(
    subject: str, stream: str, limit: int, api: str | None, token_file: Path | None, as_json: bool
) -> None:
    """The kept increments of one counter."""
    found = asked(api, token_file, lambda c: c.counter_history(stream, subject, limit=limit))
    show(found, as_json, tables.counters)


@counter.command()
@click.argument("subject")
@stream_option
@agent_options
@json_option
@click.pass_context
def recount(
    ctx: click.Context,
    subject: str,
    stream: str,
    api: str | None,
    token_file: Path | None,
    as_json: bool,
) -> None:
    """Add a counter up anew from its kept messages. Exit code 1 where they do not fit."""
    found = asked(api, token_file, lambda c: c.audit(stream, subject))
    show(found, as_json, _tell_audit)
    ctx.exit(OK if found.ok else FAILURE)


def _tell_audit(found: schema.Audit) -> None:
    click.echo(f"{found.value} {'ok' if found.ok else 'does not fit its history'}")
    for problem in found.problems:
        click.echo(problem)


@counter.command()
@click.argument("subject")
@stream_option
@agent_options
@json_option
def reset(
    subject: str, stream: str, api: str | None, token_file: Path | None, as_json: bool
) -> None:
    """Set a counter to nothing; what its sources brought is not brought again."""
    found = asked(api, token_file, lambda c: c.reset(stream, subject))
    show(found, as_json, lambda one: click.echo(one.value))


@counter.command()
@agent_options
@json_option
def sources(api: str | None, token_file: Path | None, as_json: bool) -> None:
    """How counters travel: whom this agent sources, and where its own go."""
    show(asked(api, token_file, lambda c: c.links()), as_json, tables.links)


@counter.command("run")
@click.argument("name")
@agent_options
@json_option
def run_link(name: str, api: str | None, token_file: Path | None, as_json: bool) -> None:
    """Let a source bring, or a push send, what there is, now."""
    done = asked(api, token_file, lambda c: c.run_link(name))
    show(done, as_json, lambda _: click.echo(f"running {name}"))


@counter.command()
@click.argument("name")
@agent_options
@json_option
def confirm(name: str, api: str | None, token_file: Path | None, as_json: bool) -> None:
    """Let a source go on that went backwards, as after a restore: its lower values are right."""
    done = asked(api, token_file, lambda c: c.confirm_link(name))
    show(done, as_json, lambda _: click.echo(f"confirmed {name}"))

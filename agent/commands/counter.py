"""`nostr-agent counter …`: the counters of the running agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from agent.commands import tables
from agent.commands.connect import asks
from nostr_client.cli.entry import FAILURE, OK
from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    from agent.api import schema
    from agent.api.client import AgentClient
    from agent.commands.connect import Ask

APP: Final = "app"
ALL: Final = ">"

stream_option = click.option("--stream", default=APP, show_default=True, help="Which stream.")
limit_option = click.option(
    "--limit", type=click.IntRange(1, 10_000), default=1000, show_default=True, help="Rows."
)


@click.group()
def counter() -> None:
    """Add to counters, and read them."""


def _tell_added(found: schema.Added) -> None:
    click.echo(found.value if found.value else "counted before")


def _tell_audit(found: schema.Audit) -> None:
    click.echo(f"{found.value} {'ok' if found.ok else 'does not fit its history'}")
    for problem in found.problems:
        click.echo(problem)


@counter.command()
@click.argument("pattern", default=ALL)
@click.option("--stream", help="Which stream. Else app, or the one that has what app lacks.")
@limit_option
@asks(tables.counters)
def get(pattern: str, stream: str | None, limit: int) -> Ask:
    """Counters by subject; `*` stands for one token, a last `>` for the rest.

    A subject that no counter has is a failure, and a pattern (but `>`) that none has in any stream.
    """
    return lambda c: _counters(c, stream, pattern, limit)


async def _counters(
    client: AgentClient, stream: str | None, pattern: str, limit: int
) -> schema.Counters:
    from nostr_client.counters.rules import no_message
    from nostr_client.counters.subjects import has_wildcard

    found = await (
        client.counters(stream, pattern, limit=limit) if stream else _in_any(client, pattern, limit)
    )
    may_be_nothing = has_wildcard(pattern) if stream else pattern == ALL
    if not found.counters and not may_be_nothing:
        raise no_message(f"{pattern} in {f'stream {stream}' if stream else 'any stream'}")
    return found


async def _in_any(client: AgentClient, pattern: str, limit: int) -> schema.Counters:
    """What app has, else the one stream that has something; InvalidInput where several have."""
    from agent.api.schema import Counters

    names = [one.name for one in (await client.streams()).streams]
    having = []
    for name in sorted(names, key=APP.__ne__):
        found = await _readable(client, name, pattern, limit)
        if found is not None and found.counters:
            having.append(found)
            if name == APP:
                break
    if len(having) > 1:
        raise InvalidInput(f"name a stream by --stream of {', '.join(o.stream for o in having)}")
    return having[0] if having else Counters(stream=APP, counters=())


async def _readable(
    client: AgentClient, stream: str, pattern: str, limit: int
) -> schema.Counters | None:
    """The counters of a stream; None of one that keeps none, or is gone by now."""
    from agent.api.client import ApiError

    try:
        return await client.counters(stream, pattern, limit=limit)
    except ApiError as error:
        if error.code != "counter":
            raise
        return None


@counter.command(context_settings={"ignore_unknown_options": True})
@click.argument("subject")
@click.argument("n", type=int)
@click.option("--id", "id_", default="", help="The same id again adds nothing.")
@stream_option
@asks(_tell_added)
def add(subject: str, n: int, id_: str, stream: str) -> Ask:
    """Add N, which may be negative, and print the value."""
    return lambda c: c.add(stream, subject, str(n), id_)


@counter.command()
@click.argument("subject")
@stream_option
@limit_option
@asks(tables.counters)
def history(subject: str, stream: str, limit: int) -> Ask:
    """The kept increments of one counter."""
    return lambda c: c.counter_history(stream, subject, limit=limit)


@counter.command()
@click.argument("subject")
@stream_option
@asks(_tell_audit, code=lambda found: OK if found.ok else FAILURE)
def recount(subject: str, stream: str) -> Ask:
    """Add a counter up anew from its kept messages. Exit code 1 where they do not fit."""
    return lambda c: c.audit(stream, subject)


@counter.command()
@click.argument("subject")
@stream_option
@asks(_tell_added)
def reset(subject: str, stream: str) -> Ask:
    """Set a counter to nothing; what its sources brought is not brought again."""
    return lambda c: c.reset(stream, subject)


@counter.command()
@asks(tables.links)
def sources() -> Ask:
    """How counters travel: whom this agent sources, and where its own go."""
    return lambda c: c.links()


@counter.command("run")
@click.argument("name")
@asks("running {name}")
def run_link(name: str) -> Ask:
    """Let a source bring, or a push send, what there is, now."""
    return lambda c: c.run_link(name)


@counter.command()
@click.argument("name")
@asks("confirmed {name}")
def confirm(name: str) -> Ask:
    """Let a source go on that went backwards, as after a restore: its lower values are right."""
    return lambda c: c.confirm_link(name)

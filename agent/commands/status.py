"""`nostr-agent status`, `reload`, `logs` and `retention`: how the running agent stands."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from agent.api.address import reach
from agent.api.schema import Delta, StreamEnd
from agent.commands.options import config_option, load_config
from nostr_client.cli.entry import FAILURE, OK, USAGE, CommandGroup, run_async
from nostr_client.cli.output import follow_option, json_option, print_json
from nostr_client.cli.place import api_option, token_option
from nostr_client.codecs.display import age, moment, plural
from nostr_client.errors import InvalidInput, clip

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from pathlib import Path

    from agent.api import schema
    from agent.api.client import AgentClient
    from agent.api.schema import LogLine

    Ask = Callable[[AgentClient], Awaitable[Any]]

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def agent_options(command: F) -> F:
    """`--config`, `--api` and `--token-file`; the command receives `api` and `token_file`."""

    @functools.wraps(command)
    def with_agent(
        *args: Any, config: Path | None, api: str | None, token_file: Path | None, **given: Any
    ) -> Any:
        if config is not None:
            if api is not None:
                raise click.UsageError("give --config or --api: each names an agent")
            api, token_file = _of_config(config, token_file)
        return command(*args, api=api, token_file=token_file, **given)

    return cast("F", config_option(api_option(token_option(with_agent))))


def _of_config(config: Path, given: Path | None) -> tuple[str, Path]:
    """URL and token file of the agent that a configuration is for.

    Raises InvalidConfig, InvalidInput (a port that is known only to the agent).
    """
    from agent.relay.listen import parse_address, relay_url
    from agent.service.process.secrets import token_file

    section = load_config(config, ()).api
    host, port = parse_address(section.listen)
    if not port:
        raise InvalidInput(f"{config}: api.listen takes any port; name the agent's URL with --api")
    local = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    return relay_url("http", local, port), given or token_file(section)


def asked(
    api: str | None, token_file: Path | None, ask: Callable[[AgentClient], Awaitable[T]]
) -> T:
    """What `ask` gets from the agent. Raises ApiError, NetworkError, InvalidInput."""
    return run_async(_asked(api, token_file, ask))


async def _asked(
    api: str | None, token_file: Path | None, ask: Callable[[AgentClient], Awaitable[T]]
) -> T:
    from agent.api.client import AgentClient

    async with AgentClient(*reach(api, token_file)) as client:
        return await ask(client)


def asks(
    show: Callable[[Any], object] | str, *, code: Callable[[Any], int] = lambda _: OK
) -> Callable[[Callable[..., Ask]], Callable[..., None]]:
    """A command that asks the running agent one thing and prints the answer.

    The function takes the command's own arguments and returns the request. `show` prints the
    answer on a terminal; a text is printed with the arguments in its braces. `code` gives the exit
    code.
    """

    def made(ask: Callable[..., Ask]) -> Callable[..., None]:
        def command(
            ctx: click.Context,
            /,
            *,
            api: str | None,
            token_file: Path | None,
            as_json: bool,
            **given: Any,
        ) -> None:
            found = asked(api, token_file, ask(**given))
            if as_json:
                print_json(found)
            elif isinstance(show, str):
                click.echo(show.format(**given))
            else:
                show(found)
            ctx.exit(code(found))

        named = functools.update_wrapper(click.pass_context(command), ask)
        return agent_options(json_option(named))

    return made


def _print_status(found: schema.AgentStatus) -> None:
    """Print the state of the agent in a few lines."""
    ready = "ready" if found.ready else "not ready: " + "; ".join(found.reasons)
    click.echo(f"nostr-agent {found.version}, pid {found.pid}, up {age(found.uptime)}, {ready}")
    click.echo(f"store {found.store}, local relay {found.relay_url or 'off'}")
    click.echo(
        f"{plural(found.watches, 'watch', 'watches')}, {plural(found.syncs, 'sync')}, "
        f"{found.relays_connected} of {plural(found.relays, 'relay')} connected, "
        f"{found.running} of {plural(found.tasks, 'task')} running, {found.overdue} overdue"
    )
    if found.restart_for:
        click.echo(f"waiting for a restart: {', '.join(found.restart_for)}")


def _print_reloaded(found: schema.Reloaded) -> None:
    """Print which keys a reload applied."""
    for mistake in found.mistakes:
        click.echo(mistake)
    if found.ok:
        click.echo(f"changed: {', '.join(found.applied) or 'nothing'}")
    if found.restart:
        click.echo(f"after a restart: {', '.join(found.restart)}")


def _print_retention(found: schema.Retention) -> None:
    """Print the rules and their newest run."""
    if not found.rules:
        click.echo("no rules: nothing is removed")
    for one in found.rules:
        kinds = f"kinds {', '.join(map(str, one.kinds))}" if one.kinds else "every kind"
        authors = f" by {', '.join(one.authors)}" if one.authors else ""
        kept = f", not by {', '.join(one.keep_authors)}" if one.keep_authors else ""
        click.echo(f"older than {one.older_than}: {kinds}{authors}{kept}")
    ran = f"at {when(found.ran_at)} removed {found.removed:,}" if found.ran_at else "not run yet"
    click.echo(f"{ran}; {found.removed_total:,} since the start")


def _print_line(line: schema.LogLine) -> None:
    """Print one line of the log."""
    fields = " ".join(f"{key}={clip(str(value))}" for key, value in line.fields.items())
    click.echo(f"{when(line.at)} {line.level:7} {line.event} {fields}")


def when(at: float | None) -> str:
    """A time in the machine's own zone."""
    return "" if at is None else moment(at, zone=None)


@click.command()
@asks(_print_status, code=lambda found: OK if found.ready else FAILURE)
def status() -> Ask:
    """Whether the agent runs and is ready. Exit code 0 ready, 1 not ready, 3 not running."""
    return lambda c: c.status()


@click.command()
@asks(_print_reloaded, code=lambda found: OK if found.ok else USAGE)
def reload() -> Ask:
    """Have the agent read its configuration again. Exit code 2 where it has mistakes.

    Of several agents, --config or --api names the one that is meant.
    """
    return lambda c: c.reload()


@click.command()
@click.option(
    "--newest",
    "limit",
    type=click.IntRange(1, 1000),
    default=100,
    show_default=True,
    help="So many lines that are there already.",
)
@follow_option
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
        if isinstance(message, StreamEnd):
            click.echo(message.reason, err=True)
        if isinstance(message, Delta) and message.log is not None and message.log.n > seen:
            _print(message.log, as_json)


def _print(line: LogLine, as_json: bool) -> None:
    if as_json:
        print_json(line)
    else:
        _print_line(line)


@click.group(cls=CommandGroup)
def retention() -> None:
    """What is removed when it gets old."""


@retention.command("show")
@asks(_print_retention)
def rules() -> Ask:
    """The rules, and what their newest run removed."""
    return lambda c: c.retention()


@retention.command("run")
@asks("removing what is old")
def run() -> Ask:
    """Apply the rules now; `retention show` prints when they ran."""
    return lambda c: c.run_retention()

"""How commands find the running agent, and talk to it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from agent.api.address import reach
from nostr_client.cli.entry import OK, run_async
from nostr_client.cli.output import json_option, print_json
from nostr_client.cli.parameters import UserPath

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from agent.api.client import AgentClient

    Ask = Callable[[AgentClient], Awaitable[Any]]

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def agent_options(command: F) -> F:
    """`--api` and `--token-file`; the command receives `api` and `token_file`."""
    command = click.option(
        "--token-file",
        type=UserPath(path_type=Path, dir_okay=False),
        help="The file with the API's token. Else where the running agent says.",
    )(command)
    return click.option(
        "--api", metavar="URL", help="The agent's API. Else where the running agent says."
    )(command)


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
    tell: Callable[[Any], object] | str, *, code: Callable[[Any], int] = lambda _: OK
) -> Callable[[Callable[..., Ask]], Callable[..., None]]:
    """A command that asks the running agent one thing and prints the answer.

    The function gets the command's own arguments and gives what to ask. `tell` prints the answer
    on a terminal; a text is printed with the arguments in its braces. `code` is the exit code.
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
            elif isinstance(tell, str):
                click.echo(tell.format(**given))
            else:
                tell(found)
            ctx.exit(code(found))

        named = functools.update_wrapper(click.pass_context(command), ask)
        return agent_options(json_option(named))

    return made

"""How commands find the running agent, and talk to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from agent.api.address import reach
from nostr_client.cli.output import print_json
from nostr_client.cli.runner import run_async

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from agent.api.client import AgentClient

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def agent_options(command: F) -> F:
    """`--api` and `--token-file`; the command receives `api` and `token_file`."""
    command = click.option(
        "--token-file",
        type=click.Path(path_type=Path, dir_okay=False),
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


def show(answer: Any, as_json: bool, tell: Callable[[Any], None]) -> None:
    """Print an answer of the API: as JSON, or as `tell` does."""
    if as_json:
        print_json(answer)
    else:
        tell(answer)

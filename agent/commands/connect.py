"""How commands find the running agent, and talk to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from agent import units
from nostr_client.cli.output import print_json
from nostr_client.cli.runner import run_async
from nostr_client.errors import InvalidInput, NetworkError
from nostr_client.places import addresses_path

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from agent.api.client import AgentClient

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


class Addresses(msgspec.Struct, frozen=True):
    """What a running agent writes beside its state: where it listens, and where its token is."""

    pid: int
    api: str
    relay: str
    token: str


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


def addresses() -> Addresses:
    """Where the running agent is. Raises NetworkError when none has said so."""
    for path in (addresses_path(), *_SERVICE_PLACES):
        try:
            return msgspec.json.decode(path.expanduser().read_bytes(), type=Addresses)
        except OSError:
            continue
        except msgspec.MsgspecError as error:
            raise InvalidInput(f"{path} cannot be read: {error}") from error
    raise NetworkError("no agent is running; start it with: nostr-agent run")


_SERVICE_PLACES = tuple(
    Path(folder) / units.NAME / "agent.json" for folder in ("~/.local/state", "/var/lib")
)
"""Where systemd's StateDirectory is, of a user's manager and of the system's."""


def asked(
    api: str | None, token_file: Path | None, ask: Callable[[AgentClient], Awaitable[T]]
) -> T:
    """What `ask` gets from the agent. Raises ApiError, NetworkError, InvalidInput."""
    return run_async(_asked(api, token_file, ask))


async def _asked(
    api: str | None, token_file: Path | None, ask: Callable[[AgentClient], Awaitable[T]]
) -> T:
    from agent.api.client import AgentClient

    if api is None or token_file is None:
        found = addresses()
        api, token_file = api or found.api, token_file or Path(found.token)
    token = token_file.read_text("ascii", "replace").strip()
    async with AgentClient(api, token) as client:
        return await ask(client)


def show(answer: Any, as_json: bool, tell: Callable[[Any], None]) -> None:
    """Print an answer of the API: as JSON, or as `tell` does."""
    if as_json:
        print_json(answer)
    else:
        tell(answer)

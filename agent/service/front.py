"""The front door: the API with its token, open before the store is; until then it says so."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from agent.api.guard import Access
from agent.api.server import ApiServer, Bounds, serve
from agent.relay.listen import bind, parse_address
from agent.service.doorstep import Doorstep
from nostr_client.errors import InvalidInput
from nostr_client.places import token_path

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from agent.config.model import ApiSection

_LONGEST: Final = 4096
_OPEN_TO_OTHERS: Final = 0o077


class Door(NamedTuple):
    """The API's server, and the token that it asks for."""

    api: ApiServer
    token: str


def token_file(section: ApiSection) -> Path:
    """Where the token stands."""
    return Path(section.token_file).expanduser() if section.token_file else token_path()


def read_token(path: Path) -> str:
    """The token in a file. Raises InvalidInput when it is empty or others may read it, OSError."""
    if path.stat().st_mode & _OPEN_TO_OTHERS:
        raise InvalidInput(
            f"{path} can be read by others: chmod 600 it, or remove it for a new one"
        )
    token = path.read_text("ascii", "replace")[:_LONGEST].strip()
    if not token:
        raise InvalidInput(f"{path} is empty: remove it for a new token")
    return token


def make_token(path: Path) -> str:
    """The token in a file; a new one, for its owner alone, where there is no file."""
    if path.exists():
        return read_token(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    token = secrets.token_urlsafe(32)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    with open(
        os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii"
    ) as f:
        f.write(token + "\n")
    part.replace(path)
    return token


def make_access(section: ApiSection, token: str) -> Access:
    """Who may use the API. Raises InvalidInput, OSError for the token of sources."""
    path = section.source_token_file
    return Access(
        token=token,
        source_token=make_token(Path(path).expanduser()) if path else "",
        hosts=frozenset(host.lower() for host in section.hosts),
        origins=frozenset(origin.lower() for origin in section.cors_origins),
        open_metrics=section.open_metrics,
    )


@asynccontextmanager
async def front_door(section: ApiSection, step: Doorstep | None = None) -> AsyncIterator[Door]:
    """Serve for as long as the block runs, on a socket that listens already or on a new one.

    Raises NetworkError, InvalidInput (a token file).
    """
    token = await asyncio.to_thread(make_token, token_file(section))
    access = await asyncio.to_thread(make_access, section, token)
    if step is None:
        step = Doorstep(bind(*parse_address(section.listen)), time.monotonic())
    bounds = Bounds(section.body_limit, section.connections)
    async with serve(access, step.listener, bounds=bounds, since=step.since) as api:
        yield Door(api, token)

"""Reads where a running agent listens. Light: the terminal application imports it."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import msgspec

from nostr_client.codecs.relay_url import is_loopback
from nostr_client.errors import InvalidInput, NetworkError, clip
from nostr_client.paths import addresses_places, read_secret, token_path

if TYPE_CHECKING:
    from collections.abc import Iterator

READ_SUFFIX: Final = ".read"
"""What follows the name of the manage token's file in that of the read token."""


class RunFile(msgspec.Struct, frozen=True):
    """The run file of an agent: where it listens, and the files of its tokens.

    `token` and `read_token` are files. An agent of an earlier version has no `read_token`.
    """

    pid: int
    api: str
    relay: str
    token: str
    read_token: str = ""

    def file(self, *, read_only: bool) -> Path:
        """The file of the token that manages, or of the one that only reads. Raises InvalidInput"""
        if not read_only:
            return Path(self.token)
        if not self.read_token:
            raise InvalidInput("the running agent has no read token: start it again")
        return Path(self.read_token)


def addresses() -> RunFile:
    """The run file of the running agent. Raises NetworkError (there is none), InvalidInput."""
    for path in addresses_places():
        try:
            return _addresses_in(path)
        except OSError:
            continue
        except msgspec.MsgspecError as error:
            raise InvalidInput(f"{path} cannot be read: {error}") from error
    raise NetworkError("no agent is running; start it with: nostr-agent run")


def running() -> Iterator[RunFile]:
    """Yield every readable run file; an agent that was killed leaves its file."""
    for path in addresses_places():
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            yield _addresses_in(path)


def reach(api: str | None, token_file: Path | None, *, read_only: bool = False) -> tuple[str, str]:
    """URL and token of the agent: those given, else the running one's.

    A URL without a token gets the token of the agent that listens there, else the user's.
    `read_only`: the token that only reads, where no file is given.
    Raises NetworkError, InvalidInput (the token cannot be read).
    """
    if api is None:
        found = addresses()
        api, token_file = found.api, token_file or found.file(read_only=read_only)
    token_file = token_file or _token_of(api, read_only=read_only)
    try:
        return api, read_secret(token_file)
    except OSError as error:
        why = "name its file with --token-file"
        raise InvalidInput(f"the token cannot be read: {error}; {why}") from error


def on_port(port: int | None) -> tuple[Path, RunFile] | None:
    """The agent whose API or relay listens on a port, and its run file."""
    for path in addresses_places():
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            found = _addresses_in(path)
            if port is not None and port in (_port(found.api), _port(found.relay)):
                return path, found
    return None


def _token_of(api: str, *, read_only: bool) -> Path:
    """The file with the token of the agent at a URL, which is on this machine.

    Raises InvalidInput for another host: its owner would get the user's token.
    """
    found, host = on_port(_port(api)), _host(api)
    if not is_loopback(host or "localhost") and (found is None or host != _host(found[1].api)):
        why = "is another machine: name the file of its token with --token-file"
        raise InvalidInput(f"{clip(host, 60)} {why}")
    if found is not None:
        return found[1].file(read_only=read_only)
    path = token_path()
    return path.with_name(path.name + READ_SUFFIX) if read_only else path


def _host(url: str) -> str:
    """The host of a URL, "" where it has none, which is refused later."""
    with contextlib.suppress(ValueError):
        return urlsplit(url).hostname or ""
    return ""


def _port(url: str) -> int | None:
    with contextlib.suppress(ValueError):
        return urlsplit(url).port
    return None


def _addresses_in(path: Path) -> RunFile:
    return msgspec.json.decode(path.read_bytes(), type=RunFile)

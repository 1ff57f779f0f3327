"""Where a running agent says that it listens. Light: the terminal application imports it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from nostr_client.errors import InvalidInput, NetworkError
from nostr_client.places import SERVICE, addresses_path, user_path

LONGEST_TOKEN: Final = 4096


class Addresses(msgspec.Struct, frozen=True):
    """What a running agent writes beside its state: where it listens, and where its token is."""

    pid: int
    api: str
    relay: str
    token: str


def addresses() -> Addresses:
    """Where the running agent is. Raises NetworkError when none has said so, InvalidInput."""
    for path in (addresses_path(), *_SERVICE_PLACES):
        try:
            return msgspec.json.decode(user_path(path).read_bytes(), type=Addresses)
        except OSError:
            continue
        except msgspec.MsgspecError as error:
            raise InvalidInput(f"{path} cannot be read: {error}") from error
    raise NetworkError("no agent is running; start it with: nostr-agent run")


def reach(api: str | None, token_file: Path | None) -> tuple[str, str]:
    """URL and token of the agent: those given, else the running one's.

    Raises NetworkError, InvalidInput (the token cannot be read).
    """
    if api is None or token_file is None:
        found = addresses()
        api, token_file = api or found.api, token_file or Path(found.token)
    try:
        return api, token_file.read_text("ascii", "replace")[:LONGEST_TOKEN].strip()
    except OSError as error:
        raise InvalidInput(f"the token cannot be read: {error}") from error


_SERVICE_PLACES: Final = tuple(
    Path(folder) / SERVICE / "agent.json" for folder in ("~/.local/state", "~/.config", "/var/lib")
)
"""Where systemd keeps a StateDirectory: of a user's manager (the second before version 254), and of
the system's."""

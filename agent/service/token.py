"""The API's token: in a file for its owner alone, made where there is none."""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING, Final

from nostr_client.errors import InvalidInput
from nostr_client.places import token_path, user_path

if TYPE_CHECKING:
    from pathlib import Path

    from agent.config.model import ApiSection

_LONGEST: Final = 4096
_OPEN_TO_OTHERS: Final = 0o077


def token_file(section: ApiSection) -> Path:
    """Where the token stands."""
    return user_path(section.token_file) if section.token_file else token_path()


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

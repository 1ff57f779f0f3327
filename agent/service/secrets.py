"""The key that answers AUTH: from a file, or printed by a command; never an argument."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Final

from nostr_client.errors import InvalidInput
from nostr_client.keys import KeySigner
from nostr_client.places import LONGEST_SECRET, read_secret, user_path

if TYPE_CHECKING:
    from agent.config.model import IdentitySection

COMMAND_S: Final = 30.0


def make_signer(section: IdentitySection) -> KeySigner | None:
    """The signer that the configuration names, or None. Raises InvalidInput, InvalidKey."""
    if section.key_file:
        path = user_path(section.key_file)
        where = f"identity.key_file: {path}"
        try:
            text = read_secret(path)
        except OSError as error:
            why = error.strerror or error
            raise InvalidInput(f"{where}: {why}") from error
    elif section.key_command:
        text, where = _printed(section.key_command), "what identity.key_command printed"
    else:
        return None
    return KeySigner.from_nsec(text.strip(), where)


def _printed(command: tuple[str, ...]) -> str:
    try:
        run = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=COMMAND_S, check=False
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise InvalidInput(f"identity.key_command: {type(error).__name__}") from error
    if run.returncode:
        raise InvalidInput(f"identity.key_command ended with {run.returncode}")
    return run.stdout[:LONGEST_SECRET].decode("ascii", "replace")

"""Exit codes of `nostr-client`, and which error means which."""

from __future__ import annotations

from typing import Final

from nostr_client.errors import (
    DeadlineExceeded,
    InvalidInput,
    NetworkError,
    NoRelays,
    NostrTallyError,
)

OK: Final = 0
FAILURE: Final = 1
USAGE: Final = 2
NO_RELAY: Final = 3
TIMEOUT: Final = 124
INTERRUPTED: Final = 130


def exit_code(error: NostrTallyError) -> int:
    """The exit code that stands for `error`."""
    if isinstance(error, InvalidInput):
        return USAGE
    if isinstance(error, DeadlineExceeded):
        return TIMEOUT
    if isinstance(error, (NetworkError, NoRelays)):
        return NO_RELAY
    return FAILURE

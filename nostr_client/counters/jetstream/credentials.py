"""A .creds file: the token of a user, and the seed of the key that signs for it."""

from __future__ import annotations

import re
from typing import Final

import nkeys

from nostr_client.errors import InvalidInput
from nostr_client.places import check_secret_file, user_path

MAX_BYTES: Final = 64 * 1024
"""A file has about 1,000 bytes; what is larger is something else."""

_PART = r"-----BEGIN {0}-----[ \t]*\r?\n([A-Za-z0-9._=-]+)[ \t]*\r?\n-+END {0}-+"
_TOKEN = re.compile(_PART.format("NATS USER JWT"))
_SEED = re.compile(_PART.format("USER NKEY SEED"))


def read_credentials(path: str) -> str:
    """The file's text, in the form that nats-py reads, which hangs on any other.

    Raises InvalidInput where it cannot be read, holds no token and seed of a user, or can be read
    by others.
    """
    try:
        with user_path(path).open("rb") as file:
            text = file.read(MAX_BYTES).decode("ascii", "replace")
    except (OSError, ValueError) as error:
        raise InvalidInput(f"the credentials {path!r} cannot be read: {error}") from error
    token, seed = _TOKEN.search(text), _SEED.search(text)
    if token is None or seed is None or not _is_user(seed[1]):
        raise InvalidInput(f"{path!r} holds no credentials of a NATS user")
    check_secret_file(user_path(path))
    return (
        f"-----BEGIN NATS USER JWT-----\n{token[1]}\n------END NATS USER JWT------\n"
        f"-----BEGIN USER NKEY SEED-----\n{seed[1]}\n------END USER NKEY SEED------\n"
    )


def _is_user(seed: str) -> bool:
    try:
        pair = nkeys.from_seed(bytearray(seed.encode()))
    except (nkeys.NkeysError, ValueError):
        return False
    return bool(seed.startswith("SU") and pair.public_key)

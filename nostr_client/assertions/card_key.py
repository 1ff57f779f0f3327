"""Open the key that signs cards: a secret key in a file, or a bunker whose link is in a file.

The link's secret is often good for one connection. So the key that the bunker then knows us by is
stored beside the link, in `FILE.client`, and later connections send no secret.
"""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from typing import TYPE_CHECKING

from nostr_client.codecs.keys import KeySigner
from nostr_client.errors import InvalidInput, RelayError
from nostr_client.network.bunker import SCHEME, BunkerSigner, check_direct, read_link
from nostr_client.paths import read_secret, write_private

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nostr_client.codecs.keys import Signer
    from nostr_client.options import ConnectionOptions


async def card_signer(
    text: str, file: Path | None, connection: ConnectionOptions, where: str = ""
) -> Signer:
    """Return the signer of what a key's file holds: a secret key, or the link of a bunker.

    `file`: where the text is from. `where` names it in errors. Raises InvalidInput,
    InvalidIdentifier, InvalidKey, MissingExtra, RelayError. Safe to cancel.
    """
    if not text.strip().startswith(SCHEME):
        return KeySigner.from_nsec(text.strip(), where)
    if file is None:
        raise InvalidInput("a bunker's link is read from a file: the client's key is stored beside")
    link = read_link(text)
    mark = hashlib.sha256(link.text(secret=True).encode()).hexdigest()
    beside = file.with_name(f"{file.name}.client")
    known = _known_client(beside, mark)
    if known is not None:
        return await BunkerSigner.connect(link, known, connection, paired=True)
    check_direct(link, connection)
    # Stored before the bunker is asked: an answer that is lost may have spent the link's secret.
    asked = file.with_name(f"{file.name}.client.asked")
    before = _known_client(asked, mark)
    client = before or KeySigner.generate()
    with _writing(beside):
        if before is None:
            write_private(asked, f"{client.nsec()}\n{mark}\n".encode())
    try:
        signer = await BunkerSigner.connect(link, client, connection)
    except RelayError:
        if before is None:
            raise
        signer = await BunkerSigner.connect(link, client, connection, paired=True)
    with _writing(beside):
        asked.replace(beside)
    return signer


@contextmanager
def _writing(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InvalidInput(f"{file}: {error.strerror or error}") from error


def check_key(text: str, where: str) -> None:
    """Raise what `card_signer` raises for a text that it cannot read; ask no bunker."""
    if text.strip().startswith(SCHEME):
        read_link(text)
    else:
        KeySigner.from_nsec(text.strip(), where)


def _known_client(file: Path, mark: str) -> KeySigner | None:
    """Return the key that the bunker of this link knows; None before the first connection."""
    try:
        key, _, of = read_secret(file).partition("\n")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidInput(f"{file}: {error.strerror or error}") from error
    return KeySigner.from_nsec(key, str(file)) if of == mark else None

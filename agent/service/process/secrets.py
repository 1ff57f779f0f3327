"""Reads the key that answers AUTH and the tokens of the API, from files for their owner only."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, NamedTuple

from agent.api.address import READ_SUFFIX
from agent.service.process.key_command import printed_key
from nostr_client.assertions.card_key import card_signer, check_key
from nostr_client.codecs.keys import KeySigner
from nostr_client.errors import InvalidInput
from nostr_client.paths import read_secret, token_path, user_path, write_private

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from agent.config.model import ApiSection, AssertionsSection, IdentitySection
    from nostr_client.codecs.keys import Signer
    from nostr_client.options import ConnectionOptions


async def make_signer(section: IdentitySection) -> KeySigner | None:
    """The signer that the configuration names, or None. Raises InvalidInput, InvalidKey.

    If it is cancelled, the command that prints the key is ended at once.
    """
    if section.key_command:
        name = "identity.key_command"
        text, where = await printed_key(section.key_command, name), f"what {name} printed"
        return KeySigner.from_nsec(text.strip(), where)
    return signer_of_file(section)


def signer_of_file(section: IdentitySection) -> KeySigner | None:
    """The signer of the key's file, or None without one. Raises InvalidInput, InvalidKey."""
    if not section.key_file:
        return None
    where = f"identity.key_file: {user_path(section.key_file)}"
    return KeySigner.from_nsec(_read(user_path(section.key_file), where).strip(), where)


async def make_card_signer(
    section: AssertionsSection, identity: Signer | None, connection: ConnectionOptions
) -> Signer | None:
    """The signer of cards, or None where none are published.

    Raises InvalidInput for a key that is the identity's, InvalidKey, RelayError for a bunker that
    does not answer. If it is cancelled, the command that prints the key is ended at once.
    """
    if not section.is_on:
        return None
    path = user_path(section.key_file) if section.key_file else None
    text, where = await _card_key(section, path)
    signer = await card_signer(text, path, connection, where)
    if identity is not None and identity.pubkey == signer.pubkey:
        raise InvalidInput(f"{where}: is the identity's key; cards need one of their own")
    return signer


def check_card_key(section: AssertionsSection) -> None:
    """Read the file of the key of cards; run no command and ask no bunker.

    Raises InvalidInput, InvalidKey.
    """
    if section.key_file:
        check_key(*_card_key_in(user_path(section.key_file)))


async def _card_key(section: AssertionsSection, path: Path | None) -> tuple[str, str]:
    """The text of the key of cards, and what names it in errors."""
    if path is not None:
        return _card_key_in(path)
    name = "assertions.key_command"
    return await printed_key(section.key_command, name), f"what {name} printed"


def _card_key_in(path: Path) -> tuple[str, str]:
    where = f"assertions.key_file: {path}"
    return _read(path, where), where


def _read(path: Path, where: str) -> str:
    try:
        return read_secret(path)
    except OSError as error:
        raise InvalidInput(f"{where}: {error.strerror or error}") from error


class Tokens(NamedTuple):
    """The tokens of one agent; `source` is "" where none is configured."""

    manage: str
    read: str
    source: str


def token_file(section: ApiSection) -> Path:
    """The file of the token that manages the agent."""
    return user_path(section.token_file) if section.token_file else token_path()


def read_token_file(section: ApiSection) -> Path:
    """The file of the token that only reads."""
    if section.read_token_file:
        return user_path(section.read_token_file)
    manage = token_file(section)
    return manage.with_name(manage.name + READ_SUFFIX)


def token_files(section: ApiSection) -> Iterator[tuple[str, Path]]:
    """Every key of the section that names a token's file, and the file."""
    yield "token_file", token_file(section)
    yield "read_token_file", read_token_file(section)
    if section.source_token_file:
        yield "source_token_file", user_path(section.source_token_file)


def make_tokens(section: ApiSection) -> Tokens:
    """The tokens of all scopes; a new one where a file is missing.

    So a removed file is how a token is replaced. Raises InvalidInput for a file that is empty or
    that others may read, OSError.
    """
    found = {key: make_token(path) for key, path in token_files(section)}
    return Tokens(found["token_file"], found["read_token_file"], found.get("source_token_file", ""))


def make_token(path: Path) -> str:
    """The token in a file; a new one, for its owner alone, where there is no file.

    Raises InvalidInput for a file that is empty or that others may read, OSError.
    """
    if path.exists():
        return read_secret(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    token = secrets.token_urlsafe(32)
    write_private(path, f"{token}\n".encode())
    return token

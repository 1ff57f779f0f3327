"""Look up names at a domain (NIP-05), such as bob@example.com, for commands that ask relays.

A command that asks no relay asks no domain either: it refuses a name, and the error says which
commands look one up (`codecs.nip19`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nostr_client.cli.entry import run_async
from nostr_client.cli.output import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.cli.filteroptions import Conditions
    from nostr_client.codecs.nip05 import NamedPerson
    from nostr_client.options import Options


def with_keys(texts: Sequence[str], network: Options) -> list[str]:
    """Return the texts with an npub in place of each name.

    stderr has the key of each name, as the domain alone says whose it is. Raises NetworkError,
    ProtocolError, and InvalidIdentifier if a domain does not know the name.
    """
    from nostr_client.codecs import nip05, nip19

    people = {text: nip05.read_name(text) for text in texts if nip05.is_name(text)}
    if not people:
        return list(texts)
    keys = dict(zip(people, run_async(_keys(list(people.values()), network)), strict=True))
    npubs = {text: nip19.PublicKey(key).encode() for text, key in keys.items()}
    for text, npub in npubs.items():
        say(f"nostr-client: {people[text]} is {npub}, as {people[text].domain} says")
    return [npubs.get(text, text) for text in texts]


async def _keys(people: Sequence[NamedPerson], network: Options) -> list[str]:
    from nostr_client.network.pool import RelayPool
    from nostr_client.network.profiles import key_of

    async with RelayPool(options=network) as pool:
        return [await key_of(one, pool.transport()) for one in people]


def conditions_with_keys(conditions: Conditions, network: Options) -> Conditions:
    """Return the conditions with the keys of names in --author, -p and --tag. Raises as
    `with_keys`."""
    authors = len(conditions.authors)
    keys = tuple(with_keys([*conditions.authors, *conditions.people], network))
    return conditions._replace(
        authors=keys[:authors],
        people=keys[authors:],
        tags=tuple(tags_with_keys(conditions.tags, network)),
    )


def tags_with_keys(tags: Sequence[str], network: Options) -> list[str]:
    """Return tags NAME=VALUE with the keys of names in those that name people. Raises as
    `with_keys`."""
    parts = [tag.partition("=") for tag in tags]
    keys = with_keys([value if tag in _PEOPLE else "" for tag, _, value in parts], network)
    pairs = zip(parts, keys, strict=True)
    return [f"{tag}{sign}{key or value}" for (tag, sign, value), key in pairs]


_PEOPLE: Final = ("p", "P", "zap")
"""Names of tags whose value is a person's key (NIP-01, NIP-22, NIP-57)."""


def root_with_key(within: str | None, network: Options) -> str | None:
    """Return KEY or KEY:DEPTH of `--within`, with the key of a name. Raises as `with_keys`."""
    if within is None:
        return None
    key, sign, depth = within.rpartition(":")
    if not (sign and len(depth) == 1):  # a longer number is the port of the name's domain
        key, sign, depth = within, "", ""
    return "".join((*with_keys([key], network), sign, depth))

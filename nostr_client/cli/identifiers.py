"""`nostr-client encode` and `decode`: write NIP-19 identifiers from hex, and print their parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from nostr_client.cli.entry import CommandGroup
from nostr_client.cli.output import print_json

F = TypeVar("F", bound=Callable[..., Any])

hint_option: Callable[[F], F] = click.option(
    "--hint", "relays", metavar="URL", multiple=True, help="Name a relay where it may be found."
)
author_option: Callable[[F], F] = click.option(
    "--hint-author", "author", metavar="KEY", help="Name its author: npub, nprofile or hex."
)


@click.group(cls=CommandGroup)
def encode() -> None:
    """Write an identifier (NIP-19) of an id, a key or an address."""


@encode.command()
@click.argument("key")
def npub(key: str) -> None:
    """Print the npub of KEY: hex, or an nprofile."""
    from nostr_client.codecs import nip19

    click.echo(nip19.PublicKey(nip19.decode_pubkey(key)).encode())


@encode.command()
@click.argument("id")
def note(id: str) -> None:
    """Print the note of ID: hex, or an nevent."""
    from nostr_client.codecs import nip19, typed

    click.echo(nip19.Note(typed.event_id(id)).encode())


@encode.command()
@click.argument("key")
@hint_option
def nprofile(key: str, relays: tuple[str, ...]) -> None:
    """Print the nprofile of KEY: a key, with relays."""
    from nostr_client.codecs import nip19

    click.echo(nip19.Profile(nip19.decode_pubkey(key), _relays(relays)).encode())


@encode.command()
@click.argument("id")
@author_option
@click.option(
    "--hint-kind", "kind", metavar="KIND", type=click.IntRange(0, 65535), help="Name its kind."
)
@hint_option
def nevent(id: str, author: str | None, kind: int | None, relays: tuple[str, ...]) -> None:
    """Print the nevent of ID: an event, with relays, author and kind."""
    from nostr_client.codecs import nip19, typed

    by = None if author is None else nip19.decode_pubkey(author)
    click.echo(nip19.EventPointer(typed.event_id(id), _relays(relays), by, kind).encode())


@encode.command()
@click.argument("address", metavar="KIND:KEY:D")
@hint_option
def naddr(address: str, relays: tuple[str, ...]) -> None:
    """Print the naddr of an address: kind, author and `d` tag, with relays."""
    from nostr_client.codecs import nip19
    from nostr_client.codecs.kinds import has_versions
    from nostr_client.errors import InvalidIdentifier

    found = nip19.event_or_address(address)
    kind, _, rest = found.partition(":")
    if not rest:
        raise InvalidIdentifier(f"{address} is an event, not an address: encode nevent takes it")
    if not has_versions(int(kind)):
        raise InvalidIdentifier(f"{address}: events of kind {kind} have no address, only an id")
    pubkey, _, identifier = rest.partition(":")
    click.echo(nip19.Address(int(kind), pubkey, identifier, _relays(relays)).encode())


def _relays(urls: tuple[str, ...]) -> tuple[str, ...]:
    """Return the hints as they are. Raises InvalidRelayURL for one that is no relay's URL."""
    from nostr_client.codecs.relay_url import normalize
    from nostr_client.errors import InvalidRelayURL, clip

    for url in urls:
        if not url.lower().startswith(("ws://", "wss://")):
            raise InvalidRelayURL(
                f"--hint {clip(url, 60)}: a relay's URL begins with wss:// or ws://"
            )
        normalize(url)
    return urls


@click.command()
@click.argument("identifier")
def decode(identifier: str) -> None:
    """Print the parts of IDENTIFIER as JSON: npub, note, nprofile, nevent or naddr.

    A `nostr:` prefix and URLs of web viewers are accepted. A secret key is never printed: `key
    show` prints its public half.
    """
    import msgspec

    from nostr_client.cli.output import say
    from nostr_client.codecs import nip19

    found = nip19.read(identifier)
    for warning in found.warnings:
        say(f"nostr-client: decode: {warning}")
    fields = msgspec.to_builtins(found.target)
    named = {"type": _TYPES[type(found.target).__name__], **fields}
    if isinstance(found.target, nip19.Address):
        named["address"] = found.target.coordinate
    print_json(named)


_TYPES = {
    "PublicKey": "npub",
    "Note": "note",
    "Profile": "nprofile",
    "EventPointer": "nevent",
    "Address": "naddr",
    "Hex": "hex",
}

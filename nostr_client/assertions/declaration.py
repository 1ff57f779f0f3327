"""The event in which a user trusts providers of cards (kind 10040): made, encrypted and read.

Its rows are tags `[KIND:TAG, provider, relay]`. Public rows are tags of the event. Private rows are
its content: the JSON of such tags, encrypted by NIP-44 from the user's key to itself.

Source: NIP-85.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from nostr_client.assertions.fields import FIELDS
from nostr_client.codecs import nip19
from nostr_client.codecs.event import EventTemplate, Tags
from nostr_client.codecs.relay_url import normal_or_none
from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from nostr_client.assertions.fields import Subject
    from nostr_client.codecs.event import Event
    from nostr_client.codecs.nip44 import Nip44

DECLARATION: Final = 10040
"""The kind of the event in which a user names trusted providers."""

MOST_PROVIDERS: Final = 20
"""Providers that one count asks for; a user trusts a handful."""

MOST_HINTS: Final = 5
"""Relays that a user's declaration adds to those that are asked."""

_decode: Final = msgspec.json.Decoder(Tags)


def declaration(
    providers: Sequence[str],
    relay: str,
    named: Collection[str],
    now: int,
    private: Nip44 | None = None,
) -> EventTemplate:
    """Return the user's event that trusts providers (hex pubkeys) with cards at a relay.

    The trust is for `named` fields, as `kind:tag`, else for all that are not personal. `private`:
    the user's key, which encrypts the rows; without it they are public. Raises InvalidInput for a
    field that no card has, and for more rows than NIP-44 encrypts.
    """
    known = {f"{kind}:{one.name}": one for kind, fields in FIELDS.items() for one in fields}
    unknown = [one for one in named if one not in known]
    if unknown:
        raise InvalidInput(f"no field {unknown[0]!r}: write KIND:TAG, such as 30382:followers")
    chosen = named or [name for name, one in known.items() if not one.personal]
    rows = tuple((name, provider, relay) for name in chosen for provider in providers)
    if private is None:
        return EventTemplate(kind=DECLARATION, tags=rows, created_at=now)
    content = private.encrypt(msgspec.json.encode(rows).decode(), private.pubkey)
    return EventTemplate(kind=DECLARATION, content=content, created_at=now)


def private_rows(event: Event, key: Nip44) -> Tags:
    """Return the rows that a user encrypted to the own key. Raises InvalidInput."""
    if not event.content:
        return ()
    try:
        rows = _decode.decode(key.decrypt(event.content, key.pubkey))
    except (msgspec.MsgspecError, RecursionError, InvalidInput) as error:
        text = "the encrypted part of the declaration (kind 10040) cannot be read"
        raise InvalidInput(text) from error
    return tuple(row for row in rows if row)


def declared(
    event: Event, subject: Subject, private: Tags = ()
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the providers that a declaration trusts for a field, and where their cards are.

    `private`: its rows from `private_rows`; they come first.
    """
    name = f"{subject.kind}:{subject.field}"
    rows = [tag for tag in (*private, *event.tags) if tag[0] == name and len(tag) > 1]
    keys = [tag[1].lower() for tag in rows if nip19.looks_hex(tag[1])]
    relays = [tag[2] for tag in rows if len(tag) > 2 and normal_or_none(tag[2])]
    return (
        tuple(dict.fromkeys(keys))[:MOST_PROVIDERS],
        tuple(dict.fromkeys(relays))[:MOST_HINTS],
    )

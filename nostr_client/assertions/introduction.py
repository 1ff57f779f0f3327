"""Check that a key signs cards alone, before it signs more: nothing of it may be a person's.

Nobody can undo a profile or a relay list that a card key replaces. So the events of a key come from
the store and from each relay that accepted nothing of the key so far.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import msgspec

from nostr_client.assertions.fields import FIELDS
from nostr_client.codecs import kinds
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.private_kinds import LISTS, PRIVATE_KINDS
from nostr_client.codecs.relay_url import normal_or_none, normalize
from nostr_client.errors import InvalidInput, clip

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from nostr_client.assertions.ledger import Ledger
    from nostr_client.codecs.event import Event, Tags
    from nostr_client.network.pool import RelayAnswers
    from nostr_client.store.sqlite import SqliteStore

NEWEST: Final = 100
"""Events of each filter that a relay is asked for."""

OWN_RELAYS: Final = 5
"""Relays of the key's own relay list that are asked besides."""

OF_PEOPLE: Final = tuple(
    sorted(
        {kinds.METADATA, kinds.TEXT_NOTE, kinds.CONTACTS, kinds.REPOST, kinds.REACTION}
        | {kinds.GENERIC_REPOST, kinds.COMMENT, kinds.ZAP}
        | {17, 20, 21, 22, 1063, 1984, 9802, 30023, *LISTS.difference(PRIVATE_KINDS)}
    )
)
"""Kinds that people sign most: a second filter asks for them, as many cards may hide a note. No
private kind: many relays refuse a filter that names one."""


_SILENT: Final = "does not say which events of this key it has"


class AskedRelays(Protocol):
    """The relays to which cards go (`urls`), and how relays are asked for the events of a key."""

    @property
    def urls(self) -> Sequence[str]: ...

    async def events_by(self, key: str, urls: Sequence[str]) -> RelayAnswers[list[Event]]: ...


class Introduction(NamedTuple):
    """What a card key says about itself: its profile (kind 0), and its relays (kind 10002)."""

    relays: tuple[str, ...]
    name: str
    about: str

    def parts(self) -> tuple[tuple[int, str, Tags], ...]:
        """Return kind, content and tags of both events."""
        profile = msgspec.json.encode({"name": self.name, "about": self.about}).decode()
        listed = tuple(("r", url) for url in self.relays)
        return (kinds.METADATA, profile, ()), (kinds.RELAY_LIST, "", listed)

    def wrote(self, event: Event) -> bool:
        """Whether an event reads as one of both, the profile under any name."""
        if event.kind != kinds.METADATA:
            return (event.kind, event.content, event.tags) == self.parts()[1]
        name = _name_of(event.content)
        return (event.kind, event.content, event.tags) == self._replace(name=name).parts()[0]


def _name_of(content: str) -> str:
    try:
        return msgspec.json.decode(content, type=_Named).name
    except (msgspec.MsgspecError, RecursionError):
        return ""


class _Named(msgspec.Struct):
    name: str


async def check_key(
    store: SqliteStore, ledger: Ledger, relays: AskedRelays, introduction: Introduction
) -> dict[str, str]:
    """Return the relays that may not get events of the key yet, with the reason: they accepted
    none so far, and do not say which events of the key they have.

    Raises InvalidInput if the store or a relay has an event of the key that is neither a card, nor
    the deletion of cards, nor a profile or relay list that the program wrote. StoreError.
    """
    before = await ledger.published([(kind, "") for kind, _, _ in introduction.parts()])
    known = frozenset(one.id for one in before.values())
    async for event in store.stream([Filter(authors=[ledger.signer])]):
        _refuse_others([event], introduction, known, "the store")
    urls = [*map(normalize, relays.urls)]
    new = [url for url in urls if not await ledger.has_taken(url)]
    is_same = all(
        (kind, "") in before and (before[kind, ""].content, before[kind, ""].tags) == (text, tags)
        for kind, text, tags in introduction.parts()
    )
    named = [tag for event in before.values() for tag in event.tag_values("r")]
    asked = new if is_same else [*urls, *_others(named, urls)]
    found = await relays.events_by(ledger.signer, asked)
    for url, events in found.answers.items():
        _refuse_others(events, introduction, known, url)
    silent = {url: str(error).removeprefix(f"{url}: ") for url, error in found.errors.items()}
    return {url: f"{_SILENT}: {clip(why, 200)}" for url, why in silent.items() if url in new}


def _others(named: Iterable[str], urls: Sequence[str]) -> list[str]:
    """Return the relays of the key's own list that are asked besides `urls`."""
    found = (one for url in named if (one := normal_or_none(url)) and one not in urls)
    return list(dict.fromkeys(found))[:OWN_RELAYS]


def _refuse_others(
    events: Iterable[Event], introduction: Introduction, known: Collection[str], where: str
) -> None:
    for event in events:
        if not (event.id in known or introduction.wrote(event) or is_of_cards(event)):
            raise InvalidInput(
                f"{where} has an event of kind {event.kind} by this key, which nostr-tally did not"
                " write: cards need a key of their own"
            )


def is_of_cards(event: Event) -> bool:
    """Whether an event is a card or deletes cards alone. An ephemeral one, such as a message of
    a bunker, says nothing about a person."""
    if event.kind in FIELDS or kinds.is_ephemeral(event.kind):
        return True
    places = [*event.tag_values("a")]
    of_cards = [f"{kind}:{event.pubkey}:" for kind in FIELDS]
    names_cards = bool(places) and all(one.startswith(tuple(of_cards)) for one in places)
    return event.kind == kinds.DELETION and names_cards and not [*event.tag_values("e")]

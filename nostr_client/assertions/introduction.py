"""Check that a key signs cards alone, before it signs more: nothing of it may be a person's.

Nobody can undo a profile or a relay list that a card key replaces. So in each run the events of a
key come from the store and from each relay of the run. While one relay does not say what it has, a
key that is not known to be ours signs nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import msgspec

from nostr_client.assertions.fields import FIELDS
from nostr_client.codecs import kinds
from nostr_client.codecs.display import plural
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.private_kinds import LISTS, PRIVATE_KINDS
from nostr_client.codecs.relay_url import normal_or_none, normalize
from nostr_client.errors import InvalidInput, RelayError, clip

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

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

_MARK: Final = re.compile(r"Counts of [^()]*, by nostr-tally \((?P<method>[^()]*)\)\.")
"""How the text in a profile begins that the program writes."""

Subject = tuple[int, str]
"""A card's kind and `d`."""


class AskedRelays(Protocol):
    """The relays to which cards go (`urls`), and how relays are asked for the events of a key."""

    @property
    def urls(self) -> Sequence[str]: ...

    async def events_by(self, key: str, urls: Sequence[str]) -> RelayAnswers[KeyEvents]: ...


class SeenCard(NamedTuple):
    """The newest card of a subject that a relay has."""

    created_at: int
    id: str


@dataclass
class KeyEvents:
    """What one place has of a key.

    `others`: by id, the events that are neither cards nor deletions of cards. `cards`: the newest
    card of each subject. `has_ours`: a card has the tags that the program writes. `unread`: why
    there may be more events.
    """

    others: dict[str, Event] = field(default_factory=dict)
    cards: dict[Subject, SeenCard] = field(default_factory=dict)
    has_ours: bool = False
    unread: str = ""

    def add(self, event: Event) -> None:
        """Take one more event of the key."""
        if event.kind in FIELDS:
            self._add_card(event)
        elif not is_of_cards(event):
            self.others[event.id] = event

    def _add_card(self, event: Event) -> None:
        subject = (event.kind, event.first_tag("d") or "")
        found = SeenCard(event.created_at, event.id)
        self.cards[subject] = max(found, self.cards.get(subject, found))
        names = {tag[0] for tag in event.tags if tag}
        self.has_ours = self.has_ours or {"counted_at", "expiration"} <= names

    @property
    def is_a_persons(self) -> bool:
        """Whether it shows events that no run writes."""
        return any(
            one.kind not in (kinds.METADATA, kinds.RELAY_LIST) for one in self.others.values()
        )


class KeyLook(NamedTuple):
    """What the relays of a run have of a key that signs cards alone.

    - `unknown`: relays that may get nothing in this run, with the reason.
    - `unread`: relays that may have more events than were read, with the reason.
    - `newer`: subjects of which a relay has a newer card than this store signed.
    - `others`: number of these cards by relay.
    """

    unknown: Mapping[str, str]
    unread: Mapping[str, str]
    newer: Mapping[Subject, SeenCard]
    others: Mapping[str, int]


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

    @property
    def method(self) -> str:
        """The counting method that the profile names, or ""."""
        return _method_in(self.about)


def _method_in(about: str) -> str:
    found = _MARK.match(about)
    return "" if found is None else found["method"]


def method_of(event: Event) -> str:
    """Return the counting method that a profile of a card key names, or "" if it is not ours."""
    if event.kind != kinds.METADATA or event.tags:
        return ""
    try:
        return _method_in(msgspec.json.decode(event.content, type=_Profile).about)
    except (msgspec.MsgspecError, RecursionError):
        return ""


def _name_of(content: str) -> str:
    try:
        return msgspec.json.decode(content, type=_Named).name
    except (msgspec.MsgspecError, RecursionError):
        return ""


class _Named(msgspec.Struct):
    name: str


class _Profile(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    about: str


async def look_at_key(
    store: SqliteStore,
    ledger: Ledger,
    relays: AskedRelays,
    introduction: Introduction,
    *,
    adopt: bool = False,
) -> KeyLook:
    """Ask the store and every relay of a run for what a key signed.

    `adopt`: accept a profile and a relay list that the program wrote elsewhere. Raises InvalidInput
    if the store or a relay has an event of the key that is neither a card, nor the deletion of
    cards, nor a profile or relay list that the program wrote. Raises RelayError if a relay does not
    show all events of a key that is not known to be ours. StoreError.
    """
    before = await ledger.published([(kind, "") for kind, _, _ in introduction.parts()])
    stored = KeyEvents()
    async for event in store.stream([Filter(authors=[ledger.signer])]):
        stored.add(event)
        if stored.is_a_persons:
            break
    urls = list(dict.fromkeys(map(normalize, relays.urls)))
    found = await relays.events_by(ledger.signer, _asked(urls, before, introduction))
    places = {"the store": stored, **found.answers}
    profile = any(
        method_of(event) == introduction.method != ""
        for one in places.values()
        for event in one.others.values()
    )
    _Judge(introduction, before, profile, adopt).judge(places)
    silent = {url: _silence(url, error) for url, error in found.errors.items() if url in urls}
    unread = {url: one.unread for url, one in found.answers.items() if one.unread and url in urls}
    ours = profile or any(one.has_ours for one in places.values()) or await ledger.has_signed()
    _refuse_unknown({} if ours else {**silent, **unread})
    shown = {url: one.cards for url, one in found.answers.items()}
    newer, others = await _newer(ledger, shown)
    return KeyLook(silent, unread, newer, others)


def _asked(
    urls: Sequence[str], before: Mapping[Subject, Event], introduction: Introduction
) -> list[str]:
    """Return the relays to ask: those of the run and, before the profile or the relay list changes,
    some of the key's own relay list."""
    is_same = all(
        (kind, "") in before and (before[kind, ""].content, before[kind, ""].tags) == (text, tags)
        for kind, text, tags in introduction.parts()
    )
    named = [tag for event in before.values() for tag in event.tag_values("r")]
    return [*urls] if is_same else [*urls, *_others(named, urls)]


def _others(named: Iterable[str], urls: Sequence[str]) -> list[str]:
    """Return the relays of the key's own list that are asked besides `urls`."""
    found = (one for url in named if (one := normal_or_none(url)) and one not in urls)
    return list(dict.fromkeys(found))[:OWN_RELAYS]


def _silence(url: str, error: RelayError) -> str:
    return f"{_SILENT}: {clip(str(error).removeprefix(f'{url}: '), 200)}"


def _refuse_unknown(silent: Mapping[str, str]) -> None:
    """Raise RelayError for the first relay that may have events of a person."""
    for url, why in silent.items():
        more = f", nor {plural(len(silent) - 1, 'other relay')}" if len(silent) > 1 else ""
        raise RelayError(
            f"{why}{more}; nothing is signed, because the first run of a key needs the answers of"
            " all relays: run it again later, or leave the relay out",
            relay=url,
        )


async def _newer(
    ledger: Ledger, shown: Mapping[str, Mapping[Subject, SeenCard]]
) -> tuple[dict[Subject, SeenCard], dict[str, int]]:
    """Return the cards that are newer than those that the ledger signed, and their number by
    relay."""
    newer: dict[Subject, SeenCard] = {}
    others: dict[str, int] = {}
    for url, cards in shown.items():
        signed = await ledger.published([*cards])
        found = {
            one: seen
            for one, seen in cards.items()
            if one in signed and seen.created_at >= signed[one].created_at
            if seen.id != signed[one].id
        }
        if found:
            others[url] = len(found)
        newer |= {one: max(seen, newer.get(one, seen)) for one, seen in found.items()}
    return newer, others


class _Judge(NamedTuple):
    """Which profiles and relay lists of a key the program wrote.

    `before`: those that the store remembers. `profile`: a place has a profile that the program
    wrote with the same method. `adopt`: the user takes the key over.
    """

    introduction: Introduction
    before: Mapping[Subject, Event]
    profile: bool
    adopt: bool

    def judge(self, places: Mapping[str, KeyEvents]) -> None:
        """Raise InvalidInput for the first event that the program did not write."""
        for where, found in places.items():
            # a profile first: it says the most
            for event in sorted(found.others.values(), key=lambda one: one.kind):
                why = self._refusal(event)
                if why:
                    raise InvalidInput(
                        f"{where} has an event of kind {event.kind} by this key{why}"
                    )

    def _refusal(self, event: Event) -> str:
        """Return why an event says that the key is not ours, or ""."""
        known = self.before.get((event.kind, ""))
        if self.introduction.wrote(event) or (known is not None and known.id == event.id):
            return ""
        method = method_of(event)
        if method and method != self.introduction.method:
            return (
                f", which nostr-tally wrote with other settings ({clip(method, 100)}): a key keeps"
                " its meaning, so use these settings or another key"
            )
        if not (method or self._may_be_our_list(event)):
            return ", which this store did not sign: cards need a key of their own"
        is_older = known is not None and event.created_at <= known.created_at
        if is_older or self.adopt:
            return ""
        return (
            f", which nostr-tally wrote with other settings{_listed(event)}: if this key signs"
            " cards alone, take it over with --adopt"
        )

    def _may_be_our_list(self, event: Event) -> bool:
        """Whether it has the form of our relay list, and the key a profile or list of ours."""
        is_plain = not event.content and all(len(tag) == 2 and tag[0] == "r" for tag in event.tags)
        is_ours = self.profile or (event.kind, "") in self.before
        return event.kind == kinds.RELAY_LIST and is_plain and is_ours


def _listed(event: Event) -> str:
    urls = ", ".join(event.tag_values("r"))
    return f" ({clip(urls, 200)})" if urls else ""


def is_of_cards(event: Event) -> bool:
    """Whether an event is a card or deletes cards alone. An ephemeral one, such as a message of
    a bunker, says nothing about a person."""
    if event.kind in FIELDS or kinds.is_ephemeral(event.kind):
        return True
    places = [*event.tag_values("a")]
    of_cards = [f"{kind}:{event.pubkey}:" for kind in FIELDS]
    names_cards = bool(places) and all(one.startswith(tuple(of_cards)) for one in places)
    return event.kind == kinds.DELETION and names_cards and not [*event.tag_values("e")]

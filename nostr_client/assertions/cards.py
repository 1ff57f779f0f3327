"""Decide which numbers of a subject a card has, how they read, and when it is signed again. Pure.

An unknown field is left out, never published as 0. A card without a field that its readers would
show as 0 is not published, except for zaps: these are left out if nobody knows who signed the
receipts, and the report says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from nostr_client.assertions.fields import (
    FIELDS,
    IDENTIFIER,
    READERS,
    author_of,
    field_named,
    is_field,
    is_subject,
)
from nostr_client.assertions.tally import DAY, VANISHED
from nostr_client.codecs.display import plural
from nostr_client.codecs.event import EventTemplate, Tag
from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from nostr_client.assertions.fields import CardField
    from nostr_client.assertions.tally import AssertionTally, Value, Values
    from nostr_client.codecs.event import Event

UNVERIFIED: Final = "no known wallet signed the receipts"
"""Why a card lacks the numbers of zaps."""

WIDEST: Final = 0.05
"""An estimate with a larger error, to either side, is not published."""


class CardOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which known numbers are published, and how often.

    `personal`: personal fields that the user named. `step`: a number is published again when it
    differs by more than this share of the published one. `lifetime`: seconds until a card expires
    (NIP-40), from the time of counting; it is renewed when less than `renewal` seconds are left.
    """

    personal: frozenset[str] = frozenset()
    step: float = 0.0
    lifetime: int = 30 * DAY
    renewal: int = 7 * DAY

    def check(self) -> None:
        """Raise InvalidInput for an unknown field, a negative step, or a renewal too late."""
        known = {one.name for fields in FIELDS.values() for one in fields if one.personal}
        unknown = sorted(self.personal - known)
        if unknown:
            raise InvalidInput(
                f"no personal field {unknown[0]!r} (there are {', '.join(sorted(known))})"
            )
        if not 0 <= self.step <= 1 or not 0 < self.renewal < self.lifetime:
            raise InvalidInput("a step is from 0 to 1, and a renewal before the end of a card")


class Measured(NamedTuple):
    """A number from many relays: its bounds, when it was counted, and by how many relays."""

    value: int
    low: int
    high: int | None
    exact: bool
    at: int
    asked: int
    answered: int

    @property
    def refusal(self) -> str:
        """Why it is not published, or ""."""
        if self.exact:
            return ""
        if self.high is None:
            return "nothing bounds the number from above"
        off = max(self.high - self.value, self.value - self.low)
        if off > WIDEST * self.value:
            return f"the estimate is wider than ±{WIDEST:.0%}"
        return ""


class Card(NamedTuple):
    """The assertion about one subject; `why_not`: why it is not published, or ""."""

    kind: int
    subject: str
    values: Values
    measured: Mapping[str, Measured]
    lacks: tuple[str, ...] = ()
    """Unknown fields that it could have, as `fields: reason`: zaps that nobody verified."""
    why_not: str = ""
    identifier_kinds: tuple[str, ...] = ()
    counted_at: int | None = None
    """When the numbers were counted, in Unix seconds; None: as the card is signed."""

    def counted(self, now: int) -> int:
        """Return when the oldest of its numbers was counted, in Unix seconds."""
        own = now if self.counted_at is None else self.counted_at
        return min([now, own, *(one.at for one in self.measured.values())])

    def refusal(self, now: int, before: Event | None, options: CardOptions) -> str:
        """Return why the card is not published now, or ""; `before`: the published one."""
        if self.why_not:
            return self.why_not
        counted = self.counted(now)
        if counted + options.lifetime <= now:
            return f"counted more than {plural(options.lifetime // DAY, 'day')} ago"
        older = None if before is None else before.first_tag("counted_at")
        if self.counted_at is not None and older is not None and counted < int(older):
            return "a newer count is published"
        return ""

    def tags(self, at: int, expires: int) -> tuple[Tag, ...]:
        """Return the tags of the event, fields in the order of their table. `at`: the time of
        counting."""
        tags: list[Tag] = [("d", self.subject), *(("k", one) for one in self.identifier_kinds)]
        for field in FIELDS[self.kind]:
            tags += [(field.name, text) for text in _texts(self.values.get(field.name))]
        tags.append(("counted_at", str(at)))
        for name, one in self.measured.items():
            bounds = "exact" if one.exact else "estimate"
            high = "" if one.high is None else str(one.high)
            tags.append(("interval", name, str(one.low), high, bounds))
            tags.append(("relays", name, str(one.asked), str(one.answered)))
        return (*tags, ("expiration", str(expires)))

    def template(self, now: int, before: Event | None, options: CardOptions) -> EventTemplate:
        """Return the event to sign, newer than the one that it replaces."""
        at = now if before is None else max(now, before.created_at + 1)
        counted = self.counted(now)
        tags = self.tags(counted, counted + options.lifetime)
        return EventTemplate(kind=self.kind, tags=tags, created_at=at)


def cards_of(
    tally: AssertionTally,
    subjects: Collection[tuple[int, str]],
    options: CardOptions,
    measured: Mapping[tuple[int, str], Mapping[str, Measured]],
) -> Iterator[Card]:
    """Yield the card of each subject. `measured`: numbers from many relays, which replace the
    store's."""
    for kind, subject in subjects:
        found = measured.get((kind, subject), {})
        yield _card(tally, kind, subject, options, found)


def _card(
    tally: AssertionTally,
    kind: int,
    subject: str,
    options: CardOptions,
    found: Mapping[str, Measured],
) -> Card:
    author = author_of(kind, subject)
    if author is not None and tally.has_vanished(author):
        return Card(kind, subject, {}, {}, why_not=VANISHED)
    if not tally.holds(kind, subject):
        return Card(kind, subject, {}, {}, why_not="the store has nothing of it or about it")
    if not is_subject(kind, subject):
        return Card(kind, subject, {}, {}, why_not="its identifier is malformed or too long")
    values = tally.values(kind, subject, personal=bool(options.personal))
    if options.personal:
        values = {name: one for name, one in values.items() if _is_wanted(kind, name, options)}
    refused = {name: one.refusal for name, one in found.items() if one.refusal}
    published = {name: one for name, one in found.items() if not one.refusal}
    values = {name: value for name, value in values.items() if name not in refused}
    values |= {name: one.value for name, one in published.items()}
    k = tally.identifier_kinds(subject) if kind == IDENTIFIER else ()
    card = Card(kind, subject, values, published, identifier_kinds=k)
    return completed(card, refused, UNVERIFIED, options.personal)


def _is_wanted(kind: int, name: str, options: CardOptions) -> bool:
    return _may_have(field_named(kind, name), options.personal)


def completed(
    card: Card, refused: Mapping[str, str], no_zaps: str, personal: Collection[str] = ()
) -> Card:
    """Return a card with what it lacks, or why it is not published: readers show a 0 for a field.

    `refused`: fields, with the reason. `no_zaps`: why fields of zaps are unknown. `personal`: the
    personal fields that the user named.
    """
    needed = sorted(READERS.get(card.kind, frozenset()) - card.values.keys())
    needed = [name for name in needed if not field_named(card.kind, name).zaps]
    why = f"{needed[0]}: {refused.get(needed[0], 'not known')}" if needed else ""
    zaps = [one.name for one in FIELDS[card.kind] if one.zaps and _may_have(one, personal)]
    unpaid = ", ".join(name for name in zaps if name not in card.values)
    lacks = [f"{unpaid}: {no_zaps}"] if unpaid else []
    lacks += [f"{name}: {reason}" for name, reason in refused.items()]
    return card._replace(lacks=tuple(lacks), why_not=why)


def _may_have(field: CardField, personal: Collection[str]) -> bool:
    return not field.personal or field.name in personal


def is_due(card: Card, before: Event | None, now: int, options: CardOptions) -> bool:
    """Whether to sign a card: a field came, went or changed enough, or the card soon expires.

    A new time of counting or a new interval alone causes no signature. A card expires `lifetime`
    after its numbers were counted, so the same count again renews nothing.
    """
    if before is None or before.kind != card.kind:
        return True
    expires = int(before.first_tag("expiration") or 0)
    if expires - now < options.renewal and card.counted(now) + options.lifetime > expires:
        return True
    published = _fields_of(before, card.kind)
    wanted = {name: _texts(value) for name, value in card.values.items()}
    wanted = {name: texts for name, texts in wanted.items() if texts}
    if published.keys() != wanted.keys():
        return True
    return any(_differs(published[name], wanted[name], options.step) for name in wanted)


def _fields_of(card: Event, kind: int) -> dict[str, tuple[str, ...]]:
    """Return the values of each field that a signed card has."""
    found: dict[str, tuple[str, ...]] = {}
    for tag in card.tags:
        if len(tag) > 1 and is_field(kind, tag[0]):
            found[tag[0]] = (*found.get(tag[0], ()), tag[1])
    return found


def _differs(old: tuple[str, ...], new: tuple[str, ...], step: float) -> bool:
    if old == new:
        return False
    if len(old) != 1 or len(new) != 1 or not (old[0].isdecimal() and new[0].isdecimal()):
        return True
    return abs(int(new[0]) - int(old[0])) > step * int(old[0])


def _texts(value: Value | None) -> tuple[str, ...]:
    if value is None:
        return ()
    return value if isinstance(value, tuple) else (str(value),)

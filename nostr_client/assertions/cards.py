"""Decide which numbers of a subject a card has, how they read, and when it is signed again. Pure.

An unknown field is left out, never published as 0. A card without a field that its readers would
show as 0 is not published, except for zaps: these are left out if nobody knows who signed the
receipts, and the report says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from nostr_client.assertions.fields import FIELDS, IDENTIFIER, READERS, USER, field_named, is_field
from nostr_client.assertions.tally import DAY
from nostr_client.codecs.event import EventTemplate, Tag
from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from nostr_client.assertions.tally import AssertionTally, Value, Values
    from nostr_client.codecs.event import Event

WIDEST: Final = 0.05
"""An estimate with a larger error, to either side, is not published."""


class CardOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which known numbers are published, and how often.

    `personal`: personal fields that the user named. `step`: a number is published again when it
    differs by more than this share of the published one. `lifetime`: seconds until a card expires
    (NIP-40); it is renewed when less than `renewal` seconds are left.
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
    """Fields that readers show as 0 and that are unknown: zaps that nobody verified."""
    why_not: str = ""
    identifier_kinds: tuple[str, ...] = ()

    def tags(self, at: int, expires: int) -> tuple[Tag, ...]:
        """Return the tags of the event, fields in the order of their table."""
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
        return EventTemplate(
            kind=self.kind, tags=self.tags(now, now + options.lifetime), created_at=at
        )


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
    if kind == USER and tally.has_vanished(subject):
        return Card(kind, subject, {}, {}, why_not="its key asked to vanish (NIP-62)")
    if not tally.holds(kind, subject):
        return Card(kind, subject, {}, {}, why_not="the store has nothing of it or about it")
    values = {
        name: value
        for name, value in tally.values(kind, subject).items()
        if not field_named(kind, name).personal or name in options.personal
    }
    refused = {name: one.refusal for name, one in found.items() if one.refusal}
    published = {name: one for name, one in found.items() if not one.refusal}
    values = {name: value for name, value in values.items() if name not in refused}
    values |= {name: one.value for name, one in published.items()}
    lacks = tuple(sorted(READERS.get(kind, frozenset()) - values.keys()))
    needed = [name for name in lacks if not field_named(kind, name).zaps]
    why = f"{needed[0]}: {refused.get(needed[0], 'not known')}" if needed else ""
    k = tally.identifier_kinds(subject) if kind == IDENTIFIER else ()
    return Card(kind, subject, values, published, lacks, why, k)


def is_due(card: Card, before: Event | None, now: int, options: CardOptions) -> bool:
    """Whether to sign a card: a field came, went or changed enough, or the card soon expires.

    A new time of counting or a new interval alone causes no signature.
    """
    if before is None or before.kind != card.kind:
        return True
    expires = int(before.first_tag("expiration") or 0)
    if expires - now < options.renewal:
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

"""Decide which events a repair sends to which relay, and why it skips others. Pure."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from nostr_client.codecs.event import Event
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.kinds import DELETION, VANISH
from nostr_client.store.rules import vanishes_here
from nostr_client.sync.coverage.matrix import DeletedIds
from nostr_client.sync.coverage.unmoved import is_expired
from nostr_client.sync.sharing import Sharing, WithheldReason

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

RECENT: Final = 30 * 86_400
"""Seconds. Older events are not sent to relays that the user did not name."""

MOST_UNASKED: Final = 200
"""Most events of one run to all relays that the user did not name."""

DROPPED: Final = 2
"""A relay that accepted an event and lost it this many times does not get it again."""


class SkipReason(StrEnum):
    """Why an event that a relay lacks is not sent to it."""

    PRIVATE = "of private kinds"
    PROTECTED = "protected by their author (NIP-70)"
    EXPIRED = "expired"
    DELETED = "deleted by their author"
    ELSEWHERE = "a request to vanish from other relays (NIP-62)"
    VANISHED = "before a request to vanish from this relay (NIP-62)"
    FOREIGN = "by another key than yours, to a relay that you did not name"
    OLD = "older than 30 days, to a relay that you did not name"
    MANY = "beyond 200 a run, to relays that you did not name"
    DROPPED = "dropped twice by the relay"
    REFUSED = "refused by the relay a short while ago"
    UNSEEN = "named by a relay, and sent by none"
    UNASKED = "not looked for there: the relay did not answer"


class MissingEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event that a relay lacks.

    `event` is None if no relay sent it. `named`: the user named the relay. `why`: the reason to
    skip the event, if already known.
    """

    relay: str
    url: str
    id: str
    event: Event | None
    named: bool
    why: SkipReason | None = None


class CopyStep(msgspec.Struct, frozen=True):
    """One event for one relay."""

    relay: str
    event: Event


class CoveragePlan(msgspec.Struct, frozen=True, kw_only=True):
    """Steps in their order, deletions first. `left`: relay, reason and number of skipped events.

    `uncompared`: by relay, the kinds that it gets no events of, because its gaps are unknown.
    """

    steps: tuple[CopyStep, ...]
    left: tuple[tuple[str, SkipReason, int], ...] = ()
    uncompared: dict[str, tuple[int, ...]] = {}

    @property
    def relays(self) -> tuple[str, ...]:
        """The relays that receive events."""
        return tuple(dict.fromkeys(one.relay for one in self.steps))

    def of(self, relay: str) -> list[Event]:
        """Return the events that one relay receives, in order."""
        return [one.event for one in self.steps if one.relay == relay]

    def to_dict(self) -> dict[str, Any]:
        """Return the plan in the form of its JSON."""
        return {
            "relays": [
                {"relay": relay, "events": [one.id for one in self.of(relay)]}
                for relay in self.relays
            ],
            "left": [
                {"relay": relay, "why": str(why), "events": number}
                for relay, why, number in self.left
            ],
            "not_compared": [
                {"relay": relay, "kinds": list(kinds)} for relay, kinds in self.uncompared.items()
            ],
        }


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """Facts on which a plan depends.

    - `pubkey`: the user's own key, or None.
    - `now`: Unix seconds.
    - `gone` and `vanishing` (kind 62 events): of the author.
    - `dropped`: how often each relay (URL) accepted an id and lost it.
    - `refused`: ids that each relay refused recently.
    """

    author: str
    pubkey: str | None
    now: int
    gone: DeletedIds = DeletedIds()
    vanishing: tuple[Event, ...] = ()
    dropped: dict[str, dict[str, int]] = {}
    refused: dict[str, frozenset[str]] = {}

    def objection(self, one: MissingEvent) -> SkipReason | None:
        """Return why to skip an event for its relay, or None."""
        event = one.event
        if one.why is not None:
            return one.why
        if event is None:
            return SkipReason.UNSEEN
        return self._of_event(event, one.url) or self._of_relay(event, one)

    def _of_event(self, event: Event, url: str) -> SkipReason | None:
        """Return why to skip the event because of its content, or None."""
        held_back = Sharing([Filter(authors=[self.author])]).holds_back(event)
        if held_back is not None:
            return (
                SkipReason.PRIVATE if held_back is WithheldReason.PRIVATE else SkipReason.PROTECTED
            )
        if is_expired(event, self.now):
            return SkipReason.EXPIRED
        if event.kind == VANISH and not vanishes_here(event, {url}):
            return SkipReason.ELSEWHERE
        if self.gone.covers(event):
            return SkipReason.DELETED
        return SkipReason.VANISHED if self._vanished(event, url) else None

    def _vanished(self, event: Event, url: str) -> bool:
        return event.kind != VANISH and any(
            event.created_at <= one.created_at and vanishes_here(one, {url})
            for one in self.vanishing
        )

    def _of_relay(self, event: Event, one: MissingEvent) -> SkipReason | None:
        if self.dropped.get(one.url, {}).get(event.id, 0) >= DROPPED:
            return SkipReason.DROPPED
        if event.id in self.refused.get(one.url, ()):
            return SkipReason.REFUSED
        if one.named:
            return None
        if event.pubkey != self.pubkey:
            return SkipReason.FOREIGN
        return SkipReason.OLD if event.created_at < self.now - RECENT else None


def planned(
    wanted: Iterable[MissingEvent],
    rules: Rules,
    unseen: Mapping[str, int] = MappingProxyType({}),
    uncompared: Mapping[str, tuple[int, ...]] = MappingProxyType({}),
) -> CoveragePlan:
    """Return the steps, and the skipped events with the reasons. Each event goes to a relay once.

    `unseen`: by relay, how many further ids it lacks whose events are unknown. `uncompared`: by
    relay, the kinds that were not read to their end.
    """
    steps: list[CopyStep] = []
    left: Counter[tuple[str, SkipReason]] = Counter()
    for relay, number in unseen.items():
        left[relay, SkipReason.UNSEEN] += number
    unasked = 0
    for one in _in_order(wanted):
        why = rules.objection(one)
        if why is None and not one.named:
            why = SkipReason.MANY if unasked >= MOST_UNASKED else None
            unasked += why is None
        if why is not None or one.event is None:
            left[one.relay, why or SkipReason.UNSEEN] += 1
            continue
        steps.append(CopyStep(one.relay, one.event))
    skipped = tuple((relay, why, number) for (relay, why), number in sorted(left.items()) if number)
    return CoveragePlan(steps=tuple(steps), left=skipped, uncompared=dict(uncompared))


def _in_order(wanted: Iterable[MissingEvent]) -> list[MissingEvent]:
    """Order deletions first, then the newest events. Each event comes once for a relay."""
    once = {(one.url, one.id): one for one in wanted}
    return sorted(once.values(), key=_rank)


def _rank(one: MissingEvent) -> tuple[bool, int, str, str]:
    event = one.event
    if event is None:
        return True, 0, one.id, one.url
    return event.kind not in (DELETION, VANISH), -event.created_at, one.id, one.url


def recipients(events: Iterable[Event]) -> Mapping[str, Collection[str]]:
    """Return the people whom events mention (`p` tags), with the ids of those events.

    Leaves out the author.
    """
    found: dict[str, set[str]] = {}
    for event in events:
        for key in event.tag_values("p"):
            if len(key) == 64 and key != event.pubkey:
                found.setdefault(key, set()).add(event.id)
    return found

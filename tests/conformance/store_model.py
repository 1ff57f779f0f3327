"""A store that anybody can check by reading: a list, rules one by one, filters by `matches`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nostr_client import hll
from nostr_client.codecs import kinds
from nostr_client.store import rules
from nostr_client.store.base import SaveStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.codecs.filters import Filter


def is_expired(event: Event, now: int) -> bool:
    """True from the second of its expiration on."""
    end = rules.expiration(event)
    return end is not None and end <= now


class Model:
    """What SqliteStore must do, one event at a time, as slowly as it likes."""

    def __init__(self) -> None:
        self.events: dict[str, Event] = {}
        self.deletions: list[Event] = []
        """Deletion requests and requests to vanish that were accepted, ever."""

    def save(self, event: Event, now: int) -> SaveStatus:
        status = self._judge(event, now)
        if status is SaveStatus.STORED:
            for other in list(self.events.values()):
                if self._same_address(event, other) or self._erases(event, other):
                    del self.events[other.id]
            self.events[event.id] = event
            if event.kind in (kinds.DELETION, kinds.VANISH):
                self.deletions.append(event)
        return status

    def _judge(self, event: Event, now: int) -> SaveStatus:
        if kinds.is_ephemeral(event.kind):
            return SaveStatus.EXPIRED if is_expired(event, now) else SaveStatus.EPHEMERAL
        if event.id in self.events:
            return SaveStatus.DUPLICATE
        blockers = [request for request in self.deletions if self._erases(request, event)]
        if any(request.kind == kinds.VANISH for request in blockers):
            return SaveStatus.VANISHED
        if blockers:
            return SaveStatus.DELETED
        if is_expired(event, now):
            return SaveStatus.EXPIRED
        if any(
            self._same_address(event, other)
            and (other.created_at, event.id) > (event.created_at, other.id)
            for other in self.events.values()
        ):
            return SaveStatus.SUPERSEDED
        return SaveStatus.STORED

    def _same_address(self, event: Event, other: Event) -> bool:
        return (
            rules.d_of(event) is not None
            and event.id != other.id
            and (event.kind, event.pubkey, rules.d_of(event))
            == (other.kind, other.pubkey, rules.d_of(other))
        )

    def _erases(self, request: Event, event: Event) -> bool:
        if request.kind == kinds.VANISH and ["relay", "ALL_RELAYS"] in map(list, request.tags):
            owns = event.kind != kinds.VANISH and self._owns(request.pubkey, event)
            return owns and event.created_at <= request.created_at
        if request.kind != kinds.DELETION or not self._owns(request.pubkey, event):
            return False
        if event.kind in (kinds.DELETION, kinds.VANISH):
            return False
        if event.id in request.tag_values("e"):
            return True
        d = rules.d_of(event)
        address = f"{event.kind}:{request.pubkey}:{d}"
        return (
            d is not None
            and address in request.tag_values("a")
            and event.created_at <= request.created_at
        )

    @staticmethod
    def _owns(pubkey: str, event: Event) -> bool:
        wrapped = event.kind == kinds.GIFT_WRAP and pubkey in event.tag_values("p")
        return wrapped or pubkey == event.pubkey

    def visible(self, now: int) -> list[Event]:
        alive = [event for event in self.events.values() if not is_expired(event, now)]
        return sorted(alive, key=lambda event: (-event.created_at, event.id))

    def matching(self, filter: Filter, now: int, *, limit: bool = True) -> list[Event]:
        if filter.matches_nothing:
            return []
        found = [event for event in self.visible(now) if filter.matches(event)]
        return found[: filter.limit] if limit else found

    def query(self, filters: Sequence[Filter], now: int, *, limit: bool = True) -> list[Event]:
        ids = {e.id for filter in filters for e in self.matching(filter, now, limit=limit)}
        return [event for event in self.visible(now) if event.id in ids]

    def authors(self, filters: Sequence[Filter], now: int) -> set[str]:
        return {event.pubkey for event in self.query(filters, now, limit=False)}

    def registers(self, filter: Filter, now: int) -> bytes:
        offset = hll.offset(filter.to_dict())
        assert offset is not None
        return hll.from_pubkeys(self.authors([filter], now), offset)

    def delete(self, filters: Sequence[Filter], now: int) -> int:
        gone = self.query(filters, now)
        for event in gone:
            del self.events[event.id]
        return len(gone)

    def sweep(self, now: int) -> int:
        gone = [event for event in self.events.values() if is_expired(event, now)]
        for event in gone:
            del self.events[event.id]
        return len(gone)

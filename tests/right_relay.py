"""A relay for tests that does what the NIPs say, as a behaviour for `tests.faulty_relay`.

`Right` speaks NIPs 01, 09, 11, 40, 42, 45 with registers, 67 and 77, simply and slowly. Each of its
steps is a method of its own, so that a defect is one of them done wrongly.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

from nostr_client import hll
from nostr_client.codecs.event import Event, EventTemplate, parse_event
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import KeySigner, verify
from nostr_client.codecs.kinds import DELETION, is_ephemeral
from nostr_client.errors import InvalidEvent, InvalidFilter
from nostr_client.store.rules import d_of, deletion, expiration, version
from tests.negrelay import SpeaksNeg

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.faulty_relay import Peer

NOW = int(time.time())
INFO = {
    "name": "right",
    "supported_nips": [1, 9, 11, 40, 42, 45, 67, 77],
    "limitation": {"max_limit": 120, "max_message_length": 131_072, "auth_required": False},
}
SIGNERS = [KeySigner(bytes(31) + bytes([n]), rand=bytes) for n in range(1, 24)]


def world(notes: int = 300) -> list[Event]:
    """Notes, reactions and contact lists by 23 people, with a deletion of what is not there."""
    rand = random.Random(11)
    loved = SIGNERS[0].pubkey
    made: list[Event] = []

    def sign(kind: int, at: int, *tags: tuple[str, ...], by: KeySigner | None = None) -> Event:
        template = EventTemplate(kind=kind, content=f"{at}", tags=tags, created_at=at)
        event = (by or rand.choice(SIGNERS)).sign_now(template).event
        made.append(event)
        return event

    for n in range(notes):
        sign(1, NOW - 90_000 + 37 * n, ("p", rand.choice(SIGNERS).pubkey))
    target = made[0].id
    for n, signer in enumerate(SIGNERS):
        sign(7, NOW - 70_000 + 90 * n, ("e", target), ("p", loved), by=signer)
        sign(3, NOW - 60_000 + 70 * n, ("p", loved), by=signer)
    sign(5, NOW - 50_000, ("e", "ab" * 32), ("k", "1"), by=SIGNERS[2])
    return made


class Right(SpeaksNeg):
    """See the module. `cap`: events of a REQ at most."""

    cap = 120
    label = "NEG-ERR"

    def __init__(self) -> None:
        super().__init__()

    async def on_connect(self, peer: Peer) -> None:
        await peer.send("AUTH", "a challenge")

    # REQ.

    async def on_req(self, peer: Peer, message: list[Any]) -> None:
        filters = await self.filters_of(peer, message)
        if filters is None:
            return
        matching = self.matching(peer, filters)
        page = self.page(matching, filters)
        await self.send_page(peer, message[1], page, whole=len(page) == len(matching))

    async def filters_of(self, peer: Peer, message: list[Any]) -> list[Filter] | None:
        """The filters of a message; None where they are refused."""
        try:
            return [Filter.from_json(one) for one in message[2:]]
        except InvalidFilter as error:
            await self.refuse(peer, message, f"invalid: {error}")
            return None

    async def refuse(self, peer: Peer, message: list[Any], reason: str) -> None:
        await peer.send("CLOSED", message[1], reason)

    def visible(self, peer: Peer) -> Sequence[Event]:
        """What is served at all."""
        now, ends = time.time(), float("inf")
        return [one for one in peer.relay.events if (expiration(one) or ends) > now]

    def matching(self, peer: Peer, filters: Sequence[Filter]) -> list[Event]:
        """Newest first, ties by id."""
        found = [e for e in self.visible(peer) if any(self.matches(f, e) for f in filters)]
        return sorted(found, key=lambda one: (-one.created_at, one.id))

    def matches(self, filter: Filter, event: Event) -> bool:
        return filter.matches(event)

    def page(self, matching: Sequence[Event], filters: Sequence[Filter]) -> list[Event]:
        limits = [one.limit for one in filters if one.limit is not None]
        return list(matching[: min([self.cap, *limits])])

    async def send_page(
        self, peer: Peer, sub_id: str, page: Sequence[Event], *, whole: bool
    ) -> None:
        for event in page:
            await peer.send_event(sub_id, event)
        await peer.send("EOSE", sub_id, ["finish" if whole else "more"])

    # COUNT.

    async def on_count(self, peer: Peer, message: list[Any]) -> None:
        filters = await self.filters_of(peer, message)
        if filters is not None:
            await peer.send("COUNT", message[1], self.count_body(peer, filters))

    def count_body(self, peer: Peer, filters: Sequence[Filter]) -> dict[str, Any]:
        found = self.matching(peer, filters)
        body: dict[str, Any] = {"count": len(found)}
        if len(filters) == 1 and hll.eligible(filters[0].to_dict()):
            body["hll"] = self.registers(found, hll.offset(filters[0].to_dict()) or 8).hex()
        return body

    def registers(self, events: Sequence[Event], offset: int) -> bytes:
        return hll.from_pubkeys([one.pubkey for one in events], offset)

    # EVENT.

    async def on_event(self, peer: Peer, message: list[Any]) -> None:
        event = parse_event(message[1])
        reason = self.why_not(peer, event)
        if not reason:
            self.store(peer, event)
        await peer.send("OK", event.id, not reason or reason.startswith("duplicate"), reason)

    def why_not(self, peer: Peer, event: Event) -> str:
        """Why an event is not stored, else ""."""
        try:
            verify(event)
        except InvalidEvent as error:
            return f"invalid: {error}"
        ends = expiration(event)
        if ends is not None and ends < time.time():
            return "invalid: it has expired"
        held = {one.id for one in peer.relay.events}
        if event.id in held:
            return "duplicate: have it"
        return "blocked: deleted" if self.is_deleted(peer, event) else ""

    def is_deleted(self, peer: Peer, event: Event) -> bool:
        return any(
            event.id in deletion(one).ids and self.may_delete(one, event)
            for one in peer.relay.events
            if one.kind == DELETION
        )

    def may_delete(self, request: Event, event: Event) -> bool:
        return request.pubkey == event.pubkey

    def store(self, peer: Peer, event: Event) -> None:
        if is_ephemeral(event.kind):
            return
        events = peer.relay.events
        if event.kind == DELETION:
            gone = deletion(event).ids
            events[:] = [e for e in events if e.id not in gone or not self.may_delete(event, e)]
        events.append(event)
        if d_of(event) is not None:
            self.keep_newest(events, event)

    def keep_newest(self, events: list[Event], event: Event) -> None:
        """One version of an address."""
        same = [
            one
            for one in events
            if (one.kind, one.pubkey, d_of(one)) == (event.kind, event.pubkey, d_of(event))
        ]
        best = max(same, key=lambda one: (version(one).created_at, one.id))
        events[:] = [one for one in events if one not in same or one is best]

    # NIP-77.

    async def on_neg_open(self, peer: Peer, message: list[Any]) -> None:
        try:
            raw = bytes.fromhex(message[3])
        except ValueError:
            await self.neg_error(peer, message[1], "invalid: no hex")
            return
        if raw[:1] != b"\x61":
            await self.neg_message(peer, message[1], b"\x61")
            return
        await super().on_neg_open(peer, message)

    async def neg_items(self, peer: Peer, filters: list[Filter]) -> list[Event]:
        return self.matching(peer, [one.replace(limit=None) for one in filters])

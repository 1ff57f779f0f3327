"""Relays that speak NIP-77, honest and not, as behaviours for `tests.faulty_relay.FaultyRelay`.

The honest one keeps what it is sent and answers by the engine's own responder. Each fault is a
small change to it.
"""

from __future__ import annotations

import itertools
import json
import os
import random
from typing import TYPE_CHECKING, Any

from nostr_client.codecs.event import parse_event
from nostr_client.codecs.filters import Filter
from nostr_client.negentropy.encoding import varint
from nostr_client.negentropy.reconcile import Responder
from nostr_client.negentropy.storage import seal
from tests.faulty_relay import Behaviour, Peer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from nostr_client.codecs.event import Event

V1 = b"\x61"
WHOLE = b"\x00\x00"
"""The bound of everything: infinity, no prefix."""


def fingerprint(raw: bytes) -> bytes:
    """A range up to infinity with this fingerprint."""
    return WHOLE + b"\x01" + raw


def id_list(count: int, ids: bytes) -> bytes:
    """A range up to infinity that says it has `count` ids."""
    return WHOLE + b"\x02" + varint(count) + ids


class SpeaksNeg(Behaviour):
    """An honest relay with NIP-77.

    `most`: records of one session, above which it refuses by `overflow` (`{most}` is filled in;
    `fourth`: whether the maximum is the fourth element too). `hides`: ids that it lists and never
    sends. `refuses`: reason for an event that it does not take, or "". `label`: what it says for
    NEG-ERR. `snapshot`: it compares its newest so many events alone, and does not say so.
    """

    def __init__(
        self,
        *,
        most: int | None = None,
        snapshot: int | None = None,
        overflow: str = "blocked: too many query results",
        fourth: bool = True,
        frame_limit: int = 0,
        hides: Collection[str] = (),
        refuses: Callable[[Event], str] | None = None,
        sessions: int = 100,
        label: str = "NEG-ERR",
    ) -> None:
        self.most = most
        self.snapshot = snapshot
        self.overflow = overflow
        self.fourth = fourth
        self.frame_limit = frame_limit
        self.hides = set(hides)
        self.refuses = refuses
        self.most_sessions = sessions
        self.label = label
        self.engines: dict[tuple[Peer, str], Responder] = {}
        self.opened: list[Any] = []
        """The filter of every NEG-OPEN."""
        self.peak = 0
        self.sent: list[str] = []
        """Ids of the events sent for REQs by ids, each time."""

    async def on_other(self, peer: Peer, message: list[Any]) -> None:
        handlers = {
            "NEG-OPEN": self.on_neg_open,
            "NEG-MSG": self.on_neg_message,
            "NEG-CLOSE": self.on_neg_close,
        }
        handler = handlers.get(message[0])
        if handler is None:
            await super().on_other(peer, message)
        else:
            await handler(peer, message)

    async def on_neg_open(self, peer: Peer, message: list[Any]) -> None:
        _, sub_id, wanted, first = message
        self.opened.append(wanted)
        self.engines.pop((peer, sub_id), None)
        if len(self.engines) >= self.most_sessions:
            await self.neg_error(peer, sub_id, "rate-limited: too many negentropy subscriptions")
            return
        filters = await self.neg_filters(peer, sub_id, wanted)
        if filters is None:
            return
        events = await self.neg_items(peer, filters)
        if self.most is not None and len(events) > self.most:
            tail = [self.most] if self.fourth else []
            text = self.overflow.format(most=self.most)
            await self.neg_error(peer, sub_id, text, *tail)
            return
        named = events[: self.snapshot]
        items = [(event.created_at, bytes.fromhex(event.id)) for event in named]
        engine = Responder(seal(items), frame_limit=self.frame_limit)
        self.engines[peer, sub_id] = engine
        self.peak = max(self.peak, len(self.engines))
        await self.answer(peer, sub_id, engine, bytes.fromhex(first))

    async def neg_items(self, peer: Peer, filters: list[Filter]) -> list[Event]:
        """The events that a session compares, newest first."""
        return peer.relay.query([one.replace(limit=None) for one in filters])

    async def neg_filters(self, peer: Peer, sub_id: str, wanted: Any) -> list[Filter] | None:
        """The filters that a NEG-OPEN asks for; None when it was refused."""
        if isinstance(wanted, str):
            await peer.send("NOTICE", "ERROR: bad msg: negentropy error: filter is no object")
            return None
        return [Filter.from_json(wanted)]

    async def on_neg_message(self, peer: Peer, message: list[Any]) -> None:
        _, sub_id, text = message
        engine = self.engines.get((peer, sub_id))
        if engine is None:
            await self.neg_error(peer, sub_id, "closed: unknown subscription handle")
            return
        await self.answer(peer, sub_id, engine, bytes.fromhex(text))

    async def on_neg_close(self, peer: Peer, message: list[Any]) -> None:
        self.engines.pop((peer, message[1]), None)

    async def answer(self, peer: Peer, sub_id: str, engine: Responder, message: bytes) -> None:
        """Send what the engine says."""
        await self.neg_message(peer, sub_id, engine.reconcile(message))

    async def neg_message(self, peer: Peer, sub_id: str, raw: bytes) -> None:
        await peer.send("NEG-MSG", sub_id, raw.hex())

    async def neg_error(self, peer: Peer, sub_id: str, reason: str, *tail: Any) -> None:
        self.engines.pop((peer, sub_id), None)
        await peer.send(self.label, sub_id, reason, *tail)

    async def on_req(self, peer: Peer, message: list[Any]) -> None:
        for event in peer.relay.query([Filter.from_json(one) for one in message[2:]]):
            if event.id not in self.hides:
                self.sent += [event.id] * ("ids" in message[2])
                await peer.send_event(message[1], event)
        await peer.send("EOSE", message[1])

    async def on_event(self, peer: Peer, message: list[Any]) -> None:
        event = parse_event(message[1])
        reason = self.refuses(event) if self.refuses else ""
        held = any(event.id == one.id for one in peer.relay.events)
        if not reason and not held:
            peer.relay.events.append(event)
        await peer.send("OK", event.id, not reason, "duplicate: have it" if held else reason)


class SendsFew(SpeaksNeg):
    """Sends no more than `page` events for a REQ; `counts`: whether it knows COUNT."""

    def __init__(self, *, most: int, page: int, counts: bool) -> None:
        super().__init__(most=most)
        self.page = page
        self.counts = counts

    async def on_req(self, peer: Peer, message: list[Any]) -> None:
        asked = [Filter.from_json(one) for one in message[2:]]
        for event in peer.relay.query(asked)[: self.page]:
            await peer.send_event(message[1], event)
        await peer.send("EOSE", message[1])

    async def on_count(self, peer: Peer, message: list[Any]) -> None:
        if self.counts:
            await super().on_count(peer, message)
        else:
            await peer.send("CLOSED", message[1], "unsupported: no COUNT")


class FilterEvents(SpeaksNeg):
    """Takes an event id as filter, as the first text of NIP-77 says."""

    async def neg_filters(self, peer: Peer, sub_id: str, wanted: Any) -> list[Filter] | None:
        if not isinstance(wanted, str):
            return await super().neg_filters(peer, sub_id, wanted)
        found = [event for event in peer.relay.events if event.id == wanted]
        if not found:
            await self.neg_error(peer, sub_id, "FILTER_NOT_FOUND")
            return None
        content = json.loads(found[0].content)
        listed = content if isinstance(content, list) else [content]
        return [Filter.from_json(one) for one in listed]


class RefusesNeg(SpeaksNeg):
    """Says these frames in place of the answer to NEG-OPEN; `{id}` is the session's id."""

    def __init__(self, frames: list[list[Any]], *, times: int | None = None) -> None:
        super().__init__()
        self.frames = frames
        self.left = times

    async def on_neg_open(self, peer: Peer, message: list[Any]) -> None:
        if self.left == 0:
            await super().on_neg_open(peer, message)
            return
        self.opened.append(message[2])
        if self.left is not None:
            self.left -= 1
        for frame in self.frames:
            await peer.send(*(message[1] if part == "{id}" else part for part in frame))


NEG_REFUSALS: dict[str, list[list[Any]]] = {
    "notice, strfry disabled": [["NOTICE", "ERROR: bad msg: negentropy disabled"]],
    "notice, strfry 1.0": [["NOTICE", "ERROR: bad msg: unknown cmd"]],
    "notice, nostr-rs-relay": [["NOTICE", "could not parse command"]],
    "notice, rnostr": [["NOTICE", "Unsupported message"]],
    "notice, LocalRelay": [["NOTICE", "invalid client message"]],
    "notice, command named": [["NOTICE", "unknown command NEG-OPEN"]],
    "notice, type named": [["NOTICE", "unknown message type: NEG-OPEN"]],
    "notice, go-nostr": [["NOTICE", "failed to parse envelope: unknown envelope label"]],
    "notice, nostream": [["NOTICE", "invalid: value does not match any of the allowed types"]],
    "notice, members": [["NOTICE", "restricted: negentropy is for members"]],
    "notice, strfry negentropy error": [["NOTICE", "ERROR: negentropy error: bad filter"]],
    "error": [["NEG-ERR", "{id}", "error: out of order"]],
    "error, khatru": [["NEG-ERROR", "{id}", "error: invalid negentropy message"]],
    "error, PROTOCOL-ERROR": [["NEG-ERROR", "{id}", "PROTOCOL-ERROR"]],
    "blocked for us": [["NEG-ERR", "{id}", "blocked: not for strangers"]],
    "restricted": [["NEG-ERR", "{id}", "restricted: members only"]],
    "unsupported": [["NEG-ERR", "{id}", "unsupported: no negentropy"]],
    "auth": [["NEG-ERR", "{id}", "auth-required: who are you?"]],
    "closed, unsupported": [["CLOSED", "{id}", "unsupported: no negentropy"]],
    "closed, empty": [["CLOSED", "{id}", ""]],
    "closed, error": [["CLOSED", "{id}", "error: what is this?"]],
    "another version": [["NEG-MSG", "{id}", "60"]],
    "silence": [],
}
"""Ways to refuse NIP-77 before the first NEG-MSG."""


class NeverConverges(SpeaksNeg):
    """Its fingerprint is always another one."""

    async def answer(self, peer: Peer, sub_id: str, engine: Responder, message: bytes) -> None:
        await self.neg_message(peer, sub_id, V1 + fingerprint(os.urandom(16)))


class GrowsFrames(SpeaksNeg):
    """Invents ids, twice as many in each frame, and never ends."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 64

    async def answer(self, peer: Peer, sub_id: str, engine: Responder, message: bytes) -> None:
        self.count = min(2 * self.count, 30_000)
        stamp = varint(1) + b"\x00"
        ids = os.urandom(32 * self.count)
        listed = stamp + b"\x02" + varint(self.count) + ids
        await self.neg_message(peer, sub_id, V1 + listed + fingerprint(os.urandom(16)))


class HugeLength(SpeaksNeg):
    """Says that 2**60 ids follow."""

    async def answer(self, peer: Peer, sub_id: str, engine: Responder, message: bytes) -> None:
        await self.neg_message(peer, sub_id, V1 + id_list(2**60, bytes(64)))


class WrongSession(SpeaksNeg):
    """Answers under the id of a session that nobody opened."""

    async def neg_message(self, peer: Peer, sub_id: str, raw: bytes) -> None:
        await peer.send("NEG-MSG", f"{sub_id}0", raw.hex())


class SilentAfter(SpeaksNeg):
    """Serves so many messages of one kind (any without `verb`), and then answers nothing."""

    def __init__(self, messages: int, verb: str = "") -> None:
        super().__init__(frame_limit=4096)
        self.messages = messages
        self.verb = verb

    async def on_message(self, peer: Peer, message: list[Any]) -> None:
        if self.verb in ("", message[0]):
            if self.messages <= 0:
                return
            self.messages -= 1
        await super().on_message(peer, message)


class DropsLargeFrames(SpeaksNeg):
    """Cuts the connection at a message longer than this."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.longest = most
        self.dropped = 0

    async def on_message(self, peer: Peer, message: list[Any]) -> None:
        if message[0].startswith("NEG-") and len(str(message[-1])) > self.longest:
            self.dropped += 1
            peer.abort()
            return
        await super().on_message(peer, message)


class RateLimits(SpeaksNeg):
    """Refuses messages of these kinds by `rate-limited:`, so many times (None: always)."""

    def __init__(self, verbs: Collection[str], times: int | None) -> None:
        super().__init__()
        self.verbs = verbs
        self.times = times

    async def on_message(self, peer: Peer, message: list[Any]) -> None:
        if message[0] in self.verbs and self.times != 0:
            if self.times is not None:
                self.times -= 1
            await self._refuse(peer, message)
            return
        await super().on_message(peer, message)

    async def _refuse(self, peer: Peer, message: list[Any]) -> None:
        reason = "rate-limited: slow down"
        if message[0] == "EVENT":
            await peer.send("OK", message[1]["id"], False, reason)
        elif message[0] == "REQ":
            await peer.send("CLOSED", message[1], reason)
        else:
            await peer.send("NEG-ERR", message[1], reason)


class Liar(SpeaksNeg):
    """Names ids that nobody has, `times` in each session."""

    def __init__(self, times: int, seed: int = 7) -> None:
        super().__init__()
        self.times = times
        self.random = random.Random(seed)

    async def on_neg_open(self, peer: Peer, message: list[Any]) -> None:
        events = peer.relay.query([Filter.from_json(message[2])])
        items = [(event.created_at, bytes.fromhex(event.id)) for event in events]
        items += [(1_600_000_000 + n, self.random.randbytes(32)) for n in range(self.times)]
        engine = Responder(seal(items))
        self.engines[peer, message[1]] = engine
        await self.answer(peer, message[1], engine, bytes.fromhex(message[3]))


class Drips(SpeaksNeg):
    """Invents one id in each round, for ever."""

    def __init__(self) -> None:
        super().__init__()
        self.stamps = itertools.count(1)

    async def answer(self, peer: Peer, sub_id: str, engine: Responder, message: bytes) -> None:
        bound = varint(1) + b"\x00"
        one = bound + b"\x02" + varint(1) + os.urandom(32)
        await self.neg_message(peer, sub_id, V1 + one + fingerprint(os.urandom(16)))


class Chatter(SpeaksNeg):
    """Answers each message a thousand times."""

    async def neg_message(self, peer: Peer, sub_id: str, raw: bytes) -> None:
        for _ in range(1000):
            await super().neg_message(peer, sub_id, raw)


class LateAnswers(SpeaksNeg):
    """Forgets the first session after its first answer, and answers it again amid the second."""

    def __init__(self) -> None:
        super().__init__(frame_limit=4096)
        self.first: tuple[str, bytes] | None = None
        self.closed = False

    async def on_neg_message(self, peer: Peer, message: list[Any]) -> None:
        if not self.closed:
            self.closed = True
            self.first = (message[1], V1 + id_list(1, os.urandom(32)))
            await self.neg_error(peer, message[1], "closed: idle for too long")
            return
        if self.first is not None:
            await self.neg_message(peer, *self.first)
        await super().on_neg_message(peer, message)


class Invents(SpeaksNeg):
    """Names ids beside its own, and counts them; sends no event of them that is not its own.

    `once`: in its first session alone; then it names its own, as if the others had all.
    """

    def __init__(self, made_up: Sequence[Event], *, once: bool = False) -> None:
        super().__init__()
        self.made_up = made_up
        self.once = once

    async def neg_items(self, peer: Peer, filters: list[Filter]) -> list[Event]:
        own = await super().neg_items(peer, filters)
        more = [one for one in self.made_up if any(one.kind in (f.kinds or ()) for f in filters)]
        return own if self.once and len(self.opened) > 1 else [*own, *more]

    async def on_count(self, peer: Peer, message: list[Any]) -> None:
        named = await self.neg_items(peer, [Filter.from_json(one) for one in message[2:]])
        await peer.send("COUNT", message[1], {"count": len(named)})


class Drops(SpeaksNeg):
    """Accepts every event, and keeps none; `replaced`: what it says it has instead."""

    def __init__(self, replaced: Event | None = None) -> None:
        super().__init__()
        self._replaced = replaced

    async def on_event(self, peer: Peer, message: list[Any]) -> None:
        if self._replaced is not None and self._replaced not in peer.relay.events:
            peer.relay.events.append(self._replaced)
        await peer.send("OK", message[1]["id"], True, "")

"""The known faults of relays, each a `Behaviour` for `tests.faulty_relay.FaultyRelay`."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import TYPE_CHECKING, Any

from nostr_client.codecs.filters import Filter
from tests.faulty_relay import Behaviour, Peer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nostr_client.codecs.event import Event

COUNT_REFUSALS: dict[str, list[list[Any]]] = {
    "closed, khatru": [["CLOSED", "{id}", "unsupported: this relay does not support NIP-45"]],
    "closed, strfry disabled": [["CLOSED", "{id}", "ERROR: bad req: COUNT disabled"]],
    "closed, strfry failed": [["CLOSED", "{id}", "ERROR: count-failed: can only count your own"]],
    "closed, strfry auth": [
        ["AUTH", "challenge"],
        ["CLOSED", "{id}", "ERROR: auth-required: requested filter requires authentication"],
    ],
    "closed, nostream": [["CLOSED", "{id}", "COUNT is disabled by relay configuration"]],
    "closed, restricted": [["CLOSED", "{id}", "restricted: not on the list"]],
    "closed, rate": [["CLOSED", "{id}", "rate-limited: slow down"]],
    "closed, two elements": [["CLOSED", "{id}"]],
    "notice, strfry 1.0": [["NOTICE", "ERROR: bad msg: unknown cmd"]],
    "notice, nostr-rs-relay": [["NOTICE", "could not parse command"]],
    "notice, rnostr": [["NOTICE", "Unsupported message"]],
    "notice, LocalRelay": [["NOTICE", "invalid client message"]],
    "notice then zero, khatru": [
        ["NOTICE", "auth-required: cannot count"],
        ["COUNT", "{id}", {"count": 0}],
    ],
    "silence": [],
}
"""Ways to refuse a COUNT: the frames that come instead of an answer, `{id}` the query id."""

COUNT_UNSUPPORTED = (
    "closed, khatru",
    "closed, strfry disabled",
    "closed, nostream",
    "notice, strfry 1.0",
    "notice, nostr-rs-relay",
    "notice, rnostr",
    "notice, LocalRelay",
)
"""Those of COUNT_REFUSALS that mean: this relay knows no COUNT."""

HLL_LIES: dict[str, Any] = {
    "every register 57": "39" * 256,
    "registers above 57": "ff" * 256,
    "too short": "01" * 255,
    "odd": "01" * 256 + "0",
    "not hex": "zz" * 256,
    "not text": 7,
    "upper case": "0A" * 256,
}
"""Values of `hll` that no honest relay sends, or that need tolerance."""

COUNT_LIES: dict[str, Any] = {
    "negative": -1,
    "10^30": 10**30,
    "text": "many",
    "none": None,
    "half": 1.5,
}
"""Values of `count` that are none."""


class RefusesCount(Behaviour):
    """Refuses every COUNT with the given frames; see COUNT_REFUSALS."""

    def __init__(self, frames: Sequence[Sequence[Any]]) -> None:
        self.frames = frames

    async def on_count(self, peer: Peer, message: list[Any]) -> None:
        for frame in self.frames:
            await peer.send(*(message[1] if part == "{id}" else part for part in frame))


class AnswersCount(Behaviour):
    """Answers every COUNT with the same body: hll and lies included."""

    def __init__(self, body: Mapping[str, Any] | int) -> None:
        self.body = body

    async def on_count(self, peer: Peer, message: list[Any]) -> None:
        await peer.send("COUNT", message[1], self.body)


class Silent(Behaviour):
    """Takes everything, answers nothing."""

    async def on_message(self, peer: Peer, message: list[Any]) -> None:
        return


class NoEose(Behaviour):
    """Sends what it has and never EOSE."""

    async def on_req(self, peer: Peer, message: list[Any]) -> None:
        for event in peer.relay.query([Filter.from_json(one) for one in message[2:]]):
            await peer.send_event(message[1], event)


class EarlyEose(Behaviour):
    """EOSE first, the stored events after it."""

    async def on_req(self, peer: Peer, message: list[Any]) -> None:
        await peer.send("EOSE", message[1])
        for event in peer.relay.query([Filter.from_json(one) for one in message[2:]]):
            await peer.send_event(message[1], event)


class WrongEvents(Behaviour):
    """Sends `times` events that were not asked for, from `events`, whatever the filter says."""

    def __init__(self, events: Sequence[Event], times: int) -> None:
        self.frames = [event.to_json() for event in events]
        self.times = times
        self.sent = 0

    async def on_req(self, peer: Peer, message: list[Any]) -> None:
        head = f'["EVENT",{json.dumps(message[1])},'
        for frame in itertools.islice(itertools.cycle(self.frames), self.times):
            if peer.ws.closed or (message[1] not in peer.subscriptions and self.sent):
                return
            peer.subscriptions[message[1]] = []
            await peer.send_text(f"{head}{frame}]")
            self.sent += 1
        await peer.send("EOSE", message[1])


class Flood(Behaviour):
    """On connect, `times` frames that nobody asked for."""

    def __init__(self, frame: str, times: int) -> None:
        self.frame = frame
        self.times = times

    async def on_connect(self, peer: Peer) -> None:
        for _ in range(self.times):
            if peer.ws.closed:
                return
            await peer.send_text(self.frame)

    async def on_message(self, peer: Peer, message: list[Any]) -> None:
        return


class SaysThenCloses(Behaviour):
    """On connect, some frames, and then the end with a close code; None cuts the connection."""

    def __init__(self, *frames: Sequence[Any], code: int | None = 1001) -> None:
        self.frames = frames
        self.code = code

    async def on_connect(self, peer: Peer) -> None:
        for frame in self.frames:
            await peer.send(*frame)
        if self.code is None:
            peer.abort()
        else:
            await peer.close(self.code)


class RawBytes(Behaviour):
    """Answers every REQ with bytes below the WebSocket layer: half UTF-8, broken frames."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    async def on_req(self, peer: Peer, message: list[Any]) -> None:
        peer.raw(self.data)


def text_frame(payload: bytes) -> bytes:
    """A server's WebSocket text frame with any payload up to 65,535 bytes, valid UTF-8 or not."""
    if len(payload) < 126:
        return bytes((0x81, len(payload))) + payload
    return bytes((0x81, 126)) + len(payload).to_bytes(2, "big") + payload


class HugeFrame(Behaviour):
    """Answers every REQ with one frame of `size` bytes."""

    def __init__(self, size: int) -> None:
        self.size = size

    async def on_req(self, peer: Peer, message: list[Any]) -> None:
        await peer.send("EVENT", message[1], {"content": "x" * self.size})


class SlowLoris(Behaviour):
    """Answers a REQ one byte at a time, and never to the end."""

    def __init__(self, pause: float = 0.05) -> None:
        self.pause = pause

    async def on_req(self, peer: Peer, message: list[Any]) -> None:
        for byte in text_frame(b"x" * 60_000):
            if peer.request.transport is None or peer.request.transport.is_closing():
                return
            peer.raw(bytes((byte,)))
            await asyncio.sleep(self.pause)


class WantsAuth(Behaviour):
    """Refuses by `auth-required:` until AUTH; `first` sends the challenge on connect.

    `loop`: refuses for ever, with a new challenge each time. `answers`: whether AUTH gets an OK.
    `accepts`: whether that OK is true.
    """

    def __init__(
        self,
        *,
        first: bool = True,
        loop: bool = False,
        answers: bool = True,
        accepts: bool = True,
        prefix: str = "",
    ) -> None:
        self.first, self.loop, self.answers, self.accepts = first, loop, answers, accepts
        self.prefix = prefix
        self.challenges = (f"challenge-{n}" for n in itertools.count())

    async def on_connect(self, peer: Peer) -> None:
        if self.first:
            await peer.send("AUTH", next(self.challenges))

    async def on_message(self, peer: Peer, message: list[Any]) -> None:
        if message[0] in ("AUTH", "CLOSE") or (peer.authenticated and not self.loop):
            await super().on_message(peer, message)
            return
        reason = f"{self.prefix}auth-required: who are you?"
        if message[0] == "EVENT":
            await peer.send("OK", message[1]["id"], False, reason)
        else:
            await peer.send("CLOSED", message[1], reason)
        if self.loop or not self.first:
            await peer.send("AUTH", next(self.challenges))

    async def on_auth(self, peer: Peer, message: list[Any]) -> None:
        if self.accepts:
            peer.authenticated = message[1]["pubkey"]
        if self.answers:
            await peer.send("OK", message[1]["id"], self.accepts, "" if self.accepts else "no")


class OnlyChallenges(Behaviour):
    """Sends a challenge on connect and needs no AUTH for anything."""

    async def on_connect(self, peer: Peer) -> None:
        await peer.send("AUTH", "c45b2b06ad92e28a")


class FewSubscriptions(Behaviour):
    """Serves `most` subscriptions at once and closes others with `reason`."""

    def __init__(self, most: int, reason: str = "ERROR: too many subscriptions") -> None:
        self.most = most
        self.reason = reason
        self.peak = 0
        self.refused = 0

    async def on_req(self, peer: Peer, message: list[Any]) -> None:
        if len(peer.subscriptions) >= self.most:
            self.refused += 1
            await peer.send("CLOSED", message[1], self.reason)
            return
        self.peak = max(self.peak, len(peer.subscriptions) + 1)
        await super().on_req(peer, message)


class Pages(Behaviour):
    """Sends at most `cap` events of a REQ, in an order, with or without hints (NIP-67).

    `oldest`: the oldest, oldest first, or newest first where `turned`; `shuffled`: any, by id;
    otherwise the newest, newest first.
    It knows no COUNT unless `counts`.
    """

    def __init__(
        self,
        cap: int,
        *,
        oldest: bool = False,
        turned: bool = False,
        shuffled: bool = False,
        hints: bool = False,
        counts: bool = False,
    ) -> None:
        self.cap = cap
        self.oldest = oldest
        self.turned = turned
        self.shuffled = shuffled
        self.hints = hints
        self.counts = counts

    async def on_req(self, peer: Peer, message: list[Any]) -> None:
        asked = Filter.from_json(message[2])
        matching = peer.relay.query([asked.replace(limit=None)])
        if self.oldest:
            matching.reverse()
        if self.shuffled:
            matching.sort(key=lambda event: event.id)
        page = matching[: min(self.cap, asked.limit or self.cap)]
        for event in reversed(page) if self.turned else page:
            await self.send_event(peer, message[1], event)
        hint = "finish" if len(page) == len(matching) else "more"
        await peer.send("EOSE", message[1], *([[hint]] if self.hints else []))

    async def send_event(self, peer: Peer, sub_id: str, event: Event) -> None:
        """Send one event; override it to spoil some."""
        await peer.send_event(sub_id, event)

    async def on_count(self, peer: Peer, message: list[Any]) -> None:
        if self.counts:
            await super().on_count(peer, message)
        else:
            await peer.send("CLOSED", message[1], "unsupported: no COUNT here")


UNREADABLE: dict[str, str] = {
    "lone surrogate": r'{{"id":"{id}","content":"\ud800"}}',
    "nested": '{{"id":"{id}","content":' + "[" * 3_000 + "]" * 3_000 + "}}",
    "too large": '{{"id":"{id}","content":"' + "x" * 600_000 + '"}}',
    "no event": '{{"id":"{id}"}}',
}
"""Events that no client can read, `{id}` the event's id."""


class Unreadable(Pages):
    """Sends one event in a form that cannot be read; see UNREADABLE."""

    def __init__(self, form: str, bad: str, cap: int = 500, **options: bool) -> None:
        super().__init__(cap, **options)
        self.form = form
        self.bad = bad

    async def send_event(self, peer: Peer, sub_id: str, event: Event) -> None:
        if event.id == self.bad:
            text = UNREADABLE[self.form].format(id=event.id)
            await peer.send_text(f'["EVENT",{json.dumps(sub_id)},{text}]')
        else:
            await peer.send_event(sub_id, event)

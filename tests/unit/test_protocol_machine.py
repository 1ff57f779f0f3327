"""The state machine of one connection under any conversation: hostile frames, any order."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from nostr_client import protocol
from nostr_client.codecs.filters import Filter
from nostr_client.errors import NetworkError, RelayRefused
from nostr_client.options import Limits
from nostr_client.protocol import Connection
from tests.unit.strategies import signed

NOTES = Filter(kinds=[1])
VERBS = ["EVENT", "EOSE", "OK", "CLOSED", "NOTICE", "COUNT", "AUTH", "HELLO"]
VERBS += ["NEG-MSG", "NEG-ERR", "NEG-ERROR", "REQ", "x", ""]
EVENTS = [signed(number, kind=1 + number % 2).event for number in range(3)]
IDS = [f"{letter}{number}" for letter in "rcn" for number in range(1, 12)]
REASONS = [
    "", "auth-required: x", "ERROR: auth-required: x", "restricted: no", "unsupported: x",
    "ERROR: too many subscriptions", "rate-limited: x", "unknown command", "negentropy disabled",
]  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
PARTS = st.one_of(
    st.sampled_from(IDS), st.sampled_from([event.id for event in EVENTS]), st.booleans(),
    st.sampled_from(REASONS), st.just({"count": 3}), st.just({"count": -1, "hll": "zz"}),
    st.sampled_from([json.loads(event.to_json()) for event in EVENTS]), JSON,
)  # fmt: skip
WELL_FORMED = st.tuples(st.sampled_from(VERBS), st.lists(PARTS, max_size=4)).map(
    lambda drawn: json.dumps([drawn[0], *drawn[1]])
)
FRAMES = st.one_of(
    WELL_FORMED, WELL_FORMED.map(str.encode), JSON.map(json.dumps), st.text(), st.binary()
)
NOTIFICATIONS = tuple(
    getattr(protocol, name)
    for name in protocol.__all__
    if isinstance(getattr(protocol, name), type)
)


@settings(max_examples=400)
@given(st.lists(FRAMES, max_size=60), st.booleans())
def test_any_frames_give_notifications_and_bounded_memory(
    frames: list[str | bytes], can_auth: bool
) -> None:
    connection = Connection("wss://x", can_auth=can_auth, limits=Limits(junk_frames=5))
    for _ in range(3):
        connection.subscribe([NOTES])
        connection.count([NOTES])
        connection.neg_open(NOTES, b"a")
    connection.publish(EVENTS[0])
    for frame in frames:
        told = connection.receive(frame)
        assert all(isinstance(one, NOTIFICATIONS) for one in told)
    assert connection.tally.frames == len(frames)
    most = 10 * 2 + 3 * 3 + 3  # each request and its resend, slots given again, CLOSEs
    assert len(connection.outgoing()) <= most
    assert len(connection.lost(NetworkError("gone"))) <= 10


class Conversation(RuleBasedStateMachine):
    """Requests of ours and frames of a relay in any order; every request ends exactly once."""

    @initialize(slots=st.integers(1, 4), can_auth=st.booleans())
    def connect(self, slots: int, can_auth: bool) -> None:
        limits = Limits(subscriptions=slots, waiting=6, mismatch_slack=3)
        self.connection = Connection("wss://x", limits=limits, can_auth=can_auth)
        self.slots = slots
        self.pending: set[tuple[str, str]] = set()
        self.ended: Counter[tuple[str, str]] = Counter()
        self.asked: Counter[str] = Counter()
        self.on_wire: set[str] = set()
        self.auths = 0

    def flush(self) -> None:
        for text in self.connection.outgoing():
            message = json.loads(text)
            if message[0] == "REQ":
                assert message[1] not in self.on_wire, "asked for twice at once"
                self.on_wire.add(message[1])
            elif message[0] == "CLOSE":
                self.on_wire.remove(message[1])
            elif message[0] == "COUNT":
                self.asked[message[1]] += 1
            self.auths += message[0] == "AUTH"

    def take(self, told: list[Any]) -> None:
        for one in told:
            if isinstance(one, protocol.SubscriptionEnded):
                self.end("sub", one.sub_id)
            elif isinstance(one, protocol.CountAnswered | protocol.CountFailed):
                self.end("count", one.query_id)
            elif isinstance(one, protocol.PublishAnswered | protocol.PublishFailed):
                self.end("event", one.event_id)
            elif isinstance(one, protocol.EventMatched):
                assert ("sub", one.sub_id) in self.pending
                assert one.event.kind == 1
        self.flush()

    def end(self, kind: str, key: str) -> None:
        assert (kind, key) in self.pending, "ended twice, or never begun"
        self.pending.remove((kind, key))

    @rule(live=st.booleans(), limit=st.none() | st.integers(0, 3))
    def subscribe(self, live: bool, limit: int | None) -> None:
        try:
            self.pending.add(
                ("sub", self.connection.subscribe([NOTES.replace(limit=limit)], live=live))
            )
        except RelayRefused:
            assert self.connection.subscriptions.waiting >= 6
        self.flush()

    @rule(data=st.data())
    def unsubscribe(self, data: st.DataObject) -> None:
        mine = sorted(key for kind, key in self.pending if kind == "sub")
        if mine:
            key = data.draw(st.sampled_from(mine))
            self.connection.unsubscribe(key)
            self.pending.remove(("sub", key))
            self.flush()

    @rule()
    def count(self) -> None:
        self.pending.add(("count", self.connection.count([NOTES])))
        self.flush()

    @rule(event=st.sampled_from(EVENTS))
    def publish(self, event: Any) -> None:
        self.connection.publish(event)
        self.pending.add(("event", event.id))
        self.flush()

    @rule(verb=st.sampled_from(VERBS), reason=st.sampled_from(REASONS), data=st.data())
    def relay_says_about_something_pending(
        self, verb: str, reason: str, data: st.DataObject
    ) -> None:
        keys = sorted(key for _, key in self.pending)
        key = data.draw(st.sampled_from(keys)) if keys else "r1"
        event = json.loads(data.draw(st.sampled_from(EVENTS)).to_json())
        rest: dict[str, list[Any]] = {
            "EVENT": [key, event],
            "EOSE": [key],
            "OK": [key, data.draw(st.booleans()), reason],
            "CLOSED": [key, reason],
            "NOTICE": [reason],
            "COUNT": [key, {"count": 3}],
            "AUTH": ["challenge"],
        }
        closes = verb == "CLOSED" and key in self.on_wire
        if closes:
            self.on_wire.discard(key)
        self.take(self.connection.receive(json.dumps([verb, *rest.get(verb, [])])))

    @rule(frame=FRAMES)
    def relay_says_anything(self, frame: str | bytes) -> None:
        try:
            message = json.loads(frame)
        except (ValueError, UnicodeDecodeError):
            message = None
        if isinstance(message, list) and message[:1] == ["CLOSED"] and len(message) > 1:
            self.on_wire.discard(str(message[1]))
        self.take(self.connection.receive(frame))

    @rule(ok=st.booleans())
    def sign(self, ok: bool) -> None:
        auth = self.connection.auth
        if auth.progress is protocol.Progress.WANTED and auth.challenge:
            event = signed(9, kind=22242).event
            self.connection.authenticate(event)
            self.flush()
            self.take(self.connection.receive(json.dumps(["OK", event.id, ok, "restricted: x"])))

    @rule()
    def lose(self) -> None:
        self.on_wire.clear()
        told = self.connection.lost(NetworkError("gone"))
        live = {(kind, key) for kind, key in self.pending if kind == "sub"}
        self.take(told)
        assert self.pending <= live
        self.pending.clear()

    @invariant()
    def bounds_hold(self) -> None:
        if hasattr(self, "connection"):
            assert self.auths <= 1
            assert self.connection.subscriptions.open <= self.slots
            assert len(self.on_wire) <= self.slots
            assert all(times <= 2 for times in self.asked.values()), "resent more than once"


Conversation.TestCase.settings = settings(max_examples=150, stateful_step_count=40)
TestConversation = Conversation.TestCase

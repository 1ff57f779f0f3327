"""The state machine of one connection: each rule by itself, as plain text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from nostr_client.codecs.filters import Filter
from nostr_client.codecs.messages import Hint
from nostr_client.errors import NetworkError, ProtocolError, RelayRefused, Unsupported
from nostr_client.options import Limits
from nostr_client.protocol import (
    AuthNeeded,
    AuthSettled,
    ChallengeReceived,
    Connection,
    CountAnswered,
    CountFailed,
    EventMatched,
    HelloReceived,
    NegEnded,
    NegReceived,
    NoticeReceived,
    PublishAnswered,
    PublishFailed,
    Stamp,
    StoredEnd,
    SubscriptionEnded,
    SubscriptionTally,
)
from tests.unit.strategies import signed

if TYPE_CHECKING:
    from nostr_client.codecs.event import Event

URL = "wss://relay.example"
NOTES = Filter(kinds=[1])


def sent(connection: Connection) -> list[list[Any]]:
    return [json.loads(text) for text in connection.outgoing()]


def hear(connection: Connection, *parts: Any) -> list[Any]:
    return connection.receive(json.dumps(parts))


def event_frame(sub_id: str, event: Event) -> str:
    return f'["EVENT","{sub_id}",{event.to_json()}]'


@pytest.fixture
def connection() -> Connection:
    return Connection(URL)


@pytest.fixture
def signing() -> Connection:
    return Connection(URL, can_auth=True)


def test_ids_of_all_kinds_are_printable_and_never_meet(connection: Connection) -> None:
    ids = []
    for _ in range(50):
        ids += [connection.subscribe([NOTES]), connection.count([NOTES])]
        ids.append(connection.neg_open(NOTES, b"\x61"))
    assert len(set(ids)) == 150
    assert all(0 < len(one) <= 64 and one.isascii() and one.isalnum() for one in ids)


def test_a_stored_query_is_closed_at_eose(connection: Connection) -> None:
    sub_id = connection.subscribe([NOTES], live=False)
    event = signed().event
    assert sent(connection) == [["REQ", sub_id, {"kinds": [1]}]]
    frame = event_frame(sub_id, event)
    assert connection.receive(frame) == [EventMatched(sub_id, event, len(frame))]
    assert hear(connection, "EOSE", sub_id) == [SubscriptionEnded(sub_id, None)]
    assert sent(connection) == [["CLOSE", sub_id]]
    assert connection.receive(frame) == []
    assert connection.tally.unknown == 1


def test_what_was_sent_for_a_stored_query_is_told_in_its_order() -> None:
    """Whatever it is: events that match and others, and frames that cannot be read."""
    connection, tally = Connection(URL), SubscriptionTally()
    sub_id = connection.subscribe([NOTES.replace(limit=2)], live=False, tally=tally)
    notes = [signed(n).event for n in range(3)]
    stranger = signed(kind=2).event
    connection.receive(event_frame(sub_id, notes[0]))
    connection.receive(event_frame(sub_id, stranger))
    connection.receive(f'["EVENT","{sub_id}",{{"content":"\\ud800"}}]')
    for event in notes[1:]:
        connection.receive(event_frame(sub_id, event))
    hear(connection, "EOSE", sub_id, ["more"])
    stamps = [Stamp(e.created_at, e.id) for e in (notes[0], stranger, notes[1])]
    assert tally.stamps == [*stamps[:2], None, stamps[2]]
    assert (tally.frames, tally.malformed, tally.mismatched, tally.excess) == (5, 1, 1, 1)
    assert tally.hint is Hint.MORE


def test_a_hint_that_cannot_be_read_does_not_hide_eose(connection: Connection) -> None:
    sub_id = connection.subscribe([NOTES], live=False)
    ended = connection.receive(f'["EOSE","{sub_id}",["\\ud800"]]')
    assert ended == [SubscriptionEnded(sub_id, None)]


def test_a_live_query_goes_on_after_eose(connection: Connection) -> None:
    sub_id = connection.subscribe([NOTES])
    assert hear(connection, "EOSE", sub_id) == [StoredEnd(sub_id)]
    assert hear(connection, "EOSE", sub_id) == []
    assert len(connection.receive(event_frame(sub_id, signed().event))) == 1
    connection.unsubscribe(sub_id)
    connection.unsubscribe(sub_id)
    assert [message[0] for message in sent(connection)] == ["REQ", "CLOSE"]


def test_closed_without_a_reason_after_eose_is_a_clean_end(connection: Connection) -> None:
    early, late = connection.subscribe([NOTES]), connection.subscribe([NOTES])
    hear(connection, "EOSE", late)
    assert hear(connection, "CLOSED", late, "") == [SubscriptionEnded(late, None)]
    (ended,) = hear(connection, "CLOSED", early, "")
    assert isinstance(ended.error, RelayRefused)
    assert "CLOSE" not in [message[0] for message in sent(connection)]


def test_an_event_outside_the_filter_is_never_passed_on(connection: Connection) -> None:
    tally = SubscriptionTally()
    sub_id = connection.subscribe([NOTES, Filter(kinds=[3])], tally=tally)
    assert connection.receive(event_frame(sub_id, signed(kind=3).event))
    assert connection.receive(event_frame(sub_id, signed(kind=2).event)) == []
    assert (tally.frames, tally.mismatched) == (2, 1)


@pytest.mark.parametrize(("limit", "allowed"), [(None, 5), (1, 6), (10, 15)])
def test_mismatches_beyond_limit_and_slack_end_in_close(limit: int | None, allowed: int) -> None:
    connection = Connection(URL, limits=Limits(mismatch_slack=5))
    sub_id = connection.subscribe([NOTES.replace(limit=limit)])
    frame = event_frame(sub_id, signed(kind=2).event)
    assert [connection.receive(frame) for _ in range(allowed)] == [[]] * allowed
    (ended,) = connection.receive(frame)
    assert isinstance(ended.error, ProtocolError)
    assert sent(connection)[-1] == ["CLOSE", sub_id]
    assert connection.receive(frame) == []


def test_stored_events_beyond_the_limit_are_dropped_and_then_cut() -> None:
    connection = Connection(URL, limits=Limits(mismatch_slack=5))
    tally = SubscriptionTally()
    sub_id = connection.subscribe([NOTES.replace(limit=2)], tally=tally)
    got = [connection.receive(event_frame(sub_id, signed(n).event)) for n in range(10)]
    assert [len(one) for one in got] == [1, 1, 0, 0, 0, 0, 0, 0, 0, 1]
    assert tally.excess == 8
    after = connection.subscribe([NOTES.replace(limit=1)])
    hear(connection, "EOSE", after)
    new = [connection.receive(event_frame(after, signed(n).event)) for n in range(10)]
    assert all(len(one) == 1 for one in new), "limit is about stored events alone"


def test_count_and_its_end_by_any_frame_with_its_id(connection: Connection) -> None:
    first, second, third = (connection.count([NOTES]) for _ in range(3))
    (answered,) = hear(connection, "COUNT", second, {"count": 7})
    assert isinstance(answered, CountAnswered)
    assert (answered.query_id, answered.answer.count) == (second, 7)
    (closed,) = hear(connection, "CLOSED", first, "restricted: no")
    assert (closed.query_id, closed.error.prefix) == (first, "restricted")
    (broken,) = hear(connection, "COUNT", third, {"count": -1})
    assert isinstance(broken.error, ProtocolError)
    assert hear(connection, "COUNT", second, {"count": 7}) == []


def test_an_answer_after_the_deadline_is_dropped(connection: Connection) -> None:
    query_id = connection.count([NOTES])
    connection.abandon_count(query_id)
    assert hear(connection, "COUNT", query_id, {"count": 7}) == []
    assert connection.tally.unknown == 1


@pytest.mark.parametrize(
    "notice", ["ERROR: bad msg: unknown cmd", "could not parse command", "Unsupported message"]
)
def test_an_unknown_command_ends_counts_where_none_was_ever_answered(notice: str) -> None:
    connection = Connection(URL)
    pending = [connection.count([NOTES]) for _ in range(3)]
    told = hear(connection, "NOTICE", notice)
    assert [one.query_id for one in told if isinstance(one, CountFailed)] == pending
    assert all(isinstance(one.error, Unsupported) for one in told[1:])
    assert connection.count_unsupported


@pytest.mark.parametrize("notice", ["rate-limited: slow down", "hello", "ERROR: bad filter"])
def test_other_notices_end_nothing_and_are_remembered(connection: Connection, notice: str) -> None:
    query_id = connection.count([NOTES])
    assert hear(connection, "NOTICE", notice) == [NoticeReceived(notice)]
    (answered,) = hear(connection, "COUNT", query_id, {"count": 0})
    assert answered.answer.warnings == (f"NOTICE before the answer: {notice}",)


def test_an_unknown_command_ends_nothing_where_a_count_was_answered(
    connection: Connection,
) -> None:
    first, second = connection.count([NOTES]), connection.count([NOTES])
    hear(connection, "COUNT", first, {"count": 7})
    assert len(hear(connection, "NOTICE", "unknown command")) == 1
    assert isinstance(hear(connection, "COUNT", second, {"count": 1})[0], CountAnswered)


def test_publish_ok_refused_and_nameless(connection: Connection) -> None:
    event = signed().event
    connection.publish(event)
    connection.publish(event)
    assert [message[0] for message in sent(connection)] == ["EVENT"]
    assert hear(connection, "OK", "?", True, "") == []
    (answered,) = hear(connection, "OK", "?", False, "invalid: bad")
    assert isinstance(answered, PublishAnswered)
    assert (answered.event_id, answered.ok.accepted) == (event.id, False)
    connection.publish(event)
    connection.publish(signed(1).event)
    assert hear(connection, "OK", "", False, "invalid: bad") == [], "whose it is cannot be told"
    (broken,) = hear(connection, "OK", event.id, "yes")
    assert isinstance(broken, PublishFailed)


def ask_all(connection: Connection) -> tuple[str, str, str]:
    event = signed().event
    connection.publish(event)
    return connection.subscribe([NOTES], live=False), connection.count([NOTES]), event.id


def refuse_all(connection: Connection, sub_id: str, query_id: str, event_id: str) -> list[Any]:
    reason = "auth-required: who are you?"
    told = hear(connection, "CLOSED", sub_id, reason) + hear(connection, "CLOSED", query_id, reason)
    return told + hear(connection, "OK", event_id, False, reason)


@pytest.mark.parametrize("challenge_first", [True, False])
def test_auth_is_asked_for_once_and_each_request_resent_once(
    signing: Connection, challenge_first: bool
) -> None:
    asked = ask_all(signing)
    before = sorted(map(str, sent(signing)))
    if challenge_first:
        assert hear(signing, "AUTH", "c") == [ChallengeReceived("c")]
    assert refuse_all(signing, *asked) == [AuthNeeded()]
    if not challenge_first:
        assert hear(signing, "AUTH", "c") == [ChallengeReceived("c")]
    assert signing.auth.challenge == "c"
    auth = signed(kind=22242).event
    signing.authenticate(auth)
    assert sent(signing) == [["AUTH", json.loads(auth.to_json())]]
    assert hear(signing, "OK", auth.id, True, "") == [AuthSettled(True, "")]
    assert sorted(map(str, sent(signing))) == before
    ended = refuse_all(signing, *asked)
    assert [type(one) for one in ended] == [SubscriptionEnded, CountFailed, PublishAnswered]
    assert sent(signing) == []


def test_a_refused_auth_fails_what_waits_and_is_not_tried_again(signing: Connection) -> None:
    asked = ask_all(signing)
    hear(signing, "AUTH", "c")
    refuse_all(signing, *asked)
    auth = signed(kind=22242).event
    signing.authenticate(auth)
    settled, *failed = hear(signing, "OK", auth.id, False, "restricted: not you")
    assert settled == AuthSettled(False, "restricted: not you")
    assert {type(one) for one in failed} == {SubscriptionEnded, CountFailed, PublishFailed}
    sent(signing)
    (ended,) = hear(signing, "CLOSED", signing.count([NOTES]), "auth-required: again")
    assert isinstance(ended, CountFailed)


def test_nothing_is_signed_unasked_nor_without_a_signer(
    connection: Connection, signing: Connection
) -> None:
    assert hear(signing, "AUTH", "c") == [ChallengeReceived("c")]
    assert hear(signing, "AUTH", "") == []
    assert hear(signing, "AUTH", "x" * 2000) == []
    (failed,) = hear(connection, "CLOSED", connection.count([NOTES]), "auth-required: who?")
    assert failed.error.prefix == "auth-required"


def test_auth_that_cannot_be_made_fails_what_waits(signing: Connection) -> None:
    query_id = signing.count([NOTES])
    hear(signing, "CLOSED", query_id, "ERROR: auth-required: who?")
    settled, failed = signing.auth_failed("no challenge")
    assert settled == AuthSettled(False, "auth-required: no challenge")
    assert failed.query_id == query_id


def test_slots_are_kept_and_given_on() -> None:
    connection = Connection(URL, limits=Limits(subscriptions=2, waiting=3))
    ids = [connection.subscribe([NOTES]) for _ in range(5)]
    assert [message[1] for message in sent(connection)] == ids[:2]
    with pytest.raises(RelayRefused, match="wait"):
        connection.subscribe([NOTES])
    connection.unsubscribe(ids[3])
    connection.unsubscribe(ids[0])
    assert [message[:2] for message in sent(connection)] == [["CLOSE", ids[0]], ["REQ", ids[2]]]
    hear(connection, "CLOSED", ids[1], "error: idle")
    assert [message[1] for message in sent(connection)] == [ids[4]]


def test_too_many_waits_behind_those_that_are_open(connection: Connection) -> None:
    ids = [connection.subscribe([NOTES], live=False) for _ in range(6)]
    sent(connection)
    for sub_id in ids[:3]:
        hear(connection, "EOSE", sub_id)
    sent(connection)
    for sub_id in ids[3:]:
        assert hear(connection, "CLOSED", sub_id, "ERROR: too many subscriptions") == []
    assert connection.subscriptions.most == 3
    assert {message[1] for message in sent(connection)} == set(ids[3:])


def test_too_many_is_final_in_the_end(connection: Connection) -> None:
    sub_id = connection.subscribe([NOTES])
    told = [hear(connection, "CLOSED", sub_id, "error: too many subscriptions") for _ in range(4)]
    assert [len(one) for one in told] == [0, 0, 0, 1]
    assert [message[0] for message in sent(connection)] == ["REQ"] * 4


def test_a_message_longer_than_the_relay_takes_is_refused_here() -> None:
    connection = Connection(URL, limits=Limits(message_bytes_out=1000))
    with pytest.raises(RelayRefused, match="1000"):
        connection.publish(signed(content="x" * 1000).event)
    with pytest.raises(RelayRefused):
        connection.count([Filter(authors=["ab" * 32] * 20)])
    assert sent(connection) == []
    assert connection.lost(NetworkError("gone")) == []


def test_hello_is_a_hint(connection: Connection) -> None:
    assert hear(connection, "HELLO", {"count": True}) == [HelloReceived(True)]
    assert hear(connection, "HELLO", {}) == [HelloReceived(None)]


def test_negentropy_frames_reach_their_session(connection: Connection) -> None:
    neg = connection.neg_open(NOTES, b"\x61")
    connection.neg_send(neg, b"\x61\x00")
    assert sent(connection) == [["NEG-OPEN", neg, {"kinds": [1]}, "61"], ["NEG-MSG", neg, "6100"]]
    (message,) = hear(connection, "NEG-MSG", neg, "61")
    assert isinstance(message, NegReceived)
    assert hear(connection, "NEG-MSG", "n99", "61") == []
    told = hear(connection, "NOTICE", "ERROR: bad msg: negentropy disabled")
    assert [type(one) for one in told] == [NoticeReceived, NegReceived]
    (error,) = hear(connection, "NEG-ERROR", neg, "closed: gone")
    assert error.message.reason == "closed: gone"
    connection.neg_close(neg)
    assert sent(connection) == [], "it is closed there already"
    (broken,) = hear(connection, "NEG-MSG", connection.neg_open(NOTES, b"\x61"), "zz")
    assert isinstance(broken, NegEnded)


def test_a_lost_connection_ends_everything_but_live_subscriptions(connection: Connection) -> None:
    live = connection.subscribe([NOTES])
    stored, query_id, event_id = ask_all(connection)
    neg = connection.neg_open(NOTES, b"\x61")
    error = NetworkError("gone")
    assert connection.lost(error) == [
        CountFailed(query_id, error),
        PublishFailed(event_id, error),
        NegEnded(neg, error),
        SubscriptionEnded(stored, error),
    ]
    assert live not in str(connection.lost(error))
    assert connection.outgoing() == []


def test_junk_in_a_row_is_abuse_and_late_events_are_much_less(connection: Connection) -> None:
    limit = connection.limits.junk_frames
    told = [connection.receive("{}") for _ in range(limit)]
    assert [len(one) for one in told] == [0] * (limit - 1) + [1]
    late = event_frame("r7", signed().event)
    connection = Connection(URL)
    assert not any(connection.receive(late) for _ in range(50 * limit))
    hear(connection, "COUNT", connection.count([NOTES]), {"count": 1})
    assert not any(connection.receive(late) for _ in range(99 * limit))
    assert any(connection.receive(late) for _ in range(limit))

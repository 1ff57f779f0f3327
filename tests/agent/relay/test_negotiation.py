"""The NIP-77 responder's sessions: caps, idle times, wrong turns and both forms of reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from agent.relay.options import RelayLimits, RelayOptions
from agent.relay.outputs import NegOpenJob, NegStepJob
from nostr_client.codecs.messages import parse_relay_message
from nostr_client.codecs.messages.relay import NegErr
from nostr_client.negentropy.reconcile import Responder
from nostr_client.negentropy.storage import PlainStorage
from tests.agent.relay.kit import FakeClock, jobs, make_session, say, texts

if TYPE_CHECKING:
    from agent.relay.session import ServerSession

EVENT_ID = "ab" * 32


def open_neg(session: ServerSession, sub_id: str = "n", wanted: Any = None) -> NegOpenJob:
    (job,) = jobs(say(session, "NEG-OPEN", sub_id, wanted or {}, "61"), NegOpenJob)
    return job


def opened(session: ServerSession, sub_id: str = "n", items: int = 1) -> NegOpenJob:
    job = open_neg(session, sub_id)
    assert session.negotiation.reserve(job, items) == ""
    engine = Responder(PlainStorage([]))
    assert texts(session.negotiation.opened(job, engine, b"\x61")) == [["NEG-MSG", sub_id, "61"]]
    return job


def error(outputs: Any) -> NegErr:
    (frame,) = (output for output in outputs if isinstance(output, str))
    message = parse_relay_message(frame)
    assert isinstance(message, NegErr)
    return message


@pytest.mark.parametrize(("form", "word"), [("current", "blocked:"), ("seed", "RESULTS_TOO_BIG")])
def test_too_big_tells_the_maximum(form: Any, word: str) -> None:
    options = RelayOptions(neg_reasons=form, limits=RelayLimits(neg_items=10))
    session = make_session(options)
    job = open_neg(session)
    reason = session.negotiation.reserve(job, 11)
    answer = error(session.failed(job, reason))
    assert answer.reason.startswith(word)
    assert (answer.overflow, answer.max_records) == (True, 10)
    assert len(session.negotiation) == 0


def test_snapshots_of_all_sessions_share_one_budget() -> None:
    session = make_session(RelayOptions(limits=RelayLimits(neg_items=10, neg_items_total=15)))
    opened(session, "a", 10)
    job = open_neg(session, "b")
    assert session.negotiation.reserve(job, 6).startswith("rate-limited:")
    assert session.negotiation.reserve(job, 5) == ""
    assert session.negotiation.reserve(job, 5) == ""
    say(session, "NEG-CLOSE", "a")
    say(session, "NEG-CLOSE", "b")
    opened(session, "c", 10)
    session.close()
    assert session.negotiation._context.neg_budget.items == 0


def test_too_many_sessions_of_a_connection() -> None:
    session = make_session(RelayOptions(limits=RelayLimits(neg_sessions=1)))
    open_neg(session, "a")
    assert error(say(session, "NEG-OPEN", "b", {}, "61")).prefix == "rate-limited"
    assert open_neg(session, "a")
    say(session, "NEG-CLOSE", "a")
    assert open_neg(session, "b")


def test_opening_again_closes_the_first_and_drops_its_answer() -> None:
    session = make_session()
    first = open_neg(session)
    session.negotiation.reserve(first, 5)
    second = open_neg(session)
    assert session.negotiation.opened(first, Responder(PlainStorage([])), b"\x61") == []
    assert session.failed(first, "error: late") == []
    assert session.negotiation.reserve(first, 1).startswith("closed:")
    assert session.negotiation.reserve(second, 5) == ""
    assert session.negotiation._context.neg_budget.items == 5


def test_messages_alternate() -> None:
    session = make_session()
    opened(session)
    (step,) = jobs(say(session, "NEG-MSG", "n", "61"), NegStepJob)
    assert error(say(session, "NEG-MSG", "n", "61")).prefix == "invalid"
    assert session.negotiation.stepped(step, b"\x61") == []
    assert error(say(session, "NEG-MSG", "n", "61")).prefix == "closed"


def test_a_message_before_the_first_answer_ends_the_session() -> None:
    session = make_session()
    open_neg(session)
    assert error(say(session, "NEG-MSG", "n", "61")).prefix == "invalid"


@pytest.mark.parametrize(
    ("form", "word"), [("current", "closed: idle for too long"), ("seed", "CLOSED")]
)
def test_idle_sessions_are_closed(form: Any, word: str) -> None:
    clock = FakeClock()
    session = make_session(RelayOptions(neg_reasons=form), clock)
    opened(session, "a")
    clock.monotonic_now += 50
    opened(session, "b")
    assert session.negotiation.tick() == []
    clock.monotonic_now += 20
    answer = error(session.negotiation.tick())
    assert (answer.sub_id, answer.reason) == ("a", word)
    assert len(session.negotiation) == 1


def test_wall_clock_jumps_end_nothing() -> None:
    clock = FakeClock()
    session = make_session(clock=clock)
    opened(session)
    clock.wall_now += 10_000_000
    assert session.negotiation.tick() == []


@pytest.mark.parametrize(("form", "word"), [("current", "closed:"), ("seed", "CLOSED")])
def test_an_unknown_session(form: Any, word: str) -> None:
    session = make_session(RelayOptions(neg_reasons=form))
    assert error(say(session, "NEG-MSG", "x", "61")).reason.startswith(word)
    assert say(session, "NEG-CLOSE", "x") == []


def test_close_does_not_end_a_session_and_neg_close_does() -> None:
    session = make_session()
    opened(session)
    say(session, "CLOSE", "n")
    assert len(session.negotiation) == 1
    say(session, "NEG-CLOSE", "n")
    assert len(session.negotiation) == 0


def test_turned_off() -> None:
    session = make_session(RelayOptions(negentropy=False))
    assert error(say(session, "NEG-OPEN", "n", {}, "61")).prefix == "unsupported"


def test_private_kinds_need_auth() -> None:
    challenge, refusal = texts(say(make_session(), "NEG-OPEN", "n", {"kinds": [1059]}, "61"))
    assert challenge[0] == "AUTH"
    assert refusal[2].startswith("auth-required:")


def test_a_filter_by_event_id_that_needs_auth_gets_the_challenge() -> None:
    session = make_session()
    job = open_neg(session, wanted=EVENT_ID)
    challenge, refusal = texts(session.failed(job, "auth-required: private"))
    assert challenge[0] == "AUTH"
    assert refusal == ["NEG-ERR", "n", "auth-required: private"]


def test_an_event_id_in_place_of_a_filter() -> None:
    assert open_neg(make_session(), wanted=EVENT_ID).wanted == EVENT_ID

"""The session's rules, without sockets or store: frames in, frames and jobs out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from agent.relay.limits import CountFigures
from agent.relay.options import RelayLimits, RelayOptions
from agent.relay.outputs import CountJob, FetchJob, Listen, SaveJob, Settle, Unlisten
from agent.relay.policy import all_of, everything, only_keys, only_wanted
from nostr_client.codecs.filters import Filter
from nostr_client.hll import EMPTY
from nostr_client.store.base import SaveOutcome, SaveStatus
from tests.agent.relay.kit import (
    CHALLENGE,
    FakeClock,
    as_json,
    auth_event,
    jobs,
    key,
    make_session,
    numbered,
    say,
    signed,
    texts,
)

if TYPE_CHECKING:
    from agent.relay.session import ServerSession

TARGET = "ab" * 32


def subscribe(session: ServerSession, sub_id: str = "s", *filters: Any) -> FetchJob:
    (job,) = jobs(say(session, "REQ", sub_id, *(filters or ({},))), FetchJob)
    return job


def ready(session: ServerSession, sub_id: str = "s", *filters: Any) -> FetchJob:
    """A subscription after its EOSE, with no commit under way."""
    job = subscribe(session, sub_id, *filters)
    for settle in jobs(session.end_stored(job), Settle):
        settle.subscription.settle()
    return job


def login(session: ServerSession, seed: int = 1) -> None:
    assert texts(say(session, "AUTH", auth_event(seed)))[0][2] is True


# EVENT


def test_event_is_saved_and_answered_after_the_commit() -> None:
    session, event = make_session(), signed()
    (job,) = say(session, "EVENT", event)
    assert job.event == event
    answer = session.saved(event, SaveOutcome(event.id, SaveStatus.STORED))
    assert texts(answer) == [["OK", event.id, True, ""]]


@pytest.mark.parametrize(
    ("status", "accepted", "prefix"),
    [
        (SaveStatus.DUPLICATE, True, "duplicate:"),
        (SaveStatus.SUPERSEDED, True, "duplicate:"),
        (SaveStatus.EPHEMERAL, True, ""),
        (SaveStatus.DELETED, False, "blocked:"),
        (SaveStatus.VANISHED, False, "blocked:"),
        (SaveStatus.EXPIRED, False, "invalid:"),
        (SaveStatus.INVALID, False, "invalid:"),
    ],
)
def test_outcomes_become_ok_with_a_prefix(status: SaveStatus, accepted: bool, prefix: str) -> None:
    session, event = make_session(), signed()
    ((_, _, ok, reason),) = texts(session.saved(event, SaveOutcome(event.id, status)))
    assert ok is accepted
    assert reason.startswith(prefix)


def test_every_status_of_the_store_has_an_answer() -> None:
    session, event = make_session(), signed()
    for status in SaveStatus:
        assert texts(session.saved(event, SaveOutcome(event.id, status)))[0][0] == "OK"


def test_events_above_the_rate_are_refused_and_later_taken() -> None:
    clock = FakeClock()
    options = RelayOptions(limits=RelayLimits(events_per_s=2, burst_s=1))
    session = make_session(options, clock)
    first, second, third = numbered(3)
    assert jobs(say(session, "EVENT", first), SaveJob)
    assert jobs(say(session, "EVENT", second), SaveJob)
    assert texts(say(session, "EVENT", third))[0][3].startswith("rate-limited:")
    clock.monotonic_now += 0.6
    assert jobs(say(session, "EVENT", third), SaveJob)


def test_read_only_peers_may_not_write() -> None:
    session = make_session(read_only_reason="restricted: no")
    event = signed()
    assert texts(say(session, "EVENT", event)) == [["OK", event.id, False, "restricted: no"]]


def test_auth_events_are_never_stored() -> None:
    answer = texts(say(make_session(), "EVENT", auth_event()))
    assert answer[0][3].startswith("invalid:")


def test_protected_events_are_taken_from_their_author_only() -> None:
    session = make_session()
    event = signed(1, tags=[["-"]])
    challenge, refusal = texts(say(session, "EVENT", event))
    assert challenge == ["AUTH", CHALLENGE]
    assert refusal[3].startswith("auth-required:")
    login(session, 2)
    assert texts(say(session, "EVENT", event))[0][3].startswith("restricted:")
    login(session, 1)
    assert jobs(say(session, "EVENT", event), SaveJob)


# write policies


def policy_takes(policy: Any, event: Any, logged_in: int | None = None) -> bool:
    session = make_session(RelayOptions(write_policy=policy))
    if logged_in:
        login(session, logged_in)
    return bool(jobs(say(session, "EVENT", event), SaveJob))


def test_only_keys() -> None:
    mine = only_keys([key(1).pubkey])
    assert policy_takes(mine, signed(1))
    assert not policy_takes(mine, signed(2))
    assert policy_takes(mine, signed(2), logged_in=1)
    assert policy_takes(mine, signed(2, 1059, [["p", key(1).pubkey]]))
    assert not policy_takes(mine, signed(2, 1059, [["p", key(3).pubkey]]))


def test_only_keys_asks_strangers_for_auth() -> None:
    session = make_session(RelayOptions(write_policy=only_keys([key(1).pubkey])))
    challenge, refusal = texts(say(session, "EVENT", signed(2)))
    assert challenge == ["AUTH", CHALLENGE]
    assert refusal[3].startswith("auth-required:")
    login(session, 2)
    assert texts(say(session, "EVENT", signed(2)))[0][3].startswith("restricted:")
    login(session, 1)
    assert jobs(say(session, "EVENT", signed(2)), SaveJob)


def test_only_wanted_asks_anew_for_each_event() -> None:
    filters: list[Filter] = []
    policy = only_wanted(lambda: filters)
    assert not policy_takes(policy, signed(kind=7))
    filters.append(Filter(kinds=[7]))
    assert policy_takes(policy, signed(kind=7))


def test_all_of_gives_the_first_reason() -> None:
    policy = all_of(everything, lambda event, context: "blocked: first", lambda e, c: "second")
    session = make_session(RelayOptions(write_policy=policy))
    assert texts(say(session, "EVENT", signed()))[0][3] == "blocked: first"


# REQ


def test_stored_then_eose_then_live() -> None:
    session = make_session()
    watch, job = say(session, "REQ", "s", {"kinds": [1]})
    assert isinstance(watch, Listen)
    old, new = numbered(2)
    assert texts(session.stored(job, [as_json(old)]))[0][:2] == ["EVENT", "s"]
    assert texts(session.end_stored(job)) == [["EOSE", "s"]]
    live = session.live(watch.subscription, new, new.to_json())
    assert live == f'["EVENT","s",{new.to_json()}]'


def test_live_events_wait_for_eose_and_come_once() -> None:
    session = make_session()
    job = subscribe(session)
    both, late = numbered(2)
    for event in (both, late):
        assert session.live(job.subscription, event, event.to_json()) is None
    session.stored(job, [as_json(both)])
    out = session.end_stored(job)
    assert [t[0] for t in texts(out)] == ["EOSE", "EVENT"]
    assert texts(out)[1][2]["id"] == late.id


def test_an_event_of_a_commit_under_way_is_not_sent_twice() -> None:
    session = make_session()
    job = subscribe(session)
    event = signed()
    session.stored(job, [as_json(event)])
    (settle,) = jobs(session.end_stored(job), Settle)
    assert session.live(job.subscription, event, event.to_json()) is None
    settle.subscription.settle()
    assert session.live(job.subscription, event, event.to_json()) is not None


@pytest.mark.parametrize("limits", [RelayLimits(live_backlog=1), RelayLimits(send_bytes=500)])
def test_a_flood_before_eose_ends_the_subscription(limits: RelayLimits) -> None:
    session = make_session(RelayOptions(limits=limits))
    job = subscribe(session)
    for event in numbered(2):
        session.live(job.subscription, event, event.to_json())
    out = session.end_stored(job)
    assert texts(out)[0][:2] == ["CLOSED", "s"]
    assert jobs(out, Unlisten)


def test_close_and_replace_drop_late_results() -> None:
    session = make_session()
    first = subscribe(session, "s", {"kinds": [1]})
    out = say(session, "REQ", "s", {"kinds": [2]})
    assert jobs(out, Unlisten)[0].subscription is first.subscription
    assert session.stored(first, [signed()]) == []
    assert session.end_stored(first) == []
    assert session.failed(first, "error: x") == []
    assert jobs(say(session, "CLOSE", "s"), Unlisten)
    assert say(session, "CLOSE", "s") == []


def test_limits_are_filled_in_and_cut() -> None:
    limits = RelayLimits(default_limit=10, max_limit=20)
    session = make_session(RelayOptions(limits=limits))
    asked = [{}, {"limit": 5}, {"limit": 50}, {"ids": [TARGET]}, {"limit": 0}]
    job = subscribe(session, "s", *asked)
    assert [f.limit for f in job.filters] == [10, 5, 20, 20, 0]


@pytest.mark.parametrize(
    "filters",
    [[{}] * 3, [{"kinds": list(range(11))}], [{"authors": [TARGET] * 6, "#t": ["x"] * 5}]],
)
@pytest.mark.parametrize("command", ["REQ", "COUNT"])
def test_too_much_in_a_request_is_closed(command: str, filters: list[Any]) -> None:
    session = make_session(RelayOptions(limits=RelayLimits(filters=2, filter_values=10)))
    (closed,) = texts(say(session, command, "q", *filters))
    assert closed[:2] == ["CLOSED", "q"]
    assert closed[2].startswith("invalid:")


def test_too_many_subscriptions() -> None:
    session = make_session(RelayOptions(limits=RelayLimits(subscriptions=2)))
    subscribe(session, "a")
    subscribe(session, "b")
    (closed,) = texts(say(session, "REQ", "c", {}))
    assert closed[2].startswith("rate-limited: too many subscriptions")
    assert subscribe(session, "a")
    say(session, "CLOSE", "b")
    assert subscribe(session, "c")


def test_search_needs_an_index() -> None:
    (closed,) = texts(say(make_session(), "REQ", "s", {"search": "x"}))
    assert closed[2].startswith("unsupported:")
    assert subscribe(make_session(search=True), "s", {"search": "x"})


def test_closing_the_session_lets_every_subscription_go() -> None:
    session = make_session()
    subscribe(session, "a")
    subscribe(session, "b")
    assert len(jobs(session.close(), Unlisten)) == 2
    assert list(session.subscriptions) == []


# COUNT


def count(session: ServerSession, *filters: Any) -> CountJob:
    (job,) = jobs(say(session, "COUNT", "q", *filters), CountJob)
    return job


def test_count_ignores_limit_and_says_that_it_is_exact() -> None:
    session = make_session()
    job = count(session, {"kinds": [1], "limit": 3})
    assert job.filters == (Filter(kinds=[1]),)
    answer = texts(session.counted(job, CountFigures(7)))
    assert answer == [["COUNT", "q", {"count": 7, "approximate": False}]]


def test_count_with_registers() -> None:
    session = make_session()
    job = count(session, {"#e": [TARGET], "kinds": [7]})
    assert job.offset == 8 + 0xA
    body = texts(session.counted(job, CountFigures(0, EMPTY)))[0][2]
    assert body["hll"] == "00" * 256


@pytest.mark.parametrize(
    ("filters", "eligible"),
    [
        ([{"#e": [TARGET]}], True),
        ([{"#e": [TARGET], "kinds": [1, 2, 7], "limit": 1}], True),
        ([{"#t": ["nostr"], "kinds": [1]}], True),
        ([{"#e": [TARGET, TARGET[::-1]], "kinds": [7]}], False),
        ([{"#e": [TARGET], "#p": [TARGET]}], False),
        ([{"#e": [TARGET], "since": 1}], False),
        ([{"#e": [TARGET], "until": 1}], False),
        ([{"#e": [TARGET], "authors": [TARGET]}], False),
        ([{"#e": [TARGET], "ids": [TARGET]}], False),
        ([{"kinds": [7]}], False),
        ([{"#e": [TARGET], "kinds": [7]}, {"#p": [TARGET], "kinds": [3]}], True),
        ([{"#e": [TARGET]}, {"#e": ["12" * 32]}], False),
        ([{"#e": [TARGET]}, {"kinds": [1]}], False),
    ],
)
def test_which_counts_get_registers(filters: list[Any], eligible: bool) -> None:
    assert (count(make_session(), *filters).offset is not None) == eligible


def test_registers_and_counting_can_be_turned_off() -> None:
    assert count(make_session(RelayOptions(hll=False)), {"#e": [TARGET]}).offset is None
    (closed,) = texts(say(make_session(RelayOptions(count=False)), "COUNT", "q", {}))
    assert closed[:2] == ["CLOSED", "q"]
    assert closed[2].startswith("unsupported:")


def test_a_count_does_not_touch_a_subscription_of_its_id() -> None:
    session = make_session()
    job = ready(session, "x")
    count(session, {"kinds": [1]})
    say(session, "COUNT", "x", {})
    assert session.is_open(job.subscription)


def test_a_failed_job_is_told() -> None:
    session, event = make_session(), signed()
    job = count(session, {})
    assert texts(session.failed(job, "error: disk")) == [["CLOSED", "q", "error: disk"]]
    fetch = subscribe(session)
    assert texts(session.failed(fetch, "error: disk")) == [["CLOSED", "s", "error: disk"]]
    (save,) = say(session, "EVENT", event)
    assert texts(session.failed(save, "error: disk")) == [["OK", event.id, False, "error: disk"]]


# AUTH and private kinds


@pytest.mark.parametrize(
    "bad",
    [
        auth_event(challenge="other"),
        auth_event(relay="wss://elsewhere.example"),
        auth_event(relay="not a url"),
        auth_event(created_at=1_800_000_000 - 601),
        auth_event(created_at=1_800_000_000 + 601),
        signed(1, 1, [["challenge", CHALLENGE], ["relay", "ws://127.0.0.1:4869"]]),
        signed(1, 22242),
    ],
)
def test_auth_that_proves_nothing(bad: Any) -> None:
    session = make_session()
    assert texts(say(session, "AUTH", bad))[0][2] is False
    assert session.viewer.keys == frozenset()


def test_auth_with_a_broken_signature() -> None:
    session, good = make_session(), auth_event()
    sig = "0" * 128
    (answer,) = texts(say(session, "AUTH", {**good_dict(good), "sig": sig}))
    assert answer[:3] == ["OK", good.id, False]


def good_dict(event: Any) -> dict[str, Any]:
    return {name: getattr(event, name) for name in event.__struct_fields__}


def test_several_keys_and_relay_urls_in_any_spelling() -> None:
    session = make_session()
    login(session, 1)
    assert texts(say(session, "AUTH", auth_event(2, relay="WS://127.0.0.1:4869/")))[0][2] is True
    assert session.viewer.keys == {key(1).pubkey, key(2).pubkey}


@pytest.mark.parametrize("command", ["REQ", "COUNT"])
def test_private_kinds_need_auth_and_the_challenge_comes_once(command: str) -> None:
    session = make_session()
    challenge, closed = texts(say(session, command, "q", {"kinds": [1059], "#p": [TARGET]}))
    assert challenge == ["AUTH", CHALLENGE]
    assert closed[2].startswith("auth-required:")
    (closed,) = texts(say(session, command, "q", {"kinds": [4, 1]}))
    assert closed[2].startswith("auth-required:")
    login(session)
    (closed,) = texts(say(session, command, "q", {"kinds": [1059], "#p": [TARGET]}))
    assert closed[2].startswith("restricted:")
    assert say(session, command, "q", {"kinds": [1059], "#p": [key(1).pubkey]})
    assert say(session, command, "q", {"kinds": [4]})


def test_live_private_events_go_to_their_parties() -> None:
    stranger, party, author = (make_session() for _ in range(3))
    login(stranger, 3)
    login(party, 2)
    login(author, 1)
    event = signed(1, 4, [["p", key(2).pubkey]])
    got = [
        s.live(ready(s).subscription, event, event.to_json()) is not None
        for s in (stranger, party, author, make_session())
    ]
    assert got == [False, True, True, False]


def test_the_challenge_comes_at_once_when_configured() -> None:
    assert texts(make_session(RelayOptions(auth_on_connect=True)).open()) == [["AUTH", CHALLENGE]]


# HELLO and frames that are none


def test_hello_is_off_by_default() -> None:
    assert make_session().open() == []
    assert texts(make_session(RelayOptions(hello=True)).open()) == [["HELLO", {"count": True}]]


@pytest.mark.parametrize(
    ("frame", "head"),
    [
        ("", ["NOTICE"]),
        ("[]", ["NOTICE"]),
        ('["REQ"]', ["NOTICE"]),
        ('["REQ","s"]', ["CLOSED", "s"]),
        ('["REQ","",{}]', ["NOTICE"]),
        ('["REQ","s",{"kinds":"x"}]', ["CLOSED", "s"]),
        ('["COUNT","q",{"ids":["x"]}]', ["CLOSED", "q"]),
        ('["COUNT","q"]', ["CLOSED", "q"]),
        ('["NEG-OPEN","n",{"kinds":"x"},"61"]', ["NEG-ERR", "n"]),
        ('["NEG-MSG","n","zz"]', ["NEG-ERR", "n"]),
        (f'["EVENT",{{"id":"{TARGET}"}}]', ["OK", TARGET, False]),
        ('["EVENT",{"id":"short"}]', ["NOTICE"]),
        ('["FROBNICATE"]', ["NOTICE"]),
        ("[" * 100_000, ["NOTICE"]),
        (b"\x00\xff", ["NOTICE"]),
    ],
)  # fmt: skip
def test_frames_that_are_none(frame: str | bytes, head: list[Any]) -> None:
    (answer,) = texts(make_session().receive(frame))
    assert answer[: len(head)] == head
    assert "invalid:" in str(answer[-1])

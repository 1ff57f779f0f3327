"""Counting over relays with every fault that relays have: the number, and each relay's status."""

from __future__ import annotations

import asyncio
import socket
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from nostr_client import count
from nostr_client.client import NostrClient
from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import KeySigner
from nostr_client.count.merge import Claim, CountUnit, Figure, TrustPolicy
from nostr_client.errors import InvalidInput
from nostr_client.network.relay_state import Capabilities
from nostr_client.options import Options, ReadBudget, Timeouts
from tests.faults import (
    COUNT_LIES,
    COUNT_REFUSALS,
    COUNT_UNSUPPORTED,
    HLL_LIES,
    AnswersCount,
    EarlyEose,
    NoEose,
    RefusesCount,
    SaysThenCloses,
    Silent,
    WantsAuth,
)
from tests.faulty_relay import Behaviour, FaultyRelay, Peer
from tests.worlds import NOTE, START, TARGET, Sketches, follow, reaction, samples, signer, union

if TYPE_CHECKING:
    from nostr_client.count.result import CountResult

FOLLOWERS = count.followers(TARGET)
REACTIONS = count.reactions(NOTE)


async def counted(
    *relays: FaultyRelay, query: Any = FOLLOWERS, within: float = 10.0, **options: Any
) -> CountResult:
    """Start the relays, count over them, stop them."""
    async with AsyncExitStack() as stack:
        for relay in relays:
            await stack.enter_async_context(relay)
        client = await stack.enter_async_context(NostrClient(timeout=within, **options))
        return await client.count(query, relays=[relay.url for relay in relays])


def relay_of(people: list[int] | range, behaviour: Behaviour | None = None) -> FaultyRelay:
    return FaultyRelay(behaviour, events=[follow(i) for i in people])


async def claim_of(relay: FaultyRelay, **options: Any) -> Claim:
    (claim,) = (await counted(relay, **options)).relays
    return claim


async def test_registers_are_asked_for_and_events_are_not_read() -> None:
    relay = relay_of(range(300), Sketches())
    result = await counted(relay)
    (claim,) = result.relays
    assert (claim.status, claim.method, claim.count) == ("ok", "hll", 300)
    assert claim.events_read == 0
    assert "REQ" not in relay.verbs()
    assert result.value == 300
    assert result.unit is CountUnit.AUTHORS
    assert claim.relay == relay.url
    assert claim.latency_ms is not None
    assert claim.answered_at is not None
    assert claim.asked_at is not None
    assert claim.asked_at <= claim.answered_at


async def test_a_relay_without_registers_is_read_by_events() -> None:
    relay = relay_of(range(700))
    result = await counted(relay)
    (claim,) = result.relays
    assert (claim.status, claim.method, claim.count) == ("ok", "events", 700)
    assert claim.events_read >= 700
    assert claim.bytes_read > 700 * 200
    assert claim.registers is not None
    assert claim.last_read is not None
    assert claim.warnings == ()
    assert result.exact
    assert result.value == 700


async def test_relays_with_and_without_registers_are_merged() -> None:
    parts = samples(2000, 4, 0.5, seed=3)
    result = await counted(
        relay_of(parts[0], Sketches()),
        relay_of(parts[1]),
        relay_of(parts[2], Sketches()),
        relay_of(parts[3], Silent()),
        within=4,
    )
    truth = union(parts[:3])
    assert result.low is not None
    assert result.high is not None
    room = (result.high - result.low) / 2  # the interval misses 5 times in 100, by little
    assert result.low - room <= truth <= result.high + room
    assert not result.exact
    assert [c.status for c in result.relays] == ["ok", "ok", "ok", "timeout"]
    assert [c.method for c in result.relays] == ["hll", "events", "hll", None]


async def test_people_and_reactions_are_told_apart() -> None:
    events = [reaction(i, n) for i in range(50) for n in range(1 + i % 3)]
    result = await counted(FaultyRelay(events=events), query=REACTIONS)
    assert result.authors is not None
    assert result.events is not None
    assert (result.authors.value, result.events.value) == (50, len(events))
    assert result.exact
    assert result.unit is CountUnit.AUTHORS


async def test_no_read_leaves_the_count() -> None:
    result = await counted(relay_of(range(20)), relay_of(range(30)), read=False)
    assert [c.method for c in result.relays] == ["count", "count"]
    assert result.value == 30
    assert result.lower_bound
    assert result.unit is CountUnit.AUTHORS
    assert all(c.events_read == 0 for c in result.relays)


@pytest.mark.parametrize(
    "budget", [ReadBudget(events=100), ReadBudget(bytes=30_000)], ids=["events", "bytes"]
)
async def test_a_budget_makes_a_lower_bound_and_says_so(budget: ReadBudget) -> None:
    refusing = RefusesCount(COUNT_REFUSALS["notice, rnostr"])
    result = await counted(relay_of(range(700), refusing), budget=budget)
    (claim,) = result.relays
    assert result.lower_bound
    assert not result.exact
    assert result.value is not None
    assert 60 <= result.value < 700
    assert claim.limited
    assert any("budget" in warning for warning in claim.warnings)
    assert claim.last_read is None


async def test_a_budget_of_bytes_is_passed_by_two_events_at_most() -> None:
    others = [("p", f"{n:064x}") for n in range(300)]
    lists = [
        signer(i).sign_now(
            EventTemplate(kind=3, tags=(("p", TARGET), *others), created_at=START + i)
        )
        for i in range(80)
    ]
    size = max(len(one.event.to_json()) for one in lists) + 100
    relay = FaultyRelay(
        RefusesCount(COUNT_REFUSALS["notice, rnostr"]), events=[one.event for one in lists]
    )
    result = await counted(relay, budget=ReadBudget(bytes=100_000))
    (claim,) = result.relays
    assert 100_000 <= claim.bytes_read <= 100_000 + 2 * size
    assert result.lower_bound
    assert result.value is not None
    assert 100_000 // size <= result.value <= 100_000 // size + 2


async def test_a_budget_beside_a_count_keeps_the_count() -> None:
    result = await counted(relay_of(range(700)), budget=ReadBudget(events=100))
    assert result.value == 700
    assert result.lower_bound


@pytest.mark.parametrize("name", COUNT_REFUSALS)
async def test_every_way_to_refuse_a_count_leads_to_reading(name: str) -> None:
    relay = relay_of(range(30), RefusesCount(COUNT_REFUSALS[name]))
    result = await counted(relay, within=3)
    (claim,) = result.relays
    assert (claim.status, claim.method, claim.count) == ("ok", "events", 30)
    assert result.exact
    assert result.value == 30


EXPECTED = dict.fromkeys(COUNT_REFUSALS, "refused") | dict.fromkeys(
    COUNT_UNSUPPORTED, "unsupported"
)
EXPECTED |= {
    "closed, strfry disabled": "unsupported",
    "closed, nostream": "unsupported",
    "closed, strfry auth": "auth_required",
    "notice then zero, khatru": "auth_required",
    "silence": "timeout",
}


@pytest.mark.parametrize("name", COUNT_REFUSALS)
async def test_refusals_without_reading_have_their_status(name: str) -> None:
    relay = relay_of(range(30), RefusesCount(COUNT_REFUSALS[name]))
    result = await counted(relay, within=1, read=False)
    (claim,) = result.relays
    assert claim.status == EXPECTED[name]
    if claim.status != "ok":
        assert claim.count is None
        assert result.value is None


async def test_a_refusal_beside_an_empty_read_is_no_zero() -> None:
    relay = relay_of([], RefusesCount(COUNT_REFUSALS["closed, restricted"]))
    result = await counted(relay)
    (claim,) = result.relays
    assert claim.status == "refused"
    assert result.value is None


async def test_a_relay_that_knows_no_count_and_has_nothing_says_zero() -> None:
    relay = relay_of([], RefusesCount(COUNT_REFUSALS["notice, rnostr"]))
    result = await counted(relay)
    assert result.value == 0
    assert result.exact


async def test_a_bare_zero_does_not_lower_the_result() -> None:
    zero = AnswersCount({"count": 0})
    result = await counted(relay_of([], zero), relay_of(range(200), Sketches()), read=False)
    assert result.value == 200
    assert [bool(c.warnings) for c in result.relays] == [True, False]


async def test_silent_relays_are_remembered_and_read_at_once() -> None:
    async with relay_of(range(9), RefusesCount([])) as relay, NostrClient(timeout=3) as client:
        first = await client.count(FOLLOWERS, relays=relay.url)
        second = await client.count(FOLLOWERS, relays=relay.url)
    assert first.value == second.value == 9
    (slow,), (fast,) = first.relays, second.relays
    assert slow.latency_ms is not None
    assert fast.latency_ms is not None
    assert fast.latency_ms < slow.latency_ms / 2


@pytest.mark.parametrize("name", COUNT_LIES)
async def test_what_is_no_count_is_invalid(name: str) -> None:
    result = await counted(relay_of(range(5), AnswersCount({"count": COUNT_LIES[name]})), within=2)
    (claim,) = result.relays
    assert claim.status == "invalid"
    assert claim.warnings
    assert result.value is None


@pytest.mark.parametrize("name", HLL_LIES)
async def test_sketches_that_are_none_leave_the_count(name: str) -> None:
    relay = relay_of(range(400), Sketches(hll=HLL_LIES[name]))
    honest = [relay_of(range(400), Sketches()) for _ in range(4)]
    result = await counted(relay, *honest)
    claim = result.relays[0]
    assert claim.status == "ok"
    assert claim.count == 400
    assert claim.warnings
    assert result.value is not None
    assert abs(result.value - 400) < 60


async def test_auth_is_answered_once_and_the_count_sent_again() -> None:
    people = range(12)
    relay = relay_of(people, WantsAuth())
    claim = await claim_of(relay, signer=KeySigner(b"\x07" * 32))
    assert (claim.status, claim.count) == ("ok", 12)
    assert relay.verbs()["AUTH"] == 1


async def test_auth_without_a_signer_is_a_status() -> None:
    claim = await claim_of(relay_of(range(12), WantsAuth()), within=3)
    assert claim.status == "auth_required"
    assert claim.count is None


async def test_a_relay_that_is_not_there_is_unreachable() -> None:
    relay = relay_of(range(5))
    await relay.start()
    await relay.stop()
    async with NostrClient(timeout=3) as client:
        result = await client.count(FOLLOWERS, relays=relay.url)
    (claim,) = result.relays
    assert claim.status == "unreachable"
    assert (claim.answered_at, claim.latency_ms) == (None, None)
    assert claim.warnings


@pytest.mark.parametrize("connect", [0.5, 10.0])
async def test_a_port_that_takes_connections_and_says_nothing_times_out(connect: float) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    options = Options(timeouts=Timeouts(connect=connect))
    url = f"ws://127.0.0.1:{listener.getsockname()[1]}"
    with listener:
        async with NostrClient(url, options=options, timeout=1.5) as client:
            result = await client.count(FOLLOWERS)
    (claim,) = result.relays
    assert claim.status == "timeout"
    assert result.answered == 0


async def test_a_relay_that_goes_away_is_unreachable() -> None:
    claim = await claim_of(relay_of(range(5), SaysThenCloses(["NOTICE", "bye"])), within=3)
    assert claim.status == "unreachable"


async def test_a_read_without_end_is_a_lower_bound() -> None:
    result = await counted(relay_of(range(40), NoEose()), within=2)
    (claim,) = result.relays
    assert claim.status == "ok"
    assert claim.events_read == 40
    assert result.value == 40
    assert result.lower_bound


async def test_early_eose_is_not_taken_for_the_end_of_what_was_counted() -> None:
    result = await counted(relay_of(range(40), EarlyEose()), within=3)
    assert result.value == 40
    assert not result.exact


async def test_events_that_do_not_hold_are_not_counted() -> None:
    forged = [
        msgspec.structs.replace(follow(i), sig="00" * 64) if i % 2 else follow(i) for i in range(40)
    ]
    result = await counted(FaultyRelay(RefusesCount([]), events=forged), within=3)
    (claim,) = result.relays
    assert result.value == 20
    assert any("invalid events" in warning for warning in claim.warnings)


class FirstOnly(Behaviour):
    """Counts the first filter of several."""

    async def on_count(self, peer: Peer, message: list[Any]) -> None:
        await super().on_count(peer, message[:3])


async def test_one_filter_a_count_and_no_limit() -> None:
    events = [reaction(i) for i in range(20)] + [follow(i) for i in range(30)]
    relay = FaultyRelay(FirstOnly(), events=events)
    asked = [
        Filter(kinds=[7], tags={"#e": [NOTE]}, limit=5),
        Filter(kinds=[3], tags={"#p": [TARGET]}),
    ]
    result = await counted(relay, query=asked, read=False)
    sent = [message for message in relay.received if message[0] == "COUNT"]
    assert [len(message) for message in sent[:2]] == [3, 3]
    assert all("limit" not in one for message in sent for one in message[2:])
    (claim,) = result.relays
    assert claim.count == 30
    assert result.events == Figure.at_least(30, 0)
    assert any("30 to 50" in text for text in claim.warnings)


async def test_a_relay_that_is_known_to_unite_is_asked_once() -> None:
    events = [reaction(i) for i in range(20)] + [follow(i) for i in range(30)]
    asked = [Filter(kinds=[7], tags={"#e": [NOTE]}), Filter(kinds=[3], tags={"#p": [TARGET]})]
    async with FaultyRelay(events=events) as relay, NostrClient() as client:
        client.pool.relay(relay.url, capabilities=Capabilities(union=True))
        result = await client.count(asked, relays=relay.url, read=False)
        sent = [message for message in relay.received if message[0] == "COUNT"]
    assert [len(message) for message in sent] == [4]
    assert (result.value, result.as_said, result.exact) == (50, True, False)


async def test_several_filters_with_one_offset_have_their_registers_merged() -> None:
    events = [reaction(i) for i in range(200)] + [follow(i) for i in range(100, 400)]
    asked = [Filter(kinds=[7], tags={"#e": [NOTE]}), Filter(kinds=[3, 7], tags={"#q": [NOTE]})]
    result = await counted(FaultyRelay(Sketches(), events=events), query=asked)
    (claim,) = result.relays
    assert claim.method == "hll"
    assert claim.count == 200


async def test_several_filters_are_read_as_their_union() -> None:
    events = [reaction(i) for i in range(20)] + [follow(i) for i in range(10, 40)]
    asked = [Filter(kinds=[7], tags={"#e": [NOTE]}), Filter(kinds=[3], tags={"#p": [TARGET]})]
    relay = FaultyRelay(RefusesCount(COUNT_REFUSALS["notice, rnostr"]), events=events)
    result = await counted(relay, query=asked)
    assert result.events is not None
    assert result.authors is not None
    assert (result.events.value, result.authors.value) == (50, 40)


async def test_relays_are_asked_once_each_and_named_as_given() -> None:
    async with relay_of(range(5), Sketches()) as relay, NostrClient() as client:
        spelled = relay.url.replace("ws://127.0.0.1", "WS://127.0.0.1") + "/"
        result = await client.count(FOLLOWERS, relays=[spelled, relay.url])
    assert [c.relay for c in result.relays] == [spelled]
    assert relay.verbs()["COUNT"] == 1


async def test_no_relay_is_an_error_of_the_caller() -> None:
    async with NostrClient() as client:
        with pytest.raises(InvalidInput):
            await client.count(FOLLOWERS)
        with pytest.raises(InvalidInput):
            await client.count(FOLLOWERS, relays=["gopher://x"])


async def test_trusted_relays_and_the_policy_reach_the_merge() -> None:
    liar = Sketches(hll="39" * 256)
    relays = [relay_of(range(400), Sketches()) for _ in range(4)]
    excluded = await counted(relay_of(range(400), liar), *relays)
    kept = await counted(relay_of(range(400), liar), *relays, trust=TrustPolicy.OFF)
    assert excluded.value is not None
    assert excluded.value < 500
    assert kept.value is not None
    assert kept.value > 10**9


async def test_cancelling_leaves_nothing_behind() -> None:
    async with relay_of(range(5), Silent()) as relay, NostrClient(timeout=30) as client:
        task = asyncio.create_task(client.count(FOLLOWERS, relays=relay.url))
        await relay.heard("COUNT")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert [t for t in asyncio.all_tasks() if t is not asyncio.current_task()] == []

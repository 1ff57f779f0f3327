"""Relays that lie, stall and flood amid a sync: each ends with a status, the honest ones finish."""

from __future__ import annotations

import asyncio
import dataclasses
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from nostr_client.codecs.filters import Filter
from nostr_client.sync.report import RelayReport, SyncStatus
from tests.faults import Flood, Silent, SlowLoris
from tests.negrelay import (
    Chatter,
    Drips,
    Drops,
    DropsLargeFrames,
    GrowsFrames,
    HugeLength,
    Liar,
    NeverConverges,
    RateLimits,
    SilentAfter,
    SpeaksNeg,
    WrongSession,
)
from tests.syncing import NOTES, QUICK, held_ids, ids, note, notes, syncing

if TYPE_CHECKING:
    from nostr_client.sync.options import SyncOptions
    from tests.faulty_relay import Behaviour

OURS = range(0, 400, 2)
THEIRS = range(0, 400, 3)
HONEST = range(390, 460)
LIMIT_S = 20.0
"""No hostile relay may take longer; the honest one is done in a fraction of a second."""


async def beside(hostile: Behaviour, options: SyncOptions = QUICK) -> RelayReport:
    """Sync with the hostile relay and an honest one; the hostile one's report."""
    ours, theirs, honest = notes(OURS), notes(THEIRS), notes(HONEST)
    async with syncing(ours, (hostile, theirs), (SpeaksNeg(), honest)) as (client, store, servers):
        async with asyncio.timeout(LIMIT_S):
            report = await client.sync(NOTES, options=options, direction="both")
        bad, good = report.relays
        assert good.status is SyncStatus.COMPLETE, good.reason
        held = await held_ids(store)
        assert ids(honest) <= held
        assert ids(ours) <= ids(servers[1].events)
        assert held <= ids(ours) | ids(theirs) | ids(honest)
        if bad.status is SyncStatus.COMPLETE:
            assert ids(theirs) <= held
            assert ids(ours) <= ids(servers[0].events)
        else:
            assert bad.reason
        return bad


CONVERGE_NEVER = {
    "never converges": NeverConverges,
    "drips": Drips,
    "huge length": HugeLength,
    "wrong session": WrongSession,
}


@pytest.mark.parametrize("name", CONVERGE_NEVER)
async def test_negentropy_that_is_none_ends_in_pages(name: str) -> None:
    bad = await beside(CONVERGE_NEVER[name]())
    invented = "named and not sent" in bad.reason
    assert bad.status is (SyncStatus.PARTIAL if invented else SyncStatus.COMPLETE), bad.reason
    assert invented == (name == "drips")
    assert bad.paged == 1
    assert bad.rounds < 500


async def test_answers_that_come_a_thousand_times() -> None:
    bad = await beside(Chatter())
    assert bad.status is SyncStatus.COMPLETE, bad.reason


async def test_frames_that_grow_are_bounded_in_memory() -> None:
    tracemalloc.start()
    try:
        bad = await beside(GrowsFrames())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert bad.status is SyncStatus.PARTIAL
    assert "named" in bad.reason
    assert peak < 150 * 2**20


@pytest.mark.parametrize("times", [3, 60, 5_000])
async def test_ids_that_do_not_exist(times: int) -> None:
    bad = await beside(Liar(times), dataclasses.replace(QUICK, unsent=1_000))
    assert bad.status is SyncStatus.PARTIAL, bad.reason
    assert "named" in bad.reason
    assert 0 < bad.hidden <= 2_000


@pytest.mark.parametrize("messages", range(9))
async def test_silence_at_every_step(messages: int) -> None:
    bad = await beside(SilentAfter(messages))
    assert bad.status in (SyncStatus.PARTIAL, SyncStatus.FAILED)


@pytest.mark.parametrize(
    ("verb", "messages"),
    [("NEG-OPEN", 0), ("NEG-MSG", 0), ("NEG-MSG", 1), ("REQ", 0), ("REQ", 1), ("EVENT", 0),
     ("EVENT", 20)],
)  # fmt: skip
async def test_silence_about_one_kind_of_message(verb: str, messages: int) -> None:
    bad = await beside(SilentAfter(messages, verb))
    by_pages = verb.startswith("NEG")
    assert (bad.status is SyncStatus.COMPLETE) == by_pages, bad.reason


async def test_large_frames_drop_the_socket() -> None:
    behaviour = DropsLargeFrames(9_000)
    ours, theirs = notes(range(0, 3_000, 2)), notes(range(0, 3_000, 3))
    async with syncing(ours, (behaviour, theirs)) as (client, store, (server,)):
        (report,) = (await client.sync(NOTES, options=QUICK, direction="both")).relays
        assert report.status is SyncStatus.COMPLETE, report.reason
        assert 0 < behaviour.dropped < 6
        assert report.paged == 0
        assert await held_ids(store) == ids(server.events)


@pytest.mark.parametrize("verbs", [{"NEG-OPEN"}, {"REQ"}, {"NEG-OPEN", "REQ"}])
async def test_a_rate_limit_that_ends_is_waited_for(verbs: set[str]) -> None:
    behaviour = RateLimits(verbs, times=2)
    bad = await beside(behaviour)
    assert bad.status is SyncStatus.COMPLETE, bad.reason
    assert bad.paged == 0
    assert len([wanted for wanted in behaviour.opened if wanted == NOTES.to_dict()]) == 1


@pytest.mark.parametrize("verb", ["NEG-OPEN", "REQ", "EVENT"])
async def test_a_rate_limit_that_never_ends_is_given_up(verb: str) -> None:
    bad = await beside(RateLimits({verb}, times=None))
    if verb == "NEG-OPEN":
        assert (bad.status, bad.paged) == (SyncStatus.COMPLETE, 1)
    else:
        assert bad.status is SyncStatus.PARTIAL
        assert "rate-limited" in bad.reason


OTHERS = {
    "silent": Silent,
    "floods": lambda: Flood('["NEG-MSG","n99","61"]', 3_000),
    "notices": lambda: Flood('["NOTICE","negentropy error: no"]', 3_000),
    "slow loris": SlowLoris,
}


@pytest.mark.parametrize("name", OTHERS)
async def test_relays_that_are_none(name: str) -> None:
    bad = await beside(OTHERS[name]())
    assert bad.status in (SyncStatus.FAILED, SyncStatus.PARTIAL), bad.reason


async def test_a_relay_that_is_not_there() -> None:
    async with syncing(notes(OURS), (SpeaksNeg(), notes(HONEST))) as (client, store, (server,)):
        relays = [server.url, "ws://127.0.0.1:9"]
        report = await client.sync(NOTES, relays, options=QUICK, direction="both")
        good, bad = report.relays
        assert (good.status, bad.status) == (SyncStatus.COMPLETE, SyncStatus.FAILED)
        assert ids(notes(HONEST)) <= await held_ids(store)


async def test_a_relay_that_refuses_the_connection_is_not_waited_for() -> None:
    """By HTTP 404 the next attempt is minutes away, and a page by REQ may take that long."""
    async with syncing(notes(OURS), (SpeaksNeg(), notes(THEIRS))) as (client, _, servers):
        servers[0].refuse = 404
        async with asyncio.timeout(LIMIT_S):
            report = await client.sync(NOTES)
    (bad,) = report.relays
    assert bad.status is SyncStatus.FAILED
    assert "HTTP 404" in bad.reason


@pytest.mark.parametrize("number", [5, 60])
async def test_a_relay_that_accepts_and_drops_is_partial_and_left_alone_for_a_time(
    number: int,
) -> None:
    """Its OK alone would be "complete", and each run would send the same events."""
    async with syncing(notes(range(number)), (Drops(), [])) as (client, _, (server,)):
        for sent in (number, 0):
            server.received.clear()
            (report,) = (await client.sync(NOTES, direction="up")).relays
            assert (report.status, report.uploaded) == (SyncStatus.PARTIAL, 0)
            assert "accepted, and not there when asked for" in report.reason or not sent
            assert server.verbs()["EVENT"] == sent


@pytest.mark.parametrize("is_newer", [False, True])
async def test_a_version_that_the_relay_replaced_is_not_dropped(is_newer: bool) -> None:
    ours = note(1, kind=10_000)
    other = note(1, kind=10_000, at=ours.event.created_at + (9 if is_newer else -9))
    lists = Filter(kinds=[10_000])
    async with syncing([ours], (Drops(other.event), [])) as (client, _, _):
        (report,) = (await client.sync(lists, direction="up")).relays
    assert report.uploaded == 0
    assert (report.status is SyncStatus.COMPLETE) is is_newer, report.reason

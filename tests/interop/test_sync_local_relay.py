"""Sync with rust-nostr's LocalRelay: both ways, to the event, and through runs that are killed."""

from __future__ import annotations

import asyncio
import random
import sys
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from nostr_client.client import NostrClient
from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import KeySigner
from nostr_client.network.relay import Relay
from nostr_client.store.sqlite import SqliteStore
from nostr_client.sync.options import SyncOptions
from tests.peers.servers import load, local_relay
from tests.proxy import CountingProxy
from tests.running import nostr_client, start

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nostr_client.codecs.keys import VerifiedEvent

pytestmark = pytest.mark.interop
SIGNER = KeySigner(bytes(31) + b"\x16", rand=bytes)
ALL = Filter(kinds=[1])
NEWEST = pytest.mark.parametrize("newest", [False, True], ids=["0.44", "0.45"])


def made(count: int) -> list[VerifiedEvent]:
    """Signed notes, several to a second here and there."""
    return [
        SIGNER.sign_now(
            EventTemplate(kind=1, content=f"note {n}", created_at=1_700_000_000 + n // 3)
        )
        for n in range(count)
    ]


async def texts_at(url: str, count: int) -> set[str]:
    """Every event of a relay as canonical JSON, read by REQs that name no more than it caps."""
    found: dict[str, str] = {}
    until = None
    async with Relay(url) as relay:
        while True:
            page = await relay.fetch(ALL.replace(until=until, limit=500))
            found |= {one.event.id: one.event.to_json() for one in page.events}
            oldest = min((one.event.created_at for one in page.events), default=None)
            if oldest is None or oldest == until:
                assert len(found) == count
                return set(found.values())
            until = oldest


async def texts_in(store: SqliteStore) -> set[str]:
    return {event.to_json() for event in await store.query([Filter()])}


def shared_out(
    events: list[VerifiedEvent], differing: int, seed: int
) -> tuple[list[VerifiedEvent], list[VerifiedEvent]]:
    """Two sides that each lack half of `differing` events."""
    mixed = random.Random(seed).sample(events, len(events))
    half = differing // 2
    return mixed[half:], mixed[:half] + mixed[differing:]


@NEWEST
async def test_both_sides_are_equal_event_by_event(newest: bool) -> None:
    events = made(3_000)
    ours, theirs = shared_out(events, 300, seed=1)
    async with (
        local_relay(newest=newest) as url,
        await SqliteStore.open(":memory:") as store,
        NostrClient(url, store=store) as client,
    ):
        await load(url, theirs)
        await store.save(ours)
        report = await client.sync(ALL, direction="both")
        (one,) = report.relays
        assert report.complete, one.reason
        assert (one.downloaded, one.uploaded, one.paged) == (150, 150, 0)
        expected = {event.event.to_json() for event in events}
        assert await texts_in(store) == await texts_at(url, len(events)) == expected
        again = await client.sync(ALL, direction="both")
        assert (again.complete, again.need, again.have) == (True, 0, 0)


@NEWEST
@pytest.mark.parametrize("direction", ["down", "up"])
async def test_a_thousand_missing_on_one_side(newest: bool, direction: str) -> None:
    """As many as nostr-sdk 0.45.1 loses some of."""
    events = made(1_500)
    some = events[::3]
    ours, theirs = (some, events) if direction == "down" else (events, some)
    async with (
        local_relay(newest=newest) as url,
        await SqliteStore.open(":memory:") as store,
        NostrClient(url, store=store) as client,
    ):
        await load(url, theirs)
        await store.save(ours)
        report = await client.sync(ALL, direction=direction)
        assert report.complete, report.relays[0].reason
        assert report.relays[0].paged == 0
        assert await texts_in(store) == await texts_at(url, len(events))


async def test_a_relay_that_wants_auth_is_written_to_by_those_who_have_a_key() -> None:
    events = made(400)
    async with local_relay(auth=True) as url, await SqliteStore.open(":memory:") as store:
        await store.save(events)
        async with NostrClient(url, store=store) as stranger:
            (one,) = (await stranger.sync(ALL, direction="both")).relays
            assert (str(one.status), one.uploaded) == ("partial", 0)
            assert 0 < one.refused < 50
            assert "auth-required" in one.reason
        async with NostrClient(url, store=store, signer=SIGNER) as client:
            (one,) = (await client.sync(ALL, direction="both")).relays
            assert (str(one.status), one.uploaded) == ("complete", 400), one.reason
            again = await client.sync(ALL, direction="both")
            assert (again.complete, again.have) == (True, 0)


async def test_two_relays_are_mirrored_event_by_event() -> None:
    events = made(2_000)
    mine, other = shared_out(events, 200, seed=3)
    async with (
        local_relay() as old,
        local_relay(newest=True) as new,
        NostrClient() as client,
    ):
        await load(old, mine)
        await load(new, other)
        report = await client.mirror(ALL, old, new, direction="both")
        assert report.complete, [one.reason for one in report.relays]
        assert (report.need, report.uploaded) == (200, 200)
        assert [one.paged for one in report.relays] == [0, 0]
        expected = {event.event.to_json() for event in events}
        assert await texts_at(old, len(events)) == await texts_at(new, len(events)) == expected


@pytest.mark.parametrize(
    ("kills", "count"), [(5, 600), pytest.param(50, 4_000, marks=pytest.mark.long)]
)
@pytest.mark.timeout(600)
async def test_killed_at_random_points_of_a_two_way_sync(
    kills: int, count: int, tmp_path: Path
) -> None:
    seed = random.SystemRandom().randrange(2**32)
    sys.stdout.write(f"seed {seed}\n")
    chance = random.Random(seed)
    events = made(count)
    ours, theirs = shared_out(events, count * 9 // 10, seed)
    path = tmp_path / "store.db"
    async with await SqliteStore.open(path) as store:
        await store.save(ours)
    async with local_relay() as url, CountingProxy(url) as proxy:
        await load(url, theirs)
        args = (
            "sync", "run", "--store", str(path), "-r", proxy.url, "--filter", ALL.to_json(),
            "--direction", "both", "--json",
        )  # fmt: skip
        per_run = 2 * count // kills
        for _ in range(kills):
            await killed(args, proxy, chance.randint(1, per_run))
        run = await nostr_client(*args, within=120)
        assert run.code == 0, run.err + run.out
        async with await SqliteStore.open(path) as store:
            expected = {event.event.to_json() for event in events}
            assert await texts_in(store) == await texts_at(url, count) == expected
    mine = {one.event.id for one in ours}  # the proof of a floor brings events that are here
    times = Counter(id_ for id_ in proxy.delivered if id_ not in mine)
    twice = sum(number - 1 for number in times.values())
    sys.stdout.write(f"{twice} downloaded again in {kills} kills\n")
    assert len(times) == count * 9 // 10 // 2
    asked_at_once = SyncOptions().batch * SyncOptions().requests
    assert twice <= asked_at_once * kills, "more than what is asked for at once, for each kill"


async def killed(args: Sequence[str], proxy: CountingProxy, frames: int) -> None:
    """Run the program and kill -9 it after so many frames, unless it ends before."""
    process = await start(*args, fresh=True)
    enough = asyncio.Event()
    goal = proxy.frames + frames

    def counted() -> None:
        if proxy.frames >= goal:
            enough.set()

    proxy.on_frame = counted
    ended = asyncio.create_task(process.wait())
    reached = asyncio.create_task(enough.wait())
    async with asyncio.timeout(120):
        await asyncio.wait({ended, reached}, return_when=asyncio.FIRST_COMPLETED)
        if process.returncode is None:
            process.kill()
        await ended
    reached.cancel()

"""Fifty relays, half of them broken on purpose: the deadline, the number and every status hold."""

from __future__ import annotations

import asyncio
import gc
import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from nostr_client import count, hll
from nostr_client.client import NostrClient
from tests.faults import (
    COUNT_REFUSALS,
    AnswersCount,
    RefusesCount,
    SaysThenCloses,
    Silent,
    WantsAuth,
)
from tests.faulty_relay import Behaviour, FaultyRelay, Peer
from tests.worlds import TARGET, Sketches, follow, samples, union

if TYPE_CHECKING:
    from nostr_client.codecs.event import Event

PEOPLE = 1500
DEADLINE = 6.0
SLACK = 3.0  # the machine may be busy; the relays run in this process too

REFUSED = [["CLOSED", "{id}", "restricted: members only"]]


class RefusesBoth(RefusesCount):
    """Refuses COUNT with the given frames and REQ with others; no frames are silence."""

    def __init__(self, frames: list[list[Any]], reads: list[list[Any]]) -> None:
        super().__init__(frames)
        self.reads = reads

    async def on_req(self, peer: Peer, message: list[Any]) -> None:
        for frame in self.reads:
            await peer.send(*(message[1] if part == "{id}" else part for part in frame))


class Hangs(Behaviour):
    """Answers a COUNT and a REQ with half a frame, and then nothing."""

    async def on_message(self, peer: Peer, message: list[Any]) -> None:
        peer.raw(b"\x81\x7e\x10\x00[")


class OneByOne(Behaviour):
    """Sends NOTICEs for ever instead of answering."""

    async def on_message(self, peer: Peer, message: list[Any]) -> None:
        for _ in range(5):
            await peer.send("NOTICE", "one moment please")


def refusers() -> list[tuple[Behaviour, str]]:
    named = COUNT_REFUSALS
    return [
        (RefusesBoth(named["closed, restricted"], REFUSED), "refused"),
        (RefusesBoth(named["closed, rate"], REFUSED), "refused"),
        (RefusesBoth(named["closed, strfry failed"], []), "refused"),
        (RefusesBoth(named["closed, two elements"], REFUSED), "refused"),
        (RefusesBoth(named["closed, strfry auth"], REFUSED), "auth_required"),
        (WantsAuth(), "auth_required"),
        (RefusesBoth(named["notice then zero, khatru"], REFUSED), "auth_required"),
        (RefusesBoth(named["notice, strfry 1.0"], []), "unsupported"),
        (RefusesBoth(named["closed, khatru"], []), "unsupported"),
        (SaysThenCloses(["NOTICE", "go away"], code=1008), "unreachable"),
    ]


def liars(people: list[int]) -> list[tuple[Behaviour, str]]:
    offset = hll.offset({"#p": [TARGET]})
    assert offset is not None
    sketch = hll.from_pubkeys([follow(i).pubkey for i in people], offset)
    doubled = hll.to_hex(bytes(min(r + 2, hll.MAX_RANK) for r in sketch))
    return [
        (Sketches(hll="39" * 256), "ok"),
        (Sketches(hll=doubled, count=4 * len(people)), "ok"),
        (Sketches(count=10**9), "ok"),
        (AnswersCount({"count": 10**30}), "invalid"),
        (Sketches(hll="ff" * 256, count=-3), "invalid"),
    ]


class World(NamedTuple):
    relays: list[FaultyRelay]
    expected: list[str]
    truth: int


def world() -> World:
    parts = samples(PEOPLE, 30, 0.4, seed=50)
    honest: list[tuple[Behaviour, str]] = []
    honest += [(Sketches(), "ok") for _ in range(14)]
    honest += [(Sketches(approximate=True), "ok") for _ in range(3)]
    honest += [(Behaviour(), "ok") for _ in range(5)]
    honest += [(RefusesCount(COUNT_REFUSALS["notice, rnostr"]), "ok") for _ in range(2)]
    honest += [(RefusesCount([]), "ok")]
    silent: list[tuple[Behaviour, str]] = [(Silent(), "timeout") for _ in range(8)]
    silent += [(Hangs(), "timeout"), (OneByOne(), "timeout")]
    told = [*honest, *silent, *refusers(), *liars(parts[29])]
    relays = [FaultyRelay(b, events=events(parts[i % 30])) for i, (b, _) in enumerate(told)]
    return World(relays, [status for _, status in told], union(parts[:25]))


def events(people: list[int]) -> list[Event]:
    return [follow(i) for i in people]


async def test_fifty_relays_of_which_half_are_broken() -> None:
    made = world()
    assert len(made.relays) == 50
    async with AsyncExitStack() as stack:
        for relay in made.relays:
            await stack.enter_async_context(relay)
        client = await stack.enter_async_context(NostrClient(timeout=DEADLINE))
        urls = [relay.url for relay in made.relays]
        loop = asyncio.get_running_loop()
        started = loop.time()
        result = await client.count(count.followers(TARGET), relays=urls)
        elapsed = loop.time() - started

        assert [str(claim.status) for claim in result.relays] == made.expected
        assert DEADLINE - 0.1 <= elapsed < DEADLINE + SLACK
        assert result.low is not None
        assert result.high is not None
        assert result.low <= made.truth <= result.high
        assert result.value == pytest.approx(made.truth, rel=0.1)
        lying = result.relays[45:]
        assert all(claim.warnings for claim in lying)
        assert [claim.count for claim in lying[3:]] == [None, None]

        before = memory()
        for _ in range(3):
            await client.count(count.followers(TARGET), relays=urls, timeout=2.0)
        assert memory() - before < 24e6


def memory() -> int:
    """Bytes of this process that are in use."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")

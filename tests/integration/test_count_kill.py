"""`nostr-client count --store` killed by the system while it reads: nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
import sys
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import pytest

from nostr_client.count.claims.coverage import holds
from nostr_client.count.claims.held import HeldRows
from tests.faulty_relay import Behaviour, FaultyRelay, Peer
from tests.worlds import NOTE, START, reaction

if TYPE_CHECKING:
    from pathlib import Path

CAP = 60
"""Events of a page."""

FIRST = 400
"""Events that are there before anybody reads; more come, as late ones do, with times long past."""


class Deadly(Behaviour):
    """Pages of `CAP` events; kills the client that it serves at a point of the conversation."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.victim: asyncio.subprocess.Process | None = None
        self.left = 0

    def kill(self) -> None:
        if self.victim is not None:
            with suppress(ProcessLookupError):
                self.victim.kill()

    async def on_count(self, peer: Peer, message: list[Any]) -> None:
        await peer.send("CLOSED", message[1], "unsupported: no COUNT here")

    async def on_req(self, peer: Peer, message: list[Any]) -> None:
        """A page, whole or cut by the death of who asked for it, at once or some moments later."""
        from nostr_client.codecs.filters import Filter

        asked = Filter.from_json(message[2])
        page = peer.relay.query([asked.replace(limit=min(asked.limit or CAP, CAP))])
        self.left -= 1
        dies = self.left == 0
        cut = self.rng.randrange(len(page) + 1) if dies and self.rng.random() < 0.5 else len(page)
        for event in page[:cut]:
            await peer.send_event(message[1], event)
        if cut == len(page):
            await peer.send("EOSE", message[1])
        if dies:
            asyncio.get_running_loop().call_later(
                self.rng.choice([0, 0.002, 0.01, 0.05]), self.kill
            )


async def run(relay: FaultyRelay, deadly: Deadly, path: Path, dies_at: int) -> tuple[int, str]:
    """One process; exit code and stdout."""
    deadly.left = dies_at
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "nostr_client", "count", "reactions", NOTE, "--json"),
        *("--relay", relay.url, "--store", str(path)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={"PATH": ""},
    )
    deadly.victim = process
    out, _ = await process.communicate()
    return process.returncode or 0, out.decode()


def check(relay: FaultyRelay, path: Path) -> None:
    """What lies in the file: the mark promises only what is held of what a reader could find, and
    nothing is invented."""
    if not path.exists():
        return
    with closing(sqlite3.connect(path)) as conn:
        memory = HeldRows(conn, 1, 1, 8)
        held = {event.id.hex() for event in memory.events()}
        assert memory.count(0, None) == len(held)
        assert held <= {event.id for event in relay.events}
        covered, first = memory.mark.covered, relay.events[:FIRST]
        assert all(event.id in held for event in first if holds(covered, event.created_at))


async def lives(path: Path, seed: int, kills: int) -> None:
    rng = random.Random(seed)
    deadly, people = Deadly(rng), FIRST
    events = [reaction(i, at=START + 60 * i) for i in range(people)]
    async with FaultyRelay(deadly, events=events) as relay:
        died = ended = 0
        for _ in range(kills):
            code, _ = await run(relay, deadly, path, dies_at=rng.randint(1, 9))
            died += code < 0
            ended += code == 0
            check(relay, path)
            for _ in range(rng.randrange(80)):
                relay.events.append(reaction(people, at=START + 60 * people))
                people += 1
        assert died or kills < 3
        code, out = await run(relay, deadly, path, dies_at=-1)
        check(relay, path)
    found = json.loads(out)
    (claim,) = found["relays"]
    assert (code, claim["count"], found["value"]) == (0, people, people)
    # A reader that was done before reads on from there: it does not look again for all it holds.
    assert found["exact"] or ended


async def test_a_reader_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    await lives(tmp_path / "store.db", seed=4, kills=3)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(8))
async def test_a_reader_that_is_killed_again_and_again_loses_nothing(
    tmp_path: Path, seed: int
) -> None:
    await lives(tmp_path / "store.db", seed, kills=15)

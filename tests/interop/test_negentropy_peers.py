"""Our engine against others, in both roles and with all frame limits: the sets are exact.

Other peers that speak the line protocol (the reference project's harnesses in C++, JavaScript, …)
are named in NEGENTROPY_PEERS, commands parted by semicolons. They read FRAMESIZELIMIT.
"""

from __future__ import annotations

import os
import random
import shlex
import sys
from typing import TYPE_CHECKING

import pytest

from tests.conftest import load_cases
from tests.interop.negentropy_peers import NOSTR_TOOLS, Found, Peer, started, they_ask, we_ask
from tests.negentropy_sets import two_sets
from tests.peers.node import node, packages

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.negentropy_sets import Item

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]

SEED = 77
BATCHES = 20
PER_BATCH = 50
LONG_BATCHES = 200
OURSELVES = f"{sys.executable} -m tests.negentropy_harness"
COMMANDS = [OURSELVES, *filter(None, os.environ.get("NEGENTROPY_PEERS", "").split(";"))]


@pytest.fixture(scope="module")
def nostr_tools() -> Iterator[Peer]:
    command = [*node(), "--input-type=module", "--eval", NOSTR_TOOLS]
    with started(command, cwd=packages()) as peer:
        yield peer


def limit(rand: random.Random) -> int:
    return rand.choice([0, 4096, rand.randrange(4096, 12_000), 60_000])


def size(rand: random.Random) -> int:
    return int(10 ** rand.uniform(0, 3.5))


def difference(ours: Sequence[Item], theirs: Sequence[Item]) -> Found:
    mine, other = ({key.hex() for _, key in side} for side in (ours, theirs))
    return Found(mine - other, other - mine)


def session(peer: Peer, rand: random.Random, seed: str, *, asks: bool, before: str = "") -> None:
    ours, theirs = two_sets(rand, size(rand))
    peer.load(theirs, *filter(None, [before]))
    if asks:
        found, wanted = they_ask(ours, peer, limit(rand)), difference(theirs, ours)
    else:
        found, wanted = we_ask(ours, peer, limit(rand)), difference(ours, theirs)
    assert found == wanted, f"seed {seed!r}"


@pytest.mark.parametrize("asks", [True, False], ids=["they-ask", "we-ask"])
@pytest.mark.parametrize("batch", range(BATCHES))
def test_nostr_tools(nostr_tools: Peer, batch: int, asks: bool) -> None:
    for number in range(PER_BATCH):
        seed = f"{SEED} {batch} {number}"
        rand = random.Random(seed)
        session(nostr_tools, rand, seed, asks=asks, before=f"limit,{limit(rand)}")


@pytest.mark.long
@pytest.mark.parametrize("asks", [True, False], ids=["they-ask", "we-ask"])
@pytest.mark.parametrize("batch", range(BATCHES, LONG_BATCHES))
def test_nostr_tools_at_length(nostr_tools: Peer, batch: int, asks: bool) -> None:
    test_nostr_tools(nostr_tools, batch, asks)


@pytest.mark.parametrize("asks", [True, False], ids=["they-ask", "we-ask"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_harness(command: str, asks: bool) -> None:
    """One process a session, as the reference project's own fuzzer has it."""
    for number in range(5 if command == OURSELVES else 100):
        seed = f"{SEED} {number}"
        rand = random.Random(seed)
        env = os.environ | {"FRAMESIZELIMIT": str(limit(rand))}
        with started(shlex.split(command), env=env) as peer:
            session(peer, rand, seed, asks=asks)


@pytest.mark.parametrize("asks", [True, False], ids=["they-ask", "we-ask"])
def test_the_frame_limit_defect_of_nostr_tools_is_made_good(nostr_tools: Peer, asks: bool) -> None:
    """The session of `frame-limit-loses-items` with the defect on the other side."""
    cases = load_cases("negentropy.json") or {"vectors": []}
    for case in (c for c in cases["vectors"] if c["kind"] == "frame-limit-defect"):
        client, server = (
            [(stamp, bytes.fromhex(key)) for stamp, key in case[f"{side}Items"]]
            for side in ("client", "server")
        )
        limits = case["clientFrameSizeLimit"], case["serverFrameSizeLimit"]
        wanted = Found(set(case["have"]), set(case["need"]))
        if asks:
            nostr_tools.load(client, f"limit,{limits[0]}")
            assert they_ask(server, nostr_tools, limits[1]) == wanted
        else:
            nostr_tools.load(server, f"limit,{limits[1]}")
            assert we_ask(client, nostr_tools, limits[0]) == wanted

"""Random programs on the embedded store and a real nats-server side by side: no difference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from nostr_client.counters.jetstream import JetStreamCounterStore
from nostr_client.counters.rules import add_text
from nostr_client.counters.sqlite import SqliteCounterStore
from tests.conformance.counter_embedded import Clock, EmbeddedDriver
from tests.conformance.counter_programs import Step, single, sourced
from tests.conformance.counter_server import ServerDriver
from tests.conformance.counter_steps import Outcome, run_case
from tests.nats_peer import NatsServer, RawClient

FEW, MANY = 25, 250
"""Seeds of each kind of program in `make test` and in `make test-long`."""


async def on_server(server: NatsServer, steps: list[Step]) -> list[Outcome]:
    async with await JetStreamCounterStore.connect(server.url) as store:
        raw = RawClient(server.port)
        try:
            return await run_case(ServerDriver(store, raw), steps)
        finally:
            raw.close()


async def embedded(steps: list[Step]) -> list[Outcome]:
    clock = Clock()
    async with await SqliteCounterStore.open(":memory:", clock=clock) as store:
        return await run_case(EmbeddedDriver(store, clock), steps)


def exact(step: Step, outcome: Outcome) -> Any:
    """All of it, but for errors that a server words by chance: which of three for a message that
    is gone; and "incomplete" (10176) for a batch of which one message was too large (10054)."""
    if step["op"] == "delete_msg" and "error" in outcome:
        return "no such message"
    if step["op"] == "publish_batch" and outcome.get("error", {}).get("err_code") in (10054, 10176):
        return "a message of the batch is too large"
    return outcome


def in_any_order(step: Step, outcome: Outcome) -> Any:
    """Sources are read at once, so that their messages mix in any order; sums do not care."""
    if step["op"] != "dump":
        return outcome
    found: dict[str, dict[str, Any]] = {}
    for message in outcome["msgs"]:
        headers, of = message["headers"], found.setdefault(message["subject"], {"sum": "0"})
        of["messages"] = of.get("messages", 0) + 1
        of["body"], of["sources"] = message["body"], headers.get("Nats-Counter-Sources")
        if isinstance(headers["Nats-Incr"], str):
            of["sum"] = add_text(of["sum"], headers["Nats-Incr"].lstrip())
    return found


View = Callable[[Step, Outcome], Any]


async def compare(server: NatsServer, steps: list[Step], view: View) -> None:
    theirs, ours = await on_server(server, steps), await embedded(steps)
    for number, step in enumerate(steps):
        seen = (number, step)
        assert view(step, ours[number]) == view(step, theirs[number]), seen


@pytest.mark.interop
@pytest.mark.parametrize("seed", range(FEW))
async def test_one_stream(nats_server: NatsServer, seed: int) -> None:
    await compare(nats_server, single(seed), exact)


@pytest.mark.interop
@pytest.mark.parametrize("seed", range(FEW))
async def test_sources(nats_server: NatsServer, seed: int) -> None:
    await compare(nats_server, sourced(seed), in_any_order)


@pytest.mark.long
@pytest.mark.interop
@pytest.mark.parametrize("seed", range(FEW, MANY))
async def test_one_stream_long(nats_server: NatsServer, seed: int) -> None:
    await compare(nats_server, single(seed), exact)


@pytest.mark.long
@pytest.mark.interop
@pytest.mark.parametrize("seed", range(FEW, MANY))
async def test_sources_long(nats_server: NatsServer, seed: int) -> None:
    await compare(nats_server, sourced(seed), in_any_order)

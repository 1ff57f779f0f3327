"""Hostile frames against a whole relay without sockets: every answer is one that a NIP allows."""

from __future__ import annotations

import asyncio
import resource
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.relay.options import RelayLimits, RelayOptions
from nostr_client.codecs.messages import (
    Auth,
    Close,
    Count,
    NegClose,
    NegMsg,
    NegOpen,
    Publish,
    Req,
    parse_client_message,
    parse_relay_message,
)
from nostr_client.errors import MalformedMessage
from nostr_client.store.sqlite import SqliteStore
from tests.agent.relay.hostile import FRAMES, LIST_OF_2_TO_THE_60
from tests.agent.relay.kit import frame
from tests.agent.relay.wire import Wire, core_over, wired
from tests.conftest import load_cases, missing_shared

if TYPE_CHECKING:
    from agent.relay.core import RelayCore

PER_EXAMPLE = 20
OPTIONS = RelayOptions(
    limits=RelayLimits(subscriptions=5, neg_sessions=3, live_backlog=50, filter_values=50)
)


def assert_allowed(sent: str | bytes, answers: list[Any]) -> None:
    """`answers` to `sent`, live events and the one challenge aside, are what the NIPs allow."""
    for answer in answers:
        parse_relay_message(frame(*answer))
    answers = [a for a in answers if a[0] != "AUTH"]
    try:
        if isinstance(sent, bytes):
            raise MalformedMessage("binary")
        asked = parse_client_message(sent, max_size=OPTIONS.limits.message_bytes)
    except MalformedMessage:
        (answer,) = answers
        assert answer[0] in ("NOTICE", "CLOSED", "OK", "NEG-ERR"), answer
        assert answer[0] != "OK" or answer[2] is False
        return
    own = [a for a in answers if a[0] != "EVENT"]
    match asked:
        case Publish() | Auth():
            assert [a[:2] for a in own] == [["OK", asked.event.id]], own
        case Req():
            assert [a[:2] for a in own] in ([["EOSE", asked.sub_id]], [["CLOSED", asked.sub_id]])
        case Count():
            ids = [a[:2] for a in own]
            assert ids in ([["COUNT", asked.query_id]], [["CLOSED", asked.query_id]]), own
        case NegOpen() | NegMsg():
            ids = [a[:2] for a in own]
            assert ids in ([["NEG-MSG", asked.sub_id]], [["NEG-ERR", asked.sub_id]]), own
        case Close() | NegClose():
            assert own == []


async def feed(wire: Wire, frames: list[str | bytes]) -> None:
    """Send every frame and check its answers; then the relay still works."""
    for sent in frames:
        assert_allowed(sent, await wire.push(sent))
    answer = await wire.push('["COUNT","alive",{"kinds":[1]}]')
    assert answer[0][:2] == ["COUNT", "alive"]


def assert_nothing_held(core: RelayCore) -> None:
    """The client has gone and left nothing behind."""
    assert len(core.hub) == 0
    assert not core.connections
    assert core.context.neg_budget.items == 0


async def attack(frames: list[str | bytes]) -> None:
    """One client of a fresh relay sends `frames`."""
    async with await SqliteStore.open(":memory:") as store, core_over(store, OPTIONS) as core:
        async with wired(core) as wire:
            await feed(wire, frames)
            assert len(list(wire.connection.session.subscriptions)) <= 5
            assert len(wire.connection.session.negotiation) <= 3
        assert_nothing_held(core)


def fuzz(examples: int) -> list[list[str | bytes]]:
    """`examples` runs of PER_EXAMPLE frames each; what was sent."""
    sent = []

    @settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        print_blob=True,
    )
    @given(st.lists(FRAMES, min_size=PER_EXAMPLE, max_size=PER_EXAMPLE))
    def run(frames: list[str | bytes]) -> None:
        sent.append(frames)
        asyncio.run(attack(frames))

    run()
    return sent


def test_600_hostile_frames() -> None:
    fuzz(30)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_20000_hostile_frames_without_growth() -> None:
    """Hypothesis keeps what it makes, so the growth is that of sending the same once more."""
    sent = fuzz(1_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for frames in sent:
        asyncio.run(attack(frames))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 64 * 1024, f"{grown} kB more than before"


def corpus() -> list[str]:
    """Every input of cases.json: as it is, and inside the frames where a client would put it."""
    found = []
    for case in load_cases("cases.json") or []:
        text = case["input"] if isinstance(case["input"], str) else ""
        heads = ("EVENT", 'REQ","s', 'COUNT","q', "AUTH")
        found += [text, *(f'["{head}",{text}]' for head in heads)]
        found.append(f'["NEG-OPEN","n",{text},"61"]')
        found.append(frame("NEG-OPEN", "n", {}, text))
        found.append(frame("NEG-MSG", "n", text))
    return found


async def test_every_input_of_the_shared_cases() -> None:
    texts = corpus()
    if not texts:
        missing_shared("data/cases.json")
    await attack(list(texts))


async def test_a_negentropy_list_of_2_to_the_60_ids_in_13_bytes() -> None:
    message = LIST_OF_2_TO_THE_60
    assert len(bytes.fromhex(message)) == 13
    async with (
        await SqliteStore.open(":memory:") as store,
        core_over(store) as core,
        wired(core) as wire,
    ):
        (answer,) = await wire.push(frame("NEG-OPEN", "n", {}, message))
        assert answer[:2] == ["NEG-ERR", "n"]
        assert answer[2].startswith("invalid:")
        assert await wire.push(frame("NEG-MSG", "n", "61"))

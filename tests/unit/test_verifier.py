"""Verification in threads: order, reuse, and what a forged copy can do."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import msgspec
import pytest

from nostr_client.codecs.keys import VerifiedEvent
from nostr_client.errors import InvalidEvent
from nostr_client.network import verifier as module
from nostr_client.network.verifier import ThreadVerifier
from tests.unit.strategies import signed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

EVENTS = [signed(number % 3, created_at=number).event for number in range(300)]


@pytest.fixture
async def verifier() -> AsyncIterator[ThreadVerifier]:
    made = ThreadVerifier(chunk=64)
    yield made
    await made.close()


async def test_results_are_in_order_and_bad_ones_in_place(verifier: ThreadVerifier) -> None:
    mixed = [
        msgspec.structs.replace(event, content="changed") if number % 7 == 0 else event
        for number, event in enumerate(EVENTS)
    ]
    results = await verifier.verify(mixed)
    for number, (event, result) in enumerate(zip(EVENTS, results, strict=True)):
        if number % 7 == 0:
            assert isinstance(result, InvalidEvent)
        else:
            assert result == VerifiedEvent(event)


async def test_nothing_is_verified_twice(verifier: ThreadVerifier) -> None:
    await verifier.verify(EVENTS)
    again = await verifier.verify(EVENTS[::-1])
    assert [one.event for one in again if isinstance(one, VerifiedEvent)] == EVENTS[::-1]
    assert (verifier.checked, verifier.reused) == (300, 300)


async def test_a_copy_with_a_known_id_and_other_content_is_not_believed(
    verifier: ThreadVerifier,
) -> None:
    await verifier.verify(EVENTS[:1])
    forged = msgspec.structs.replace(EVENTS[0], content="forged")
    (result,) = await verifier.verify([forged])
    assert isinstance(result, InvalidEvent)
    (true,) = await verifier.verify(EVENTS[:1])
    assert true == VerifiedEvent(EVENTS[0])


async def test_the_memory_of_what_was_verified_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    verifier = ThreadVerifier(chunk=64, remember=10)
    await verifier.verify(EVENTS[:60])  # one chunk: several end in any order
    await verifier.verify(EVENTS[50:60])
    assert verifier.reused == 10
    await verifier.verify(EVENTS[:10])
    assert verifier.reused == 10
    monkeypatch.setattr(module, "_CACHE_BYTES", 2_000)
    await verifier.verify(EVENTS[100:160])
    await verifier.verify(EVENTS[157:160])
    assert verifier.reused == 12
    await verifier.close()


async def test_it_happens_in_other_threads_and_may_be_cancelled(verifier: ThreadVerifier) -> None:
    waiting = asyncio.ensure_future(verifier.verify(EVENTS))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert any(thread.name.startswith("verify") for thread in threading.enumerate())
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert len(await verifier.verify(EVENTS)) == 300
    await verifier.close()
    assert len(await verifier.verify(EVENTS[:1])) == 1

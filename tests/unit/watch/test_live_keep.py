"""Live events that a watch keeps: a bounded number waits for the store, the rest is counted."""

from __future__ import annotations

import asyncio
import io
import json
from typing import TYPE_CHECKING, Any, cast

from agent.log import Log
from nostr_client.errors import StoreError, StoreFull
from nostr_client.network.ingest import Ingest
from nostr_client.store.base import SaveOutcome, SaveStatus
from nostr_client.watch import live as module
from nostr_client.watch.clock import SystemClock
from nostr_client.watch.live import LiveListeners
from tests.conformance.store_events import make

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from nostr_client.codecs.keys import VerifiedEvent

URL = "wss://relay.example"


class Store:
    """Holds up each commit until it is let go; then stores, or fails with `error`."""

    def __init__(self, error: StoreError | None = None) -> None:
        self.go = asyncio.Event()
        self._error = error

    async def save(self, events: Sequence[VerifiedEvent]) -> list[SaveOutcome]:
        await self.go.wait()
        if self._error is not None:
            raise self._error
        return [SaveOutcome(one.event.id, SaveStatus.STORED) for one in events]


async def kept(store: Store, count: int) -> tuple[LiveListeners, list[dict[str, Any]]]:
    """What becomes of so many events that come while the store is busy; the lines of the log."""
    out = io.StringIO()
    log = Log(lambda: 0.0, style="json", out=out)
    async with Ingest(store) as ingest:
        live = LiveListeners(SystemClock(), log, cast("Any", None), ingest)
        for n in range(count):
            live._keep(URL, make(at=n))
        store.go.set()
        await asyncio.wait_for(ingest.drain(), 30)
        live._keep(URL, make(at=count))
    return live, [json.loads(line) for line in out.getvalue().splitlines()]


async def test_what_is_too_much_is_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 10)
    live, _ = await kept(Store(), 15)
    assert (live.kept, live.dropped) == (10 + 1, 5)


async def test_a_failure_of_the_store_is_logged_once() -> None:
    live, lines = await kept(Store(StoreError("the disk is gone")), 7)
    assert (live.kept, live.dropped) == (0, 8)
    assert [(one["event"], one["why"]) for one in lines] == [("not_kept", "the disk is gone")]


async def test_a_full_store_is_left_to_the_ticker() -> None:
    live, lines = await kept(Store(StoreFull("no room")), 3)
    assert (live.dropped, lines) == (4, [])

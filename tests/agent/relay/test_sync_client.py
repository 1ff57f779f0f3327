"""Our own relay as the other side of a sync, in both forms of its reasons."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal

import pytest

from agent.relay.options import RelayLimits, RelayOptions
from agent.relay.server import serve
from nostr_client.client import NostrClient
from nostr_client.codecs.event import EventTemplate
from nostr_client.store.sqlite import SqliteStore
from nostr_client.sync.options import SyncOptions
from tests.syncing import NOTES, SIGNER, START, held_ids, ids, notes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.codecs.filters import Filter
    from nostr_client.codecs.keys import VerifiedEvent

REASONS = pytest.mark.parametrize("reasons", ["current", "seed"])
OURS, THEIRS = range(0, 900, 2), range(0, 900, 3)


async def both_ways(
    options: RelayOptions,
    question: Filter | str,
    ours: Sequence[VerifiedEvent],
    theirs: Sequence[VerifiedEvent],
    sync: SyncOptions | None = None,
) -> tuple[int, int]:
    """Sync, check that both sides are equal; windows and rounds of it."""
    async with (
        await SqliteStore.open(":memory:") as mine,
        await SqliteStore.open(":memory:") as other,
        serve(other, port=0, options=options) as server,
        NostrClient(server.url, store=mine) as client,
    ):
        await mine.save(ours)
        await other.save(theirs)
        report = await client.sync(question, options=sync, direction="both")
        (one,) = report.relays
        assert report.complete, one.reason
        assert one.paged == 0
        assert await held_ids(mine) == await held_ids(other) == ids(ours) | ids(theirs)
        return one.windows, one.rounds


@REASONS
async def test_both_ways_in_windows(reasons: Literal["current", "seed"]) -> None:
    options = RelayOptions(neg_reasons=reasons)
    windows, _ = await both_ways(
        options, NOTES, notes(OURS), notes(THEIRS), SyncOptions(window=100)
    )
    assert windows > 3


@REASONS
async def test_refused_windows_are_halved(reasons: Literal["current", "seed"]) -> None:
    limits = RelayLimits(neg_items=80)
    options = RelayOptions(neg_reasons=reasons, limits=limits)
    windows, _ = await both_ways(options, NOTES, notes(OURS), notes(THEIRS))
    assert windows > 3


async def test_more_windows_than_the_relay_has_sessions() -> None:
    options = RelayOptions(limits=RelayLimits(neg_sessions=2))
    sync = SyncOptions(window=40, in_flight=8)
    windows, _ = await both_ways(options, NOTES, notes(OURS), notes(THEIRS), sync)
    assert windows > 8


@REASONS
async def test_the_filter_as_an_event(reasons: Literal["current", "seed"]) -> None:
    content = json.dumps([NOTES.to_dict()])
    holder = SIGNER.sign_now(EventTemplate(kind=30_078, content=content, created_at=START))
    options = RelayOptions(neg_reasons=reasons)
    await both_ways(options, holder.event.id, [holder, *notes(OURS)], notes(THEIRS))

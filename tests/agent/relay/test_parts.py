"""Answers in parts, and of many filters at once, against a look at every event."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from agent.relay import visibility
from agent.relay.options import PRIVATE_KINDS
from agent.relay.privacy import Viewer
from agent.relay.server import serve
from agent.relay.visibility import VisibleStore
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import verify
from nostr_client.store.query import snapshot
from nostr_client.store.sqlite import SqliteStore
from tests.agent.relay.client import connect
from tests.agent.relay.kit import numbered
from tests.agent.relay.test_visibility import FILTERS, ME, expected, some_events

if TYPE_CHECKING:
    from pathlib import Path

MOST = 500
"""Limit of a filter without one, as the relay fills it in."""


@pytest.mark.parametrize("keys", [(), (ME,)], ids=["nobody", "one"])
@pytest.mark.parametrize("part_bytes", [1, 900, 3_000])
async def test_parts_are_what_may_be_seen_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part_bytes: int, keys: tuple[str, ...]
) -> None:
    monkeypatch.setattr(visibility, "PAGE_BYTES", part_bytes)
    monkeypatch.setattr(snapshot, "LEAST", 2)
    rng = random.Random(part_bytes)
    events = some_events(rng)
    viewer = Viewer(PRIVATE_KINDS, frozenset(keys))
    limited = [Filter.from_json({"limit": MOST, **shape}) for shape in FILTERS]
    asked = [[one] for one in limited] + [rng.sample(limited, 3) for _ in range(10)]
    async with await SqliteStore.open(tmp_path / "s.db") as store:
        await store.save([verify(event) for event in events])
        visible = VisibleStore(store, viewer)
        for filters in asked:
            parts = [part async for part in visible.pages(filters)]
            found = [one.json.decode() for part in parts for one in part]
            shown = expected(events, viewer, filters)
            assert found == [event.to_json() for event in shown], filters
            for part in parts:
                assert len(part) == 1 or sum(len(one.json) for one in part) <= part_bytes


async def test_a_question_of_many_small_filters_needs_no_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = numbered(30)
    newest = sorted(event.id for event in events)
    monkeypatch.setattr(visibility, "AT_ONCE_S", 60.0)

    async def never(*_: object, **__: object) -> None:
        raise AssertionError("a thread reads the store")

    async with (
        await SqliteStore.open(tmp_path / "s.db") as store,
        serve(store, port=0) as relay,
        connect(relay.url) as client,
    ):
        await store.save([verify(event) for event in events])
        read = store.database.read
        monkeypatch.setattr(store.database, "read", never)
        asked = [{"ids": [one]} for one in newest]
        assert await client.stored(*asked) == newest
        monkeypatch.setattr(visibility, "AT_ONCE_S", -1.0)  # the first filter takes too long
        monkeypatch.setattr(store.database, "read", read)
        visible = VisibleStore(store, Viewer(frozenset()))
        assert visible.at_once([Filter.from_json(one) for one in asked]) is None
        assert await client.stored(*asked) == newest

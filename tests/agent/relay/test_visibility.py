"""What a viewer gets of a store with private events, against a look at every event."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import pytest

from agent.relay.limits import shared_offset
from agent.relay.options import PRIVATE_KINDS
from agent.relay.privacy import Viewer
from agent.relay.visibility import VisibleStore
from nostr_client import hll
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import verify
from nostr_client.store.sqlite import SqliteStore
from tests.agent.relay.kit import NOW, key, signed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nostr_client.codecs.event import Event

ME, ALICE, BOB = (key(seed).pubkey for seed in (1, 2, 3))
TARGET = "ab" * 32

FILTERS = [
    {},
    {"limit": 4},
    {"since": NOW + 5, "limit": 7},
    {"kinds": [4]},
    {"kinds": [4, 14], "limit": 3},
    {"kinds": [1, 4], "limit": 5},
    {"kinds": [1, 4, 14], "authors": [ALICE]},
    {"authors": [ALICE, ME], "limit": 6},
    {"#p": [ALICE]},
    {"#p": [ALICE], "limit": 4},
    {"#p": [ME]},
    {"kinds": [14], "#p": [ALICE]},
    {"kinds": [1, 14], "#p": [ALICE], "limit": 2},
    {"kinds": [4, 14], "#p": [ALICE, ME]},
    {"#e": [TARGET]},
    {"kinds": [1, 4, 14], "#e": [TARGET]},
]


def some_events(rng: random.Random) -> list[Event]:
    """Public and private events of three people, many at the same second."""
    made = []
    for number in range(60):
        readers = rng.sample([ME, ALICE, BOB], rng.randrange(3))
        tags = [["p", reader] for reader in readers]
        tags += [["e", TARGET]] if rng.random() < 0.5 else []
        kind = rng.choice([1, 1, 4, 14])
        at = NOW + rng.randrange(12)
        made.append(signed(rng.randrange(1, 4), kind, tags, str(number), at))
    return made


def expected(events: Sequence[Event], viewer: Viewer, filters: Sequence[Filter]) -> list[Event]:
    """The union, newest first, each filter cut to its limit, by looking at every event."""
    ordered = sorted(events, key=lambda e: (-e.created_at, e.id))
    seen = [event for event in ordered if viewer.may_see(event)]
    chosen = {e.id for f in filters for e in [e for e in seen if f.matches(e)][: f.limit]}
    return [event for event in seen if event.id in chosen]


@pytest.mark.parametrize("keys", [(), (ME,), (ME, BOB)], ids=["nobody", "one", "two"])
@pytest.mark.parametrize("seed", range(3))
async def test_a_viewer_gets_what_may_be_seen_and_no_more(
    store: SqliteStore, seed: int, keys: tuple[str, ...]
) -> None:
    rng = random.Random(seed)
    events = some_events(rng)
    await store.save([verify(event) for event in events])
    viewer = Viewer(PRIVATE_KINDS, frozenset(keys))
    visible = VisibleStore(store, viewer)
    single = [[Filter.from_json(shape)] for shape in FILTERS]
    unions = [[f for (f,) in rng.sample(single, 3)] for _ in range(10)]
    for filters in single + unions:
        shown = expected(events, viewer, filters)
        assert await visible.events(filters) == shown, filters
        stamps, ids = await visible.items(filters)
        upwards = sorted(shown, key=lambda e: (e.created_at, e.id))
        assert [bytes(row).hex() for row in ids] == [e.id for e in upwards], filters
        assert stamps.tolist() == [e.created_at for e in upwards]
        counted = [f.replace(limit=None) for f in filters]
        whole = expected(events, viewer, counted)
        assert await visible.count(counted) == len(whole), filters
        offset = shared_offset(counted)
        if offset is not None:
            authors = {e.pubkey for e in whole}
            assert await visible.registers(counted) == hll.from_pubkeys(authors, offset)


async def test_count_and_registers_of_one_answer_are_of_one_snapshot(store: SqliteStore) -> None:
    sent = [signed(i, 7, [["e", ALICE]], "+", NOW) for i in range(1, 60)]
    asked = [Filter(kinds=[7], tags={"#e": [ALICE]})]
    offset = shared_offset(asked)
    assert offset is not None
    visible, stopped = VisibleStore(store, Viewer(PRIVATE_KINDS, frozenset())), asyncio.Event()

    async def write() -> None:
        for event in sent:
            await store.save([verify(event)])
        stopped.set()

    answers = []
    async with asyncio.TaskGroup() as group:
        group.create_task(write())
        while not stopped.is_set():
            answers.append(await visible.figures(asked, registers=True))
    for answer in answers:  # each event has an author of its own, and they come in order
        authors = [event.pubkey for event in sent[: answer.count]]
        assert answer.registers == hll.from_pubkeys(authors, offset)
    assert len({answer.count for answer in answers}) > 1


async def test_a_large_private_answer_is_whole(store: SqliteStore) -> None:
    sent = [signed(1, 4, [["p", ALICE]], str(i), NOW + i) for i in range(1_100)]
    got = [signed(2, 4, [["p", ME]], str(i), NOW + i) for i in range(1_100)]
    await store.save([verify(event) for event in sent + got])
    visible = VisibleStore(store, Viewer(PRIVATE_KINDS, frozenset({ME})))
    pages = [page async for page in visible.pages([Filter(kinds=[4], limit=5_000)])]
    assert sum(len(page) for page in pages) == 2_200


@pytest.mark.parametrize("keys", [(), (ME,)], ids=["nobody", "one"])
async def test_what_is_found_at_once_is_what_may_be_seen(
    tmp_path: Path, keys: tuple[str, ...]
) -> None:
    events = some_events(random.Random(7))
    viewer = Viewer(PRIVATE_KINDS, frozenset(keys))
    async with await SqliteStore.open(tmp_path / "s.db") as store:
        await store.save([verify(event) for event in events])
        visible = VisibleStore(store, viewer)
        answered = 0
        single = [
            [Filter.from_json({**shape, "limit": limit})]
            for shape in FILTERS
            for limit in (1, 4, 20, 500)
        ]
        unions = [[f for (f,) in random.Random(n).sample(single, 3)] for n in range(20)]
        for asked in single + unions:
            found = visible.at_once(asked)
            if found is not None:
                answered += 1
                shown = expected(events, viewer, asked)
                got = [one.json.decode() for one in found.events]
                assert got == [event.to_json() for event in shown]
                assert [one.id for one in found.events] == [event.id for event in shown]
                unlimited = [f.replace(limit=None) for f in asked]
                left_out = len(expected(events, viewer, unlimited)) > len(shown)
                assert found.more or not left_out
                assert left_out or len(asked) > 1 or not found.more
        assert answered > len(FILTERS) / 2


async def test_a_count_of_a_whole_index_is_not_found_at_once(tmp_path: Path) -> None:
    """SQLite counts an index in one step, which would hold up every other connection."""
    async with await SqliteStore.open(tmp_path / "s.db") as store:
        await store.save([verify(event) for event in some_events(random.Random(7))])
        visible = VisibleStore(store, Viewer(frozenset(), frozenset()))
        assert visible.figures_at_once([Filter(kinds=[1])]) is not None
        assert visible.figures_at_once([Filter()]) is None
        assert visible.figures_at_once([Filter(kinds=[1]), Filter(since=NOW)]) is None

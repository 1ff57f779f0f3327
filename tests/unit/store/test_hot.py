"""COUNT of hot targets: from the derived tables, and never another answer than the events give."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Final

import pytest

from nostr_client import hll
from nostr_client.codecs.filters import Filter
from nostr_client.store.index import update as index_update
from nostr_client.store.index.keeper import Index
from nostr_client.store.index.schema import ALIAS
from nostr_client.store.sqlite import SqliteStore
from tests.conformance.store_events import NOW, make

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import AsyncIterator
    from pathlib import Path

    from nostr_client.codecs.keys import VerifiedEvent
    from nostr_client.store.query.snapshot import Snapshot

HOT = 4
NOTE, OTHER = "ab" * 32, "cd" * 32
ASKED: Final[tuple[dict[str, Any], ...]] = (
    {"kinds": [7], "#e": [NOTE]},
    {"kinds": [7, 7], "#e": [OTHER], "limit": 1},
    {"kinds": [6, 16], "#e": [NOTE]},
    {"kinds": [6, 7, 16], "#e": [NOTE]},
    {"kinds": [7], "#e": [NOTE, OTHER]},
    {"kinds": [7], "#e": [NOTE], "#t": ["x"]},
    {"kinds": [7], "#e": [NOTE], "since": NOW - 990},
    {"kinds": [7, 8], "#e": [NOTE]},
    {"#e": [NOTE]},
)
LIKES: Final = Filter.from_json(ASKED[0])


class Clock:
    now = NOW

    def __call__(self) -> int:
        return self.now


@pytest.fixture(autouse=True)
def _few_are_hot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_update, "HOT", HOT)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["file", "memory"])
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, clock: Clock
) -> AsyncIterator[SqliteStore]:
    path = ":memory:" if request.param == "memory" else str(tmp_path / "s.db")
    async with await SqliteStore.open(path, clock=clock) as opened:
        yield opened


def some(rng: random.Random, first: int, count: int) -> list[VerifiedEvent]:
    found = []
    for n in range(first, first + count):
        kind = rng.choice([6, 7, 7, 7, 8, 16])
        tags: list[tuple[str, ...]] = [("e", rng.choice([NOTE, OTHER]))] * rng.randrange(1, 3)
        if rng.random() < 0.3:
            tags.append(("t", "x"))
        if rng.random() < 0.1:
            tags.append(("expiration", str(NOW + rng.randrange(1, 50))))
        at = NOW - 1_000 + n
        found.append(make(rng.randrange(12), kind, at=at, tags=tuple(tags), content=str(n)))
    return found


async def answers(store: SqliteStore, asked: Filter = LIKES) -> tuple[int, bytes]:
    def both(found: Snapshot) -> tuple[int, bytes]:
        by_one_pass = found.figures(asked)
        assert by_one_pass == (found.count([asked]), found.registers(asked))
        return by_one_pass

    return await store.snapshot(both)


async def check(store: SqliteStore) -> None:
    """Every answer of a snapshot is what its events give."""
    for fields in ASKED:
        asked = Filter.from_json(fields)
        events = await store.query([asked.replace(limit=None)])
        offset = hll.offset(asked.to_dict())
        assert offset is not None
        registers = hll.from_pubkeys([bytes.fromhex(e.pubkey) for e in events], offset)
        assert await answers(store, asked) == (len(events), registers), fields


async def set_row(store: SqliteStore, **fields: Any) -> None:
    """Make the tables say something that the events do not, to see where an answer is from."""
    names = ", ".join(f"{name} = :{name}" for name in fields)

    def write(conn: sqlite3.Connection) -> None:
        conn.execute(f"UPDATE {ALIAS}.hot SET {names} WHERE kind = 7", fields)

    await store.database.maintain(write)


@pytest.mark.parametrize("seed", range(3))
async def test_answers_are_those_of_the_events(store: SqliteStore, clock: Clock, seed: int) -> None:
    rng = random.Random(seed)
    index = await Index.open(store)
    for step in range(12):
        await store.save(some(rng, 100 * step, rng.randrange(1, 12)))
        if rng.random() < 0.3:
            await store.delete([Filter(kinds=[7], limit=rng.randrange(5))])
        await check(store)
        clock.now += rng.choice([0, 9])
        await check(store)
        if rng.random() < 0.2:
            await store.sweep()
            await index.refresh()
    await check(store)


async def test_they_come_from_the_tables(store: SqliteStore) -> None:
    await Index.open(store)
    await store.save([make(n, 7, tags=(("e", NOTE),)) for n in range(HOT)])
    await set_row(store, events=1_000, registers=bytes([9]) * 256)
    assert await answers(store) == (1_000, bytes([9]) * 256)
    await set_row(store, dirty=1)  # an author left: the registers are read again
    count, registers = await answers(store)
    assert count == 1_000
    assert registers != bytes([9]) * 256


async def test_tables_that_are_behind_are_not_used(store: SqliteStore) -> None:
    index = await Index.open(store)
    await store.save([make(n, 7, tags=(("e", NOTE),)) for n in range(HOT)])
    await set_row(store, events=1_000)
    store.database.after_commit.remove(index._keep_up)
    await store.save([make(HOT, 7, tags=(("e", NOTE),))])
    assert (await answers(store))[0] == HOT + 1


async def test_what_expired_is_not_counted_before_the_sweep(
    store: SqliteStore, clock: Clock
) -> None:
    await Index.open(store)
    ends = ("expiration", str(NOW + 5))
    await store.save([make(n, 7, tags=(("e", NOTE),)) for n in range(HOT)])
    await store.save([make(HOT, 7, tags=(("e", NOTE), ends))])
    assert (await answers(store))[0] == HOT + 1
    clock.now = NOW + 6
    assert (await answers(store))[0] == HOT
    await check(store)

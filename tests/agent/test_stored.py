"""What the agent keeps: history that is thinned, specs, lines that are crossed."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from agent import stored
from agent.api.schema import Point
from agent.stored import AGENT, DAY, HOUR
from nostr_client.store.database import Database

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import AsyncIterator

T0 = 1_700_006_400.0  # midnight, UTC


@pytest.fixture
async def database() -> AsyncIterator[Database]:
    async with await Database.open(":memory:", migrations=[AGENT]) as opened:
        yield opened


def point(at: float, value: int) -> Point:
    return Point(at=at, value=value, low=value - 1, high=None, exact=False)


async def fill(database: Database, days: int, every: int = 600) -> float:
    """A value for each point in time: its number; the end."""
    times = [T0 + n * every for n in range(days * DAY // every)]

    def work(conn: sqlite3.Connection) -> None:
        for n, at in enumerate(times):
            stored.add_point(conn, "w", point(at, n))

    await database.write(work)
    return times[-1]


async def thin(database: Database, now: float) -> int:
    removed = 0
    while step := await database.write(lambda conn: stored.thin(conn, now, 500)):
        removed += step
    return removed


async def test_history_is_fine_then_hourly_then_daily(database: Database) -> None:
    now = await fill(database, 120)
    before = await database.read(lambda c: stored.history(c, "w", 0, 100_000, now))
    removed = await thin(database, now)
    after = await database.read(lambda c: stored.history(c, "w", 0, 100_000, now))
    assert removed > 10_000
    assert after == before
    gaps = [b.at - a.at for a, b in itertools.pairwise(after)]
    old = [g for p, g in zip(after, gaps, strict=False) if p.at < now - 93 * DAY]
    new = [g for p, g in zip(after, gaps, strict=False) if p.at > now - 2 * DAY]
    assert set(old) == {DAY}
    assert set(new) == {600}
    assert after[-1].value == 120 * DAY // 600 - 1
    assert len(after) < 28 + 24 * 92 + 300


async def test_the_limit_keeps_the_newest(database: Database) -> None:
    now = await fill(database, 3)
    found = await database.read(lambda c: stored.history(c, "w", 0, 5, now))
    assert [p.value for p in found] == [427, 428, 429, 430, 431]
    late = await database.read(lambda c: stored.history(c, "w", now - 600, 5, now))
    assert [p.value for p in late] == [430, 431]


async def test_changes_and_the_spark(database: Database) -> None:
    now = await fill(database, 8)
    found = await database.read(lambda c: stored.moved(c, "w", 8 * 144 - 1, now))
    assert found.changes == {"1h": 6, "1d": 144, "1w": 7 * 144}
    assert len(found.spark) == 24
    assert list(found.spark) == sorted(found.spark)
    nothing = await database.read(lambda c: stored.moved(c, "other", 1, now))
    assert nothing == stored.Moved({}, ())


async def test_specs(database: Database) -> None:
    await database.write(lambda c: stored.put_spec(c, "watch", "a", "{}", T0))
    await database.write(lambda c: stored.put_spec(c, "watch", "a", '{"b":1}', T0))
    assert await database.read(lambda c: stored.specs(c, "watch")) == ['{"b":1}']
    assert await database.read(lambda c: stored.specs(c, "sync")) == []
    await database.write(lambda c: stored.add_point(c, "a", point(T0, 1)))
    assert await database.write(lambda c: stored.remove_spec(c, "watch", "a"))
    assert not await database.write(lambda c: stored.remove_spec(c, "watch", "a"))
    assert not await database.read(lambda c: stored.history(c, "a", 0, 10, T0 + HOUR))


async def test_lines_are_crossed_until_they_are_not(database: Database) -> None:
    await database.write(lambda c: stored.set_crossed(c, "a", "> 1", T0, on=True))
    await database.write(lambda c: stored.set_crossed(c, "a", "> 1", T0, on=True))
    assert await database.read(lambda c: stored.crossed(c, "a")) == {"> 1"}
    await database.write(lambda c: stored.set_crossed(c, "a", "> 1", T0, on=False))
    assert not await database.read(lambda c: stored.crossed(c, "a"))


async def test_notes_by_prefix(database: Database) -> None:
    await database.write(lambda c: stored.note(c, "sync:a%", {"x": 1}))
    await database.write(lambda c: stored.note(c, "watch:a", 2))
    assert await database.read(lambda c: stored.notes(c, "sync:")) == {"sync:a%": '{"x":1}'}

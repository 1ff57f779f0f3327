"""What an embedded store shows to others, and takes from them, over its own threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nostr_client.counters.base import NoStream
from nostr_client.counters.config import SourceConfig, StreamConfig
from nostr_client.counters.engine.remote import Remote
from nostr_client.counters.engine.take import Batch
from nostr_client.counters.sqlite.remotes import TooMany
from nostr_client.counters.sqlite.store import SqliteCounterStore
from nostr_client.errors import InvalidInput

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import AsyncIterator


@pytest.fixture
async def store() -> AsyncIterator[SqliteCounterStore]:
    async with await SqliteCounterStore.open(":memory:") as one:
        config = StreamConfig(name="app", subjects=("app.>",), allow_msg_counter=True)
        await one.create_stream(config)
        await one.remotes.begin_run("first")
        yield one


async def test_values_by_pattern_each_once(store: SqliteCounterStore) -> None:
    counters = await store.counters("app")
    for subject, n in (("app.a", 1), ("app.b.c", 2), ("app.b.d", 3)):
        await counters.add(subject, n)
    values = store.remotes.values
    every = {"app.a": "1", "app.b.c": "2", "app.b.d": "3"}
    assert (await values("app", (">",), 1_000)).values == every
    assert (await values("app", ("app.b.*", "app.*.c"), 1_000)).values == {
        "app.b.c": "2",
        "app.b.d": "3",
    }
    assert (await values("app", ("app.none",), 1_000)).values == {}
    with pytest.raises(TooMany, match="fewer subjects"):
        await values("app", (">",), 20)
    with pytest.raises(NoStream):
        await values("none", (">",), 20)
    found = await values("app", (">",), 1_000)
    assert (found.head.last_seq, found.head.runs) == (3, (("first", 0),))
    assert found.ways == ((f"app@{await store.identity()}",),)


def spoil(conn: sqlite3.Connection) -> None:
    """Make the counter app.a a broken one."""
    for change in ("counter_message SET val = NULL, body = x'78'", "counter_latest SET val = NULL"):
        conn.execute(f"UPDATE {change} WHERE subject = 'app.a'")


async def test_a_broken_counter_holds_up_no_other_value(store: SqliteCounterStore) -> None:
    counters = await store.counters("app")
    await counters.add("app.a", 1)
    await counters.add("app.b", 2)
    await store.database.write(spoil)
    assert (await store.remotes.values("app", (">",), 1_000)).values == {"app.b": "2"}
    page = await store.remotes.page("app", 0, 10)
    assert [(one.subject, one.value) for one in page.arrivals] == [("app.a", None), ("app.b", "2")]


async def test_one_store_sources_another(store: SqliteCounterStore) -> None:
    await (await store.counters("app")).add("app.a", 5)
    source = Remote("total", SourceConfig("one"))
    async with await SqliteCounterStore.open(":memory:") as other:
        await other.create_stream(StreamConfig(name="total", allow_msg_counter=True))
        assert await other.remotes.known("one") is None
        for outcome in ("met", "taken", "taken"):
            page = await store.remotes.page("app", 0, 10)
            batch = Batch(page.head, page.arrivals, page.head.last_seq, False, page.ways)
            assert (await other.remotes.take(source, batch)).outcome == outcome
        assert await (await other.counters("total")).load("app.a") == 5
        found = await other.remotes.known("one")
        assert found is not None
        known, parked, count = found
        assert (known.seq, known.moved, known.last_value, parked, count) == (1, 1, "5", [], 0)
        assert not await other.remotes.confirm("one")
        with pytest.raises(InvalidInput):
            await other.remotes.take(source, batch._replace(upto=99))
        await other.remotes.configure(())
        assert (await other.remotes.page("total", 0, 10)).ways == (
            (f"total@{await other.identity()}",),
        )

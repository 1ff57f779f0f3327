"""The tables of a store's file, and what they hold after a fixed run."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING

from agent.alerts.outbox import OUTBOX
from agent.service.relay_state import RELAY_BOOK
from agent.state import AGENT
from nostr_client.codecs.event import EventTemplate
from nostr_client.codecs.keys import verify
from nostr_client.count.claims.book import CLAIMS, ClaimBook
from nostr_client.count.merge import Claim, ClaimStatus, Method
from nostr_client.count.queries import followers
from nostr_client.count.remembering import asked_of
from nostr_client.counters.config import StreamConfig
from nostr_client.counters.engine.schema import MIGRATIONS
from nostr_client.counters.sqlite.store import SqliteCounterStore
from nostr_client.store.sqlite import SqliteStore
from nostr_client.sync.coverage.history import COVERAGES
from nostr_client.sync.sent import REPAIRS
from nostr_client.watch import WATCHES, WatchRepository
from nostr_client.watch.definition import Watch
from tests.worlds import NOTE, START, TARGET, follow, reaction, signer

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    import pytest
    from syrupy.assertion import SnapshotAssertion

    from nostr_client.codecs.keys import VerifiedEvent

ALL = (CLAIMS, MIGRATIONS, WATCHES, AGENT, OUTBOX, RELAY_BOOK, REPAIRS, COVERAGES)
RANDOM = {"counter_store", "counter_stream", "_sqlite_migrations"}
"""Tables that are another in every file: their rows are only counted."""


def events() -> list[VerifiedEvent]:
    """Follows, a reaction, a list that is replaced, an event that expires, and a deletion."""
    made = [follow(0), follow(1), reaction(2), follow(0, START + 5)]
    note = signer(3).sign_now(
        EventTemplate(kind=1, content="hi", tags=(("expiration", "4000000000"),), created_at=START)
    )
    gone = EventTemplate(kind=5, content="", tags=(("e", reaction(2).id),), created_at=START + 50)
    return [*map(verify, made), note, signer(2).sign_now(gone)]


async def a_fixed_run(store: SqliteStore) -> None:
    """Events, claims of two relays, a watch and a counter."""
    await store.save(events())
    claims = ClaimBook(store.database)
    answered = Claim(
        relay="wss://one.example",
        status=ClaimStatus.OK,
        method=Method.HLL,
        count=12,
        registers=bytes(range(256)),
        asked_at=float(START),
        answered_at=float(START + 1),
        latency_ms=12.5,
    )
    refused = Claim(relay="wss://two.example", status=ClaimStatus.REFUSED, asked_at=float(START))
    pairs = [(one.relay, one) for one in (answered, refused)]
    await claims.remember(asked_of(followers(TARGET)), pairs)
    await WatchRepository(store.database).add(
        Watch(name="w", query="reactions", target=NOTE, relays=("wss://one.example",))
    )
    ticks = itertools.count(START * 10**9)
    counters = await SqliteCounterStore.over(store.database, clock=lambda: next(ticks))
    await counters.create_stream(StreamConfig(name="S", subjects=("a.>",), allow_msg_counter=True))
    stream = await counters.counters("S")
    await stream.add("a.b", 3, msg_id="one")
    await stream.add("a.b", -1)
    await counters.close()


def described(conn: sqlite3.Connection) -> Iterator[str]:
    """Every table with its columns and indexes, and every row."""
    sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'search_%'"
    for (name,) in sorted(conn.execute(sql)):
        info = conn.execute('SELECT name, type, "notnull", pk FROM pragma_table_info(?)', (name,))
        columns = [
            f"{column} {kind}{' not null' * must}{f' key {key}' * bool(key)}"
            for column, kind, must, key in info
        ]
        yield f"{name}: {', '.join(columns)}"
        yield from (f"  index {one}" for one in sorted(_indexes(conn, name)))
        rows = sorted(map(repr, map(_short, conn.execute(f"SELECT * FROM {name}"))))
        yield from [f"  {len(rows)} rows"] if name in RANDOM else (f"  {one}" for one in rows)


def _indexes(conn: sqlite3.Connection, table: str) -> Iterator[str]:
    for index, unique in conn.execute('SELECT name, "unique" FROM pragma_index_list(?)', (table,)):
        columns = conn.execute("SELECT name FROM pragma_index_info(?)", (index,))
        word = "unique " if unique else ""
        name = "" if index.startswith("sqlite_") else f" {index}"
        yield f"{word}({', '.join(str(column) for (column,) in columns)}){name}"


def _short(row: tuple[object, ...]) -> tuple[object, ...]:
    """A row with its blobs in hexadecimal, cut."""
    return tuple(f"x'{one[:12].hex()}'" if isinstance(one, bytes) else one for one in row)


async def test_a_store_after_a_fixed_run(
    monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    """The key that hides tags is random: here it is zeros."""
    monkeypatch.setattr(os, "urandom", bytes)
    store = await SqliteStore.open(
        ":memory:", migrations=ALL, search=True, clock=lambda: START + 100.0
    )
    async with store:
        await a_fixed_run(store)
        lines = await store.database.read(lambda conn: list(described(conn)))
    assert "\n".join(lines) == snapshot

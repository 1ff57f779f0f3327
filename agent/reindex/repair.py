"""`--repair`: repairs derived rows of a store in place, in the writer's own transactions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from nostr_client.codecs import kinds
from nostr_client.codecs.filters import Filter
from nostr_client.store import rules
from nostr_client.store.lookup import chunks, rows_in
from nostr_client.store.rows import EVENT_COLUMNS, EVENT_TABLES, INSERT_TAG, read_event
from nostr_client.store.save import block_address, block_author, block_ids

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator, Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.store.derived import Repairs
    from nostr_client.store.sqlite import SqliteStore

    Repair = Callable[[sqlite3.Connection, Sequence[int]], None]

T = TypeVar("T")

BATCH: Final = 2_000
"""Events repaired in one transaction, so that other writers wait for a moment only."""


async def repair_rows(store: SqliteStore, wanted: Repairs) -> dict[str, int]:
    """Repair rows that are missing or wrong; return how many of each kind. Raises StoreError.

    Safe to cancel and to repeat: each batch is repaired whole or not at all.
    """
    steps: tuple[tuple[str, tuple[int, ...], Repair], ...] = (
        ("tags", wanted.tags, lambda conn, seqs: _tags(conn, store, seqs)),
        ("columns", wanted.columns, _columns),
        ("requests", wanted.requests, _requests),
    )
    done: dict[str, int] = {}
    for name, seqs, repair in steps:
        for part in _batches(seqs):
            await store.database.write(partial(_apply, repair, part))
        done[name] = len(seqs)
    return done


async def remove_dead(store: SqliteStore, wanted: Repairs) -> dict[str, int]:
    """Remove events that should not be stored, then compute the fingerprints that differ again.

    The store itself removes them, so that its index follows. Raises StoreError. Safe to cancel and
    to repeat.
    """
    done = {"dead": 0, "scopes": 0}
    for ids in _batches(wanted.dead):
        done["dead"] += await store.delete([Filter(ids=ids)])
    for text in wanted.scopes:
        await store.database.write(partial(_forget, text=text))
        done["scopes"] += await store.fingerprints.register(Filter.from_json(text))
    return done


def _apply(repair: Repair, seqs: Sequence[int], conn: sqlite3.Connection) -> None:
    repair(conn, seqs)


def _batches(values: Sequence[T]) -> Iterator[Sequence[T]]:
    for at in range(0, len(values), BATCH):
        yield values[at : at + BATCH]


def _events(conn: sqlite3.Connection, seqs: Sequence[int]) -> list[tuple[int, int, Event]]:
    """Seq, author's number and event."""
    sql = f"SELECT e.seq, e.a, {EVENT_COLUMNS} FROM {EVENT_TABLES} WHERE e.seq IN"
    found = {row[0]: row for row in rows_in(conn, sql, seqs)}
    return [(seq, row[1], read_event(row[2:])) for seq, row in found.items()]


def _tags(conn: sqlite3.Connection, store: SqliteStore, seqs: Sequence[int]) -> None:
    """Make the rows of these events in the tag index again."""
    for part in chunks(seqs):
        marks = ",".join("?" * len(part))
        conn.execute(f"DELETE FROM tag WHERE seq IN ({marks})", part)
    rows: list[tuple[Any, ...]] = [
        (h, event.created_at, seq, event.kind, a)
        for seq, a, event in _events(conn, seqs)
        for h in store.hasher.of_tags(event.tags)
    ]
    conn.executemany(INSERT_TAG, sorted(rows))


def _columns(conn: sqlite3.Connection, seqs: Sequence[int]) -> None:
    rows = [
        (rules.d_of(event), rules.expiration(event), seq) for seq, _, event in _events(conn, seqs)
    ]
    conn.executemany("UPDATE OR IGNORE event SET d = ?, exp = ? WHERE seq = ?", rows)


def _requests(conn: sqlite3.Connection, seqs: Sequence[int]) -> None:
    """Block again what requests ask for."""
    for _, a, event in _events(conn, seqs):
        if event.kind == kinds.VANISH:
            block_author(conn, a, event.created_at)
            continue
        wanted = rules.deletion(event)
        block_ids(conn, a, map(bytes.fromhex, wanted.ids))
        for address in wanted.addresses:
            block_address(conn, a, address, event.created_at)


def _forget(conn: sqlite3.Connection, text: str) -> None:
    """A scope without its chunks."""
    sql = "SELECT scope FROM neg_scope WHERE filter = ?"
    for (scope,) in conn.execute(sql, (text,)).fetchall():
        conn.execute("DELETE FROM neg_chunk WHERE scope = ?", (scope,))
        conn.execute("DELETE FROM neg_scope WHERE scope = ?", (scope,))

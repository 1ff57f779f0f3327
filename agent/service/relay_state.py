"""Keeps the relays of the pool: stores what they can do, and closes those that no task uses.

That a relay can do something stays true; that it cannot is tried again after a week, as relays are
updated. A relay that no task needs at two rounds in a row, and that was sent nothing in between, is
closed and removed; the next request opens it again.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import msgspec

from nostr_client.network.relay_state import Capabilities
from nostr_client.store.file.migrate import Schema, run_script

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection

    from nostr_client.network.pool import RelayPool
    from nostr_client.store.file.database import Database

DOUBTED_AFTER_S: Final = 7 * 86_400.0
"""Age from which a relay is asked again for what it could not do."""

MOST: Final = 5_000
"""Most relays that are stored, the newest; a stranger's list may name any."""


_TABLE: Final = """
CREATE TABLE agent_relay (
    url TEXT PRIMARY KEY, able TEXT NOT NULL, at REAL NOT NULL
) WITHOUT ROWID
"""

RELAY_BOOK: Final = Schema("nostr_tally_agent_relays", partial(run_script, script=_TABLE))


class RelayBook:
    """Capabilities by normalised URL; `known` is what a pool is given, and it grows."""

    def __init__(self, database: Database, known: dict[str, Capabilities]) -> None:
        self.known = known
        self._database = database
        self._kept = dict(known)

    @classmethod
    async def open(cls, database: Database, now: float) -> Self:
        """Read the stored state; an unreadable row counts as absent."""
        read = {url: _read(text, now - at) for url, text, at in await database.read(_rows)}
        return cls(database, {url: able for url, able in read.items() if able is not None})

    async def save(self, pool: RelayPool, now: float) -> int:
        """Store what has been learnt since; return the number of relays."""
        learnt = {
            url: relay.capabilities
            for url, relay in pool.relays.items()
            if relay.capabilities != self._kept.get(url, _NOTHING)
        }
        if learnt:
            await self._database.write(lambda conn: _put(conn, learnt, now))
            self._kept |= learnt
            self.known |= learnt
        return len(learnt)


_NOTHING: Final = Capabilities()


def _read(text: str, age: float) -> Capabilities | None:
    try:
        able = msgspec.json.decode(text, type=Capabilities)
    except msgspec.MsgspecError:
        return None
    if age < DOUBTED_AFTER_S:
        return able
    doubted = {n: None for n, value in msgspec.structs.asdict(able).items() if value is False}
    return msgspec.structs.replace(able, **doubted)


def _rows(conn: sqlite3.Connection) -> list[tuple[str, str, float]]:
    sql = "SELECT url, able, at FROM agent_relay ORDER BY at DESC LIMIT ?"
    return conn.execute(sql, (MOST,)).fetchall()


def _put(conn: sqlite3.Connection, learnt: dict[str, Capabilities], now: float) -> None:
    rows = [(url, msgspec.json.encode(able).decode(), now) for url, able in learnt.items()]
    conn.executemany("INSERT OR REPLACE INTO agent_relay VALUES (?, ?, ?)", rows)
    old = "SELECT url FROM agent_relay ORDER BY at DESC LIMIT -1 OFFSET ?"
    conn.execute(f"DELETE FROM agent_relay WHERE url IN ({old})", (MOST,))


class Sums(NamedTuple):
    """Sums over closed relays, so that totals never fall."""

    bytes_received: int = 0
    bytes_sent: int = 0
    faults: int = 0


class RelayEviction:
    """Closes idle relays of one pool, one `round` at a time."""

    def __init__(self, pool: RelayPool) -> None:
        self.gone = Sums()
        self._pool = pool
        self._idle: dict[str, int] = {}

    async def round(self, needed: Collection[str]) -> list[str]:
        """Close relays that were not needed the last time either; return their URLs."""
        relays = self._pool.relays
        idle = {url: relays[url].stats.bytes_sent for url in relays.keys() - set(needed)}
        left = sorted(url for url, sent in idle.items() if self._idle.get(url) == sent)
        self._idle = {url: sent for url, sent in idle.items() if url not in left}
        for url in left:
            stats = relays[url].stats
            sums = (stats.bytes_received, stats.bytes_sent, stats.faults)
            self.gone = Sums(*(a + b for a, b in zip(self.gone, sums, strict=True)))
            await self._pool.remove(url)
        return left

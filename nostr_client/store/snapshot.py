"""One snapshot of a store: several questions whose answers belong together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nostr_client.store import aggregate, select

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from nostr_client.event import Event
    from nostr_client.filters import Filter
    from nostr_client.store.select import Context


class Snapshot:
    """Questions of `EventStore` by their names, asked of one read transaction, without waiting.

    It is good for as long as the call of `EventStore.snapshot` that made it.
    """

    def __init__(self, conn: sqlite3.Connection, context: Context) -> None:
        self._conn = conn
        self._context = context

    def query(self, filters: Sequence[Filter]) -> list[Event]:
        """The events of a union, newest first. Raises InvalidFilter."""
        return select.events(self._conn, self._context, filters)

    def count(self, filters: Sequence[Filter]) -> int:
        """How many distinct events match. Raises InvalidFilter."""
        return aggregate.count(self._conn, self._context, filters)

    def kinds(self) -> list[int]:
        """The kinds that are held, ascending."""
        return aggregate.held_kinds(self._conn)

    def registers(self, filter: Filter) -> bytes:
        """The HLL registers of what matches. Raises InvalidFilter."""
        return aggregate.registers(self._conn, self._context, filter)

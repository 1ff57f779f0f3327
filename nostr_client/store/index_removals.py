"""Events that were taken out of a store and that an index may not have followed yet.

Every removal has a number: the store's count of removals with it. A number that an undone
transaction noted is noted again by the next removal, so numbers up to the store's count are true.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nostr_client.store.index_schema import Mark
from nostr_client.store.lookup import rows_in

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from nostr_client.event import Event

REMEMBERED: Final = 100_000
"""Removals remembered at most, some 100 MB: for a bulk rebuild, or while a disk is full."""


class Removals:
    """Removed events by number; lives in the writer thread."""

    def __init__(self) -> None:
        self._noted: dict[int, tuple[int, Event]] = {}

    def note(self, conn: sqlite3.Connection, events: Sequence[Event]) -> None:
        """Remember events that are about to be removed; the store has counted them already."""
        by_id = {bytes.fromhex(event.id): event for event in events}
        rows = list(rows_in(conn, "SELECT id, seq FROM event WHERE id IN", list(by_id)))
        seqs: dict[bytes, int] = dict(rows)
        first = Mark.of_store(conn).removals - len(by_id) + 1
        for number, (id_, event) in enumerate(by_id.items(), first):
            self._noted.pop(number, None)
            self._noted[number] = (seqs[id_], event)
        for number in list(self._noted)[: len(self._noted) - REMEMBERED]:
            del self._noted[number]

    def between(self, read: Mark, now: Mark) -> list[Event] | None:
        """What was stored at `read` and was removed since; None where that is not all known."""
        if not 0 <= now.removals - read.removals <= len(self._noted):
            return None
        noted = [self._noted.get(n) for n in range(read.removals + 1, now.removals + 1)]
        known = [one for one in noted if one is not None]
        if len(known) < len(noted):
            return None
        return [event for seq, event in known if seq < read.next_seq]

    def forget(self, number: int) -> None:
        """Forget the removals up to a number."""
        for one in [n for n in self._noted if n <= number]:
            del self._noted[one]

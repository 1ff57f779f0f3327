"""The kept fingerprints of a store against its events: chunks, heads and log of every scope."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nostr_client.errors import InvalidInput
from nostr_client.filters import Filter
from nostr_client.negentropy.chunks import head_of, record, records
from nostr_client.store.lookup import rows_in
from nostr_client.store.rows import EVENT_COLUMNS, EVENT_TABLES, read_event, read_events

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from agent.reindex.compare import Found

_CHUNKS: Final = "SELECT lo_ts, lo_id, n, sum, ids FROM neg_chunk WHERE scope = ?"
_LOG: Final = "SELECT ts, id, gone FROM neg_log WHERE n > ? ORDER BY n"
_ALL: Final = f"SELECT {EVENT_COLUMNS} FROM {EVENT_TABLES}"
EVERYTHING: Final = Filter()


def check_fingerprints(conn: sqlite3.Connection, found: Found) -> Iterator[str]:
    """The filters of those scopes whose chunks and log together are not the events."""
    present = "SELECT 1 FROM sqlite_schema WHERE name = 'neg_scope'"
    if conn.execute(present).fetchone() is None:
        return
    scopes = conn.execute("SELECT scope, filter, folded FROM neg_scope").fetchall()
    found.compared["fingerprint"] = len(scopes)
    for scope, text, folded in scopes:
        filter = Filter.from_json(text)
        held = _held(conn, scope)
        if held is not None:
            _apply_log(conn, held, folded, filter)
        if held is None or held != _matching(conn, filter):
            found.add("fingerprint", text, "the kept fingerprints are not those of the events")
            yield text


def _held(conn: sqlite3.Connection, scope: int) -> set[bytes] | None:
    """The records of a scope's chunks; None where a chunk is damaged, or not as its head says."""
    held: set[bytes] = set()
    number = 0
    for stamp, id_, n, total, packed in conn.execute(_CHUNKS, (scope,)):
        try:
            head = head_of(packed)
        except InvalidInput:
            return None
        if (head.stamp, head.id, head.count) != (stamp, id_, n):
            return None
        if head.total.to_bytes(32, "little") != total:
            return None
        held.update(records(packed))
        number += n
    return held if len(held) == number else None


def _apply_log(conn: sqlite3.Connection, held: set[bytes], folded: int, filter: Filter) -> None:
    final = {record(ts, id_): gone for ts, id_, gone in conn.execute(_LOG, (folded,))}
    held.difference_update(final)
    came = {one for one, gone in final.items() if not gone}
    if filter != EVERYTHING:
        rows = rows_in(conn, f"{_ALL} WHERE e.id IN", [one[8:] for one in came])
        matching = {bytes.fromhex(e.id) for e in read_events(rows) if filter.matches(e)}
        came = {one for one in came if one[8:] in matching}
    held.update(came)


def _matching(conn: sqlite3.Connection, filter: Filter) -> set[bytes]:
    if filter == EVERYTHING:
        return {record(at, id_) for at, id_ in conn.execute("SELECT created_at, id FROM event")}
    events = (read_event(row) for row in conn.execute(_ALL))
    return {record(e.created_at, bytes.fromhex(e.id)) for e in events if filter.matches(e)}

"""What a push remembers in the store: what was acknowledged, is in doubt, or may come late."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeAlias

from nostr_client.counters.base import NoStream
from nostr_client.counters.config import check_name
from nostr_client.counters.numbers import format_integer, parse_integer
from nostr_client.counters.push.rules import Flight, Known

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

    Row: TypeAlias = "tuple[str, str | None, str, str | None, str | None, int | None, str | None]"

_SELECT = (
    "SELECT p.subject, p.acked, p.late, o.have, o.want, p.seq, o.msg_id"
    " FROM counter_push p LEFT JOIN counter_outbox o"
    " ON o.target = p.target AND o.subject = p.subject WHERE p.target = ? AND p.origin = ?"
)


def known(conn: sqlite3.Connection, target: str, origin: str) -> dict[str, Known]:
    """What is remembered of a target, by subject there.

    What another store, or an earlier stream of the name, has pushed (`origin`) counts for nothing.
    """
    return {row[0]: _known(row) for row in conn.execute(_SELECT, (target, origin))}


def _known(row: Row) -> Known:
    _, acked, late, have, want, seq, msg_id = row
    flight = None
    if have is not None and want is not None and msg_id is not None:
        flight = Flight(parse_integer(have), seq or 0, parse_integer(want), msg_id)
    return Known(
        acked=None if acked is None else parse_integer(acked),
        flight=flight,
        late=tuple(parse_integer(text) for text in json.loads(late)),
    )


def remember(
    conn: sqlite3.Connection, target: str, origin: str, found: Mapping[str, Known], now: int
) -> None:
    """Write what is known of some subjects; `now` in nanoseconds."""
    for subject, one in found.items():
        flight = one.flight
        acked = None if one.acked is None else format_integer(one.acked)
        late = json.dumps([format_integer(n) for n in one.late])
        conn.execute(
            "INSERT OR REPLACE INTO counter_push (target, subject, origin, acked, seq, late, ts)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (target, subject, origin, acked, flight.seq if flight else None, late, now),
        )
        if flight is None:
            where = (target, subject)
            conn.execute("DELETE FROM counter_outbox WHERE target = ? AND subject = ?", where)
            continue
        have, want = format_integer(flight.have), format_integer(flight.want)
        conn.execute(
            "INSERT OR REPLACE INTO counter_outbox VALUES (?, ?, ?, ?, ?, ?)",
            (target, subject, have, want, flight.msg_id, now),
        )


def origin(conn: sqlite3.Connection, stream: str) -> tuple[str, int]:
    """`store:epoch`, which stream of which store this is, and its last sequence; or NoStream."""
    (store,) = conn.execute("SELECT uuid FROM counter_store").fetchone()
    row = conn.execute(
        "SELECT epoch, last_seq FROM counter_stream WHERE name = ?", (check_name(stream),)
    ).fetchone()
    if row is None:
        raise NoStream(stream)
    return f"{store}:{row[0]}", row[1]

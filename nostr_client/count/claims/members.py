"""The part of a stored claim about single events: what it lists, and what it retracts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from nostr_client.count.merge import Listing, Method, Retracted
from nostr_client.count.merge.values import NOTHING_RETRACTED

if TYPE_CHECKING:
    import sqlite3


class ClaimMembers(msgspec.Struct, frozen=True, array_like=True):
    """The part of a claim about single events that is not read into a place."""

    listing: Listing | None
    retracted: Retracted


pack: Final = msgspec.msgpack.Encoder().encode
unpack: Final = msgspec.msgpack.Decoder(ClaimMembers).decode


def retracted_by(conn: sqlite3.Connection, q: int, r: int, oldest: float) -> Retracted | None:
    """Return what the answer by events of a relay retracts; None without one since `oldest`."""
    sql = (
        "SELECT members FROM claim LEFT JOIN claim_members USING (q, r)"
        " WHERE q = ? AND r = ? AND answered = 1 AND method = ? AND asked_at >= ?"
    )
    row = conn.execute(sql, (q, r, Method.EVENTS.value, oldest)).fetchone()
    if row is None:
        return None
    return NOTHING_RETRACTED if row[0] is None else unpack(row[0]).retracted

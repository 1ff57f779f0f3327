"""Decide about the push of one counter, from local value, remote value and earlier pushes.

A push is in doubt from the moment before it is sent. The doubt ends when its answer arrives or the
remote value has changed. While the remote value has not changed, the same push is sent again with
the same message id. A late copy is then a duplicate.

The id names the message on which the push builds (`@seq`). If the remote value returns to an
earlier value, the id is different.

The decisions are pure. `known`, `remember` and `origin` read and write the store's tables.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from itertools import combinations
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from nostr_client.counters.base import NoStream
from nostr_client.counters.config import check_name
from nostr_client.counters.rules import format_integer, parse_integer

MOST_LATE: Final = 8
"""Most pushes of one counter that were in doubt and may still arrive. Older ones are forgotten."""

LONGEST_ID: Final = 512
"""Most characters of a message id.

A longer id, with values of many digits, is replaced by its hash.
"""


class RemoteValue(msgspec.Struct, frozen=True):
    """Remote value of a counter, and the sequence of its newest message.

    Both are 0 if there is no message yet.
    """

    value: int
    seq: int


NOTHING: Final = RemoteValue(0, 0)


class Flight(msgspec.Struct, frozen=True):
    """Push that may have been sent: from the value `have`, read at `seq`, to `want`."""

    have: int
    seq: int
    want: int
    msg_id: str

    @property
    def delta(self) -> int:
        return self.want - self.have


class PushRecord(msgspec.Struct, frozen=True):
    """Stored record about the pushes of a counter.

    - `acked`: the last known remote value, or None.
    - `flight`: the push in doubt.
    - `late`: increments of pushes that were in doubt once. A late copy of one may still arrive.
    """

    acked: int | None = None
    flight: Flight | None = None
    late: tuple[int, ...] = ()

    def doubted(self) -> PushRecord:
        """Return the record with the push in flight added to `late`."""
        if self.flight is None or self.flight.delta in self.late:
            return self
        return msgspec.structs.replace(self, late=(*self.late, self.flight.delta)[-MOST_LATE:])


class Even(msgspec.Struct, frozen=True):
    """The remote value equals the local value."""

    surprise: bool = False


class Send(msgspec.Struct, frozen=True):
    """Publish `flight` after storing it.

    `surprise`: the remote value has a change that did not come from this store.
    """

    flight: Flight
    surprise: bool = False


class Stop(msgspec.Struct, frozen=True):
    """Wait for a confirmation.

    The remote value would fall, although it has a change that did not come from this store.
    """

    found: int
    local: int


Step: TypeAlias = "Even | Send | Stop"


def decide(
    origin: str, known: PushRecord, local: int, found: RemoteValue, *, confirmed: bool
) -> Step:
    """Return the next step. `origin` identifies the counter's stream and its subject."""
    flight = known.flight
    if flight is not None and found == RemoteValue(flight.have, flight.seq):
        return Send(flight)
    surprise = not explained(known, found)
    if found.value == local:
        return Even(surprise)
    if surprise and local < found.value and not confirmed:
        return Stop(found.value, local)
    msg_id = message_id(origin, found, local)
    return Send(Flight(found.value, found.seq, local, msg_id), surprise)


def explained(known: PushRecord, found: RemoteValue) -> bool:
    """Return whether the pushes of this store explain the remote value.

    It is an acknowledged value or a value in doubt, plus any of the pushes that may have come late.
    """
    if found.seq == 0:
        return True
    bases = [] if known.acked is None else [known.acked]
    if known.flight is not None:
        bases += [known.flight.have, known.flight.want]
    return any(found.value - base in _sums(known.late) for base in bases)


def _sums(late: tuple[int, ...]) -> set[int]:
    sizes = range(len(late) + 1)
    return {sum(some) for size in sizes for some in combinations(late, size)}


def message_id(origin: str, found: RemoteValue, want: int) -> str:
    """Return `store:epoch:name:have->want@seq`. `seq` is the message whose value is `have`."""
    change = f"{format_integer(found.value)}->{format_integer(want)}@{found.seq}"
    full = f"{origin}:{change}"
    if len(full) <= LONGEST_ID:
        return full
    digest = blake2b(full.encode(), digest_size=16).hexdigest()
    return f"{origin[: LONGEST_ID // 2]}:{digest}@{found.seq}"


if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

    Row: TypeAlias = "tuple[str, str | None, str, str | None, str | None, int | None, str | None]"

_SELECT = (
    "SELECT p.subject, p.acked, p.late, o.have, o.want, p.seq, o.msg_id"
    " FROM counter_push p LEFT JOIN counter_outbox o"
    " ON o.target = p.target AND o.subject = p.subject WHERE p.target = ? AND p.origin = ?"
)


def known(conn: sqlite3.Connection, target: str, origin: str) -> dict[str, PushRecord]:
    """Return the records of a target by remote subject.

    Ignores pushes of another store, or of an earlier stream of this name (`origin`).
    """
    return {row[0]: _known(row) for row in conn.execute(_SELECT, (target, origin))}


def _known(row: Row) -> PushRecord:
    _, acked, late, have, want, seq, msg_id = row
    flight = None
    if have is not None and want is not None and msg_id is not None:
        flight = Flight(parse_integer(have), seq or 0, parse_integer(want), msg_id)
    return PushRecord(
        acked=None if acked is None else parse_integer(acked),
        flight=flight,
        late=tuple(parse_integer(text) for text in json.loads(late)),
    )


def remember(
    conn: sqlite3.Connection, target: str, origin: str, found: Mapping[str, PushRecord], now: int
) -> None:
    """Write the records of some subjects. `now` is in nanoseconds."""
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
    """Return `store:epoch` of a stream, and its last sequence. Raises NoStream.

    `store:epoch` identifies one stream of one store.
    """
    (store,) = conn.execute("SELECT uuid FROM counter_store").fetchone()
    row = conn.execute(
        "SELECT epoch, last_seq FROM counter_stream WHERE name = ?", (check_name(stream),)
    ).fetchone()
    if row is None:
        raise NoStream(stream)
    return f"{store}:{row[0]}", row[1]

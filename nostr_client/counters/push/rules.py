"""What to do about one counter, given its value here, its value there, and what was sent: pure.

A push is in doubt from before it is sent until its answer is here, or the value there has moved.
While the value there has not moved, the same push is sent again under the same message id, so that
a copy that comes late is a duplicate. The id names the message on which it builds (`@seq`): a
value that comes back to where it was makes another id.
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
"""Pushes of one counter that were in doubt and may yet arrive; older ones are forgotten."""

LONGEST_ID: Final = 512
"""Characters of a message id; a longer one (values of many digits) becomes its hash."""


class RemoteValue(msgspec.Struct, frozen=True):
    """A counter there: its value, and the sequence of its newest message; 0 and 0: none yet."""

    value: int
    seq: int


NOTHING: Final = RemoteValue(0, 0)


class Flight(msgspec.Struct, frozen=True):
    """A push that may have been sent: from the value `have`, read at `seq`, to `want`."""

    have: int
    seq: int
    want: int
    msg_id: str

    @property
    def delta(self) -> int:
        return self.want - self.have


class PushRecord(msgspec.Struct, frozen=True):
    """What is remembered of a counter there.

    `acked`: its value when we last knew it, None: never. `flight`: the push in doubt. `late`: what
    pushes added that were in doubt once; a copy of one may come long after.
    """

    acked: int | None = None
    flight: Flight | None = None
    late: tuple[int, ...] = ()

    def doubted(self) -> PushRecord:
        """Remember what is in flight among what may come late."""
        if self.flight is None or self.flight.delta in self.late:
            return self
        return msgspec.structs.replace(self, late=(*self.late, self.flight.delta)[-MOST_LATE:])


class Even(msgspec.Struct, frozen=True):
    """The value there is the value here."""

    surprise: bool = False


class Send(msgspec.Struct, frozen=True):
    """Publish `flight`, once it is remembered; `surprise`: the value there is not our doing."""

    flight: Flight
    surprise: bool = False


class Stop(msgspec.Struct, frozen=True):
    """The value there would fall, and is not of our doing: somebody has to confirm that."""

    found: int
    local: int


Step: TypeAlias = "Even | Send | Stop"


def decide(
    origin: str, known: PushRecord, local: int, found: RemoteValue, *, confirmed: bool
) -> Step:
    """What to do next; `origin` says whose counter this is: `store:epoch:name`."""
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
    """Whether the value there is what we have made it: what was acknowledged, or is in doubt, and
    any of the pushes that may have come late."""
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
    """`store:epoch:name:have->want@seq`, where `seq` is the message whose value `have` is."""
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
    """What is remembered of a target, by subject there.

    What another store, or an earlier stream of the name, has pushed (`origin`) counts for nothing.
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

"""Apply the messages of a source in another store.

Messages, source map and position change in one transaction.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from nostr_client.counters import rules
from nostr_client.counters.engine import remote, sourcemap
from nostr_client.counters.engine.publish import Origin, count
from nostr_client.counters.lineage import Arrival, StreamHead, goes_on
from nostr_client.counters.rules import canonical, is_integer, subtract_text
from nostr_client.counters.subjects import is_subject
from nostr_client.errors import CounterError, InvalidInput, clip

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.counters.engine.remote import Remote, SourceRecord
    from nostr_client.counters.engine.session import ConfiguredStream, CounterSession
    from nostr_client.counters.lineage import Way

MOST_DIGITS: Final = 65_536
"""Most digits of a value from another store: the limit of a nats-server's header."""

LONGEST_SUBJECT: Final = 256
"""Most characters of a subject from another store: the limit of the API."""

MOST_PARKED: Final = 1_000
"""Most parked subjects of one source. Further subjects are left out and counted."""

RETRIED: Final = 100
"""Parked subjects that are tried again with each batch."""


class Batch(NamedTuple):
    """Messages of a source.

    `arrivals` are all stored messages above `after`. If `whole` is set, they are the newest message
    of every subject.

    - `upto`: the sequence up to which the reader has read.
    - `version`: time and id of a replaceable event. None for a source that has only sequences.
    """

    head: StreamHead
    arrivals: Sequence[Arrival]
    upto: int
    whole: bool = False
    ways: Sequence[Way] = ()
    after: int = 0
    version: tuple[int, str] | None = None


class Gap(NamedTuple):
    """Sequences that were removed before they were read: above `after`, below `before`."""

    after: int
    before: int


class BatchResult(NamedTuple):
    """Result of a batch.

    `outcome` is one of:

    - `taken`: the batch was applied.
    - `met`: the source is known from now on. Its messages come with the next batch.
    - `stale`: the batch is older than the applied one, or begins after the position.
    - `again`: the position is no longer part of the stream. Ask for the newest message of every
      subject.
    - `backwards`: as `again`, and values fell. The source waits for a confirmation.
    - `refused`: the paths form a cycle or a diamond, or are too many.
    """

    outcome: str
    why: str = ""
    path: Way = ()
    moved: int = 0
    gaps: tuple[Gap, ...] = ()
    left_out: int = 0
    parked: int = 0


def take(session: CounterSession, source: Remote, batch: Batch) -> BatchResult:
    """Apply the values of a source to a stream, by the delta rule.

    Never changes the counts of another source. Raises NoStream and CounterError.
    """
    stream = session.stream(source.stream)
    if not stream.config.allow_msg_counter:
        raise rules.disabled()
    known = remote.enroll(session, stream, source)
    if batch.version is not None and not _is_newer(batch.version, known):
        return BatchResult("stale")
    if known.store and _is_late(known, batch.head):
        return BatchResult("stale")
    trouble = remote.refused(session, stream, source.name, tuple(batch.ways))
    if trouble is not None:
        return BatchResult("refused", trouble.why, trouble.path)
    lineage = json.dumps(batch.ways)
    if not known.store:
        _meet(session, source.name, batch.head, lineage)
        return BatchResult("met")
    remote.change(session.conn, source.name, lineage=lineage)
    return _checked(session, stream, source, known, batch)


def _is_newer(version: tuple[int, str], known: SourceRecord) -> bool:
    """Return whether a version is newer by NIP-01.

    The later version is newer. In one second, the version with the lower id is newer.
    """
    at, id = version
    if at != known.version_at:
        return at > known.version_at
    return id < known.version_id


def _meet(session: CounterSession, name: str, head: StreamHead, lineage: str) -> None:
    """Record a source before any of its messages is applied.

    Two stores may ask for each other at the same time. The store that comes second then sees the
    cycle.
    """
    remote.change(
        session.conn, name, store=head.store, epoch=head.epoch, run=head.run, lineage=lineage
    )


def _checked(
    session: CounterSession,
    stream: ConfiguredStream,
    source: Remote,
    known: SourceRecord,
    batch: Batch,
) -> BatchResult:
    if batch.after > known.seq:
        return BatchResult("stale")
    if goes_on(known.mark, batch.head):
        return _Taking(session, stream, source, known).run(batch, batch.arrivals)
    if not batch.whole or batch.after or batch.upto < batch.head.last_seq:
        return BatchResult("again")
    arrivals = [*batch.arrivals, *_vanished(session, stream, known, batch)]
    falls = _falls(session, stream, source, arrivals)
    if falls and known.accepted != batch.head.key:
        remote.change(session.conn, source.name, pending=batch.head.key)
        return BatchResult("backwards", _described(falls))
    return _Taking(session, stream, source, known).run(batch, arrivals)


def _is_late(known: SourceRecord, head: StreamHead) -> bool:
    """Return whether an answer is older than the newest one that was applied.

    Within a run, sequences only grow. A store that is restored from a backup begins an unknown run.
    """
    if (known.store, known.epoch) != (head.store, head.epoch):
        return False
    if head.run == known.run:
        return head.last_seq < known.seq
    return head.run in json.loads(known.runs)


def _vanished(
    session: CounterSession, stream: ConfiguredStream, known: SourceRecord, batch: Batch
) -> list[Arrival]:
    """Return subjects that a source has lost because its store is an older one.

    Their value is 0 now.
    """
    there = {one.subject for one in batch.arrivals}
    rows = session.conn.execute(
        "SELECT DISTINCT src_subject FROM counter_source_map WHERE stream = ? AND name = ?",
        (stream.id, known.name),
    )
    return [Arrival(batch.upto, subject, "0") for (subject,) in rows if subject not in there]


def _falls(
    session: CounterSession, stream: ConfiguredStream, source: Remote, arrivals: Sequence[Arrival]
) -> list[tuple[str, str, str]]:
    """Return the subjects whose value fell, with the seen value and the new value."""
    found: list[tuple[str, str, str]] = []
    for one in arrivals:
        target = source.config.target(one.subject)
        if target is None or one.value is None or not _is_value(one.value):
            continue
        seen = sourcemap.seen(session.conn, stream.id, target, source.name, one.subject)
        if seen is not None and subtract_text(one.value, seen).startswith("-"):
            found.append((one.subject, seen, one.value))
    return found


def _described(falls: list[tuple[str, str, str]]) -> str:
    subject, seen, value = falls[0]
    more = f" and {len(falls) - 1} more" if len(falls) > 1 else ""
    change = clip(f"{subject} from {_short(seen)} to {_short(value)}", 200)
    return f"its store went backwards, as after a restore: {change}{more}; confirm to go on"


def _short(digits: str) -> str:
    return digits if len(digits) <= 24 else f"{digits[:20]}… ({len(digits)} digits)"


def _is_value(text: str) -> bool:
    return len(text) <= MOST_DIGITS and is_integer(text)


class _Taking:
    """Application of one batch to a stream."""

    def __init__(
        self, session: CounterSession, stream: ConfiguredStream, source: Remote, known: SourceRecord
    ) -> None:
        self.session = session
        self.stream = stream
        self.source = source
        self.known = known
        self.subjects = known.subjects
        self.moved = 0
        self.left_out = 0
        self.last: tuple[str, str] | None = None
        self.gaps: list[Gap] = []

    def run(self, batch: Batch, arrivals: Sequence[Arrival]) -> BatchResult:
        ordered = sorted(arrivals, key=lambda one: one.seq)
        after = self.known.seq
        if not batch.whole:
            ordered = [one for one in ordered if one.seq > after]
            self.gaps = _gaps(ordered, after, batch)
        self._retry({one.subject for one in ordered})
        for one in ordered:
            self._one(one)
        self._leave(batch)
        parked = remote.count_parked(self.session.conn, self.known.name)
        return BatchResult(
            "taken",
            moved=self.moved,
            gaps=tuple(self.gaps),
            left_out=self.left_out,
            parked=parked,
        )

    def _retry(self, coming: set[str]) -> None:
        for one in remote.parked(self.session.conn, self.known.name, RETRIED):
            if one.value is None or one.subject in coming:
                continue
            self._unpark(one.subject)
            self._one(Arrival(one.seq, one.subject, one.value))

    def _one(self, one: Arrival) -> None:
        target = self._target(one.subject)
        if target is None:
            self.left_out += 1
            return
        if one.value is None or not _is_value(one.value):
            what = "is no counter's" if one.value is None else "is no value, or too long"
            self._park(msgspec.structs.replace(one, value=None), f"the message {what}")
            return
        try:
            self._count(one, target, canonical(one.value))
        except CounterError as error:
            self._park(one, str(error))

    def _target(self, subject: str) -> str | None:
        if len(subject) > LONGEST_SUBJECT or not is_subject(subject):
            return None
        target = self.source.config.target(subject)
        return target if target is not None and is_subject(target) else None

    def _count(self, one: Arrival, target: str, value: str) -> None:
        conn, name = self.session.conn, self.source.name
        seen = sourcemap.seen(conn, self.stream.id, target, name, one.subject)
        if seen is None and self.subjects >= self.source.most_subjects:
            self.left_out += 1
            return
        if seen != value:
            change = rules.delta(seen, value)
            origin = Origin(self.known.cursor, name, one.subject, one.seq, value)
            count(self.session, self.stream, target, ((rules.INCR, change),), change, origin)
            self.subjects += seen is None
            self.moved += 1
            self.last = (one.subject, value)
        self._unpark(one.subject)

    def _park(self, one: Arrival, why: str) -> None:
        conn, name = self.session.conn, self.source.name
        is_there = conn.execute(
            "SELECT 1 FROM counter_parked WHERE name = ? AND subject = ?", (name, one.subject)
        ).fetchone()
        if is_there is None and remote.count_parked(conn, name) >= MOST_PARKED:
            self.left_out += 1
            return
        conn.execute(
            "INSERT OR REPLACE INTO counter_parked VALUES (?, ?, ?, ?, ?)",
            (name, one.subject, one.seq, one.value, clip(why, 200)),
        )

    def _unpark(self, subject: str) -> None:
        self.session.conn.execute(
            "DELETE FROM counter_parked WHERE name = ? AND subject = ?", (self.known.name, subject)
        )

    def _leave(self, batch: Batch) -> None:
        known, head = self.known, batch.head
        fields: dict[str, object] = {
            "store": head.store,
            "epoch": head.epoch,
            "run": head.run,
            "runs": json.dumps([run for run, _ in head.runs]),
            "seq": max(batch.upto, known.seq) if goes_on(known.mark, head) else batch.upto,
            "pending": "",
            "accepted": "",
            "subjects": self.subjects,
            "moved": known.moved + self.moved,
            "gaps": known.gaps + len(self.gaps),
            "lost": known.lost + sum(gap.before - gap.after - 1 for gap in self.gaps),
            "left_out": known.left_out + self.left_out,
        }
        if batch.version is not None:
            fields["version_at"], fields["version_id"] = batch.version
        if self.last is not None:
            fields["last_subject"], fields["last_value"] = self.last
            fields["changed"] = self.session.now
        remote.change(self.session.conn, known.name, **fields)


def _gaps(ordered: Sequence[Arrival], after: int, batch: Batch) -> list[Gap]:
    """Return the gaps in the sequences since the last position."""
    found: list[Gap] = []
    at = after
    for seq in (*(one.seq for one in ordered), batch.upto + 1):
        if seq > at + 1:
            found.append(Gap(at, seq))
        at = max(at, seq)
    return found


def check_batch(batch: Batch) -> None:
    """Raise InvalidInput for a batch that contradicts itself.

    The other side has a bug or lies.
    """
    head = batch.head
    if not 0 <= batch.upto <= head.last_seq:
        raise InvalidInput("it has read further than there is")
    seqs = [one.seq for one in batch.arrivals]
    if any(not 0 < seq <= head.last_seq for seq in seqs):
        raise InvalidInput("a message is above the last sequence")
    if not batch.whole and any(a >= b for a, b in pairwise(seqs)):
        raise InvalidInput("its messages do not ascend")

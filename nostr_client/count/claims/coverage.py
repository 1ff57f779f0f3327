"""How far one relay was read for one query: spans of time, and what they proved. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from nostr_client.count.merge import Proven
from nostr_client.count.merge.drift import UNSEEN_RATE

if TYPE_CHECKING:
    from collections.abc import Iterable


Span = tuple[int, int]
Spans = tuple[Span, ...]


def join(spans: Iterable[Span], start: int, end: int) -> Spans:
    """Return the set with `start..end` added; neighbours become one span."""
    if end < start:
        return tuple(spans)
    out: list[Span] = []
    for a, b in sorted([*spans, (start, end)]):
        if out and a <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(out[-1][1], b))
        else:
            out.append((a, b))
    return tuple(out)


def gaps(spans: Iterable[Span], start: int, end: int) -> list[Span]:
    """Return the parts of `start..end` outside the set, newest first."""
    found: list[Span] = []
    at = start
    for a, b in spans:
        if a > end:
            break
        if a > at:
            found.append((at, a - 1))
        at = max(at, b + 1)
    if at <= end:
        found.append((at, end))
    return found[::-1]


def holds(spans: Iterable[Span], second: int) -> bool:
    """Whether the set contains one second."""
    return any(a <= second <= b for a, b in spans)


HOUR: Final = 3600
DAY: Final = 24 * HOUR

OVERLAP: Final = HOUR
"""Seconds that are read again before the mark: relays pass most events on within minutes."""

MOST_OVERLAP: Final = DAY
"""Largest overlap: an event that comes a week late must not cause a complete reading each time."""

FORGETS: Final = 3 * DAY
"""Seconds in which the overlap falls by half while no late event comes."""

MOST_HOLES: Final = 100
"""Dense seconds remembered one by one."""

SLOWER: Final = 4
"""Factor by which a reading confirmed by the relay's own count is repeated later: the count shows
removals."""


VOID: Final = -1
"""Amount of an event that matches the filter and that the query does not count."""


class HeldEvent(NamedTuple):
    """One event of a relay: raw id and author, 32 bytes each.

    `amount` is the event's value if the query sums (millisats of a zap), and of a follow list the
    number of keys that it names, 0 if that was not stored. It is VOID for a matching
    event that the query checked and does not count: a relay's COUNT and its NIP-77 answer include
    those. `label` classifies its content, on request; of a zap of a person it is the event or
    address that the zap names, until that is checked. `signer`, `receiver` and `payment` belong to
    a zap receipt: who signed it, whom it pays, and which payment it claims (`zaps.Zap.payment`).
    """

    created_at: int
    id: bytes
    author: bytes
    amount: int = 0
    label: str = ""
    signer: bytes = b""
    receiver: bytes = b""
    payment: bytes = b""

    @property
    def counts(self) -> bool:
        """Whether the query counts it."""
        return self.amount != VOID


class Update(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a complete chain of pages over `start..end`; `end` None is open to the future.

    Known events of the window that are not in `found` are gone from the relay. `found` may have
    events outside the window, from pages that were cut there; they are only added. `upto` is the
    end of the coverage: `end`, or the clock. `at`: when it was read, Unix seconds. `holes` and
    `unread`: as in a mark. `sweep_to`: where the next part to be read again begins, if this was
    such a part.
    """

    start: int
    end: int | None
    upto: int
    at: int
    found: tuple[HeldEvent, ...]
    holes: tuple[int, ...] = ()
    unread: tuple[int, ...] = ()
    largest: int = 0
    sweep_to: int | None = None

    def spans(self, second: int) -> bool:
        """Whether the window contains this second."""
        return second >= self.start and (self.end is None or second <= self.end)


class EventChanges(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of an update to the known events; an event that a newer version replaced is not
    `gone`.

    `exposure` sums the seconds since each event of the window was last seen, whether found again or
    not. `fresh` are the times of events that were unknown before.
    """

    added: int
    gone: int
    exposure: float
    fresh: tuple[int, ...] = ()


class ReadCoverage(msgspec.Struct, frozen=True, kw_only=True):
    """How far one relay was read for one query; all times in Unix seconds.

    `covered`: the seconds that were read completely; `holes`: those of them with more events than
    the relay sends at once, or with an unreadable event. `unread`: the holes of the second sort,
    which only another reading can fill. `newest`: the newest known event that is not dated in the
    future.

    `overlap`: seconds before the mark that are read again; it grows if events come late.
    `sweep_at`: where the next part to be read again begins, `swept_at`: when the last part was
    read, `pace`: seconds between the last two. `confirmed_at`: when the relay's own count last
    equalled the known events, `differs`: its surplus that another reading did not explain (some
    relays count events that they do not send); 0 again once everything was read again. `gone`,
    `missed` and `exposure` sum what later readings found: events gone, events that had come late,
    event-seconds compared. `proven`: what the last round proved about all known events; any update
    ends it. `whole_at`: when a round last read or proved everything.
    """

    covered: Spans = ()
    holes: tuple[int, ...] = ()
    unread: tuple[int, ...] = ()
    newest: int | None = None
    overlap: int = OVERLAP
    sweep_at: int = 0
    swept_at: int | None = None
    pace: int | None = None
    confirmed_at: int | None = None
    differs: int = 0
    gone: int = 0
    missed: int = 0
    exposure: float = 0.0
    largest: int = 0
    proven: Proven = Proven.NOTHING
    whole_at: int | None = None

    @property
    def last_read(self) -> int | None:
        """The time up to which the relay's events are known without a gap; None before that."""
        if not self.covered or self.covered[0][0] > 0:
            return None
        return self.covered[0][1]

    @property
    def complete(self) -> bool:
        """Whether nothing is known to be missing below the newest second that was read."""
        return len(self.covered) == 1 and self.covered[0][0] == 0 and not self.holes

    def is_confirmed(self, now: int) -> bool:
        """Whether the relay's own count has lately shown that nothing is missing or gone."""
        return self.confirmed_at is not None and now - self.confirmed_at < DAY and not self.missed

    def read_from(self) -> int:
        """Return where the next reading of new events begins.

        It is before the newest known event rather than before the clock: a quiet query costs one
        event more, and no clock that runs ahead can skip anything.
        """
        return max(0, self.news_from() - self.overlap)

    def news_from(self) -> int:
        """Return `read_from` without the overlap."""
        if not self.covered or self.newest is None:
            return 0
        return min(self.covered[-1][1], self.newest)

    def moved(self, update: Update, changes: EventChanges, newest: int | None) -> ReadCoverage:
        """Return the mark after an update; `newest` is over all known events, up to the clock."""
        holes = [s for s in self.holes if not update.spans(s)] + list(update.holes)
        unread = [s for s in self.unread if not update.spans(s)] + list(update.unread)
        late = [t for t in changes.fresh if holds(self.covered, t)]
        mark = msgspec.structs.replace(
            self,
            proven=Proven.NOTHING,
            covered=join(self.covered, update.start, update.upto),
            holes=tuple(sorted(set(holes)))[-MOST_HOLES:],
            unread=tuple(sorted(set(unread)))[-MOST_HOLES:],
            newest=newest,
            overlap=self._overlap(late, update.upto),
            gone=self.gone + changes.gone,
            missed=self.missed + sum(t < self.read_from() for t in late),
            exposure=self.exposure + changes.exposure,
            largest=max(self.largest, update.largest),
            sweep_at=self.sweep_at if update.sweep_to is None else update.sweep_to,
            swept_at=self._swept_at(update),
            differs=0 if update.sweep_to == 0 else self.differs,
            pace=self._pace(update),
        )
        if mark.whole_at is None and mark.complete:
            return msgspec.structs.replace(mark, whole_at=update.at)
        return mark

    def as_proven(self, at: int) -> ReadCoverage:
        """Return the mark after a round that proved all events of the relay."""
        return msgspec.structs.replace(
            self, proven=Proven.MEMBERS, whole_at=at, holes=(), unread=()
        )

    def as_confirmed(self, at: int, *, judged: bool) -> ReadCoverage:
        """Return the mark after the relay's own count equalled the number of its known events.

        If the query does not count all of them (`judged`), that proves no number: one that counts
        may be gone, and one that does not may have come late.
        """
        number = Proven.NOTHING if judged else Proven.NUMBER
        proven = self.proven if self.proven is Proven.MEMBERS else number
        return msgspec.structs.replace(self, proven=proven, confirmed_at=at, holes=())

    def _pace(self, update: Update) -> int | None:
        if update.sweep_to is None or self.swept_at is None:
            return self.pace
        return max(update.at - self.swept_at, 1)

    def _swept_at(self, update: Update) -> int:
        first = self.swept_at is None or update.sweep_to is not None
        return update.at if first or self.swept_at is None else self.swept_at

    def _overlap(self, late: list[int], upto: int) -> int:
        """Return the lateness seen and half more, within bounds; it fades.

        An event is late if it comes after an event that is dated later: our clock does not matter.
        """
        newest = self.news_from()
        passed = max(upto - self.covered[-1][1], 0) if self.covered else 0
        faded = self.overlap * math.exp2(-passed / FORGETS)
        lateness = [1.5 * (newest - t) for t in late if newest - t <= MOST_OVERLAP]
        return int(min(max([OVERLAP, faded, *lateness]), MOST_OVERLAP))


class Drift(NamedTuple):
    """The share of known events that may be gone since they were read.

    `evidence` is the number of removals behind the share, which decides its precision. Unseen
    additions have no rate: a relay can receive any number of old events at once.
    """

    share: float
    evidence: int

    @classmethod
    def of(cls, mark: ReadCoverage, unseen: float, held: int) -> Drift | None:
        """Return it from the event-seconds `unseen` since each of `held` events was last seen; None
        if 0.

        A relay's own count proves no members if events come late: a late event and a removal
        compensate. After a round that proved the members nothing is open.
        """
        counted = mark.confirmed_at is not None and mark.proven is not Proven.MEMBERS
        if not held or (unseen <= 0 and not (mark.missed and counted)):
            return None
        if unseen <= 0:
            return cls(1 / held, mark.missed)
        # One event and the exposure at which the prior expects one: it fades as evidence comes in.
        exposure = mark.exposure + 1 / UNSEEN_RATE
        gone = (mark.gone + 1) / exposure * unseen
        return cls(min(gone / held, 1.0), mark.gone + 1)


@dataclass(frozen=True, slots=True)
class Reread:
    """The policy for reading known parts again: only so are removals seen.

    Each round reads only the part that is due, so that everything is read again within `every`
    seconds.
    """

    every: float = 7 * DAY
    """A week: people unfollow rarely, and relays prune by weeks or months."""

    most_at_once: float = DAY
    """Seconds of the period that one round makes up for: a relay that was away is not read
    completely."""

    def due(self, mark: ReadCoverage, held: int, now: int) -> int:
        """Return how many of the known events are to be read again now."""
        if mark.swept_at is None or not held or math.isinf(self.every):
            return 0
        every = self.every * (SLOWER if mark.is_confirmed(now) else 1)
        wanted = held * max(now - mark.swept_at, 0) / every
        if wanted < 1:
            return 0
        # Little more than the usual part: after a week of sleep, do not read everything at once.
        most = self.most_at_once if mark.pace is None else min(1.5 * mark.pace, self.most_at_once)
        return min(math.ceil(wanted), max(math.ceil(held * most / every), 1), held)

"""Read the events of a query from one relay, within a budget of bytes and events.

`ReadRound` decides what to ask, this module asks it. Of an event only its id, author and time are
stored, after each complete chain of pages. If events are known and the relay supports NIP-77, it is
compared instead: only changes are read.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from nostr_client.codecs.display import plural
from nostr_client.codecs.filters import Filter
from nostr_client.codecs.keys import VerifiedEvent
from nostr_client.count.claiming import EventsOutcome
from nostr_client.count.claims import VOID, HeldEvent, Update, reading_of
from nostr_client.count.claims.memory import members_of
from nostr_client.count.merge import Reading
from nostr_client.count.reading.rounds import ReadPage, ReadRound
from nostr_client.errors import RelayError, RelayRefused
from nostr_client.network.paging.by_id import IDS_AT_ONCE
from nostr_client.options import ReadBudget

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

    from nostr_client.count.claims import Memory, MemoryAccess, ReadCoverage, Reread
    from nostr_client.count.merge import Retracted
    from nostr_client.count.queries import Query
    from nostr_client.network.paging.snapshot import Proof
    from nostr_client.network.relay import Relay
    from nostr_client.network.subscription import Subscription

    Keep = Callable[[str, Sequence[VerifiedEvent]], Awaitable[object]]
    LookUp = Callable[[Collection[str]], Awaitable[Mapping[str, frozenset[str]]]]

T = TypeVar("T")

_COARSE = 0.1
"""Share of the silence by which a page may be given up early: timers are not moved by each event.
"""

NOT_FOUND: Final = ("receipt names", "receipts name")
"""Receipts that may name an event that no relay has."""


class _Stock(NamedTuple):
    """The known events after a round; `registers` None: made from the authors.

    `void`: some known events do not count.
    """

    reading: Reading
    mark: ReadCoverage
    registers: bytes | None
    void: bool


class EventReader:
    """One round of reading one relay for a query, into `place`; call `take_stock` after its end."""

    def __init__(
        self,
        relay: Relay,
        query: Query,
        place: MemoryAccess,
        *,
        budget: ReadBudget,
        silence: float,
        clock: int,
        reread: Reread,
        keep: Keep | None = None,
        oldest: float | None = None,
    ) -> None:
        """Create it; `silence`: seconds without an event after which a page counts as given up.

        `clock`: Unix seconds now, or the relay's if that is earlier. `keep` receives the events.
        `oldest`: the time from which an earlier answer by these events stands; None: none does.
        """
        self._relay = relay
        self._query = query
        self._place = place
        self._budget = budget
        self._silence = silence
        self._clock = clock
        self._reread = reread
        self._keep = keep
        self._round: ReadRound | None = None
        self._came: dict[bytes, HeldEvent] = {}
        self._bytes_before = 0
        self._frames_before = 0
        self._open: Subscription | None = None
        self._invalid = self._unread = 0
        self._void: set[bytes] = set()
        self.fresh: set[bytes] = set()
        """Ids that this round added to the known events."""
        self.retracted: Retracted | None = None
        """What the earlier answer by the known events retracts; None if none stands."""
        self._oldest = oldest
        self._cut = ""
        self._stock: _Stock | None = None
        self.complete = False

    @property
    def events_read(self) -> int:
        """Frames with events that arrived, valid or not."""
        return self._frames_before + (self._open.frames if self._open else 0)

    @property
    def bytes_read(self) -> int:
        """Size of those frames."""
        return self._bytes_before + (self._open.bytes if self._open else 0)

    async def read(self, reported: int | None = None) -> None:
        """Read what is due, to the end or to the budget. Raises RelayError; safe to cancel.

        `reported` is the exact number of events that the relay has just counted, before the query's
        own rules about their content.
        """
        self._round = ReadRound(
            self._query.filters,
            clock=self._clock,
            reported=reported,
            judged=self._query.judges,
            reread=self._reread,
        )
        if await self._compare(self._round):
            return
        seen = self._place.seen
        more = seen is not None and self._round.begin(*seen)
        while more or await self._use(self._advance):
            more = False
            while (question := self._round.question) is not None:
                if isinstance(question, ReadPage):
                    await self._page(question.filter, self._round)
                else:
                    await self._count(question.filter, self._round)

    async def _use(self, work: Callable[[Memory], T]) -> T:
        def noting(memory: Memory) -> T:
            if self._oldest is not None:
                self.retracted, self._oldest = memory.retracted(self._oldest), None
            found = work(memory)
            self.fresh.update(memory.fresh)
            return found

        return await self._place.use(noting)

    def _advance(self, memory: Memory) -> bool:
        """Continue; at the end, read the result in the same transaction."""
        assert self._round is not None
        more = self._round.advance(memory)
        self._stock = None if more else self._stock_of(memory)
        return more

    def _stock_of(self, memory: Memory) -> _Stock:
        labels = self._query.by_content
        reading = reading_of(memory, self._clock, sums=self._sums, labels=labels)
        void = memory.count(0, None) > len(reading.events)
        return _Stock(reading, memory.mark, memory.registers(), void)

    async def _compare(self, round_: ReadRound) -> bool:
        """Find changes by negentropy (NIP-77), if events are known; return False to read pages."""
        if len(self._query.filters) != 1 or self._relay.capabilities.negentropy is False:
            return False
        (asked,) = self._query.filters
        held, mark = await self._use(lambda m: (list(m.events()), m.mark))
        if not held or mark.unread:  # an unnamed event may still exist
            return False
        from nostr_client.count.reading.comparing import Comparison

        comparison = Comparison(
            self._relay,
            asked,
            {one.id: one.created_at for one in held},
            self,
            most=self._budget.events,
            silence=self._silence,
            largest=mark.largest,
        )
        if not await comparison.run():
            await self._use(lambda memory: memory.add(self._came.values(), self._clock))
            return False
        now = {one.id: one for one in held if one.id not in comparison.gone} | self._came
        await self._use(lambda memory: self._settle(memory, now.values()))
        round_.current = round_.confirmed = True
        return True

    async def fetch(self, ids: Sequence[bytes]) -> dict[bytes, int] | None:
        """Download events by id; return the times of those that arrived, by id.

        None if the budget or the relay ends it. A relay may cut a page, so missing ids are
        requested until nothing more arrives. Raises RelayError.
        """
        came: dict[bytes, int] = {}
        for start in range(0, len(ids), IDS_AT_ONCE):
            left = list(ids[start : start + IDS_AT_ONCE])
            while left:
                found = await self._by_id(left)
                if found is None:
                    return None
                came |= found
                missing = [key for key in left if key not in found]
                left = missing if len(missing) < len(left) else []
        return came

    async def _by_id(self, ids: Sequence[bytes]) -> dict[bytes, int] | None:
        """Send one REQ by ids; drop events that do not match the question, even if a relay named
        them."""
        asked = Filter(ids=[key.hex() for key in ids])
        left = ReadBudget(
            bytes=max(self._budget.bytes - self._bytes_before, 1),
            events=max(self._budget.events - self._frames_before, 1),
        )
        page = await self._relay.fetch(asked, budget=left, partial=True)
        filters = self._query.filters
        fitting = [one for one in page.events if any(f.matches(one.event) for f in filters)]
        await self._keep_aside(fitting, page.frames, page.bytes)
        if not page.complete:
            return None
        return {bytes.fromhex(one.event.id): one.event.created_at for one in fitting}

    async def take(self, proof: Proof) -> None:
        """Add the events that a proof returned, and its cost."""
        await self._keep_aside(proof.beyond, proof.frames, proof.bytes)

    async def _keep_aside(self, events: Sequence[VerifiedEvent], frames: int, size: int) -> None:
        self._frames_before += frames
        self._bytes_before += size
        self._came.update((event.id, event) for event in await self._taken(events))

    def _settle(self, memory: Memory, events: Iterable[HeldEvent]) -> None:
        """Store that the relay has exactly the known events now."""
        memory.apply(
            Update(start=0, end=None, upto=self._clock, at=self._clock, found=tuple(events))
        )
        memory.prove(self._clock)
        memory.confirm(self._clock)

    async def settle(self, look_up: LookUp) -> None:
        """Decide whether zaps may pay their receiver, by the events and addresses they name.

        Targets that `look_up` does not find stay in doubt. Raises StoreError. Safe to cancel.
        """
        named = await self._use(self._undecided)
        if not named:
            return
        found = await look_up({event.label for event in named})
        settled = [
            event._replace(label="", amount=event.amount if event.receiver.hex() in may else VOID)
            for event in named
            if (may := found.get(event.label)) is not None
        ]
        self._void.update(event.id for event in settled if not event.counts)
        self._came.update((event.id, event) for event in settled if event.id in self._came)

        def work(memory: Memory) -> _Stock:
            memory.judge(settled)
            return self._stock_of(memory)

        self._stock = await self._use(work)

    def _undecided(self, memory: Memory) -> list[HeldEvent]:
        """Return the zaps in doubt, once everything that arrived is stored."""
        if self._stock is None:
            self._stock = self._state(memory)
        return [event for event in memory.events() if event.counts and event.label]

    async def take_stock(self, elapsed: float, error: RelayError | None) -> EventsOutcome:
        """Store what arrived before the end, and return the known events. Raises StoreError.

        If nothing new could be read, only events of now count: the rest is no answer of today.
        """
        stock = self._stock
        if stock is None:
            stock = await self._use(self._state)
        reading, mark, registers, void = stock
        current = self._round is not None and self._round.current
        if not current:
            registers = None
            counted = [event for event in self._came.values() if event.counts]
            reading = Reading(
                authors=frozenset(event.author for event in counted),
                events=frozenset(event.id for event in counted),
                complete=False,
                **members_of(counted, sums=self._sums, labels=self._query.by_content),
            )
        self.complete = reading.complete
        return EventsOutcome(
            reading=reading,
            current=current,
            registers=registers,
            elapsed=elapsed,
            last_read=mark.last_read if current else None,
            confirmed=self._round is not None and self._round.confirmed,
            void=void,
            error=error,
            warnings=(*self._warnings(mark if current else None), *_doubts(reading)),
        )

    @property
    def _sums(self) -> bool:
        return self._query.is_zaps

    def _state(self, memory: Memory) -> _Stock:
        if self._round is not None:
            self._round.stop()
            self._round.advance(memory)
        return self._stock_of(memory)

    def _warnings(self, mark: ReadCoverage | None) -> list[str]:
        warnings = [self._cut] if self._cut else []
        if self._invalid:
            forms = ("invalid event", "invalid events")
            warnings.append(f"read: {plural(self._invalid, *forms)}, left out")
        if self._void and self._sums:  # an event of others that names the target is no fault
            warnings.append(f"read: {plural(len(self._void), 'invalid receipt')}, left out")
        if self._unread:
            frames = plural(self._unread, "frame")
            warnings.append(f"read: {frames} could not be read, so events may be missing")
        if mark is not None and mark.holes:
            dense = plural(len(mark.holes), "second has", "seconds have")
            warnings.append(f"read: {dense} too many events for one page, so some may be missing")
        if self._round is not None and self._round.stalled:
            warnings.append(f"read: {self._round.stalled}, so events may be missing")
        return warnings

    async def _count(self, asked: Filter, round_: ReadRound) -> None:
        try:
            answer = await self._relay.count([asked])
        except RelayError:
            round_.count(None)
            return
        loose = answer.approximate or answer.limited or answer.merged
        round_.count(None if loose else answer.count)

    async def _page(self, asked: Filter, round_: ReadRound) -> None:
        """Send one REQ and read to its EOSE, or until the budget is spent."""
        left = max(self._budget.events - self.events_read, 1)
        limit = min(asked.limit or left, left)
        found: list[HeldEvent] = []
        question = asked if limit == asked.limit else asked.replace(limit=limit)
        async with self._relay.subscribe([question], live=False) as page:
            self._begin(page)
            try:
                ended = await self._read_page(page, found)
                sent = page.sent(self._relay.url)
            except (TimeoutError, asyncio.CancelledError):
                round_.part(found)
                raise
            finally:
                self._close(page)
                self._came.update((event.id, event) for event in found)
        lowered = limit != asked.limit and sent.limited
        if page.error is not None and ended:
            round_.part(found)
            if not (isinstance(page.error, RelayRefused) and round_.refuse()):
                raise page.error
        elif (ended or sent.limited) and not (lowered and round_.narrowed):
            round_.page(found, sent)
        else:
            round_.part(found)
        if self._cut:
            round_.stop()

    async def _read_page(self, page: Subscription, found: list[HeldEvent]) -> bool:
        """Fill `found`; return False if the budget ended it."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self._silence) as patience:
            while not self._spent():
                batch = await page.batch()
                if not batch:
                    return True
                found += await self._taken(batch)
                until = loop.time() + self._silence
                if until - (patience.when() or 0.0) > _COARSE * self._silence:
                    patience.reschedule(until)
        found += await self._taken(await self._drain(page))
        return False

    async def _drain(self, page: Subscription) -> list[VerifiedEvent]:
        """Take what had arrived when the budget was spent: its bytes are counted already."""
        room = min(page.statistics().queued, self._budget.events)
        if room <= 0:
            return []
        taken = await page.received(room)
        results = await self._relay.verifier.verify([item.event for item in taken])
        return [result for result in results if isinstance(result, VerifiedEvent)]

    async def _taken(self, events: Sequence[VerifiedEvent]) -> list[HeldEvent]:
        if self._keep is not None and events:
            await self._keep(self._relay.url, events)
        held = [self._query.hold_any(item.event) for item in events]
        self._void.update(one.id for one in held if not one.counts)
        return held

    def _spent(self) -> bool:
        """Whether the budget is used up; warns once."""
        over_bytes = self.bytes_read >= self._budget.bytes
        if not (over_bytes or self.events_read >= self._budget.events):
            return False
        budget = self._budget
        kind = plural(budget.bytes, "byte") if over_bytes else plural(budget.events, "event")
        self._cut = f"read: stopped at the budget of {kind}, so it may have more: raise the budget"
        return True

    def _begin(self, page: Subscription) -> None:
        page.ration(max(self._budget.bytes - self._bytes_before, 1))
        self._open = page

    def _close(self, page: Subscription) -> None:
        stats = page.statistics()
        self._open = None
        self._frames_before += stats.frames
        self._bytes_before += stats.bytes
        self._invalid += stats.invalid
        self._unread += stats.malformed


def _doubts(reading: Reading) -> list[str]:
    number = len(reading.doubted)
    text = f"{plural(number, *NOT_FOUND)} an event that was not found: whom it pays is not known"
    return [f"zaps: {text}"] if number else []

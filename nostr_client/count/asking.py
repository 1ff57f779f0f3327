"""Count on one relay: send COUNT, and read events if it returns no registers; the outcome is a
claim."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from nostr_client.count.claiming import RelayOutcome, claim_of
from nostr_client.count.claims import Reread, TransientMemory
from nostr_client.count.judging import EarlierIds, JudgedRelay, ids_of
from nostr_client.count.merge import Listing
from nostr_client.count.queries import is_listable
from nostr_client.count.reading.events import EventReader
from nostr_client.count.remembering import KEEP
from nostr_client.errors import DeadlineExceeded, HeldBack, RelayError, RelayRefused, Unsupported
from nostr_client.network.waiting import end, task_group
from nostr_client.options import ReadBudget, Timeouts

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from nostr_client.codecs.filters import Filter
    from nostr_client.codecs.keys import VerifiedEvent
    from nostr_client.codecs.messages import CountAnswer
    from nostr_client.count.claiming import EventsOutcome
    from nostr_client.count.claims import MemoryAccess
    from nostr_client.count.claims.coverage import HeldEvent
    from nostr_client.count.judging import SharedIds
    from nostr_client.count.merge import Claim
    from nostr_client.count.queries import Query
    from nostr_client.count.reading.events import Keep, LookUp
    from nostr_client.count.reading.seen import SeenEvents
    from nostr_client.network.relay import Relay
    from nostr_client.store.base import EventStore


class Trial(NamedTuple):
    """Two filters with the exact counts, `a` and `b`, of the relay just now, neither of them 0."""

    first: Filter
    second: Filter
    a: int
    b: int

    @property
    def questions(self) -> list[tuple[Filter, Filter]]:
        """Return the questions: both filters, both in reverse order, and the first one twice."""
        one, two = self.first, self.second
        return [(one, two), (two, one), (one, one)]

    def verdict(self, answers: Sequence[CountAnswer]) -> bool | None:
        """Whether the answers to `questions` are counts of true unions; None: unknown.

        A sum above both that does not depend on the order is more than the first, the last or the
        larger alone; and a filter beside itself must not count twice.
        """
        if not all(map(is_exact, answers)):
            return None
        both, turned, same = (answer.count for answer in answers)
        least, most = max(self.a, self.b), self.a + self.b
        if both != turned or same != self.a or not least <= both <= most:
            return False
        return True if both > least else None


def is_exact(answer: CountAnswer) -> bool:
    """Whether a count is the relay's word on the number of events."""
    return not (answer.approximate or answer.limited)


def trial_of(filters: Sequence[Filter], answers: Sequence[CountAnswer]) -> Trial | None:
    """Return a trial from the relay's answers to each single filter; None if there is nothing to
    try.

    It takes the two largest counts: a small one proves little.
    """
    usable = [
        (a.count, f) for f, a in zip(filters, answers, strict=True) if a.count and is_exact(a)
    ]
    if len(usable) < 2:
        return None
    (a, first), (b, second) = sorted(usable, key=lambda one: -one[0])[:2]
    return Trial(first, second, a, b)


PATIENCE_SHARE = 0.3
"""Share of the group's deadline after which a silent COUNT gets company: events are read beside it.
"""

PATIENCE_MOST = 3.0
"""Seconds after which events are read beside a silent COUNT: slow relays take 3 to 5."""


SEARCH_NIP = 50

NO_SEARCH = "search: the relay's document (NIP-11) does not list NIP-50"

_EARLIER = 0.01
"""Seconds before the group's deadline at which a COUNT is given up."""

LEAST = 0.1
"""Least seconds of every step; elapsed time below it is ignored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountOptions:
    """Options of a count. `read`: relays without registers are read by events.

    `reread`: how often earlier readings are read again, if claims are stored. `keep` receives the
    verified events that are read, with the URL of their relay. `stored`: our own store, whose
    deletions count beside those of relays.
    """

    timeouts: Timeouts = field(default_factory=Timeouts)
    budget: ReadBudget = field(default_factory=ReadBudget)
    read: bool = True
    reread: Reread = field(default_factory=Reread)
    keep: Keep | None = None
    stored: EventStore | None = None

    @property
    def patience(self) -> float:
        """Seconds that a COUNT may be silent before events are read beside it."""
        return min(PATIENCE_MOST, PATIENCE_SHARE * self.timeouts.group)

    def within(self, seconds: float) -> CountOptions:
        """Return the options for the remaining seconds of the group, but no fewer than `LEAST`."""
        group = max(seconds, LEAST)
        if group >= self.timeouts.group - LEAST:
            return self
        return replace(self, timeouts=replace(self.timeouts, group=group))


def _showing(seen: SeenEvents, keep: Keep | None) -> Keep:
    """Return a function that shows what was read to the judging, and then passes it on.

    It refers to no `CountRequest`: cycles of objects would be left to the garbage collector.
    """

    async def showing(relay: str, events: Sequence[VerifiedEvent]) -> None:
        seen.saw(events)
        if keep is not None:
            await keep(relay, events)

    return showing


class CountRequest:
    """One relay and one query: the request and the state of its answer."""

    def __init__(
        self,
        relay: Relay,
        query: Query,
        options: CountOptions,
        *,
        now: Callable[[], float],
        place: MemoryAccess | None = None,
        silent: bool = False,
        shared: SharedIds | None = None,
        recall: Callable[[], Awaitable[Claim | None]] | None = None,
        look_up: LookUp | None = None,
        judges: bool = True,
    ) -> None:
        """Create it; `now` gives Unix seconds; `silent`: the relay is known never to answer a
        COUNT.

        `place`: where readings are stored; by default nowhere. `shared`: single events are judged
        beside those of the question's other relays, here unless a caller `judges` them. `recall`
        returns the relay's earlier answer. `look_up`: returns the receivers that zaps of events and
        addresses may pay, for a question about a person.
        """
        self._relay = relay
        self._query = query
        self._options = options
        self._patience = 0.0 if silent else options.patience
        self._outcome = RelayOutcome(asked_at=now())
        self._started = asyncio.get_running_loop().time()
        self._place = place
        self._shared = shared
        self._recall = recall
        self._earlier: Claim | None = None
        self._look_up = look_up
        self._judges = judges
        self._made: EventReader | None = None
        self._read_error: RelayError | None = None
        self._reading = False
        self._beside: asyncio.Task[None] | None = None
        self._scope: asyncio.Timeout | None = None
        self._enough = False

    @property
    def _reader(self) -> EventReader:
        """Created when needed: most relays are done with a COUNT."""
        if self._made is None:
            query, options = self._query, self._options
            self._made = EventReader(
                self._relay,
                query,
                self._place or TransientMemory(replaces=query.one_per_author),
                budget=options.budget,
                silence=options.timeouts.eose,
                clock=int(self._outcome.asked_at - self._relay.behind),
                reread=options.reread,
                keep=_showing(self._shared.seen, options.keep) if self._shared else options.keep,
                oldest=self._outcome.asked_at - KEEP,
            )
        return self._made

    async def run(self, name: str) -> Claim:
        """Ask until the relay is done or the group's deadline is over. Raises only StoreError.

        `name` is the user's spelling of the relay. Cancelling gives up without a claim.
        """
        late = False
        try:
            async with asyncio.timeout(self._options.timeouts.group) as self._scope:
                await self._ask()
        except TimeoutError:
            late = not self._enough
        await self._take_stock(late=late)
        if self._shared is not None and self._options.read and self._judges:
            await self._judge(self._shared)
        return claim_of(name, self._query, self._outcome)

    @property
    def silent(self) -> bool:
        """Whether the relay sent its events and no answer at all to the COUNT."""
        outcome = self._outcome
        unanswered = not outcome.answers and outcome.count_error is None
        return unanswered and self._made is not None and self._made.complete

    async def _ask(self) -> None:
        """Send COUNT, and read events beside it as soon as it is silent, refused or without
        registers."""
        if self._query.searches and await self._relay.supports(SEARCH_NIP) is False:
            error = Unsupported(NO_SEARCH, prefix="unsupported", relay=self._relay.url)
            self._outcome.count_error = error
            return
        if self._relay.is_merged:
            self._outcome.merged = True
            return
        if not self._options.read:
            await self._count()
            return
        timer = asyncio.get_running_loop().call_later(self._patience, self._read_beside)
        try:
            await self._count()
            timer.cancel()
            if self._outcome.settled(self._query, members=self._members_within_budget):
                return
            if self._beside is None:
                await self._gather()
            else:
                await asyncio.wait([self._beside])
        finally:
            timer.cancel()
            if self._beside is not None:
                await end(self._beside)

    def _read_beside(self) -> None:
        self._beside = asyncio.create_task(self._read_instead())

    async def _read_instead(self) -> None:
        """Read; once everything has arrived, do not wait for the COUNT."""
        await self._gather()
        if self._read_error is None and self._scope is not None:
            self._enough = True
            self._scope.reschedule(asyncio.get_running_loop().time())

    async def _count(self) -> None:
        outcome, notices = self._outcome, self._relay.notices
        try:
            outcome.answers = await self._all_counts()
        except (
            RelayError
        ) as error:  # one of several refusals is enough: they say the same in practice
            outcome.count_error = error
        outcome.count_elapsed = self._elapsed()
        if any(answer.merged for answer in outcome.answers):
            outcome.answers, outcome.merged = [], True
            return
        await self._try_union()
        if self._relay.notices != notices:
            outcome.doubt_zero(self._relay.notices[-1])

    async def _all_counts(self) -> list[CountAnswer]:
        """Send one COUNT for each filter, all at once: relays disagree on what several filters
        mean.

        If the relay is known to count their union, and no registers can be merged, send one for
        all.
        """
        filters = self._query.filters
        together = self._relay.capabilities.union and self._query.offset is None
        if together or len(filters) == 1:  # no task for the single filter that most queries have
            return [await self._relay.count(filters, self._count_seconds)]
        questions = [(f,) for f in filters]
        return await self._answers(questions, self._count_seconds)

    @property
    def _count_seconds(self) -> float:
        """Return a little less than the group's remaining time, so that a late COUNT can give its
        reason."""
        timeouts = self._options.timeouts
        left = timeouts.group - self._elapsed()
        return max(min(timeouts.count, left - _EARLIER), _EARLIER)

    async def _answers(
        self, questions: Sequence[Sequence[Filter]], seconds: float
    ) -> list[CountAnswer]:
        async with task_group() as group:
            tasks = [group.create_task(self._relay.count(q, seconds)) for q in questions]
        return [task.result() for task in tasks]

    async def _try_union(self) -> None:
        """Test, once for each relay, whether it counts unions; take the union if it does."""
        answers, filters = self._outcome.answers, self._query.filters
        known = self._relay.capabilities.union is not None or self._query.offset is not None
        trial = None if known or len(answers) < 2 else trial_of(filters, answers)
        if trial is None:
            return
        seconds = min(PATIENCE_MOST, self._options.timeouts.count)
        try:
            verdict = trial.verdict(await self._answers(trial.questions, seconds))
            if verdict is not None:
                self._relay.learn(union=verdict)
            if verdict:
                self._outcome.answers = await self._answers([filters], seconds)
        except HeldBack:
            return  # it was not asked
        except (RelayRefused, DeadlineExceeded):
            self._relay.learn(union=False)
        except RelayError:
            return  # the answers to single filters stand

    @property
    def _members_within_budget(self) -> bool:
        """Whether single events are wanted, and the relay does not report too many of them."""
        most = max((answer.count for answer in self._outcome.answers), default=0)
        by_ids = self._shared is not None and self._shared.by_ids
        return by_ids and most <= self._options.budget.events

    async def _gather(self) -> None:
        """List the relay's ids if that is enough and possible, else read its events.

        If ids are listed, the earlier answer is recalled first: reading changes what is stored.
        """
        if self._recall is not None and self._shared is not None and self._shared.by_ids:
            self._earlier = await self._recall()
        if not await self._list():
            await self._read()

    async def _list(self) -> bool:
        """List the relay's ids (NIP-77); return False if its events have to be read."""
        shared, query, outcome = self._shared, self._query, self._outcome
        if shared is None or not (shared.by_ids and is_listable(query)):
            return False
        if self._relay.capabilities.negentropy is False or await self._holds_events():
            return False
        from nostr_client.count.reading.listing import list_ids

        named = await list_ids(
            self._relay,
            query,
            budget=self._options.budget,
            reported=outcome.exact_count,
            silence=self._options.timeouts.eose,
            now=int(outcome.asked_at),
            before=() if self._earlier is None else ids_of(self._earlier) or (),
        )
        if named is None:
            return False
        shared.seen.saw(named.events)
        outcome.listed_bytes += named.traffic
        if not (named.whole or named.full):
            outcome.partly_named = len(named.ids)
            return False
        verified = {bytes.fromhex(one.event.id) for one in named.events} & named.ids
        outcome.listing = Listing(
            ids=named.ids, verified=frozenset(verified), complete=not named.full
        )
        outcome.listed_elapsed = self._elapsed()
        return True

    async def _holds_events(self) -> bool:
        """Whether events were read before: then a comparison returns only changes."""
        if self._place is None:
            return False
        seen = self._place.seen
        if seen is not None:
            return bool(seen[1])
        return bool(await self._place.use(lambda memory: memory.count(0, None)))

    async def _judge(self, shared: SharedIds) -> None:
        """Judge what is known of single events, once the other relays are done or late."""
        outcome = self._outcome
        known = outcome.known_ids
        shared.report(self._relay, known)
        if known is None:
            return
        judging = JudgedRelay(
            self._relay,
            self._query,
            shared,
            outcome.listing,
            await self._earlier_ids(shared),
            patience=self._options.patience,
            authors=outcome.authors,
            recalled=self._recalled if self._place else None,
        )
        with contextlib.suppress(TimeoutError):  # what is known by then is judged
            async with asyncio.timeout_at(self._started + self._options.timeouts.group):
                if shared.by_ids:
                    await self._others(shared)
                await judging.run()
        outcome.listing, outcome.retracted = judging.listing, judging.retracted
        outcome.listed_bytes += judging.traffic

    async def _earlier_ids(self, shared: SharedIds) -> EarlierIds:
        """Return what the earlier answer says about single events.

        The events of an earlier answer are those known before this round, so they are not read.
        """
        if shared.by_ids or self._recall is None:
            return EarlierIds.of(self._earlier)
        reader, known = self._reader, self._outcome.known_ids or frozenset[bytes]()
        if reader.retracted is None:
            return EarlierIds.of(await self._recall())
        return EarlierIds(reader.retracted, known - reader.fresh)

    async def _recalled(self) -> list[HeldEvent]:
        assert self._place is not None
        return await self._place.use(lambda memory: list(memory.events()))

    async def _others(self, shared: SharedIds) -> None:
        """Wait for the other relays, but not for a slow one."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._options.patience):
                await shared.settled()

    async def _read(self) -> None:
        self._reading = True
        try:
            await self._reader.read(self._outcome.exact_count)
        except RelayError as error:
            self._read_error = error
        except TimeoutError:
            self._read_error = DeadlineExceeded("no EOSE", relay=self._relay.url)
        if self._look_up is not None:
            await self._reader.settle(self._look_up)

    async def _take_stock(self, *, late: bool) -> None:
        """Copy the reader's result into the outcome."""
        outcome, reader = self._outcome, self._made
        if reader is None:
            return
        outcome.events_read, outcome.bytes_read = reader.events_read, reader.bytes_read
        if not self._reading:
            return
        error = self._read_error
        if late and error is None:
            late_read = DeadlineExceeded("not read to the end in time", relay=self._relay.url)
            error = self._relay.held_back() or late_read
        outcome.found = await reader.take_stock(self._elapsed(), error)
        outcome.stands = await self._is_cut(reader, outcome.found)

    async def _is_cut(self, reader: EventReader, found: EventsOutcome) -> bool:
        """Whether a reading did not come to its end, and an earlier answer knows more.

        What came is stored for the next round; as an answer it would be a part of what is known.
        """
        if found.reading.complete or self._recall is None:
            return False
        if reader.retracted is not None:
            return not found.current
        if self._earlier is None:
            self._earlier = await self._recall()
        known = self._earlier
        if known is None or known.reading is None:
            return known is not None
        return not found.current and len(known.reading.events) > len(found.reading.events)

    def _elapsed(self) -> float:
        return asyncio.get_running_loop().time() - self._started

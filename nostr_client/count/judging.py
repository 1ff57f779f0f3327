"""Judge the ids that the relays of one question name, each relay beside the others.

A relay is judged beside those that are asked with it, and beside the earlier answers of the others.
Of the ids that only one relay names, a random sample is fetched: if an id has no valid event, the
whole list counts as that relay's word only. A relay that lacks ids of others may know that the
author deleted them (kind 5 of NIP-09) or vanished (kind 62 of NIP-62), so it is asked. It is also
asked about its own ids, as many relays serve an event beside the request that deletes it.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from nostr_client.codecs.keys import stored_event
from nostr_client.count.merge import Retracted
from nostr_client.count.merge.values import NOTHING_RETRACTED, asked_earlier
from nostr_client.count.reading.seen import REQUESTS, SeenEvents
from nostr_client.errors import RelayError
from nostr_client.network.paging.by_id import IDS_AT_ONCE, events_by_id
from nostr_client.network.waiting import Gate

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.count.claims.coverage import HeldEvent
    from nostr_client.count.merge import Claim, Listing
    from nostr_client.count.queries import Query
    from nostr_client.network.relay import Relay
    from nostr_client.store.base import EventStore

SAMPLE: Final = 30
"""Ids fetched for one question: 11 kB. A relay that alone names no more than these proves them all.
"""

LEAST_SAMPLE: Final = 10
"""Ids fetched of each relay: if half are made up, the sample misses it once in a thousand times."""

ASKED: Final = 30
"""Most ids in a complete question to a relay; beyond it asks about a sample, and all after one
deletion."""

MOST_LOOKED_FOR: Final = 1_000
"""Most own ids about which a relay is asked, ten REQs, after it knew one deletion."""


class SharedIds:
    """What every relay of one question has or names; call `report` once for each relay.

    `rand` draws the samples: a relay that could foresee them would have only these events.
    `by_ids`: the question goes to several relays, even if they are asked one by one, and their
    numbers alone cannot be merged, so single events are wanted. `stored`: our own store, whose
    deletions count like those of relays.
    """

    def __init__(
        self,
        urls: Collection[str],
        rand: random.Random,
        *,
        by_ids: bool,
        seen: SeenEvents | None = None,
        stored: EventStore | None = None,
    ) -> None:
        self.rand = rand
        self.by_ids = by_ids
        self.seen = SeenEvents() if seen is None else seen
        self._ids: dict[str, frozenset[bytes]] = {}
        self._relays: dict[str, Relay] = {}
        self._waiting = set(urls)
        self._unchecked = set(urls)
        self._discredited: set[str] = set()
        self._stored = stored
        self._gate = Gate()

    def report(self, relay: Relay, ids: frozenset[bytes] | None) -> None:
        """Note that one relay is done; None: it named no single events."""
        self._waiting.discard(relay.url)
        if ids is not None:
            self._ids[relay.url] = ids
            self._relays[relay.url] = relay
        else:  # there is nothing to check
            self._unchecked.discard(relay.url)
        self._gate.wake()

    def check(self, url: str) -> None:
        """Note that a relay's list was checked by its sample, or has nothing to check."""
        self._unchecked.discard(url)
        self._gate.wake()

    def recall(self, relay: Relay, claim: Claim) -> None:
        """Add the earlier answer of a relay that is not asked now."""
        ids = ids_of(claim)
        if ids is not None:
            self._ids[relay.url] = ids
            self._relays[relay.url] = relay

    def discredit(self, url: str, verified: frozenset[bytes]) -> None:
        """Note that a relay made ids up: only what was fetched of it counts as named."""
        self._ids[url] = verified
        self._discredited.add(url)

    async def all_checked(self) -> None:
        """Wait until it is known of every relay whether it makes ids up. Safe to cancel."""
        await self._gate.wait(lambda: not self._unchecked)

    async def settled(self) -> None:
        """Wait until every relay has reported. Safe to cancel."""
        await self._gate.wait(lambda: not self._waiting)

    async def look_up(self, ids: Iterable[bytes], authors: Iterable[bytes]) -> bool:
        """Look for deletions of some events in our own store; return whether any exist.

        Raises StoreError.
        """
        if self._stored is None or REQUESTS.isdisjoint(await self._stored.kinds()):
            return False
        before = len(self.seen.requests)
        found = await self._stored.query(list(self.seen.requests_for(sorted(ids), authors)))
        self.seen.saw(map(stored_event, found))
        return len(self.seen.requests) > before

    def sample(self, ids: Sequence[bytes], most: int, size: int) -> list[bytes]:
        """Return all ids if they are `most` or fewer, else a random `size` of them, or fewer."""
        return list(ids) if len(ids) <= most else self.rand.sample(ids, max(size, 0))

    @property
    def share(self) -> int:
        """Return how many ids of each relay are fetched: the relays that make none up share
        `SAMPLE`."""
        return max(LEAST_SAMPLE, SAMPLE // max(len(self._ids.keys() - self._discredited), 1))

    def alone(self, url: str) -> list[bytes]:
        """Return the ids that no other relay names, in order."""
        others = frozenset[bytes]().union(*(ids for one, ids in self._ids.items() if one != url))
        return sorted(self._ids.get(url, frozenset()) - others)

    def lacking(self, url: str) -> list[bytes]:
        """Return the ids that other relays name and this one does not, in order."""
        return sorted(self.all_ids - self._ids[url])

    @property
    def all_ids(self) -> frozenset[bytes]:
        """Return the ids that any relay has or names."""
        return frozenset().union(*self._ids.values())

    def held(self, url: str) -> frozenset[bytes]:
        """Return the ids that this relay has or names."""
        return self._ids.get(url, frozenset())

    def source(self, id: bytes) -> Relay | None:
        """Return a relay that names an id."""
        return next((self._relays[url] for url, ids in self._ids.items() if id in ids), None)


def ids_of(claim: Claim) -> frozenset[bytes] | None:
    """Return the undoubted ids of a claim; None if it has no ids."""
    if not claim.answered:
        return None
    if claim.listing is not None:
        return claim.listing.verified if claim.listing.failed else claim.listing.ids
    return claim.reading.events if claim.reading is not None else None


class EarlierIds(NamedTuple):
    """What an earlier answer of a relay says about single events: it stays proven.

    `retracted`: what does not count. `named`: the ids that it named, which the relay was asked
    about. `verified`: those of its list that were fetched. `claim`: the whole answer, where others'
    events are judged too.
    """

    retracted: Retracted = NOTHING_RETRACTED
    named: frozenset[bytes] = frozenset()
    verified: frozenset[bytes] = frozenset()
    claim: Claim | None = None

    @classmethod
    def of(cls, claim: Claim | None) -> EarlierIds:
        """Return it from the whole answer, if there is one."""
        if claim is None:
            return cls()
        verified = claim.listing.verified if claim.listing else frozenset[bytes]()
        return cls(claim.retracted, ids_of(claim) or frozenset(), verified, claim)


NOTHING_EARLIER: Final = EarlierIds()


class JudgedRelay:
    """One relay of the question: `run` asks it, `listing` and `retracted` are the result.

    `earlier`: what the relay's earlier answer says about single events.
    """

    def __init__(
        self,
        relay: Relay,
        query: Query,
        shared: SharedIds,
        listing: Listing | None,
        earlier: EarlierIds = NOTHING_EARLIER,
        *,
        patience: float,
        authors: frozenset[bytes] = frozenset(),
        recalled: Callable[[], Awaitable[Iterable[HeldEvent]]] | None = None,
    ) -> None:
        """Create it; `patience`: seconds to wait for the checks of other relays.

        `authors`: of all events that were read, `recalled` returns those that arrived in any round.
        """
        self._authors = authors
        self._recalled = recalled
        self._patience = patience
        self._sampled: set[bytes] = set()
        self._relay = relay
        self._query = query
        self._shared = shared
        self._proven = earlier.retracted
        self._earlier = earlier.claim
        self._asked: set[bytes] = set()
        self._unread = False
        """Whether a frame about deletions could not be read: what it deletes is unknown."""
        self._before = earlier.named
        self._looked_for = False
        self._ended = False
        """Whether the relay answered every question."""
        self.listing = listing
        self.traffic = 0
        if listing is not None and earlier.verified:
            verified = listing.verified | (earlier.verified & listing.ids)
            self.listing = msgspec.structs.replace(listing, verified=verified)

    @property
    def retracted(self) -> Retracted:
        """Return the ids that are proven not to count."""
        seen, named, looked_for = self._shared.seen, self._shared.all_ids, self._looked_for
        blocked = self._known.intersection(named)
        if seen.requests:
            blocked = blocked.union(filter(seen.is_blocked, named))
        if self._query.one_per_author:  # a list by its author, who is removed by it
            before = self._proven.lists
            lists = {id: before[id] for id in blocked if id in before}
            lists |= {id: seen.by_id[id].author for id in blocked if id in seen.by_id}
            return Retracted(lists=lists, looked_for=looked_for)
        kept = {
            old: new
            for old, new in self._proven.replaced.items()
            if old in blocked and new in named
        }
        replaced = kept | seen.superseded
        ids = blocked.union(replaced)
        if not self._shared.by_ids:
            return Retracted(ids=ids, replaced=replaced, looked_for=looked_for)
        asked = frozenset(self._asked)
        left = frozenset[bytes]() if self._ended else named - asked
        known = asked_earlier(self._earlier, left)
        return Retracted(ids=ids, replaced=replaced, asked=asked, looked_for=looked_for, **known)

    @property
    def _known(self) -> frozenset[bytes]:
        """The ids that an earlier answer retracts, and that do not count now either."""
        return self._proven.proven(self._shared.all_ids)

    async def run(self) -> None:
        """Fetch the sample, ask for deletions; if a relay refuses, the rest stays unknown.

        Raises StoreError; a relay's failure is not raised. Cancelling keeps what is known.
        """
        shared, url, known = self._shared, self._relay.url, self._known
        await self._look_up(shared.held(url) - known)
        try:
            await self._check_listing()
            if shared.by_ids:
                lacking = [id for id in shared.lacking(url) if id not in known]
                verified = self.listing.verified if self.listing else frozenset[bytes]()
                await self._ask_deletions(sorted(self._sampled & verified), lacking)
            await self._look_for(shared.held(url) - known)
            self._ended = not self._unread
        except RelayError:
            return

    async def _look_up(self, held: frozenset[bytes]) -> None:
        """Look in our own store for deletions of this relay's events.

        Events of earlier rounds did not arrive in this one, so their authors are recalled.
        """
        found = bool(held) and await self._shared.look_up(held, self._authors)
        if found and self._recalled is not None:
            of = {kind for one in self._query.filters for kind in one.kinds or (None,)}
            (kind, *others) = of
            if kind is not None and not others and kind not in REQUESTS:
                self._shared.seen.remember(await self._recalled(), kind)

    async def _look_for(self, held: frozenset[bytes]) -> None:
        """Ask about this relay's own events: about all if they are few, else about a sample.

        It is not asked again about events of an earlier round.
        """
        left = sorted(held.difference(self._asked, self._before))
        some = self._shared.sample(left, IDS_AT_ONCE, ASKED)
        before = len(self._shared.seen.requests)
        await self._ask(some)
        if len(self._shared.seen.requests) > before:
            some += sorted(set(left).difference(some))[: MOST_LOOKED_FOR - len(some)]
            await self._ask(some)
        self._looked_for = not self._unread and held <= self._asked

    async def _check_listing(self) -> None:
        """Check a sample of the ids that only this relay names, again once the liars are known.

        A liar's ids confirm nothing, and take no part of the sample.
        """
        shared, url = self._shared, self._relay.url
        try:
            if self.listing is not None:
                await self._check_sample(self.listing)
        finally:
            shared.check(url)
        if not shared.by_ids:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._patience):
                await shared.all_checked()
        if self.listing is not None and not self.listing.failed:
            await self._check_sample(self.listing)

    async def _check_sample(self, listing: Listing) -> None:
        """Fetch ids that only this relay names, and test whether their events exist."""
        shared, done = self._shared, len(self._sampled)
        named = shared.alone(self._relay.url)
        alone = [id for id in named if id not in listing.verified and id not in self._sampled]
        sample = shared.sample(alone, SAMPLE - done, shared.share - done)
        self._sampled.update(sample)
        found = {bytes.fromhex(one.id): one for one in await self._fetch(self._relay, sample)}
        filters = self._query.filters
        good = {id for id, event in found.items() if any(f.matches(event) for f in filters)}
        if len(good) < len(sample):
            shared.discredit(self._relay.url, listing.verified | good)
        self.listing = msgspec.structs.replace(
            listing,
            verified=listing.verified | good,
            failed=listing.failed + len(sample) - len(good),
            judged=True,
        )

    async def _fetch(self, relay: Relay, ids: Iterable[bytes]) -> list[Event]:
        found = await events_by_id(relay, set(ids))
        self.traffic += found.bytes
        self._shared.seen.saw(found.events)
        return [one.event for one in found.events]

    async def _ask_deletions(self, sample: Sequence[bytes], lacking: Sequence[bytes]) -> None:
        """Ask about a sample of what this relay lacks, and about all if it knows a deletion."""
        some = self._shared.sample(lacking, IDS_AT_ONCE, ASKED)
        before = len(self._shared.seen.requests)
        await self._ask([*sample, *some])
        if len(self._shared.seen.requests) > before and len(some) < len(lacking):
            await self._ask(sorted(set(lacking).difference(some)))

    async def _ask(self, ids: Sequence[bytes]) -> None:
        left = [id for id in ids if id not in self._asked]
        for start in range(0, len(left), IDS_AT_ONCE):
            part = left[start : start + IDS_AT_ONCE]
            while await self._requests(part):
                part = [id for id in part if not self._shared.seen.is_blocked(id)]
            if not self._unread:
                self._asked.update(left[start : start + IDS_AT_ONCE])
        await self._learn_authors()

    async def _requests(self, ids: Sequence[bytes]) -> bool:
        """Ask for the requests that block these ids; return False if nothing new arrived."""
        if not ids:
            return False
        before = len(self._shared.seen.requests)
        page = await self._relay.fetch(list(self._shared.seen.requests_for(ids)))
        self.traffic += page.bytes
        self._unread = self._unread or page.malformed > 0
        self._shared.seen.saw(page.events)
        return len(self._shared.seen.requests) > before

    async def _learn_authors(self) -> None:
        """Fetch events that deletions name and that never arrived: only their author may delete
        them."""
        shared = self._shared
        if not shared.seen.requests:
            return
        by_relay: dict[Relay, list[bytes]] = {}
        for id in shared.seen.deleted_unseen(shared.all_ids - self._known):
            source = shared.source(id)
            if source is not None:
                by_relay.setdefault(source, []).append(id)
        for source, ids in by_relay.items():
            await self._fetch(source, ids)

"""Judges the ids that the relays of one question name, each relay beside the others.

A relay is judged beside those that are asked with it, and beside what the others said before.

Of the ids that a relay alone names, a random sample is fetched: an id without an event that holds
makes the whole list that relay's bare word. And a relay that lacks what others hold may know that
the author deleted it (kind 5 of NIP-09), so it is asked.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec

from nostr_client import kinds
from nostr_client.count.by_id import IDS_AT_ONCE, events_by_id
from nostr_client.errors import RelayError
from nostr_client.filters import Filter
from nostr_client.merge import Listing, Retracted

if TYPE_CHECKING:
    import random
    from collections.abc import Collection, Iterable, Sequence

    from nostr_client.count.queries import Query
    from nostr_client.event import Event
    from nostr_client.keys import VerifiedEvent
    from nostr_client.merge import Claim
    from nostr_client.relay import Relay

SAMPLE: Final = 30
"""Ids that are fetched for one question: 11 kB. A relay that names no more alone proves them all.
"""

LEAST_SAMPLE: Final = 10
"""Ids that are fetched of each relay: half made-up ids are missed once in a thousand times."""

ASKED: Final = 30
"""Ids beyond `IDS_AT_ONCE` of which a relay is asked about a sample; all after one deletion."""


class SharedIds:
    """What every relay of one question holds or names; `report` once for each relay.

    `rand` draws the samples: a relay that could foresee them would have only these events.
    `several`: the question goes to several relays, also where they are asked one by one. Their
    numbers alone cannot be merged.
    """

    def __init__(self, urls: Collection[str], rand: random.Random, *, several: bool) -> None:
        self.rand = rand
        self.several = several
        self.authors: dict[bytes, bytes] = {}
        """Who signed an event, by id, as far as events came."""
        self.superseded: set[bytes] = set()
        """Ids of versions that a newer one replaces (replaceable and addressable kinds)."""
        self._newest: dict[tuple[int, str, str], tuple[int, str]] = {}
        self._ids: dict[str, frozenset[bytes]] = {}
        self._relays: dict[str, Relay] = {}
        self._waiting = set(urls)
        self._settled = asyncio.Event()

    def saw(self, events: Iterable[VerifiedEvent]) -> None:
        """Events that came: their authors, and which of two versions holds."""
        for one in events:
            event = one.event
            self.authors[bytes.fromhex(event.id)] = bytes.fromhex(event.pubkey)
            address = _address(event)
            if address is not None:
                self._replace(address, event)

    def _replace(self, address: tuple[int, str, str], event: Event) -> None:
        mine = (-event.created_at, event.id)  # the newer, of equals the one with the lower id
        other = self._newest.get(address, mine)
        self._newest[address] = min(mine, other)
        if mine != other:
            self.superseded.add(bytes.fromhex(max(mine, other)[1]))

    def report(self, relay: Relay, ids: frozenset[bytes] | None) -> None:
        """One relay is done; None: it told nothing of single events."""
        self._waiting.discard(relay.url)
        if ids is not None:
            self._ids[relay.url] = ids
            self._relays[relay.url] = relay
        if not self._waiting:
            self._settled.set()

    def recall(self, relay: Relay, claim: Claim) -> None:
        """A relay that is not asked now: what it said before."""
        ids = ids_of(claim)
        if ids is not None:
            self._ids[relay.url] = ids
            self._relays[relay.url] = relay

    def discredit(self, url: str, verified: frozenset[bytes]) -> None:
        """A relay made ids up: only what was fetched of it is named."""
        self._ids[url] = verified

    async def settled(self) -> None:
        """Return when every relay has reported. Safe to cancel."""
        await self._settled.wait()

    def sample(self, ids: Sequence[bytes], most: int, size: int) -> list[bytes]:
        """All ids where they are `most` or fewer, else a random `size` of them."""
        return list(ids) if len(ids) <= most else self.rand.sample(ids, size)

    @property
    def share(self) -> int:
        """How many ids of each relay are fetched: the relays share `SAMPLE`."""
        return max(LEAST_SAMPLE, SAMPLE // max(len(self._ids), 1))

    def alone(self, url: str) -> list[bytes]:
        """The ids that no other relay names, in order."""
        others = frozenset[bytes]().union(*(ids for one, ids in self._ids.items() if one != url))
        return sorted(self._ids.get(url, frozenset()) - others)

    def lacking(self, url: str) -> list[bytes]:
        """The ids that other relays name and this one does not, in order."""
        return sorted(self.all_ids - self._ids[url])

    @property
    def all_ids(self) -> frozenset[bytes]:
        """The ids that any relay holds or names."""
        return frozenset().union(*self._ids.values())

    def source(self, id: bytes) -> Relay | None:
        """A relay that names an id."""
        return next((self._relays[url] for url, ids in self._ids.items() if id in ids), None)


def ids_of(claim: Claim) -> frozenset[bytes] | None:
    """The ids that a claim tells of and that are not in doubt; None where it tells of none."""
    if not claim.answered:
        return None
    if claim.listing is not None:
        return claim.listing.verified if claim.listing.failed else claim.listing.ids
    return claim.reading.events if claim.reading is not None else None


class Judging:
    """One relay of the question: `run` asks it, `listing` and `retracted` are what is known.

    `earlier`: what this relay said before. What was proven then stays proven.
    """

    def __init__(
        self,
        relay: Relay,
        query: Query,
        shared: SharedIds,
        listing: Listing | None,
        earlier: Claim | None = None,
    ) -> None:
        self._relay = relay
        self._query = query
        self._shared = shared
        self._known = frozenset[bytes]() if earlier is None else earlier.retracted.ids
        self._asked: set[bytes] = set()
        self._unread = False
        """A frame about deletions could not be read: what it deletes is not known."""
        self._named_by: dict[bytes, set[bytes]] = {}
        self.listing = listing
        self.traffic = 0
        if listing is not None and earlier is not None and earlier.listing is not None:
            verified = listing.verified | (earlier.listing.verified & listing.ids)
            self.listing = msgspec.structs.replace(listing, verified=verified)

    @property
    def retracted(self) -> Retracted:
        """The ids that are proven not to count."""
        authors = self._shared.authors
        deleted = {id for id, keys in self._named_by.items() if authors.get(id) in keys}
        known = self._known.intersection(self._shared.all_ids)
        ids = frozenset(deleted | self._shared.superseded | known)
        return Retracted(ids=ids, asked=frozenset(self._asked))

    async def run(self) -> None:
        """Fetch the sample, ask for deletions; a relay that refuses leaves the rest unknown.

        Raises nothing that a relay did. Cancelling keeps what is known.
        """
        known = self._known
        lacking = [id for id in self._shared.lacking(self._relay.url) if id not in known]
        try:
            sample = await self._check_sample() if self.listing is not None else []
            await self._ask_deletions(sample, lacking)
        except RelayError:
            return

    async def _check_sample(self) -> list[bytes]:
        """Fetch ids that this relay alone names, and see whether their events are what it says."""
        assert self.listing is not None
        alone = [
            id for id in self._shared.alone(self._relay.url) if id not in self.listing.verified
        ]
        sample = self._shared.sample(alone, SAMPLE, self._shared.share)
        found = {bytes.fromhex(one.id): one for one in await self._fetch(self._relay, sample)}
        filters = self._query.filters
        good = {id for id, event in found.items() if any(f.matches(event) for f in filters)}
        if len(good) < len(sample):
            self._shared.discredit(self._relay.url, self.listing.verified | good)
        self.listing = msgspec.structs.replace(
            self.listing,
            verified=self.listing.verified | good,
            failed=len(sample) - len(good),
            judged=True,
        )
        return sorted(good)

    async def _fetch(self, relay: Relay, ids: Iterable[bytes]) -> list[Event]:
        found = await events_by_id(relay, set(ids))
        self.traffic += found.bytes
        self._shared.saw(found.events)
        return [one.event for one in found.events]

    async def _ask_deletions(self, sample: Sequence[bytes], lacking: Sequence[bytes]) -> None:
        """Ask about some of what this relay lacks, and about all where it knows a deletion."""
        some = self._shared.sample(lacking, IDS_AT_ONCE, ASKED)
        await self._ask([*sample, *some])
        if self._named_by and len(some) < len(lacking):
            await self._ask(sorted(set(lacking).difference(some)))

    async def _ask(self, ids: Sequence[bytes]) -> None:
        for start in range(0, len(ids), IDS_AT_ONCE):
            part = ids[start : start + IDS_AT_ONCE]
            left = set(part)
            while left and (named := await self._deletions(left)):
                left -= named
            if not self._unread:
                self._asked.update(part)
        await self._learn_authors()

    async def _deletions(self, ids: set[bytes]) -> set[bytes]:
        """The ids that deletions of this relay name, by whomever."""
        asked = Filter(kinds=[kinds.DELETION], tags={"#e": [id.hex() for id in sorted(ids)]})
        page = await self._relay.fetch([asked])
        self.traffic += page.bytes
        self._unread = self._unread or page.malformed > 0
        named: set[bytes] = set()
        for one in page.events:
            for id in ids.intersection(_deleted_by(one.event)):
                named.add(id)
                self._named_by.setdefault(id, set()).add(bytes.fromhex(one.event.pubkey))
        return named

    async def _learn_authors(self) -> None:
        """Only the author deletes: fetch what is named in deletions and was never seen."""
        unknown = [id for id in self._named_by if id not in self._shared.authors]
        by_relay: dict[Relay, list[bytes]] = {}
        for id in unknown:
            source = self._shared.source(id)
            if source is not None:
                by_relay.setdefault(source, []).append(id)
        for source, ids in by_relay.items():
            await self._fetch(source, ids)


def _deleted_by(event: Event) -> set[bytes]:
    named = [tag[1] for tag in event.tags if len(tag) > 1 and tag[0] == "e" and len(tag[1]) == 64]
    return {bytes.fromhex(id) for id in named if not id.strip("0123456789abcdef")}


def _address(event: Event) -> tuple[int, str, str] | None:
    """What versions of an event have in common; None for a regular one."""
    if kinds.is_replaceable(event.kind):
        return event.kind, event.pubkey, ""
    if kinds.is_addressable(event.kind):
        names = (tag[1] for tag in event.tags if len(tag) > 1 and tag[0] == "d")
        return event.kind, event.pubkey, next(names, "")
    return None

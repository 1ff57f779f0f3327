"""Count the authors of a question who are within a web of trust: a second figure beside the total.

Where the events of a relay were read, its authors are known. Any other relay that answered is asked
for the events of the people in the web, 200 of them in a REQ, the nearest first. The relay's number
and registers are not used, so the figure counts verified events only.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec

from nostr_client.codecs.filters import Filter
from nostr_client.codecs.web_of_trust import (
    LISTS,
    NO_LINKS,
    Root,
    Web,
    followed,
    links_of,
    web_of,
)
from nostr_client.count.asking import LEAST
from nostr_client.count.claiming import status_of
from nostr_client.count.claims import TransientMemory
from nostr_client.count.figures import Figure, Within
from nostr_client.count.merge import Claim, ClaimStatus, Method, Proven, Reading
from nostr_client.count.reading.events import EventReader
from nostr_client.count.reading.seen import SeenEvents
from nostr_client.errors import DeadlineExceeded, InvalidInput, RelayError
from nostr_client.network.waiting import task_group
from nostr_client.options import ReadBudget

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from nostr_client.codecs.keys import VerifiedEvent
    from nostr_client.count.asking import CountOptions
    from nostr_client.count.procedure import CountEngine
    from nostr_client.count.queries import Query
    from nostr_client.count.reading.events import Keep
    from nostr_client.count.result import CountResult
    from nostr_client.network.relay import Relay
    from nostr_client.store.base import EventStore

KEYS_AT_ONCE: Final = 200
"""Keys in one REQ: relays accept some hundreds, and one needs gigabytes for 1,900."""

MOST_KEYS: Final = 5_000
"""Keys that one relay is asked for, 25 REQs; the figure is a lower bound if the web has more."""


NO_LISTS: Final = (
    "people within a web of trust are counted by follow lists of a store, and by reading events"
)
"""Why nothing is counted without a store, or if events are not read."""

READ_SHARE: Final = 0.7
"""Share of the time for reading by author; the rest is for deletions and newer lists."""


async def stored_web(store: EventStore, root: Root) -> Web:
    """Return the web of a root, from the follow and mute lists in a store.

    Raises InvalidInput if the root's follow list is not stored, StoreError. Safe to cancel.
    """
    links = links_of(await store.query([Filter(kinds=LISTS, authors=[root.pubkey])]))
    if links.get(root.pubkey, NO_LINKS).follows is None:
        npub = str(root).rpartition(":")[0]
        raise InvalidInput(
            f"the store has no follow list (kind 3) of {npub}: "
            f"`nostr-client sync run --kind 3 --kind 10000 --author {npub}` gets it"
        )
    near = sorted(followed(root, links))
    for start in range(0, len(near), KEYS_AT_ONCE):
        asked = Filter(kinds=LISTS, authors=near[start : start + KEYS_AT_ONCE])
        links |= links_of([event async for event in store.stream([asked])])
    return web_of(root, links)


async def count_within(
    counter: CountEngine,
    result: CountResult,
    relays: Sequence[tuple[str, Relay]],
    web: Web,
    options: CountOptions,
    *,
    is_named: Callable[[str], bool],
    now: Callable[[], float],
) -> Within:
    """Return how many of a result's authors are within a web, in as much time again as a count.

    `relays`: those that were asked, as (the user's spelling, relay). `is_named`: whether the user
    named the relay at a URL; no other relay learns whom he knows. A relay that fails, or may not be
    asked, makes the figure a lower bound. Raises StoreError. Safe to cancel.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + options.timeouts.group
    query, people = result.query, frozenset(map(bytes.fromhex, web.ranks))
    by_name = {one.relay: one for one in result.merged.claims}
    known = {relay.url: by_name[name] for name, relay in relays if name in by_name}
    lack = [one for one in relays if one[1].url in known and needs_asking(known[one[1].url], query)]
    ask = [one for one in lack if is_named(one[1].url)]
    found = {url: narrowed(one, people) for url, one in known.items()}
    if ask and web.ranks:
        seen = SeenEvents()
        asking = ByAuthor(query, web.nearest_first, options, seen, now=now)
        asked = await asking.claims(ask, options.timeouts.group * READ_SHARE)
        rest = {url: one for url, one in found.items() if url not in asked}
        found = await counter.judged(
            query,
            asked,
            rest,
            {relay.url: relay for _, relay in relays if is_named(relay.url)},
            seen,
            options,
            seconds=max(end - loop.time(), LEAST),
        )
    at = int(now())
    merged = counter.result(query, list(found.values())).merged
    left = result.unasked
    whole = len(ask) == len(lack) and (left is None or not (left.known or left.never))
    return within_of(web, merged.authors, at=at, whole=whole)


def within_of(web: Web, figure: Figure | None, *, at: int, whole: bool) -> Within:
    """Return a figure with its web, counted `at` Unix seconds.

    It is a lower bound if lists are missing, or not all relays were asked (not `whole`).
    """
    if figure is not None and not (whole and web.complete):
        figure = Figure.at_least(figure.value, figure.low)
    key, depth = web.root
    return Within(
        key=key,
        depth=depth,
        people=len(web.ranks),
        followed=web.followed,
        lists=web.lists,
        figure=figure,
        at=at,
    )


def narrowed(claim: Claim, people: frozenset[bytes]) -> Claim:
    """Return a claim with those of its read authors who are among `people` (raw keys). Pure.

    The events stay, as a reading does not store who wrote which. Counts, registers and lists of ids
    say nothing about single people, so they go, and so does a proof of the number alone.
    """
    reading = claim.reading
    if reading is not None:
        number = reading.proven is Proven.NUMBER
        reading = msgspec.structs.replace(
            reading,
            authors=reading.authors & people,
            proven=Proven.NOTHING if number else reading.proven,
            balanced=False,
            amounts=None,
            receipts=None,
            labels=None,
        )
    return msgspec.structs.replace(
        claim,
        reading=reading,
        count=None,
        count_high=None,
        registers=None,
        listing=None,
    )


def needs_asking(claim: Claim, query: Query) -> bool:
    """Whether a relay's authors are not all known, and asking for people by key can add some.

    Payers do not sign zap receipts, and a search is answered as each relay likes.
    """
    if query.is_zaps or query.searches or not claim.answered or claim.stands_in:
        return False
    return claim.reading is None or not claim.reading.complete


class ByAuthor:
    """Reads the events of a question by known authors, from relays that are asked anyway."""

    def __init__(
        self,
        query: Query,
        keys: Sequence[str],
        options: CountOptions,
        seen: SeenEvents,
        *,
        now: Callable[[], float],
    ) -> None:
        """Create it; `keys`: pubkeys in hex, in the order of asking; `seen` gets the events."""
        self._query = query
        self._keys = keys
        self._options = options
        self._seen = seen
        self._now = now

    async def claims(self, relays: Sequence[tuple[str, Relay]], seconds: float) -> dict[str, Claim]:
        """Return a claim of each relay by its URL, within so many seconds.

        A relay's failure is the status of its claim. Raises StoreError if events are stored. Safe
        to cancel.
        """
        async with task_group() as group:
            asked = {
                relay.url: group.create_task(self._of_relay(name, relay, seconds))
                for name, relay in relays
            }
        return {url: task.result() for url, task in asked.items()}

    async def _of_relay(self, name: str, relay: Relay, seconds: float) -> Claim:
        asking = _Asking(self._query, relay, self._options, self._keep, self._now)
        try:
            async with asyncio.timeout(seconds):
                for batch in _batches(self._keys):
                    await asking.read(batch)
                    if asking.error is not None or asking.spent:
                        break
                else:
                    asking.asked_all = len(self._keys) <= MOST_KEYS
        except TimeoutError:
            asking.error = DeadlineExceeded("not read to the end in time", relay=relay.url)
        return asking.claim(name)

    async def _keep(self, relay: str, events: Sequence[VerifiedEvent]) -> None:
        self._seen.saw(events)
        if self._options.keep is not None:
            await self._options.keep(relay, events)


def _batches(keys: Sequence[str]) -> list[Sequence[str]]:
    asked = keys[:MOST_KEYS]
    return [asked[n : n + KEYS_AT_ONCE] for n in range(0, len(asked), KEYS_AT_ONCE)]


def by_authors(query: Query, keys: Collection[str]) -> Query | None:
    """Return a question about only these authors; None if it can match nothing."""
    named = set(keys)
    filters = tuple(
        one.replace(authors=sorted(named if one.authors is None else named & set(one.authors)))
        for one in query.filters
    )
    left = tuple(one for one in filters if not one.matches_nothing)
    return msgspec.structs.replace(query, filters=left) if left else None


class _Asking:
    """One relay: what its batches gave together."""

    def __init__(
        self,
        query: Query,
        relay: Relay,
        options: CountOptions,
        keep: Keep,
        now: Callable[[], float],
    ) -> None:
        self._query = query
        self._relay = relay
        self._options = options
        self._keep = keep
        self._asked_at = now()
        self._readings: list[Reading] = []
        self._frames = self._bytes = 0
        self.error: RelayError | None = None
        self.asked_all = False

    @property
    def spent(self) -> bool:
        """Whether the budget for this relay is used up."""
        budget = self._options.budget
        return self._frames >= budget.events or self._bytes >= budget.bytes

    async def read(self, keys: Sequence[str]) -> None:
        """Read the events of one batch of authors. Raises StoreError."""
        query = by_authors(self._query, keys)
        if query is None:
            return
        budget = self._options.budget
        reader = EventReader(
            self._relay,
            query,
            TransientMemory(replaces=query.one_per_author),
            budget=ReadBudget(
                bytes=budget.bytes - self._bytes, events=budget.events - self._frames
            ),
            silence=self._options.timeouts.eose,
            clock=int(self._asked_at - self._relay.behind),
            reread=self._options.reread,
            keep=self._keep,
        )
        try:
            await reader.read()
        except RelayError as error:
            self.error = error
        except TimeoutError:
            self.error = DeadlineExceeded("no EOSE", relay=self._relay.url)
        finally:
            found = await reader.take_stock(0.0, self.error)
            self._readings.append(found.reading)
            self._frames += reader.events_read
            self._bytes += reader.bytes_read

    def claim(self, name: str) -> Claim:
        """Return all readings as one claim, under the user's spelling."""
        events = frozenset[bytes]().union(*(one.events for one in self._readings))
        base = Claim(
            relay=name,
            status=ClaimStatus.OK,
            events_read=self._frames,
            bytes_read=self._bytes,
            asked_at=round(self._asked_at, 3),
        )
        if self.error is not None and not events:
            return msgspec.structs.replace(base, status=status_of(self.error))
        complete = self.asked_all and all(one.complete for one in self._readings)
        members = all(one.proven is Proven.MEMBERS for one in self._readings)
        reading = Reading(
            authors=frozenset[bytes]().union(*(one.authors for one in self._readings)),
            events=events,
            complete=complete,
            proven=Proven.MEMBERS if members else Proven.NOTHING,
        )
        return msgspec.structs.replace(base, method=Method.EVENTS, reading=reading)

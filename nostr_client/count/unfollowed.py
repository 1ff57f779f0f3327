"""Takes authors off whose newer list no longer holds the key, where events were read.

A relay that missed an unfollow still gives the old list, while one that has the newer list gives
nothing for the question. So a relay is asked for the newest lists of the authors that it alone does
not give; where such a list does not match, those who gave the author are asked which is newer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from nostr_client import hll
from nostr_client.errors import RelayError
from nostr_client.filters import Filter
from nostr_client.taskgroup import task_group

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from nostr_client.count.queries import Query
    from nostr_client.event import Event
    from nostr_client.merge import Claim, Reading
    from nostr_client.options import ReadBudget
    from nostr_client.relay import Relay

BATCH: Final = 50
"""Authors of one filter: every known relay gives so many lists in one page."""

MOST: Final = 1_000
"""Authors asked of one relay: beyond it a number is not exact. Lists have some 30 kB each."""

NOT_ASKED: Final = "followers: the newest lists of {} authors could not be compared"


class _Asked(NamedTuple):
    """What relays gave by author, and the authors of which one relay did not answer."""

    lists: dict[bytes, list[Event]]
    unknown: set[bytes]


def is_compared(query: Query, claims: Iterable[Claim]) -> bool:
    """Whether the question is about newest lists, which two relays at least were read for."""
    read = [claim for claim in claims if claim.answered and claim.reading is not None]
    one = len(query.filters) == 1 and bool(query.filters[0].tags)
    return one and query.one_per_author and len(read) > 1


async def without_unfollowed(
    query: Query,
    claims: Sequence[tuple[str, Claim]],
    relays: Mapping[str, Relay],
    *,
    seconds: float,
    budget: ReadBudget,
) -> list[tuple[str, Claim]]:
    """The claims without those who left, by the newest list that any of the relays gives.

    `seconds` are for each of two steps. What could not be compared makes the number not exact.
    Raises nothing that a relay did. Safe to cancel.
    """
    read = {u: c.reading for u, c in claims if c.answered and c.reading is not None}
    everybody = frozenset[bytes]().union(*(reading.authors for reading in read.values()))
    missing = {url: everybody - reading.authors for url, reading in read.items()}
    ask = _Asker(query, relays, seconds, budget)
    lacking = await ask.lists(missing)
    suspects = {a for a, lists in lacking.lists.items() if not all(map(ask.holds, lists))}
    givers = {url: suspects & reading.authors for url, reading in read.items()}
    given = await ask.lists(givers)
    unknown = lacking.unknown | given.unknown
    left, ids = set[bytes](), set[bytes]()
    for author in suspects - given.unknown:
        lists = [*lacking.lists[author], *given.lists.get(author, [])]
        if not ask.holds(min(lists, key=lambda e: (-e.created_at, e.id))):
            left.add(author)
            ids.update(bytes.fromhex(event.id) for event in lists)
    return [
        (url, _corrected(claim, query, left, ids, unknown) if url in read else claim)
        for url, claim in claims
    ]


class _Asker:
    def __init__(
        self, query: Query, relays: Mapping[str, Relay], seconds: float, budget: ReadBudget
    ) -> None:
        (self._asked,) = query.filters
        self._relays = relays
        self._seconds = seconds
        self._budget = budget

    def holds(self, event: Event) -> bool:
        """Whether a list still matches the question."""
        return self._asked.matches(event)

    async def lists(self, wanted: Mapping[str, Collection[bytes]]) -> _Asked:
        """The newest lists of authors, as each relay has them, all relays at once."""
        out = _Asked({}, set())
        async with task_group() as group:
            for url, authors in wanted.items():
                if authors:
                    group.create_task(self._of_relay(self._relays[url], sorted(authors), out))
        return out

    async def _of_relay(self, relay: Relay, authors: Sequence[bytes], out: _Asked) -> None:
        out.unknown.update(authors[MOST:])
        batches = [authors[n : n + BATCH] for n in range(0, min(len(authors), MOST), BATCH)]
        async with task_group() as group:
            for batch in batches:
                group.create_task(self._batch(relay, batch, out))

    async def _batch(self, relay: Relay, authors: Sequence[bytes], out: _Asked) -> None:
        keys = [author.hex() for author in authors]
        asked = Filter(kinds=self._asked.kinds, authors=keys)
        try:
            page = await relay.fetch([asked], self._seconds, budget=self._budget, partial=True)
        except RelayError:
            out.unknown.update(authors)
            return
        if not page.complete:
            out.unknown.update(authors)
        for one in page.events:
            if asked.matches(one.event):
                out.lists.setdefault(bytes.fromhex(one.event.pubkey), []).append(one.event)


def _corrected(
    claim: Claim, query: Query, left: set[bytes], ids: set[bytes], unknown: set[bytes]
) -> Claim:
    """A claim without the authors that left; those not compared may be gone as well."""
    assert claim.reading is not None
    reading: Reading = claim.reading
    doubted = len(unknown & reading.authors)
    if doubted:
        share = max(reading.gone, doubted / len(reading.authors))
        claim = claim.warned(NOT_ASKED.format(doubted))
        reading = msgspec.structs.replace(reading, gone=share)
    if left & reading.authors:
        authors, events = reading.authors - left, reading.events - ids
        reading = msgspec.structs.replace(reading, authors=authors, events=events)
        claim = msgspec.structs.replace(claim, count=len(events))
        if claim.registers is not None and query.offset is not None:
            made = hll.from_pubkeys(authors, query.offset)
            claim = msgspec.structs.replace(claim, registers=made)
    return msgspec.structs.replace(claim, reading=reading)

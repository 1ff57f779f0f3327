"""Find the events that a repair sends: what relays, and relays of mentioned people, lack."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Final, Protocol

from nostr_client.codecs.filters import Filter
from nostr_client.codecs.kinds import is_regular
from nostr_client.network.outbox import choose_many
from nostr_client.network.waiting import task_group
from nostr_client.options import ReadBudget
from nostr_client.sync.coverage.looking import is_read
from nostr_client.sync.coverage.plan import (
    RECENT,
    MissingEvent,
    SkipReason,
    recipients,
)
from nostr_client.sync.coverage.reading import BATCH, read_held, stored_events
from nostr_client.sync.coverage.sampling import fetched

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from nostr_client.codecs.event import Event
    from nostr_client.network.outbox import RelayChoice, RelayFinder
    from nostr_client.network.relay import Relay
    from nostr_client.store.base import EventStore
    from nostr_client.sync.coverage.matrix import Coverage

MOST: Final = 5_000
"""Most events that one repair loads into memory, about 10 MB. A later run takes the next ones."""

MOST_RECENT: Final = 2_000
"""Most recent events whose mentioned people one run looks up, about 4 MB."""

_MOST_PEOPLE: Final = 100
"""Most people whose relay lists one run fetches."""

_MOST_RELAYS: Final = 20
"""Most relays of other people that one run asks. Each one is a connection."""


class NamedByUser(Protocol):
    """Returns True if the user named a relay (normalised URL)."""

    def __call__(self, url: str) -> bool: ...


async def lacking(
    coverage: Coverage,
    relays: Mapping[str, Relay],
    store: EventStore | None,
    named: NamedByUser,
) -> list[MissingEvent]:
    """Return the events that each relay of a coverage lacks. Download those that the store lacks.

    `relays`: by the name in the coverage. Returns at most `MOST` different events. Events that came
    or are stored are first. `unseen` counts the ids that nothing confirms. If a relay was not read
    to the end of a kind, the kind contributes nothing, because its gaps are unknown. Raises
    StoreError. Safe to cancel.
    """
    ids: dict[str, list[str]] = {}
    for relay in coverage.relays:
        for kind in (*coverage.kinds, *coverage.requests):
            for one in sorted(coverage.lacking(relay, kind) or ()):
                ids.setdefault(one, []).append(relay)
    some = _in_turn(coverage, ids)[:MOST]
    events = {one: coverage.events[one] for one in some if one in coverage.events}
    events |= await stored_events(store, [one for one in some if one not in events])
    await _download(coverage, relays, [one for one in some if one not in events], events)
    return [
        MissingEvent(
            relay=relay,
            url=relays[relay].url,
            id=one,
            event=events.get(one),
            named=named(relays[relay].url),
        )
        for one in some
        for relay in ids[one]
    ]


def unseen(coverage: Coverage) -> dict[str, int]:
    """Return how many unconfirmed ids other relays name and a relay lacks, by its name.

    These ids are not downloaded, because a relay can name any number of ids.
    """
    whole = {
        relay: [kind for kind in coverage.kinds if coverage.cell(relay, kind).whole]
        for relay in coverage.relays
    }
    return {
        relay: sum(
            len(coverage.unconfirmed.get(kind, frozenset())) - coverage.alone(relay, kind)
            for kind in kinds
        )
        for relay, kinds in whole.items()
    }


def uncompared(coverage: Coverage) -> dict[str, tuple[int, ...]]:
    """Return the kinds that were not read to their end on a relay, by its name.

    A repair sends the relay no events of these kinds.
    """
    kinds = (*coverage.kinds, *coverage.requests)
    found = {
        relay: tuple(kind for kind in kinds if not coverage.cell(relay, kind).whole)
        for relay in coverage.relays
    }
    return {relay: listed for relay, listed in found.items() if listed}


def _in_turn(coverage: Coverage, ids: Collection[str]) -> list[str]:
    """Order ids: first those whose event came or is stored, then the others.

    The others come in turn, one of each group of relays that name them. No relay can then fill all
    places.
    """
    if len(ids) <= MOST:
        return list(ids)
    cells = [one for row in coverage.cells.values() for one in row.values()]
    came = frozenset(coverage.events).union(
        *coverage.local.values(), *(one.held for one in cells if one.by == "events")
    )
    groups: dict[tuple[str, ...], list[str]] = {}
    for one in sorted(set(ids) - came):
        groups.setdefault(tuple(coverage.holders(one)), []).append(one)
    turns = zip_longest(*groups.values())
    return sorted(came.intersection(ids)) + [one for turn in turns for one in turn if one]


async def _download(
    coverage: Coverage,
    relays: Mapping[str, Relay],
    ids: Sequence[str],
    events: dict[str, Event],
) -> None:
    """Ask one relay after the other for the ids that are still missing."""
    holders = {one: coverage.holders(one) for one in ids}
    for relay in coverage.relays:
        asked = [one for one in ids if one not in events and relay in holders[one]]
        for at in range(0, len(asked), BATCH):
            found = await fetched(relays[relay], asked[at : at + BATCH])
            if found is None:
                break
            events |= found


class Mentions:
    """Finds recent events of the author that the read relays (NIP-65) of mentioned people lack.

    `relay_of` returns the relay of a URL that other people named.
    """

    def __init__(
        self, finder: RelayFinder, choice: RelayChoice, relay_of: Callable[[str], Relay]
    ) -> None:
        self._finder = finder
        self._choice = choice
        self._relay_of = relay_of

    async def lacking(
        self, coverage: Coverage, events: Sequence[Event], known: Collection[str]
    ) -> tuple[list[MissingEvent], dict[str, Relay]]:
        """Return the events that these read relays lack.

        `known`: URLs that the coverage compared.
        """
        people = dict(sorted(recipients(events).items())[:_MOST_PEOPLE])
        lists = await self._finder.lists_of(people)
        named = {key: lists[key].read for key in people if key in lists}
        chosen = choose_many(named, self._choice, most_relays=_MOST_RELAYS)
        wanted: dict[str, set[str]] = {}
        for key, one in chosen.items():
            for url in one.relays:
                if url not in known:
                    wanted.setdefault(url, set()).update(people[key])
        relays = {url: self._relay_of(url) for url in wanted}
        by_id = {one.id: one for one in events}
        async with task_group() as group:
            tasks = {
                url: group.create_task(_absent(relays[url], ids)) for url, ids in wanted.items()
            }
        found = [
            MissingEvent(relay=url, url=url, id=one, event=by_id[one], named=False, why=why)
            for url, task in tasks.items()
            for one, why in task.result().items()
        ]
        return found, relays


async def _absent(relay: Relay, ids: Collection[str]) -> dict[str, SkipReason | None]:
    """Return the ids that a relay lacks, and those that are unknown with the reason."""
    asked = sorted(ids)
    absent: dict[str, SkipReason | None] = {}
    for at in range(0, len(asked), BATCH):
        some = asked[at : at + BATCH]
        there = await fetched(relay, some)
        if there is None:
            return absent | dict.fromkeys(asked[at:], SkipReason.UNASKED)
        absent |= {one: None for one in some if one not in there}
    return absent


async def recent(
    coverage: Coverage, relays: Mapping[str, Relay], store: EventStore | None, now: int
) -> list[Event]:
    """Return the author's events of the last 30 days that mention people, newest first.

    They come from the store, else from the relay that has the most of them. Returns at most
    `MOST_RECENT` events. Raises StoreError.
    """
    kinds = [kind for kind in coverage.kinds if is_regular(kind) and not is_read(kind)]
    if not kinds:
        return []
    since = max(now - RECENT, coverage.since or 0)  # older deletions were not read
    asked = Filter(authors=[coverage.author], kinds=kinds, since=since)
    events: Iterable[Event] = await store.query([asked]) if store is not None else ()
    if not events:
        best = max(coverage.relays, key=lambda one: sum(coverage.held(one, k) for k in kinds))
        held = await read_held(relays[best], asked, ReadBudget(events=MOST_RECENT))
        events = held.events.values()
    live = [one for one in events if recipients([one]) and not coverage.gone.covers(one)]
    return sorted(live, key=lambda one: -one.created_at)[:MOST_RECENT]

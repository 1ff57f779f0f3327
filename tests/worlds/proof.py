"""Where proof was to be had: what the generator knows about relays and the client does not.

Deliberately narrow: a world counts only where every relay that was asked is honest in every way
that the answer rests on. The product may prove more, but must not miss these.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from nostr_client.count.judging import SAMPLE
from nostr_client.count.procedure import needs_others
from nostr_client.network.paging.by_id import IDS_AT_ONCE
from tests.worlds.behaviours import (
    COUNT,
    READ,
    SYNC,
    Cap,
    Counts,
    Negentropy,
    Refuses,
    Sketches,
    WorksThrough,
)
from tests.worlds.items import matches
from tests.worlds.relays import LIMIT

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tests.worlds.behaviours import Behaviour
    from tests.worlds.model import World
    from tests.worlds.relays import SimRelay


def of_count(
    world: World,
    relays: Sequence[SimRelay],
    read_before: Collection[str],
    *,
    silent: bool,
    later: bool,
) -> bool:
    """Whether an exact number was to be had from these relays in this step.

    `later`: not the first result of a watch. A watch then asks each relay for itself, beside what
    the others said before, so none was asked about what another one alone has got since.
    """
    if silent or not relays or any(has_junk(relay, world) for relay in relays):
        return False
    several = len(relays) > 1
    if several and not world.has_registers and not _few_differ(world, relays):
        return False
    if later and needs_others(world.query) and not _all_alike(world, relays):
        return False
    return all(_read(world, relay, relay.url in read_before, several) for relay in relays)


def _all_alike(world: World, relays: Sequence[SimRelay]) -> bool:
    """Whether no relay lacks what another one holds."""
    return len(set(map(frozenset, _held(world, relays)))) == 1


def _held(world: World, relays: Sequence[SimRelay]) -> list[set[str]]:
    """The ids of what counts, of each relay."""
    return [{o.id for o in one.served() if matches(world.wire, o)} for one in relays]


def _few_differ(world: World, relays: Sequence[SimRelay]) -> bool:
    """Whether so few events lie on one relay alone that the client looks at each of them.

    Relays may name their events by id (NIP-77), of which it samples where they are many.
    """
    held = _held(world, relays)
    once = Counter(key for ids in held for key in ids)
    alone = [sum(once[key] == 1 for key in ids) for ids in held]
    lacking = [len(once) - len(ids) for ids in held]
    return max(alone) <= SAMPLE and max(lacking) <= IDS_AT_ONCE


def _read(world: World, relay: SimRelay, before: bool, several: bool) -> bool:
    """Its events, whole: read for the first time, or compared by negentropy."""
    counted = _has(relay, Counts) or _has(relay, Sketches)
    if _spoils(relay, READ) or _spoils(relay, COUNT) or _has(relay, Sketches):
        return False
    if counted and not world.has_registers and world.question != "zaps" and not several:
        return False  # a COUNT alone, which nothing reads beside
    compared = _has_whole_negentropy(relay) and not _has(relay, WorksThrough)
    return not is_dense(world, relay) and (compared or not before)


def of_sync(world: World, relay: SimRelay, direction: str) -> bool:
    """Whether this relay could be brought level for certain."""
    if _spoils(relay, SYNC) or _spoils(relay, COUNT) or has_junk(relay, world):
        return False
    if _has_whole_negentropy(relay) and not _has(relay, WorksThrough):
        return not is_dense(world, relay, floor=True)
    return not is_dense(world, relay) and (_has_whole_negentropy(relay) or not _speaks(relay))


def form(relays: Sequence[SimRelay], read_before: Collection[str]) -> str:
    """The kind of proof that was missed, for the tally."""
    later = any(relay.url in read_before for relay in relays)
    spoken = all(_speaks(relay) for relay in relays)
    return f"{'one' if len(relays) == 1 else 'several'}, {later=}, {spoken=}"


def _spoils(relay: SimRelay, proof: str) -> bool:
    return any(
        proof in one.spoils and not (isinstance(one, Refuses) and one.is_over(relay))
        for one in relay.behaviours
    )


def _has(relay: SimRelay, sort: type[Behaviour]) -> bool:
    return any(isinstance(one, sort) for one in relay.behaviours)


def _speaks(relay: SimRelay) -> bool:
    return _has(relay, Negentropy)


def _has_whole_negentropy(relay: SimRelay) -> bool:
    return any(isinstance(one, Negentropy) and one.newest is None for one in relay.behaviours)


def has_junk(relay: SimRelay, world: World) -> bool:
    """Whether it holds something that looks like an answer and is none."""
    sorts = ("bad signature", "foreign", "unfollow", "deletion")
    return any(one.item.sort in sorts for one in relay.held.values())


def is_dense(world: World, relay: SimRelay, *, floor: bool = False) -> bool:
    """Whether a second holds as many events as a page may; `floor`: the oldest second."""
    cap = min([LIMIT, *(b.size for b in relay.behaviours if isinstance(b, Cap))])
    found = Counter(o.created_at for o in relay.served() if matches(world.wire, o))
    seconds = [min(found, default=0)] if floor else found
    return max((found[one] for one in seconds), default=0) >= min(cap, 10)
